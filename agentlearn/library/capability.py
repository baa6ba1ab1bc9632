"""`Experiences`: shows lessons to an agent, the same way in learning, evaluation and applications."""

import copy
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Self

from opentelemetry.trace import Span, get_current_span
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import CachePoint, ModelMessage, ModelRequest, UserContent, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext, ToolDefinition

from agentlearn.errors import LibraryError
from agentlearn.library.retrieval import ChosenLessons, Retrieval, Retriever
from agentlearn.library.shown import Choose, LessonPlace, Shown, hidden_in_episode, share_of, showing, text_of
from agentlearn.library.store import GivenLibrary, LibrarySource, WhenMissing
from agentlearn.library.tenants import open_tenant_source
from agentlearn.types.experience import Library, counted_lessons
from agentlearn.types.ids import ExperienceId
from agentlearn.types.rendering import BLOCK_NAME_RULE, Rendered, is_block_name

DEFAULT_ID = "experiences"
_SPAN_LIBRARY = "agentlearn.library"
_SPAN_VERSION = "agentlearn.library.version"
_SPAN_LESSONS = "agentlearn.lessons"


@dataclass(init=False, eq=False, repr=False)
class Experiences(AbstractCapability[Any]):
    """Adds the lessons of a library to an agent's instructions, fenced as advice.

    library: a `Library`; a reference to one: `NAME`, `NAME@VERSION`, a JSON file, or `none`; or a list of lessons.
    store: the directory that `agentlearn learn --store` wrote to, for references by name. Default: `AGENTLEARN_STORE`,
    else `.agentlearn` in the working directory.
    tenant: show the lessons of the shared library, then those of the tenant's own library of that name.
    masked: lessons withheld from this agent.
    hide: the share of episodes that each lesson is hidden in, such as "1/5", to measure what each lesson does. Which
    lessons an episode is not shown depends only on the episode.
    episode: with `hide` or `canary`, the name of the conversation or job; the same name hides the same lessons and
    reads the same version. Default: each run is an episode of its own.
    retrieval: how many lessons are shown of a library that is too large to show all, and by which embedder they are
    chosen; a `Retriever` to choose them with an embedder of your own.
    choose: `conversation` chooses lessons for the first message, and the messages that are given back as history keep
    them and their version, so that a service can cache what it has read; a new version reaches new conversations. What
    was parked, erased or rolled back is gone at once. `turn` chooses for the prompt of each run, from the newest
    version. Default: `conversation`.
    place: `last` puts the lessons before the newest user message, behind all that was said, which ends with a cache
    point where the service has one; they are not kept in the history. Default: `instructions`.
    id: the name of these lessons in a run. Where an agent and a run have the same id, the run's lessons are shown. Give
    an id to show a second library together with the first; its labels then start with the id.
    follow: use a new version as soon as it is published, from the next run on. A run never changes its version.
    canary: read the canary of the library, while it has one, in the share of episodes that `agentlearn library canary`
    set. Which episodes do depends only on the library, the canary and the episode.
    missing: `empty` shows no lessons where the library does not exist yet, instead of raising an error.
    defer_loading: show only the description, until the model asks for the lessons.

    None stands for "not given". Without `follow` the library is read once, here, so the agent does not change while an
    application runs. Raises LibraryError when the library cannot be used.
    """

    id: str | None = DEFAULT_ID

    def __init__(
        self,
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
        id: str | None = None,  # noqa: A002  # the base class's name for it
        follow: bool | None = None,
        canary: bool | None = None,
        missing: WhenMissing | None = None,
        description: str | None = None,
        defer_loading: bool | None = None,
    ) -> None:
        if id is not None and not is_block_name(id):
            raise LibraryError(f"{id!r} cannot be the id of Experiences; use {BLOCK_NAME_RULE}")
        self.id = id or DEFAULT_ID
        self.description = description
        self.defer_loading = bool(defer_loading)
        self.choose, self.place = showing(choose, place)
        if self.defer_loading and self.place == "last":
            raise LibraryError("place='last' shows the lessons with every question; leave it or defer_loading out")
        self.hide, self.episode = share_of(hide), episode
        self._withheld = tuple(dict.fromkeys(masked or ()))
        self._source = open_tenant_source(
            library, tenant=tenant, store=store, follow=follow, missing=missing, canary=canary
        )
        self._retriever = retrieval if isinstance(retrieval, Retriever) else Retriever(retrieval or Retrieval())
        self._choice: ChosenLessons | None = None
        self._rendered: tuple[Library, tuple[ExperienceId, ...], Rendered] | None = None
        self._run_span: Span | None = None
        self._recorded = False

    @property
    def library(self) -> Library:
        """The library that this episode reads; of a followed one, its newest version."""
        return self._source.current(self.episode)

    @property
    def masked(self) -> tuple[ExperienceId, ...]:
        """The lessons that are not shown: those given as `masked`, and those that `hide` leaves out of this episode."""
        return self._masked_in(self.library)

    def _masked_in(self, library: Library) -> tuple[ExperienceId, ...]:
        if not self.hide or self.episode is None:
            return self._withheld
        drawn = hidden_in_episode(library.by_id, share=self.hide, episode=self.episode)
        return tuple(dict.fromkeys((*self._withheld, *drawn)))

    @property
    def choice(self) -> ChosenLessons:
        """The lessons that were chosen for the run. Where no task is known yet, all lessons that pass the filters."""
        return self._choice or self._retriever.all_of(self.library)

    @property
    def rendered(self) -> Rendered:
        """The block of advice and the lessons behind its labels."""
        library = self.library
        masked = self._masked_in(library)
        if self._rendered is None or self._rendered[0] is not library or self._rendered[1] != masked:
            block = library.render(masked=masked, name=self._block_name, chosen=self.choice.lessons)
            self._rendered = (library, masked, block)
        return self._rendered[2]

    @property
    def shown(self) -> Shown:
        """The library, its version and the lessons that an agent reads."""
        bound = self if self._choice is not None else self._fixed()
        return Shown(
            library=self._source.name,
            version=bound.library.version,
            lessons=tuple(bound.rendered.labels.values()),
            masked=bound.masked,
            offered=bound.choice.lessons,
        )

    def bound(self) -> Self:
        """Return these lessons in the version and the episode of now, which do not change any more."""
        return self._fixed(own_episode=True)

    def _fixed(self, *, own_episode: bool = False, before: Shown | None = None) -> Self:
        """Return these lessons in one version. before: what the conversation has read, which it keeps where it may."""
        fixed = copy.copy(self)
        if own_episode and self.episode is None and (self.hide or self._source.canary):
            fixed.episode = secrets.token_hex(16)
            if before is not None:  # what a run without an episode hid stays hidden
                fixed._withheld, fixed.hide = tuple(dict.fromkeys((*self._withheld, *before.masked))), 0.0  # noqa: SLF001
        library = fixed.library if before is None else self._source.going_on(before.version, self.episode)
        vars(fixed)["_source"] = LibrarySource(library, self._source.name)
        return fixed

    async def for_query(self, query: str, *, without: Collection[ExperienceId] = ()) -> Self:
        """Return these lessons in the version of now, with those that are chosen for a task.

        query: the task in words. without: lessons that are not to be chosen.
        """
        bound = self.bound()
        return bound.with_choice(await self._retriever.choose(bound.library, query, without=without))

    def with_choice(self, choice: ChosenLessons) -> Self:
        """Return these lessons in the version of now, with those that were chosen."""
        bound = self.bound()
        bound._choice, bound._rendered = choice, None  # noqa: SLF001
        return bound

    @property
    def _block_name(self) -> str:
        return "" if self.id in (None, DEFAULT_ID) else self.id

    # What pydantic-ai asks for

    def get_instructions(self) -> str | None:
        """The block of advice; None for an empty library, and where it stands behind the user's message.

        None for a document of tool descriptions, which stand with the tools.
        """
        if self.place == "last" or self.library.document == "tools":
            return None
        return self.rendered.text or None

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Return the tools with the descriptions of the document, where the library is one of tool descriptions."""
        if self.library.document != "tools":
            return tool_defs
        shown = set(self.rendered.labels.values())
        said = (one.lesson.strip("\n").partition("\n") for one in self.library.experiences if one.id in shown)
        described = {heading.lstrip("#").strip(): text.strip() for heading, _, text in said}
        return [replace(one, description=described.get(one.name) or one.description) for one in tool_defs]

    def get_description(self) -> str:
        """What the model reads about lessons that are not loaded yet."""
        named = f" of {self._source.name!r}" if self._source.name else ""
        return self.description or f"Lessons from earlier work on such tasks{named}."

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return the lessons of this conversation or for the prompt of this run, in one version for the whole run."""
        if self._choice is not None:
            return self.bound()
        if self.choose == "turn":
            return await self.for_query(text_of(ctx.prompt) or next(_asked_in(reversed(ctx.messages)), ""))
        before = Shown.all_in(ctx.messages).get(self.id or DEFAULT_ID)
        bound = self._fixed(own_episode=True, before=before)
        if before is not None and before.version == bound.library.version:
            return bound.with_choice(ChosenLessons(before.offered))
        first = next(_asked_in(ctx.messages), "") or text_of(ctx.prompt)
        return bound.with_choice(await self._retriever.choose(bound.library, first))

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Remember the span of the run; there is none where the agent is not instrumented."""
        span = get_current_span()
        attributes: Any = getattr(span, "attributes", None) or {}
        self._run_span = span if attributes.get("gen_ai.operation.name") == "invoke_agent" else None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Place the lessons, and record once per run which the model reads: in metadata and on the run's span."""
        if self.place == "last" and self.rendered.text and self.library.document != "tools":
            request_context.messages = _with_last(request_context.messages, self.rendered.text)
        if not self._recorded and self._is_read(request_context):
            self._recorded = True
            shown = self.shown
            request = next((one for one in reversed(ctx.messages) if isinstance(one, ModelRequest)), None)
            if request is not None:
                request.metadata = shown.added_to(request.metadata, self.id or DEFAULT_ID)
            if self._run_span is not None and self._run_span.is_recording():
                self._add_to(self._run_span, shown)
        return request_context

    def _is_read(self, request: ModelRequestContext) -> bool:
        """Whether the model reads the lessons. It does not where an application replaced the agent's instructions."""
        text = self.rendered.text
        instructions = request.model_request_parameters.instruction_parts or ()
        if not text or self.library.document == "tools" or any(text in part.content for part in instructions):
            return True
        return any(
            text in text_of(getattr(part, "content", None)) for message in request.messages for part in message.parts
        )

    @staticmethod
    def _add_to(span: Span, shown: Shown) -> None:
        """Add the lessons to a span, after those of other libraries."""
        had: Any = getattr(span, "attributes", None) or {}
        for key, value in ((_SPAN_LIBRARY, shown.library or ""), (_SPAN_VERSION, shown.version)):
            span.set_attribute(key, f"{had[key]},{value}" if key in had else value)
        span.set_attribute(_SPAN_LESSONS, [*had.get(_SPAN_LESSONS, ()), *shown.lessons])

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[Any]]) -> AbstractCapability[Any]:
        """Return one of several equal ones. Raises LibraryError for different ones with the same id."""
        if any(one != capabilities[-1] for one in capabilities):
            listed = " and ".join(map(repr, capabilities))
            raise LibraryError(
                f"an agent has {listed} under the id {capabilities[-1].id!r}; give one of them another id to show both"
            )
        return capabilities[-1]

    # How Python and notebooks show and compare it

    @property
    def _identity(self) -> tuple[object, ...]:
        hidden = (frozenset(self._withheld), self.hide, self.episode)
        return (
            type(self),
            self.id,
            self._source.follows,
            self._source.canary,
            self._source.identity,
            *hidden,
            (self.choose, self.place),
            self._retriever.identity,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiences) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def _words(self) -> list[str]:
        library = self.library
        words = [repr(self._source.name)] if self._source.name else []
        words += [f"version {library.version[:8]}", counted_lessons(len(library))]
        words += [f"{len(self.masked)} masked"] if self.masked else []
        words += [f"hides each in {self.hide:.0%} of episodes"] if self.hide else []
        words += [f"id={self.id!r}"] if self._block_name else []
        words += ["choose='turn'"] if self.choose == "turn" else []
        words += ["place='last'"] if self.place == "last" else []
        words += ["follow=True"] if self._source.follows else []
        return words + (["canary=True"] if self._source.canary else [])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._words())})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.library._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


