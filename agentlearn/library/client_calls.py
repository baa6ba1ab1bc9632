"""Adding lessons to the calls of the packages `openai`, `anthropic` and `groq`, in one context while a block is open.

Every call of every client of these packages, made before the block or in it, goes through the method `request` of one
of two classes. While at least one block is open, that method is replaced by one that adds the lessons of the context
that calls it. When the last block closes, the method is put back. Before the first block of a process, a client that
sends nothing shows that calls still go this way and look as expected, so a change inside a package is an error, or a
warning for a package that the program may not use, and never a call without lessons in silence.
"""

import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

from agentlearn.errors import LibraryError, MissingExtra

CHAT = "/chat/completions"
RESPONSES = "/responses"
MESSAGES = "/v1/messages"
_FIELDS = {CHAT: "messages", RESPONSES: "instructions", MESSAGES: "system"}
"""The field of a request that takes the lessons, by the end of its path."""
_NOWHERE = "http://127.0.0.1:9"
_CHANGED = (
    "lessons cannot be added to calls of {package} {version}: {reason}; put `lessons(...).text` into your messages"
)
_OTHERS = ("mistralai", "google.genai", "cohere", "ollama", "together", "litellm")
"""Packages of other clients, to which no lessons are added."""
_USER = {"role": "user", "content": "x"}


class _Package(NamedTuple):
    """A package with clients that send their calls through `request`."""

    name: str
    clients: tuple[str, str]
    """Its synchronous and its asynchronous client."""
    calls: Mapping[str, Callable[[Any], Any]]
    """A call of each kind, by the end of its path."""


def _chat(client: Any) -> Any:
    return client.chat.completions.create(model="m", messages=[_USER])


def _response(client: Any) -> Any:
    return client.responses.create(model="m", input="x", instructions="x")


def _message(client: Any) -> Any:
    return client.messages.create(model="m", max_tokens=1, messages=[_USER], system="x")


_PACKAGES = (
    _Package("openai", ("OpenAI", "AsyncOpenAI"), {CHAT: _chat, RESPONSES: _response}),
    _Package("anthropic", ("Anthropic", "AsyncAnthropic"), {MESSAGES: _message}),
    _Package("groq", ("Groq", "AsyncGroq"), {CHAT: _chat}),
)

AddLessons = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the body of a request to this path with the lessons of the current context."""


class _Seen(Exception):  # not an error: it carries what a call would have sent
    def __init__(self, options: Any) -> None:
        super().__init__()
        self.options = options


class ClientCalls:
    """Replaces the method that sends requests while blocks are open. Safe to use from several threads."""

    def __init__(self, add: AddLessons) -> None:
        self._add = add
        self._lock = threading.Lock()
        self._open = 0
        self.added = 0
        """Calls to which lessons were added."""
        self._replaced: list[tuple[type, Any, Any]] = []

    def open(self) -> None:
        """Count one more open block. Raises MissingExtra without a package, LibraryError when `openai` has changed."""
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

    def _replace(self, classes: tuple[type, ...]) -> None:
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
        if path not in _FIELDS or str(options.method).lower() != "post":
            return options
        given = options.json_data
        if not isinstance(given, Mapping):
            raise LibraryError(
                f"lessons cannot be added to a call whose body is {type(given).__name__}; put `lessons(...).text` into"
                " it",
                code="openai_changed",
            )
        changes = {"json_data": dict(self._add(path, cast("Mapping[str, Any]", given)))}
        extra: Any = options.extra_json
        if isinstance(extra, Mapping) and _FIELDS[path] in extra:  # what a caller adds replaces the field of the body
            changes["extra_json"] = dict(self._add(path, cast("Mapping[str, Any]", extra)))
        self.added += 1
        return options.model_copy(update=changes)


def other_client() -> str | None:
    """Return a package of clients that this program has imported and that gets no lessons; None when there is none."""
    return next((name for name in _OTHERS if name in sys.modules), None)


def _path(url: object) -> str:
    path = str(url).partition("?")[0].rstrip("/")
    return next((known for known in _FIELDS if path.endswith(known)), path)


@cache
def client_bases() -> tuple[type, ...]:
    """The classes that send requests, two of each installed package, after a test that calls go through them."""
    found: list[type] = []
    for package in _PACKAGES:
        if not _installed(package.name):
            continue
        try:
            found += _bases(package)
        except LibraryError as error:
            if package.name == "openai":
                raise
            warnings.warn(error.message, RuntimeWarning, stacklevel=4)
    if not found:
        raise MissingExtra(
            "a block of lessons adds them to calls of the packages 'openai', 'anthropic' and 'groq', none of which is"
            " installed: pip install openai; for other clients, use `lessons(...).text`"
        )
    return tuple(found)


def _installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None  # pyright: ignore[reportUnnecessaryComparison]
    return find_spec(package) is not None


def _bases(package: _Package) -> list[type]:
    """Return the two classes of a package. Raises LibraryError when its calls go another way."""
    found: list[type] = []
    try:
        clients = [getattr(import_module(package.name), name) for name in package.clients]
    except (ImportError, AttributeError) as error:
        raise _changed(package.name, f"it cannot be imported: {error}") from error
    for client in clients:
        home = next((kind for kind in client.__mro__ if "request" in vars(kind)), None)
        if home is None:
            raise _changed(package.name, f"{client.__name__} has no method 'request'")
        _try_calls(package, client)
        found.append(home)
    return found


def _try_calls(package: _Package, client: type) -> None:
    """Make one call of each kind with a client that sends nothing, and check what would be sent."""

    def request(_: Any, _cast_to: Any, options: Any, *_arguments: Any, **_keywords: Any) -> Any:
        raise _Seen(options)

    probe: Any = type(client.__name__, (client,), {"request": request})(api_key="none", base_url=_NOWHERE)
    try:
        for path, call in package.calls.items():
            options = _options_of(package.name, lambda call=call: call(probe))
            body: Any = getattr(options, "json_data", None)
            field = _FIELDS[path]
            if _path(getattr(options, "url", "")) != path or not isinstance(body, Mapping) or field not in body:
                raise _changed(package.name, f"a call of {path!r} does not send {field!r} through 'request'")
    finally:
        with suppress(Exception):  # an unused client has nothing to close but its own mark
            _finish(probe.close())


def _options_of(package: str, call: Callable[[], Any]) -> Any:
    try:
        _finish(call())
    except _Seen as seen:
        return seen.options
    except Exception as error:
        raise _changed(package, f"a call raised {error!r}") from error
    raise _changed(package, "a call does not go through 'request'")


def _finish(made: object) -> None:
    """Run a coroutine that never waits; anything else is finished."""
    if isinstance(made, Coroutine):
        running = cast("Coroutine[Any, Any, Any]", made)
        try:
            with suppress(StopIteration):
                running.send(None)
        finally:
            running.close()


def _changed(package: str, reason: str) -> LibraryError:
    version = getattr(sys.modules.get(package), "__version__", "")
    return LibraryError(_CHANGED.format(package=package, version=version, reason=reason), code=f"{package}_changed")
