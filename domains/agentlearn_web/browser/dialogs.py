"""How the dialogs of pages are answered. Each one is dismissed, unless the walk has said otherwise for the next one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentlearn_web.browser.page_events import PageEvents
from agentlearn_web.browser.playwright_errors import browser_error

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Page


MOST_DIALOGS = 50
"""Number of dialogs in one act after which a page's script is stopped."""


@dataclass(frozen=True, slots=True)
class _NextAnswer:
    """How the next dialog of one page is answered."""

    page: "Page"
    accept: bool
    text: str | None


class Dialogs:
    """Answers the dialogs of all pages of a walk at once, because a page stands still while its dialog is open."""

    def __init__(self, events: PageEvents, stop_script: "Callable[[Page], Awaitable[None]]") -> None:
        """stop_script: ends the script that runs in a page, once the page goes on."""
        self._events = events
        self._stop_script = stop_script
        self._next: _NextAnswer | None = None
        self._answered = 0

    def begin_act(self) -> None:
        """Start counting dialogs. A script that opens more than `MOST_DIALOGS` of them in one act is stopped."""
        self._answered = 0

    def set_next(self, page: "Page", *, accept: bool, text: str | None) -> None:
        """Say how the next dialog of this page is answered. Used once; dialogs of other pages do not use it."""
        self._next = _NextAnswer(page, accept, text)
        with_text = "" if text is None or not accept else " with the given text"
        self._events.add("dialog", f"the next one in this tab will be {_done(accept)}{with_text}")

    async def answer(self, dialog: "Dialog") -> None:
        """Answer a dialog, and report what it said and how it was answered."""
        if dialog.type == "beforeunload":
            self._events.add("dialog", "the page asked to stay, and was left", dialog.message)
            with suppress(browser_error()):
                await dialog.accept()
            return
        given = self._take(dialog.page)
        accept, text = (given.accept, given.text) if given else (False, None)
        self._answered += 1
        stopping = None
        if self._answered % MOST_DIALOGS == 0 and dialog.page is not None:
            self._events.add("crashed", f"the page opened {self._answered} dialogs in one act; its script was stopped")
            stopping = asyncio.ensure_future(self._stop_script(dialog.page))
        with_text = " with the given text" if accept and text is not None and dialog.type == "prompt" else ""
        self._events.add("dialog", f"a dialog ({dialog.type}) was {_done(accept)}{with_text}", dialog.message)
        with suppress(browser_error()):
            if accept:
                await dialog.accept(dialog.default_value if text is None else text)
            else:
                await dialog.dismiss()
        if stopping is not None:
            await stopping

    def _take(self, page: "Page | None") -> _NextAnswer | None:
        """Return what was said for the next dialog of this page, and forget it."""
        if self._next is None or self._next.page is not page:
            return None
        given, self._next = self._next, None
        return given


def _done(accept: bool) -> str:
    return "accepted" if accept else "dismissed"
