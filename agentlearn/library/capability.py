"""`Experiences`: shows lessons to an agent, the same way in learning, evaluation and applications."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

from opentelemetry.trace import Span, get_current_span
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from agentlearn.errors import LibraryError
from agentlearn.library.library_source import FixedLibrary, GivenLibrary, LibrarySource, WhenMissing, open_source
from agentlearn.library.shown import Shown, with_shown
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
    masked: lessons withheld from this agent.
    id: the name of these lessons in a run. Where an agent and a run have the same id, the run's lessons are shown. Give
    an id to show a second library together with the first; its labels then start with the id.
    follow: use a new version as soon as it is published, from the next run on. A run never changes its version.
    missing: `empty` shows no lessons where the library does not exist yet, instead of raising an error.
    defer_loading: show only the description, until the model asks for the lessons.

    Without `follow` the library is read once, here, so the agent does not change while an application runs. Raises
    LibraryError when the library cannot be used.
    """

    id: str | None = DEFAULT_ID

    def __init__(
        self,
        library: GivenLibrary,
        *,
        store: Path | str | None = None,
        masked: Sequence[ExperienceId] = (),
        id: str | None = None,  # noqa: A002  # the base class's name for it
        follow: bool = False,
        missing: WhenMissing = "error",
        description: str | None = None,
        defer_loading: bool = False,
    ) -> None:
        if id is not None and not is_block_name(id):
            raise LibraryError(f"{id!r} cannot be the id of Experiences; use {BLOCK_NAME_RULE}", code="bad_block_name")
        self.id = id or DEFAULT_ID
        self.description = description
        self.defer_loading = defer_loading
        self.masked = tuple(dict.fromkeys(masked))
        self._source: LibrarySource = open_source(library, store=store, follow=follow, missing=missing)
        self._rendered: tuple[Library, Rendered] | None = None
        self._run_span: Span | None = None
        self._recorded = False

    @property
    def library(self) -> Library:
        """The library; of a followed one, its newest version."""
        return self._source.current()

    @property
    def rendered(self) -> Rendered:
        """The block of advice and the lessons behind its labels."""
        library = self.library
        if self._rendered is None or self._rendered[0] is not library:
            self._rendered = (library, library.render(masked=self.masked, name=self._block_name))
        return self._rendered[1]

    @property
    def shown(self) -> Shown:
        """The library, its version and the lessons that an agent reads."""
        bound = self.bound()
        lessons = tuple(bound.rendered.labels.values())
        return Shown(library=self._source.name, version=bound.library.version, lessons=lessons, masked=self.masked)

    def bound(self) -> Self:
        """Return these lessons in the version of now, which does not change any more."""
        bound = copy.copy(self)
        vars(bound)["_source"] = FixedLibrary(self.library, self._source.name)
        return bound

    @property
    def _block_name(self) -> str:
        return "" if self.id in (None, DEFAULT_ID) else self.id

    # What pydantic-ai asks for

    def get_instructions(self) -> str | None:
        """The block of advice; None for an empty library."""
        return self.rendered.text or None

    def get_description(self) -> str:
        """What the model reads about lessons that are not loaded yet."""
        named = f" of {self._source.name!r}" if self._source.name else ""
        return self.description or f"Lessons from earlier work on such tasks{named}."

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return the lessons in one version, which holds for the whole run."""
        return self.bound()

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Remember the span of the run."""
        self._run_span = _agent_span()

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Record which lessons the model reads, once per run: in the request's metadata and on the run's span."""
        if not self._recorded and _reads(request_context, self.rendered.text):
            self._recorded = True
            shown = self.shown
            request = next((one for one in reversed(ctx.messages) if isinstance(one, ModelRequest)), None)
            if request is not None:
                request.metadata = with_shown(request.metadata, self.id or DEFAULT_ID, shown)
            _add_to_span(self._run_span, shown)
        return request_context

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[Any]]) -> AbstractCapability[Any]:
        """Return one of several equal ones. Raises LibraryError for different ones with the same id."""
        if any(one != capabilities[-1] for one in capabilities):
            listed = " and ".join(map(repr, capabilities))
            raise LibraryError(
                f"an agent has {listed} under the id {capabilities[-1].id!r}; give one of them another id to show both",
                code="two_libraries",
            )
        return capabilities[-1]

    # How Python and notebooks show and compare it

    @property
    def _identity(self) -> tuple[object, ...]:
        return (type(self), self.id, self._source.follows, self._source.identity, frozenset(self.masked))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiences) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def _words(self) -> list[str]:
        library = self.library
        words = [repr(self._source.name)] if self._source.name else []
        words += [f"version {library.version[:8]}", counted_lessons(len(library))]
        words += [f"{len(self.masked)} masked"] if self.masked else []
        words += [f"id={self.id!r}"] if self._block_name else []
        return words + (["follow=True"] if self._source.follows else [])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._words())})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.library._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


def _reads(request: ModelRequestContext, text: str) -> bool:
    """Whether the model reads this text. It does not where an application replaced the agent's instructions."""
    instructions = request.model_request_parameters.instruction_parts or ()
    if not text or any(text in part.content for part in instructions):
        return True
    contents = (getattr(part, "content", None) for message in request.messages for part in message.parts)
    return any(isinstance(content, str) and text in content for content in contents)


def _agent_span() -> Span | None:
    """The span of the current run; None where the agent is not instrumented."""
    span = get_current_span()
    attributes: Any = getattr(span, "attributes", None) or {}
    return span if attributes.get("gen_ai.operation.name") == "invoke_agent" else None


def _add_to_span(span: Span | None, shown: Shown) -> None:
    """Add the lessons to a span, after those of other libraries."""
    if span is None or not span.is_recording():
        return
    had: Any = getattr(span, "attributes", None) or {}
    for key, value in ((_SPAN_LIBRARY, shown.library or ""), (_SPAN_VERSION, shown.version)):
        span.set_attribute(key, f"{had[key]},{value}" if key in had else value)
    span.set_attribute(_SPAN_LESSONS, [*had.get(_SPAN_LESSONS, ()), *shown.lessons])
