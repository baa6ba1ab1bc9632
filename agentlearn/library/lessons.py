"""`lessons`: the lessons of a library for programs without an agent of pydantic-ai.

`lessons("math").text` is the block of advice for any framework. `with lessons("math"):` adds it to the calls that the
packages `openai`, `anthropic` and `groq` make in the block.
"""

import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, wraps
from html import escape
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, cast

from agentlearn.errors import ConfigError, LibraryError, MissingExtra
from agentlearn.library.retrieval import ChosenLessons, Retrieval, Retriever
from agentlearn.library.shown import Choose, LessonPlace, Shown, hidden_in_episode, share_of, showing, text_of
from agentlearn.library.store import GivenLibrary, LibrarySource, WhenMissing
from agentlearn.library.tenants import open_tenant_source
from agentlearn.types.experience import Library, counted_lessons
from agentlearn.types.ids import ExperienceId, LibraryVersion

_CHAT, _RESPONSES, _MESSAGES = "/chat/completions", "/responses", "/v1/messages"
_FIELDS = {_CHAT: "messages", _RESPONSES: "instructions", _MESSAGES: "system"}
"""The field of a request that takes the lessons, by the end of its path."""
_NOWHERE = "http://127.0.0.1:9"
_OTHERS = ("mistralai", "google.genai", "cohere", "ollama", "together", "litellm")
"""Packages of other clients, to which no lessons are added."""


class _Seen(Exception):  # not an error: it carries what a call would have sent
    def __init__(self, options: Any) -> None:
        super().__init__()
        self.options = options


class _Package(NamedTuple):
    """A package with clients that send their calls through `request`."""

    name: str
    clients: tuple[str, str]
    """Its synchronous and its asynchronous client."""
    calls: Mapping[str, tuple[str, Mapping[str, Any]]]
    """A call of each kind by the end of its path: the method of the client, and its arguments."""

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        if self.name in sys.modules:
            return sys.modules[self.name] is not None  # pyright: ignore[reportUnnecessaryComparison]
        return find_spec(self.name) is not None

    def bases(self) -> list[type]:
        """Return the two classes that send requests. Raises LibraryError when calls go another way."""
        found: list[type] = []
        try:
            clients = [getattr(import_module(self.name), name) for name in self.clients]
        except (ImportError, AttributeError) as error:
            raise self._changed(f"it cannot be imported: {error}") from error
        for client in clients:
            home = next((kind for kind in client.__mro__ if "request" in vars(kind)), None)
            if home is None:
                raise self._changed(f"{client.__name__} has no method 'request'")
            self._try_calls(client)
            found.append(home)
        return found

    def _try_calls(self, client: type) -> None:
        """Make one call of each kind with a client that sends nothing, and check what would be sent."""

        def request(_: Any, _cast_to: Any, options: Any, *_arguments: Any, **_keywords: Any) -> Any:
            raise _Seen(options)

        probe: Any = type(client.__name__, (client,), {"request": request})(api_key="none", base_url=_NOWHERE)
        try:
            for path, (method, arguments) in self.calls.items():
                try:
                    _finish(attrgetter(method)(probe)(**arguments))
                except _Seen as seen:
                    options = seen.options
                except Exception as error:
                    raise self._changed(f"a call raised {error!r}") from error
                else:
                    raise self._changed("a call does not go through 'request'")
                body, field = getattr(options, "json_data", None), _FIELDS[path]
                if _path(getattr(options, "url", "")) != path or not isinstance(body, Mapping) or field not in body:
                    raise self._changed(f"a call of {path!r} does not send {field!r} through 'request'")
        finally:
            with suppress(Exception):  # an unused client has nothing to close but its own mark
                _finish(probe.close())

    def _changed(self, reason: str) -> LibraryError:
        version = getattr(sys.modules.get(self.name), "__version__", "")
        return LibraryError(
            f"lessons cannot be added to calls of {self.name} {version}: {reason}; put `lessons(...).text` into your"
            " messages",
            code=f"{self.name}_changed",
        )


