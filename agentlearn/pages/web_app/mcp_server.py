"""The MCP server: agents search lessons, propose new ones and give feedback, over stdio or HTTP.

What an agent sends is a stranger's text. A proposal waits for a person, feedback is live traffic, and nothing that
waits is ever returned. The package `mcp` speaks the protocol, in its versions of 2026 and 2025.
"""

import hmac
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from agentlearn.errors import AgentlearnError, LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.curate.codes import RejectionCode
from agentlearn.library.curate.lesson_text import refusal_key
from agentlearn.library.history import MAIN
from agentlearn.library.history.change_log import checked_name
from agentlearn.library.import_lessons import ImportedLessons, propose_lesson
from agentlearn.library.store import open_source
from agentlearn.live.recorder import Recorder
from agentlearn.pages.web_app.mcp_runs import RunTools
from agentlearn.pages.web_app.server import foreign, refused
from agentlearn.plugins import version
from agentlearn.text import meant_or_known, short_repr, visible_line
from agentlearn.types.experience import Experience, Library
from agentlearn.types.ranking import Retrieval, lesson_index
from agentlearn.types.value import UNIT, Author

PATH = "/mcp"
MAX_REQUEST = 256 * 1024
"""Largest size of a request over HTTP, in bytes."""
MOST_WAITING = 50
"""Proposals of agents that may wait in a library at once."""
_EVERY = Retrieval()
_AUTHOR = Author(kind="traffic", name="mcp")
_INSTRUCTIONS = (
    "Lessons that others learned on tasks like yours. Search them with the task in words before you begin, and follow"
    " those that fit. Propose a lesson only for what would help on other tasks too; a person decides on it."
)
_INSTRUCTIONS_RUNS = (
    "You can plan and start runs that learn lessons or compare libraries. Call plan, tell the person what it costs,"
    " then start it with a limit; ask status, and show the verdict. Only a person publishes: apply says how."
)
_Name = Annotated[str, Field(max_length=64, description="Name of the library. Empty: all libraries that are offered.")]
_Into = Annotated[str, Field(min_length=1, max_length=64, description="Name of the library.")]
_Text = Annotated[str, Field(max_length=8_000)]
_UNIT: dict[str, Any] = {"minimum": 0, "maximum": 1}


class OfferedLesson(BaseModel):
    """A lesson of a library."""

    library: str
    version: str
    """The version of the library that shows it."""
    id: str
    lesson: str
    tags: list[str]
    origin: Literal["written by a person", "imported", "learned"]


class OfferedLessons(BaseModel):
    """Lessons, best first."""

    lessons: list[OfferedLesson]
    searched: int
    """Number of lessons that were looked through."""


class ProposedLesson(BaseModel):
    """A proposal that was stored."""

    id: str
    library: str
    waits: Literal[True] = True
    """No agent sees it until a person has approved it."""


class RecordedFeedback(BaseModel):
    """Feedback that was stored."""

    id: str


@contextmanager
def _refusals() -> Generator[None]:
    """Tell the agent in a sentence, with the code, why something is refused."""
    try:
        yield
    except AgentlearnError as error:
        raise ToolError(f"{error} ({error.code})") from error


