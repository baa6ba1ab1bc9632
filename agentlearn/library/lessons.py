"""`lessons`: the lessons of a library for programs without an agent of pydantic-ai.

`lessons("math").text` is the block of advice for any framework. `with lessons("math"):` adds it to the calls that the
packages `openai`, `anthropic` and `groq` make in the block.
"""

import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from agentlearn.errors import ConfigError, LibraryError
from agentlearn.library.client_calls import CHAT, MESSAGES, ClientCalls, other_client
from agentlearn.library.library_source import GivenLibrary, LibrarySource, WhenMissing, open_source
from agentlearn.library.retrieval import ChosenLessons, Retrieval, Retriever
from agentlearn.library.shown import Shown, hidden_in_episode, share_of, text_of
from agentlearn.types.experience import Library, counted_lessons
from agentlearn.types.ids import ExperienceId, LibraryVersion

_FENCE = "<experiences>\n["
_INSTRUCTING = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Advice:
    """The lessons of one version of a library."""

    text: str
    """The block of advice; empty when there are no lessons."""
    shown: Shown
    """The library, its version and the ids of the lessons, as recorded with a run."""

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
        given = list(messages)
        if not self.text or _advised(given):
            return given
        for place, message in enumerate(given):
            if _instructs(message):
                return [*given[:place], _with_text(message, self.text), *given[place + 1 :]]
        return [{"role": "system", "content": self.text}, *given]

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
    block = _innermost()
    if block is None:
        return body
    if path == CHAT:
        messages = body.get("messages") or ()
        return {**body, "messages": block.advice_for(_asked(messages)).messages(messages)}
    if path == MESSAGES:
        system = _with_system(body.get("system"), block.advice_for(_asked(body.get("messages"))))
        return body if system is None else {**body, "system": system}
    given, sent = body.get("instructions"), body.get("input")
    if isinstance(sent, list | tuple) and _advised(cast("Sequence[Any]", sent)):
        return body
    advice = block.advice_for(sent if isinstance(sent, str) else _asked(sent))
    instructions = advice.instructions(given if isinstance(given, str) else None)
    return body if instructions is None else {**body, "instructions": instructions}


def _with_system(system: Any, advice: Advice) -> Any:
    """The instructions of a call of Anthropic, a text or a list of parts, with the block of advice at the end."""
    if isinstance(system, list | tuple):
        parts = cast("Sequence[Any]", system)
        if not advice.text or any(_FENCE in text for text in _texts({"content": parts})):
            return system
        return [*parts, {"type": "text", "text": advice.text}]
    return advice.instructions(system if isinstance(system, str) else None)


_calls = ClientCalls(_add)


@dataclass(eq=False)
class Lessons:
    """The lessons of a library as text, for chat messages, and as a `with` block for three packages.

    Inside the block, `chat.completions` and `responses` of every client of `openai`, `messages` of `anthropic` and
    `chat.completions` of `groq` get the lessons in their system message or instructions: `create`, `parse` and
    `stream`, sync and async. A block warns when it has added lessons to no call and the program uses another client.
    Tasks that are started in the block count as inside until the block ends; other tasks and threads are outside. Of
    blocks inside each other the inner one counts. One object may be used for several blocks, also at the same time;
    each block has the version of its start. Of a library that is too large to show all, each call gets the lessons
    whose words fit its last user message.
    """

    source: LibrarySource
    masked: tuple[ExperienceId, ...] = ()
    """Lessons that are never shown."""
    hide: float = 0.0
    """Share of episodes that each lesson is hidden in."""
    episode: str = ""
    """The episode that decides which lessons `hide` leaves out."""
    retriever: Retriever = field(default_factory=Retriever, repr=False)
    _blocks: list[_Block] = field(default_factory=list[_Block], repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def library(self) -> Library:
        """The library; of a followed one, its newest version."""
        return self.source.current()

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
        return Advice(rendered.text, shown)

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
        if kind is None and block.advice.text and _calls.added == block.added_before and (other := other_client()):
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
        return (Lessons, (self.source, self.masked, self.hide, self.episode, self.retriever))

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
    masked: Sequence[ExperienceId] = (),
    hide: str | float | None = None,
    episode: str = "",
    retrieval: Retrieval | Retriever | None = None,
    follow: bool = False,
    missing: WhenMissing = "error",
) -> Lessons:
    """Return the lessons of a library, for any program: `lessons("math").text`, or `with lessons("math"): …`.

    library, store, masked, hide, episode, retrieval, follow and missing mean what they mean for `Experiences`, but
    `hide` needs an episode. A task is not known here: `lessons("math").for_query("…")` chooses from a library that is
    too large to show all. Raises LibraryError when the library cannot be used, ConfigError for `hide` without an
    episode.
    """
    share = share_of(hide)
    if share and not episode:
        raise ConfigError(
            f"hide is {hide!r}, but there is no episode; pass the name of the conversation or job as `episode`",
            code="bad_hide",
        )
    source = open_source(library, store=store, follow=follow, missing=missing)
    retriever = retrieval if isinstance(retrieval, Retriever) else Retriever(retrieval or Retrieval())
    return Lessons(source, tuple(dict.fromkeys(masked)), share, episode, retriever)


def _part(message: Any, name: str) -> Any:
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message).get(name)
    return getattr(message, name, None)


def _instructs(message: Any) -> bool:
    return _part(message, "role") in _INSTRUCTING


def _asked(messages: Any) -> str:
    """The text of the last user message."""
    listed = cast("Sequence[Any]", messages) if isinstance(messages, list | tuple) else ()
    return next((text_of(_part(one, "content")) for one in reversed(listed) if _part(one, "role") == "user"), "")


def _advised(messages: Iterable[Any]) -> bool:
    """Whether a system or developer message holds a block of advice already."""
    return any(_FENCE in text for one in messages if _instructs(one) for text in _texts(one))


def _texts(message: Any) -> list[str]:
    """The texts of a message, whose content is a text or a list of parts."""
    content = _part(message, "content")
    if isinstance(content, str):
        return [content]
    parts = cast("list[Any]", content) if isinstance(content, list | tuple) else []
    return [text for part in parts if isinstance(text := part if isinstance(part, str) else _part(part, "text"), str)]


def _with_text(message: Any, text: str) -> Any:
    """The message with a text at its end."""
    content = _part(message, "content")
    if content is None or isinstance(content, str):
        longer: Any = f"{content}\n\n{text}" if content else text
    elif isinstance(content, list | tuple):
        longer = [*cast("list[Any]", content), {"type": "text", "text": text}]
    else:
        raise LibraryError(f"lessons cannot be added to the system message {message!r:.80}; its content is no text")
    if isinstance(message, Mapping):
        return {**cast("Mapping[str, Any]", message), "content": longer}
    return {"role": _part(message, "role"), "content": longer}