def _asked_in(messages: Iterable[Any]) -> Iterator[str]:
    """Yield the texts of the user prompts in messages of pydantic-ai."""
    parts = (part for message in messages for part in getattr(message, "parts", ()))
    return filter(None, (text_of(one.content) for one in parts if isinstance(one, UserPromptPart)))


def _with_last(messages: Sequence[ModelMessage], text: str) -> list[ModelMessage]:
    """Return the messages of a request with a text before the newest user prompt.

    The user prompt before it, if there is one, ends with a cache point: what changes comes after it.
    """
    prompts = [
        one
        for message in messages
        if isinstance(message, ModelRequest)
        for one in message.parts
        if isinstance(one, UserPromptPart)
    ]
    if not prompts:
        return [*messages, ModelRequest(parts=[UserPromptPart([text])])]
    changed = {id(one): replace(one, content=[*_contents(one), CachePoint()]) for one in prompts[-2:-1] if one.content}
    changed[id(prompts[-1])] = replace(prompts[-1], content=[text, *_contents(prompts[-1])])
    return [
        replace(one, parts=[changed.get(id(part), part) for part in one.parts])
        if isinstance(one, ModelRequest)
        else one
        for one in messages
    ]


def _contents(prompt: UserPromptPart) -> list[UserContent]:
    return [prompt.content] if isinstance(prompt.content, str) else list(prompt.content)
