"""What all parts of a walk share: its settings, files to upload, results of acts, events, and words for errors.

The content of files is read when it is uploaded, goes to the page only, and is in no prompt and no trace.
"""

import asyncio
import hashlib
import mimetypes
import re
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError, ToolLost
from agentlearn_web.boundary.access_policy import ProxySession, RefusedConnection, host_port
from agentlearn_web.observation import Event, EventKind

if TYPE_CHECKING:
    from playwright.async_api import Dialog, FilePayload, Page


UPLOAD, SCREENSHOT = "upload", "screenshot"
ACTS = frozenset({
    "back", "choose", "click", "dialog", "drag", "find", "hover", "more", "open", "press", "scroll", "tabs", "type",
    "wait", SCREENSHOT, UPLOAD,
})  # fmt: skip
"""All acts that a model can be offered."""


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Sizes and time limits of one walk."""

    acts: frozenset[str] = ACTS - {SCREENSHOT}
    """The acts that the model is offered. Pictures cost many tokens, so a screenshot is offered only on request."""
    page_chars: int = 6_000
    """Most characters of one page of a snapshot."""
    snapshot_elements: int = 100_000
    """Most elements of a page whose refs are shown. A larger one is shown as text, which takes at most 20 s to read."""
    snapshot_chars: int = 2_000_000
    """Most characters of a whole snapshot. The rest is left out, and an event says so."""
    tabs: int = 4
    """Most tabs open at once."""
    act_s: float = 60.0
    """Longest time for one act without reading the page, after which it is abandoned. Longer than its parts take even
    on a busy machine."""
    action_s: float = 4.0
    """Longest time to wait until an element can be clicked or filled."""
    load_s: float = 20.0
    """Longest time for a page to load. Afterwards it is shown as far as it has loaded."""
    stalled_s: float = 3.0
    """A page whose own text has arrived is shown after this long without any further one of its parts arriving."""
    typed_quiet_s: float = 0.4
    """A page counts as settled after this long without a request or a change after typed keys, scrolling and the
    mouse over an element. Many lists of suggestions wait for about 300 ms after the last key."""
    timer_s: float = 0.8
    """Longest time to wait for a page that has started timers in an act and has not changed since."""
    quiet_s: float = 0.15
    """A page that stayed in place counts as settled after this long without a request or a change."""
    loaded_quiet_s: float = 0.05
    """A page that has just loaded counts as settled after this long without a request or a change."""
    settle_s: float = 2.0
    """Longest time to wait until a page has settled."""
    restless_s: float = 0.4
    """Longest time to wait for a page that did not settle the last time."""
    hung_s: float = 10.0
    """A page that computes for this long without answering counts as hung, while the browser itself answers."""
    snapshot_s: float = 60.0
    """Longest time to read a page, without the wait for a turn. Then its plain text is shown. A page that does not
    answer for this long counts as hung even if it does not compute."""
    found_matches: int = 30
    """Most matches that a search shows. They take at most `page_chars` characters."""


class BrowserLost(ToolLost):
    """Raised when the browser of a walk died or no longer answers. The walk itself did nothing wrong."""

    code = "browser_lost"


@dataclass(frozen=True, slots=True)
class ActResult:
    """Whether an act was done, and if not, why."""

    status: str = "ok"
    """`ok`, or a stable code."""
    note: str = ""
    """What happened and what can be done about it, in our own words."""
    near_ref: str = ""
    """Ref of the element that was acted on. The snapshot page with this ref is shown, if the element still exists."""
    effects_started: bool = True
    """Whether everything that the act triggers directly has started by now."""
    delayed: bool = False
    """Whether many pages react late to such an act: to typed keys, scrolling, and the mouse over an element."""
    acted: bool = True
    """Whether the browser was asked to do anything."""
    seeks_new: bool = False
    """Whether the act looks for further content. The view then shows the first new line, or says that there is none."""


def plural(count: int, noun: str) -> str:
    """Return the count with its noun: `1 tab`, `2 tabs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


_NET = re.compile(r"net::(ERR_\w+)")
_NETWORK_ERRORS = {
    "ERR_NAME_NOT_RESOLVED": "no such host",
    "ERR_CONNECTION_REFUSED": "the host refused the connection",
    "ERR_CONNECTION_RESET": "the host cut the connection",
    "ERR_CONNECTION_TIMED_OUT": "the host did not answer",
    "ERR_TIMED_OUT": "the host did not answer",
    "ERR_EMPTY_RESPONSE": "the host answered nothing",
    "ERR_TOO_MANY_REDIRECTS": "it redirects without end",
    "ERR_TUNNEL_CONNECTION_FAILED": "no connection to the host",
    "ERR_INVALID_URL": "it is no address",
}
_ACTION_REASONS = (
    ("intercepts pointer events", "another element covers it"),
    ("not enabled", "it is disabled"),
    ("not editable", "it is read-only"),
    ("not visible", "it is not visible"),
    ("not stable", "it does not stop moving"),
    ("outside of the viewport", "it is outside of the window"),
    ("inert", "it is inert"),
)


def browser_error() -> type[Exception]:
    """Return the base class of Playwright's errors, for `except browser_error()`."""
    from playwright.async_api import Error

    return Error


def is_timeout(error: Exception) -> bool:
    """Return whether Playwright's own time limit was reached."""
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    return isinstance(error, PlaywrightTimeout)


def failure_reason(error: Exception) -> str:
    """Return why an element could not be acted on, in our own words: Playwright's messages quote the page."""
    message = str(error)
    return next((reason for phrase, reason in _ACTION_REASONS if phrase in message), "it did not become ready in time")


def load_failure_reason(error: Exception) -> str:
    """Return why a page did not load, in our own words."""
    if is_timeout(error):
        return "no answer in time"
    match = _NET.search(str(error))
    if "Download is starting" in str(error):
        return "it is a file to download, and downloads are refused"
    return _NETWORK_ERRORS.get(match[1], match[1]) if match else "the browser did not open it"


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


MAX_FILES = 10
"""Most files of one task."""
MAX_FILE_BYTES = 10_000_000
"""Largest file of a task."""

_FIELD = "upload"
"""Field of a task that holds the names and hashes of its files, and their folder."""


class FileChanged(Exception):
    """Raised when a file of a task is no longer what it was when the task was read."""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One file that a task names."""

    name: str
    """Its path below the folder of the task file, with `/`. The model reads it and names the file by it."""
    folder: Path
    sha256: str
    """Hash of its content when the task was read, 64 hex digits."""

    def payload(self) -> "FilePayload":
        """Return name, type and content as Playwright takes them. Raises FileChanged."""
        try:
            content = _read(self.name, self.folder)
        except ValueError as error:
            raise FileChanged(f"the task's file {self.name!r} {error}") from error
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise FileChanged(f"the task's file {self.name!r} has changed since the task was read")
        kind = mimetypes.guess_type(self.name)[0] or "application/octet-stream"
        return {"name": PurePosixPath(self.name).name, "mimeType": kind, "buffer": content}


def name_files(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the task fields for these files. Raises ValueError for a file that cannot be used.

    names: paths relative to `folder`. The words of the error continue `FILE line N …`.
    """
    if len(names) > MAX_FILES:
        raise ValueError(f"names {len(names)} files; name at most {MAX_FILES}")
    hashes: dict[str, str] = {}
    for name in names:
        try:
            hashes[name] = hashlib.sha256(_read(name, folder)).hexdigest()
        except ValueError as error:
            raise ValueError(f"names the file {name!r}, which {error}") from error
    return {_FIELD: {"files": hashes, "folder": str(folder.resolve())}} if hashes else {}


def task_files(fields: Mapping[str, Any]) -> dict[str, TaskFile]:
    """Return the files in the fields of a task, by name; none if the fields name no files."""
    named = fields.get(_FIELD)
    if not isinstance(named, Mapping):
        return {}
    folder = Path(str(named["folder"]))
    return {str(name): TaskFile(str(name), folder, str(sha256)) for name, sha256 in named["files"].items()}


def _read(name: str, folder: Path) -> bytes:
    """Return the content of a file. Raises ValueError if it is not a file of the folder, or too large."""
    parts = PurePosixPath(name)
    if not name or not name.isprintable() or parts.is_absolute() or ".." in parts.parts or "\\" in name:
        raise ValueError("is not a path below the folder of the task file; move the file there")
    try:
        path = (folder / parts).resolve(strict=True)
        if not path.is_relative_to(folder.resolve()):
            raise ValueError("leads out of the folder of the task file; copy the file there")
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a file; name a file")
        if found.st_size > MAX_FILE_BYTES:
            raise ValueError(f"is larger than {MAX_FILE_BYTES // 1_000_000} MB; make it smaller")
        with path.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or 'bad path'}") from error
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"is larger than {MAX_FILE_BYTES // 1_000_000} MB; make it smaller")
    return content