def _finish(made: object) -> None:
    """Run a coroutine that never waits; anything else is finished."""
    if isinstance(made, Coroutine):
        running = cast("Coroutine[Any, Any, Any]", made)
        try:
            with suppress(StopIteration):
                running.send(None)
        finally:
            running.close()


def _path(url: object) -> str:
    path = str(url).partition("?")[0].rstrip("/")
    return next((known for known in _FIELDS if path.endswith(known)), path)


_CHAT_CALL: Mapping[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
_PACKAGES = (
    _Package(
        "openai",
        ("OpenAI", "AsyncOpenAI"),
        {
            _CHAT: ("chat.completions.create", _CHAT_CALL),
            _RESPONSES: ("responses.create", {"model": "m", "input": "x", "instructions": "x"}),
        },
    ),
    _Package(
        "anthropic",
        ("Anthropic", "AsyncAnthropic"),
        {_MESSAGES: ("messages.create", {**_CHAT_CALL, "max_tokens": 1, "system": "x"})},
    ),
    _Package("groq", ("Groq", "AsyncGroq"), {_CHAT: ("chat.completions.create", _CHAT_CALL)}),
)

_AddLessons = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the body of a request to this path with the lessons of the current context."""


class _ClientCalls:
    """Replaces the method that sends requests while blocks are open. Safe to use from several threads."""

    def __init__(self, add: _AddLessons) -> None:
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
                " it"
            )
        changes = {"json_data": dict(self._add(path, cast("Mapping[str, Any]", given)))}
        extra: Any = options.extra_json
        if isinstance(extra, Mapping) and _FIELDS[path] in extra:  # what a caller adds replaces the field of the body
            changes["extra_json"] = dict(self._add(path, cast("Mapping[str, Any]", extra)))
        self.added += 1
        return options.model_copy(update=changes)


@cache
def client_bases() -> tuple[type, ...]:
    """The classes that send requests, two of each installed package, after a test that calls go through them."""
    found: list[type] = []
    for package in _PACKAGES:
        if not package.installed:
            continue
        try:
            found += package.bases()
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


_FENCE = "<experiences>\n["


@dataclass(frozen=True, slots=True)
class _Message:
    """A message of a chat: an object of its package, or JSON."""

    message: Any

    def part(self, name: str) -> Any:
        """A field of it; None without it."""
        if isinstance(self.message, Mapping):
            return cast("Mapping[str, Any]", self.message).get(name)
        return getattr(self.message, name, None)

    @property
    def instructs(self) -> bool:
        """Whether it is a system or developer message."""
        return self.part("role") in {"system", "developer"}

    @property
    def texts(self) -> list[str]:
        """Its texts. Its content is a text or a list of parts."""
        content = self.part("content")
        if isinstance(content, str):
            return [content]
        parts = cast("list[Any]", content) if isinstance(content, list | tuple) else []
        found = (part if isinstance(part, str) else _Message(part).part("text") for part in parts)
        return [text for text in found if isinstance(text, str)]

    @property
    def advised(self) -> bool:
        """Whether it is a system or developer message that holds a block of advice already."""
        return self.instructs and any(_FENCE in text for text in self.texts)

    @property
    def asks(self) -> bool:
        """Whether it is a user message with a text: results of tools are none."""
        return self.part("role") == "user" and bool(text_of(self.part("content")))

    def before(self, text: str, kind: str) -> Any:
        """The message with a text before its first text, behind results of tools. kind: of a part that is a text."""
        content = self.part("content")
        if isinstance(content, str):
            return self._with(f"{text}\n\n{content}")
        parts = list(content)
        first = next(at for at, one in enumerate(parts) if isinstance(one, str) or text_of([one]))
        return self._with([*parts[:first], {"type": kind, "text": text}, *parts[first:]])

    def with_text(self, text: str) -> Any:
        """The message with a text at its end."""
        content = self.part("content")
        if content is None or isinstance(content, str):
            longer: Any = f"{content}\n\n{text}" if content else text
        elif isinstance(content, list | tuple):
            longer = [*cast("list[Any]", content), {"type": "text", "text": text}]
        else:
            raise LibraryError(f"lessons cannot be added to the message {self.message!r:.80}; its content is no text")
        return self._with(longer)

    def _with(self, content: Any) -> Any:
        if isinstance(self.message, Mapping):
            return {**cast("Mapping[str, Any]", self.message), "content": content}
        return {"role": self.part("role"), "content": content}


def _listed(messages: Any) -> list[_Message]:
    return [_Message(one) for one in cast("Sequence[Any]", messages)] if isinstance(messages, list | tuple) else []


def _asked(messages: Sequence[_Message], choose: Choose) -> str:
    """The text of the first user message, or of the last one where lessons are chosen for each turn."""
    ordered = reversed(messages) if choose == "turn" else messages
    return next((text_of(one.part("content")) for one in ordered if one.asks), "")


@dataclass(frozen=True, slots=True)
class Advice:
    """The lessons of one version of a library."""

    text: str
    """The block of advice; empty when there are no lessons."""
    shown: Shown
    """The library, its version and the ids of the lessons, as recorded with a run."""
    library: Library = field(repr=False, compare=False)
    """The version itself, which a record keeps: that of a tenant is in no folder of libraries."""

    @property
    def version(self) -> LibraryVersion:
        """The version of the library."""
        return self.shown.version

    @property
    def lessons(self) -> tuple[ExperienceId, ...]:
        """The ids of the lessons, in order."""
        return self.shown.lessons

    def messages(self, messages: Iterable[Any]) -> list[Any]:
        """Return these chat messages with the block of advice at the end of the first system message.

        Without a system or developer message, a new one is put first. The given messages are not changed.
        Messages that hold a block of advice already are returned as they are.
        """
        given = list(map(_Message, messages))
        if not self.text or any(one.advised for one in given):
            return [one.message for one in given]
        system = next((one for one in given if one.instructs), None)
        changed = [one.with_text(self.text) if one is system else one.message for one in given]
        return changed if system else [{"role": "system", "content": self.text}, *changed]

    def instructions(self, instructions: str | None = None) -> str | None:
        """Return these instructions with the block of advice at the end, unless they hold one already."""
        if not self.text or _FENCE in (instructions or ""):
            return instructions
        return f"{instructions}\n\n{self.text}" if instructions else self.text

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True, eq=False)
class _Block:
    """An open `with` block."""

    owner: "Lessons"
    library: Library
    """The version of the block's start."""
    advice: Advice
    outer: "_Block | None"
    is_open: bool = True
    added_before: int = 0
    """Calls of the process that had got lessons when the block was opened."""

    def advice_for(self, query: str) -> Advice:
        """The lessons for one call."""
        return self.owner.chosen(self.library, query)


_current: ContextVar[_Block | None] = ContextVar("agentlearn_lessons", default=None)


def _innermost() -> _Block | None:
    """The innermost block of this context that is still open."""
    block = _current.get()
    while block is not None and not block.is_open:
        block = block.outer
    return block


def _add(path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body of a request with the lessons of the innermost block."""
    block = _innermost()
    if block is None:
        return body
    return with_advice(path, body, block.advice_for, choose=block.owner.choose, place=block.owner.place)


def takes_advice(path: str) -> bool:
    """Whether lessons can be added to requests of a path: Chat Completions, Responses, and Anthropic's Messages."""
    return _path(path) in _FIELDS


def with_advice(
    path: str,
    body: Mapping[str, Any],
    advice_for: Callable[[str], Advice],
    *,
    choose: Choose = "conversation",
    place: LessonPlace = "instructions",
) -> Mapping[str, Any]:
    """Return the body of a request with a block of advice, in the place that its dialect has for instructions.

    path: that of the request; one that `takes_advice`. advice_for: returns the lessons for a user message, a text.
    choose: whether that is the first or the last one. place: `last`: before the newest text of the user. Returns the
    same object where nothing is added: there are no lessons, or the request holds a block already. Raises
    LibraryError for a system message whose content is neither a text nor a list.
    """
    path = _path(path)
    if path == _RESPONSES:
        given, sent = body.get("instructions"), body.get("input")
        listed = _listed(sent)
        if any(one.advised for one in listed) or _FENCE in str(given):
            return body
        advice = advice_for(sent if isinstance(sent, str) else _asked(listed, choose))
        if place == "last":
            said = f"{advice.text}\n\n{sent}" if isinstance(sent, str) else _with_last(listed, advice, "input_text")
            return {**body, "input": said} if advice.text else body
        given = given if isinstance(given, str) else None
        instructions = advice.instructions(given)
        return body if instructions == given else {**body, "instructions": instructions}
    messages, system = body.get("messages") or (), body.get("system")
    listed = _listed(messages)
    if any(one.advised for one in listed) or any(_FENCE in text for text in _Message({"content": system}).texts):
        return body
    advice = advice_for(_asked(listed, choose))
    if place == "last" and any(one.asks for one in listed):
        return {**body, "messages": _with_last(listed, advice, "text")} if advice.text else body
    if path == _CHAT:
        return {**body, "messages": advice.messages(messages)} if advice.text else body
    if isinstance(system, list | tuple):  # the instructions of a call of Anthropic are a text or a list of parts
        parts = cast("Sequence[Any]", system)
        return {**body, "system": [*parts, {"type": "text", "text": advice.text}]} if advice.text else body
    given = system if isinstance(system, str) else None
    instructions = advice.instructions(given)
    return body if instructions == given else {**body, "system": instructions}


def _with_last(messages: Sequence[_Message], advice: Advice, kind: str) -> list[Any]:
    """The messages with the advice before the newest text of the user; they are a new list."""
    newest = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].asks), -1)
    added = [one.before(advice.text, kind) if at == newest else one.message for at, one in enumerate(messages)]
    return added if newest >= 0 else [*added, {"role": "user", "content": advice.text}]