class McpTools:
    """The tools, each a method that an agent calls."""

    def __init__(self, names: Sequence[str], store: Path) -> None:
        self._store, self._libraries = store, LibraryStore(store / "libraries")
        self._recorders = dict[str, Recorder]()
        self._sources = {name: open_source(checked_name(name), store=store, follow=True) for name in names}

    def _names(self, name: str) -> Sequence[str]:
        """The libraries that a tool was asked for."""
        if name and name not in self._sources:
            known = ", ".join(map(repr, self._sources))
            raise LibraryError(f"no library {name!r} is offered here (offered: {known})", code="unknown_library")
        return [name] if name else list(self._sources)

    def search_lessons(
        self,
        query: Annotated[str, Field(min_length=1, max_length=8_000, description="The task in words.")],
        library: _Name = "",
        limit: Annotated[int, Field(ge=1, le=20)] = 8,
    ) -> OfferedLessons:
        """Find the lessons whose words fit a task. Lessons that wait for a person are not among them."""
        with _refusals():
            loaded = {name: self._sources[name].current() for name in self._names(library)}
        ranked = list[tuple[int, OfferedLesson]]()
        for name, one in loaded.items():
            best = lesson_index(one.experiences, _EVERY).words.ranked(query, limit)
            ranked += [(rank, _offered(name, one, one.experiences[place])) for rank, (place, _) in enumerate(best)]
        ranked.sort(key=lambda pair: pair[0])
        return OfferedLessons(lessons=[one for _, one in ranked[:limit]], searched=sum(map(len, loaded.values())))

    def get_lesson(
        self,
        lesson: Annotated[str, Field(min_length=4, max_length=64, description="Its id, or the start of it.")],
        library: _Name = "",
    ) -> OfferedLesson:
        """Return one lesson that a library shows."""
        with _refusals():
            loaded = {name: self._sources[name].current() for name in self._names(library)}
            found = [
                _offered(name, one, held)
                for name, one in loaded.items()
                for held in one.experiences
                if held.id.startswith(lesson)
            ]
            if len(found) != 1:
                why = f"{len(found)} lessons have an id that starts with {lesson!r}; search_lessons returns the ids"
                raise LibraryError(why, code="unknown_lesson")
        return found[0]

    def propose(
        self,
        context: Context[Any, Any],
        library: _Into,
        lesson: Annotated[str, Field(min_length=1, max_length=4_000, description="One advice, at most 80 words.")],
        why: Annotated[str, Field(max_length=400, description="For the person who decides on it.")] = "",
        tags: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=8)] = [],  # noqa: B006  copied
    ) -> ProposedLesson:
        """Propose a lesson. It is checked, and waits until a person approves it."""
        params = context.session.client_params
        client = "" if params is None else f" of {visible_line(params.client_info.name, 60)!r}"
        reason = f"proposed over MCP by an agent{client}{f', which says: {visible_line(why)!r}' if why else ''}"
        with _refusals():
            (name,) = self._names(library)
            history, made = self._libraries.history(name), list[ImportedLessons]()

            def next_library(current: Library) -> Library:
                if refusal_key(lesson) in history.refused_words():
                    raise LibraryError("a person refused this lesson before", code="refused_by_person")
                waiting = [one for one in current.withheld if _AUTHOR in one.experience.origin.strangers]
                if len(waiting) >= MOST_WAITING:
                    why = f"{len(waiting)} proposals of agents wait already; a person has to decide on them first"
                    raise LibraryError(why, code="inbox_full")
                made.append(propose_lesson(lesson, tags, _AUTHOR, reason, into=current, name=name))
                if refusals := made[-1].refused:
                    code, said = refusals[0].code, refusals[0].reason
                    if code == RejectionCode.NEAR_DUPLICATE:  # the reason may quote a lesson that waits
                        said = "the library has a lesson that says nearly the same, shown or waiting"
                    raise LibraryError(f"it cannot be a lesson: {said}", code=code)
                return made[-1].added_to(current)

            history.update(next_library, kind="import", branch=MAIN, note="a proposal over MCP")
        return ProposedLesson(id=made[-1].lessons[0].experience.id, library=name)

    async def record_feedback(
        self,
        library: _Into,
        rollout: Annotated[str, Field(max_length=64, description="Id of a recorded answer; or name an episode.")] = "",
        episode: Annotated[str, Field(max_length=200, description="Name of a recorded conversation.")] = "",
        reward: Annotated[float | None, Field(json_schema_extra=_UNIT, description="1 is right, 0 is wrong.")] = None,
        comment: _Text = "",
        demonstration: Annotated[str, Field(max_length=32_000, description="The right answer.")] = "",
    ) -> RecordedFeedback:
        """Say whether a recorded answer, or all answers of an episode, was right, and why."""
        with _refusals():
            (name,) = self._names(library)
            recorder = self._recorders.setdefault(name, Recorder(name, self._store, scale=UNIT))
            stored = await recorder.feedback(
                rollout or None,
                episode=episode,
                reward=reward,
                comment=comment,
                demonstration=demonstration,
                by="an agent over MCP",
                only_recorded=True,
            )
        return RecordedFeedback(id=stored)


