"""Adding lessons to the calls of the package `openai`, in one context and as long as a block is open.

Every call of every client, made before the block or in it, goes through the method `request` of one of two classes.
While at least one block is open, that method is replaced by one that adds the lessons of the context that calls it.
When the last block closes, the method is put back. Before the first block of a process, a client that sends nothing
shows that calls still go this way and look as expected, so a change inside `openai` is an error and never a call
without lessons.
"""

import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import cache, wraps
from typing import Any, cast

from agentlearn.errors import LibraryError, MissingExtra

CHAT = "/chat/completions"
RESPONSES = "/responses"
_NOWHERE = "http://127.0.0.1:9"
_CHANGED = "lessons cannot be added to calls of openai {version}: {reason}; put `lessons(...).text` into your messages"

AddLessons = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the body of a request to this path with the lessons of the current context."""


class _Seen(Exception):  # not an error: it carries what a call would have sent
    def __init__(self, options: Any) -> None:
        super().__init__()
        self.options = options


class OpenAICalls:
    """Replaces the method that sends requests while blocks are open. Safe to use from several threads."""

    def __init__(self, add: AddLessons) -> None:
        self._add = add
        self._lock = threading.Lock()
        self._open = 0
        self._replaced: list[tuple[type, Any, Any]] = []

    def open(self) -> None:
        """Count one more open block. Raises MissingExtra without `openai`, LibraryError when `openai` has changed."""
        classes = client_bases()
        with self._lock:
            if not self._open:
                self._replace(classes)
            self._open += 1

    def close(self) -> None:
        """Count one open block less, and put the method back after the last one."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self._put_back()

    def _replace(self, classes: tuple[type, type]) -> None:
        for kind in classes:
            now = vars(kind)["request"]
            before = next((one for one in self._replaced if one[0] is kind), None)
            if before is None:
                before = (kind, now, self._sending(now))
                self._replaced.append(before)
            if now is before[1]:
                type.__setattr__(kind, "request", before[2])

    def _put_back(self) -> None:
        """Restore each method that is still ours; one that another tool has wrapped stays, and adds nothing."""
        wrapped = [one for one in self._replaced if vars(one[0]).get("request") is not one[2]]
        for kind, original, _ in (one for one in self._replaced if one not in wrapped):
            type.__setattr__(kind, "request", original)
        self._replaced = wrapped

    def _sending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def request(client: Any, cast_to: Any, options: Any, *arguments: Any, **keywords: Any) -> Any:
            return original(client, cast_to, self._with_lessons(options), *arguments, **keywords)

        return request

    def _with_lessons(self, options: Any) -> Any:
        path = _path(options.url)
        if path not in (CHAT, RESPONSES) or str(options.method).lower() != "post":
            return options
        given = options.json_data
        if not isinstance(given, Mapping):
            raise _changed(f"the body of a call is {type(given).__name__}")
        changes = {"json_data": dict(self._add(path, cast("Mapping[str, Any]", given)))}
        field = "messages" if path == CHAT else "instructions"
        extra: Any = options.extra_json
        if isinstance(extra, Mapping) and field in extra:  # what a caller adds replaces the field of the body
            changes["extra_json"] = dict(self._add(path, cast("Mapping[str, Any]", extra)))
        return options.model_copy(update=changes)


def _path(url: object) -> str:
    path = str(url).partition("?")[0].rstrip("/")
    return next((known for known in (CHAT, RESPONSES) if path.endswith(known)), path)


@cache
def client_bases() -> tuple[type, type]:
    """The two classes that send requests, after a test that calls go through them."""
    try:
        import openai
    except ImportError as error:
        raise MissingExtra(
            "a block of lessons adds them to calls of the package 'openai', which is not installed: pip install openai;"
            " for other clients, use `lessons(...).text`"
        ) from error
    found: list[type] = []
    for client in (openai.OpenAI, openai.AsyncOpenAI):
        home = next((kind for kind in client.__mro__ if "request" in vars(kind)), None)
        if home is None:
            raise _changed(f"{client.__name__} has no method 'request'")
        _try_calls(client)
        found.append(home)
    return found[0], found[1]


def _try_calls(client: type) -> None:
    """Make one call of each kind with a client that sends nothing, and check what would be sent."""

    def request(_: Any, _cast_to: Any, options: Any, *_arguments: Any, **_keywords: Any) -> Any:
        raise _Seen(options)

    probe: Any = type(client.__name__, (client,), {"request": request})(api_key="none", base_url=_NOWHERE)
    message = {"role": "user", "content": "x"}
    calls: tuple[tuple[str, str, Callable[[], Any]], ...] = (
        (CHAT, "messages", lambda: probe.chat.completions.create(model="m", messages=[message])),
        (RESPONSES, "instructions", lambda: probe.responses.create(model="m", input="x", instructions="x")),
    )
    try:
        for path, field, call in calls:
            options = _options_of(call)
            body: Any = getattr(options, "json_data", None)
            if _path(getattr(options, "url", "")) != path or not isinstance(body, Mapping) or field not in body:
                raise _changed(f"a call of {path!r} does not send {field!r} through 'request'")
    finally:
        with suppress(Exception):  # an unused client has nothing to close but its own mark
            _finish(probe.close())


def _options_of(call: Callable[[], Any]) -> Any:
    try:
        _finish(call())
    except _Seen as seen:
        return seen.options
    except Exception as error:
        raise _changed(f"a call raised {error!r}") from error
    raise _changed("a call does not go through 'request'")


def _finish(made: object) -> None:
    """Run a coroutine that never waits; anything else is finished."""
    if isinstance(made, Coroutine):
        running = cast("Coroutine[Any, Any, Any]", made)
        try:
            with suppress(StopIteration):
                running.send(None)
        finally:
            running.close()


def _changed(reason: str) -> LibraryError:
    from openai import __version__

    return LibraryError(_CHANGED.format(version=__version__, reason=reason), code="openai_changed")