_calls = _ClientCalls(_add)


@dataclass(eq=False)
class Lessons:
    """The lessons of a library as text, for chat messages, and as a `with` block for three packages.

    Inside the block, `chat.completions` and `responses` of every client of `openai`, `messages` of `anthropic` and
    `chat.completions` of `groq` get the lessons in their system message or instructions: `create`, `parse` and
    `stream`, sync and async. A block warns when it has added lessons to no call and the program uses another client.
    Tasks that are started in the block count as inside until the block ends; other tasks and threads are outside. Of
    blocks inside each other the inner one counts. One object may be used for several blocks, also at the same time;
    each block has the version of its start. Of a library that is too large to show all, each call gets the lessons
    whose words fit its first user message, or with `choose="turn"` its last one.
    """

    source: LibrarySource
    masked: tuple[ExperienceId, ...] = ()
    """Lessons that are never shown."""
    hide: float = 0.0
    """Share of episodes that each lesson is hidden in."""
    episode: str = ""
    """The episode that decides which lessons `hide` leaves out, and whether the canary is read."""
    retriever: Retriever = field(default_factory=Retriever, repr=False)
    choose: Choose = "conversation"
    place: LessonPlace = "instructions"
    _blocks: list[_Block] = field(default_factory=list[_Block], repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def library(self) -> Library:
        """The library that this episode reads; of a followed one, its newest version."""
        return self.source.current(self.episode)

    @property
    def advice(self) -> Advice:
        """All lessons in the version of now, however many they are; `for_query` chooses."""
        library = self.library
        return self._advice(library, self.retriever.all_of(library))

    def for_query(self, query: str) -> Advice:
        """Return the lessons for a task, in the version of now: all, or those whose words fit it best."""
        return self.chosen(self.library, query)

    async def for_query_async(self, query: str) -> Advice:
        """Return the lessons for a task as `for_query` does, and also by embeddings where an embedder is configured."""
        library = self.library
        return self._advice(library, await self.retriever.choose(library, query))

    def for_conversation(self, first: str, before: Shown | None = None) -> Advice:
        """Return the lessons of a conversation. first: its first user message. before: what it has read, if it has.

        It keeps what it has read, unless a person took that back: then it reads the version of now.
        """
        library = self.library if before is None else self.source.going_on(before.version, self.episode)
        if before is not None and before.version == library.version:
            return self._advice(library, ChosenLessons(before.offered))
        return self.chosen(library, first)

    def chosen(self, library: Library, query: str) -> Advice:
        """Return the lessons of a version for a task, chosen by their words."""
        return self._advice(library, self.retriever.choose_by_words(library, query))

    def _advice(self, library: Library, choice: ChosenLessons) -> Advice:
        drawn = hidden_in_episode(library.by_id, share=self.hide, episode=self.episode) if self.hide else ()
        masked = tuple(dict.fromkeys((*self.masked, *drawn)))
        rendered = library.render(masked=masked, chosen=choice.lessons)
        shown = Shown(
            library=self.source.name,
            version=library.version,
            lessons=tuple(rendered.labels.values()),
            masked=masked,
            offered=choice.lessons,
        )
        return Advice(rendered.text, shown, library)

    @property
    def text(self) -> str:
        """The block of advice; empty when there are no lessons."""
        return self.advice.text

    @property
    def shown(self) -> Shown:
        """The library, its version and the ids of the lessons."""
        return self.advice.shown

    def messages(self, messages: Iterable[Any]) -> list[Any]:
        """Return these chat messages with the lessons, as `Advice.messages` does."""
        return self.advice.messages(messages)

    def __enter__(self) -> Advice:
        """Open a block. Raises MissingExtra without one of the packages, LibraryError when `openai` has changed."""
        library = self.library
        block = _Block(self, library, self._advice(library, self.retriever.all_of(library)), _current.get())
        _calls.open()
        block.added_before = _calls.added
        with self._lock:
            self._blocks.append(block)
        _current.set(block)
        return block.advice

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        block = _current.get()
        while block is not None and (block.owner is not self or not block.is_open):
            block = block.outer
        with self._lock:
            block = block or self._blocks[-1]  # closed from another context, as some test fixtures do
            self._blocks.remove(block)
        block.is_open = False
        if (
            kind is None
            and block.advice.text
            and _calls.added == block.added_before
            and (other := next((name for name in _OTHERS if name in sys.modules), None))
        ):
            warnings.warn(
                f"no call in the block got the lessons: they are added to calls of openai, anthropic and groq, and not"
                f" of {other}; put `lessons(...).text` into its messages",
                UserWarning,
                stacklevel=2,
            )
        if _current.get() is block:
            _current.set(block.outer)
        _calls.close()

    def __reduce__(self) -> tuple[object, ...]:
        return (Lessons, (self.source, self.masked, self.hide, self.episode, self.retriever, self.choose, self.place))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        library = self.library
        name = f"{self.source.name!r}, " if self.source.name else ""
        return f"lessons({name}version {library.version[:8]}, {counted_lessons(len(library))})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.library._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


def lessons(
    library: GivenLibrary,
    *,
    store: Path | str | None = None,
    tenant: str | None = None,
    masked: Sequence[ExperienceId] | None = None,
    hide: str | float | None = None,
    episode: str | None = None,
    retrieval: Retrieval | Retriever | None = None,
    choose: Choose | None = None,
    place: LessonPlace | None = None,
    follow: bool | None = None,
    canary: bool | None = None,
    missing: WhenMissing | None = None,
) -> Lessons:
    """Return the lessons of a library, for any program: `lessons("math").text`, or `with lessons("math"): …`.

    library, store, tenant, masked, hide, episode, retrieval, choose, place, follow, canary and missing mean what they
    mean for `Experiences`, but `hide` and `canary` need an episode, and a version is kept only within a `with` block. A
    task is not known here: `lessons("math").for_query("…")` chooses from a library that is too large to show all. None
    is "not given". Raises LibraryError when the library cannot be used, ConfigError for `hide` or `canary` without an
    episode.
    """
    share = share_of(hide)
    if (share or canary) and not episode:
        said = f"hide is {hide!r}" if share else f"canary is {canary!r}"
        raise ConfigError(f"{said}, but there is no episode; pass the name of the conversation or job as `episode`")
    source = open_tenant_source(library, tenant=tenant, store=store, follow=follow, missing=missing, canary=canary)
    retriever = retrieval if isinstance(retrieval, Retriever) else Retriever(retrieval or Retrieval())
    how = showing(choose, place)
    return Lessons(source, tuple(dict.fromkeys(masked or ())), share, episode or "", retriever, *how)
