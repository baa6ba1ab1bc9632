"""Events that accompany the acts of a walk: dialogs, downloads, popups, refused connections. Each is reported once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import ProxySession, RefusedConnection, host_port
from agentlearn_web.browser.walk_settings import browser_error
from agentlearn_web.observation import Event, EventKind

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Page

_MAX_PER_KIND = 5
"""Events of one kind that are listed. Further ones are only counted."""
_MAX_SITE_TEXT = 500
"""Most characters of a site's text in one event."""
_REFUSED = {
    "private_address": "a private address, which this walk may not reach",
    "not_served": "an address that this walk may not reach",
    "unresolvable": "no such host",
    "bad_request": "a request that is not allowed",
    "too_large": "more than this walk may load",
    "too_many": "more connections than this walk may have open",
    "too_slow": "the host fell silent",
    "unreachable": "the host did not answer",
}
_BLOCKED_CODES = frozenset({"private_address", "not_served", "bad_request"})
"""Refusal codes that give the status `blocked`. Other refusals give `load_failed`."""


class PageEvents:
    """Collects events from the browser's callbacks until they are drained into an observation."""

    def __init__(self, session: ProxySession) -> None:
        self._session = session
        self._events: list[Event] = []
        self._counts: Counter[EventKind] = Counter()
        self._refusals: list[RefusedConnection] = []

    def __len__(self) -> int:
        return len(self._events) + len(self.refusals())

    def add(self, kind: EventKind, reason: str, site_text: str = "") -> None:
        """Record an event. reason: our own words. site_text: the site's words."""
        self._counts[kind] += 1
        if self._counts[kind] <= _MAX_PER_KIND:
            self._events.append(Event(kind=kind, reason=reason, site_text=site_text[:_MAX_SITE_TEXT]))

    def refusals(self) -> tuple[RefusedConnection, ...]:
        """Return the refused connections that have not been drained yet."""
        self._refusals += self._session.drain()
        return tuple(self._refusals)

    def has_refused(self, *urls: str) -> bool:
        """Return whether the proxy has refused one of these addresses since the last drain."""
        hosts = {(one.host, one.port) for one in self.refusals() if one.code in _BLOCKED_CODES}
        for url in urls:
            with suppress(ConfigError):
                if host_port(url) in hosts:
                    return True
        return False

    def drain(self) -> tuple[Event, ...]:
        """Return the events since the last call, oldest first, with a limit for each kind."""
        events = list(self._events)
        for kind, count in self._counts.items():
            if count > _MAX_PER_KIND:
                events.append(Event(kind=kind, reason=f"and {count - _MAX_PER_KIND} more of this kind"))
        hosts = {(one.host, one.port): one for one in self.refusals()}  # one event for each refused host
        for one in list(hosts.values())[:_MAX_PER_KIND]:
            reason = f"a connection was refused: {refusal_reason(one.code)}"
            events.append(Event(kind="blocked", reason=reason, site_text=f"{one.host}:{one.port}"[:_MAX_SITE_TEXT]))
        if len(hosts) > _MAX_PER_KIND:
            reason = f"connections to {len(hosts) - _MAX_PER_KIND} more hosts were refused"
            events.append(Event(kind="blocked", reason=reason))
        self._events.clear()
        self._counts.clear()
        self._refusals.clear()
        return tuple(events)


def refusal_reason(code: str) -> str:
    """Return why the proxy of a walk refused a connection, in our own words."""
    return _REFUSED.get(code, code)


_MOST_DIALOGS = 50
"""Number of dialogs in one act after which a page's script is stopped."""


class Dialogs:
    """Answers the dialogs of all pages of a walk at once, because a page stands still while its dialog is open."""

    def __init__(self, events: PageEvents, stop_script: "Callable[[Page], Awaitable[None]]") -> None:
        """stop_script: ends the script that runs in a page, once the page goes on."""
        self._events = events
        self._stop_script = stop_script
        self._next: tuple[Page, bool, str | None] | None = None
        """Page of the next dialog that has an answer, whether it is accepted, and the text."""
        self.answered = 0
        """Number of dialogs in this act."""

    def begin_act(self) -> None:
        """Start counting dialogs. A script that opens more than `_MOST_DIALOGS` of them in one act is stopped."""
        self.answered = 0

    def set_next(self, page: "Page", *, accept: bool, text: str | None) -> None:
        """Say how the next dialog of this page is answered. Used once; dialogs of other pages do not use it."""
        self._next = (page, accept, text)
        with_text = "" if text is None or not accept else " with the given text"
        self._events.add("dialog", f"the next one in this tab will be {_done(accept)}{with_text}")

    async def answer(self, dialog: "Dialog") -> None:
        """Answer a dialog, and report what it said and how it was answered."""
        if dialog.type == "beforeunload":
            self._events.add("dialog", "the page asked to stay, and was left", dialog.message)
            with suppress(browser_error()):
                await dialog.accept()
            return
        accept, text = False, None
        if self._next is not None and self._next[0] is dialog.page:
            (_, accept, text), self._next = self._next, None
        self.answered += 1
        stopping = None
        if self.answered % _MOST_DIALOGS == 0 and dialog.page is not None:
            self._events.add("crashed", f"the page opened {self.answered} dialogs in one act; its script was stopped")
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


def _done(accept: bool) -> str:
    return "accepted" if accept else "dismissed"