class _Server(MCPServer[Any]):
    """A server that takes null for an argument that is left out, and refuses other arguments in a sentence."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises ToolError with a sentence and a code, and UnexpectedToolError where the tool broke."""
        schemas = {tool.name: tool.input_schema for tool in await self.list_tools()}
        with _refusals():
            if name not in schemas:
                raise LibraryError(f"no tool {name!r} is offered; {meant_or_known(name, schemas)}", code="unknown_tool")
            wanted = schemas[name]["properties"]
            if unknown := [one for one in arguments if one not in wanted]:
                meant = meant_or_known(unknown[0], wanted)
                raise LibraryError(
                    f"{name} has no argument {visible_line(unknown[0], 60)!r}; {meant}", code="bad_argument"
                )
            try:
                given = {key: value for key, value in arguments.items() if value is not None}
                return await super().call_tool(name, given, context)
            except UnexpectedToolError as error:
                if isinstance(error.__cause__, AgentlearnError):
                    raise error.__cause__ from None
                raise
            except ToolError as error:
                if isinstance(error.__cause__, ValidationError):
                    fault = error.__cause__.errors(include_url=False)[0]
                    key = str(fault["loc"][0])
                    was = "is missing" if fault["type"] == "missing" else f"cannot be {short_repr(fault['input'])}"
                    why = f"the argument {key!r} of {name} {was}; give {_described(wanted[key])}"
                    raise LibraryError(why, code="bad_argument") from None
                raise ToolError(str(error.__cause__ or error)) from None


_ASKED = {
    "object": "an object with options by name, each a text, a number, true, false or a list",
    "string": "a text of {minLength} to {maxLength:,} characters",
    "array": "a list of at most {maxItems} texts, each of at most {items[maxLength]} characters",
    "integer": "a whole number from {minimum} to {maximum}",
    "number": "a number from {minimum} to {maximum}",
}
"""What a JSON schema asks for, in words."""


def _described(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    schema = {"minLength": 0, **next((one for one in schema.get("anyOf", ()) if "maximum" in one), schema)}
    return _ASKED[schema["type"]].format(**schema)


def mcp_server(
    names: Sequence[str], store: Path, *, read_only: bool = False, runs: RunTools | None = None
) -> MCPServer[Any]:
    """Return a server that offers libraries of a store. read_only: without the tools that store something.

    runs: also the tools that plan and start runs; then there may be no library. Raises LibraryError where a library
    does not exist.
    """
    told = " ".join([*([_INSTRUCTIONS] if names else []), *([_INSTRUCTIONS_RUNS] if runs else [])])
    server = _Server("agentlearn", instructions=told, version=version(), log_level="ERROR")
    tools = McpTools(names, store)
    reads, writes = ToolAnnotations(read_only_hint=True), ToolAnnotations(destructive_hint=False)
    if runs is not None:
        for tool in (runs.plan, runs.estimate, runs.status, runs.show, runs.apply):
            server.add_tool(tool, annotations=reads)
        server.add_tool(runs.start, annotations=writes)
    if names:
        server.add_tool(tools.search_lessons, annotations=reads)
        server.add_tool(tools.get_lesson, annotations=reads)
    if names and not read_only:
        server.add_tool(tools.propose, name="propose_lesson", annotations=writes)
        server.add_tool(tools.record_feedback, annotations=writes)
    return server


def _offered(name: str, library: Library, one: Experience) -> OfferedLesson:
    origin = "written by a person" if one.by_person else "imported" if one.origin.kind == "import" else "learned"
    return OfferedLesson(
        library=name, version=library.version, id=one.id, lesson=one.lesson, tags=list(one.tags), origin=origin
    )


def http_app(server: MCPServer[Any], hosts: frozenset[str], token: str) -> ASGIApp:
    """The server over streamable HTTP at `/mcp`, for requests with the token only, from no page of another site.

    hosts: what `hosts_of` returns. It keeps no sessions, so it holds nothing for clients that are gone.
    """
    checked_here = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_REQUEST,
        transport_security=checked_here,
    )

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = Request(scope)
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        problem = foreign(request, hosts)
        if problem is None and not (kind.lower() == "bearer" and hmac.compare_digest(given.encode(), token.encode())):
            problem = refused(401, "Send the header Authorization: Bearer TOKEN with the token of agentlearn mcp.")
            problem.headers["www-authenticate"] = "Bearer"
        await (app if problem is None else problem)(scope, receive, send)

    return guarded
