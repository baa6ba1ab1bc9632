"""Asking a model one question of a stage and reading its typed reply, and looking things up in long trajectories.

The schema tells a model what to write, but any reply is read: arguments of the tool, broken or not, and plain text.
`salvage` takes the items out, so that one bad item, a wrong wrapping or a cut reply does not lose the good items. A
question is one request, so no agent of pydantic-ai is run: it would take twice as much CPU time as all of our own work.

A trajectory that is too long for a request is a file that the reflector's programs read, in the code sandbox, which
holds nothing but that file. What they print was written by the authors of the trajectory, so it changes nothing about
whose text a lesson could repeat. Each result is in the journal before the model sees it; a resumed run takes it from
there, and runs the programs again only when it has to go on from them.

A reward may pass on what an end user wrote, so a reason is text by an unknown author. The stages see it between tags of
its own. No lesson may copy from it at length (`curate.next_version`).

The stages load their prompts from this table and the run stores the texts from this table, so the two cannot differ.
"""

import asyncio
import json
import re
import time
import unicodedata
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, get_args

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition
from pydantic_core import from_json

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.config.solve_options import OwnPrompt, StageName
from agentlearn.errors import EndpointError, ToolError
from agentlearn.models.call_context import WorkUnit
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.token_estimate import BYTES_PER_TOKEN
from agentlearn.prompts import Prompt, load_prompt, own_prompt
from agentlearn.rollout.runner import DEFAULT_SANDBOX
from agentlearn.rollout.tool_journal import commit_tool, tool_record
from agentlearn.rollout.transcript import step_text
from agentlearn.sandbox import CodeSandbox, SandboxLimits, Session, open_sandbox
from agentlearn.sandbox.python_tool import render_result
from agentlearn.text import storable
from agentlearn.types.trajectory import Step, Trajectory

MOST_CALLS = 8
"""Largest number of programs for one trajectory."""
MOST_PRINTED = 2_000
"""Largest number of characters of a result."""
_AT_ONCE = 4
"""Trajectories that are read at the same time; each has a file in memory or on disk."""
_PIECE = 1 << 16
"""Largest number of characters that are sent to the sandbox at once."""
_STEPS_AT_ONCE = 32
"""Steps whose text is made at once."""
_FILE_BYTES = 1 << 28
"""Largest size of the file."""
READ_TRAJECTORY = ToolDefinition(
    name="read_trajectory",
    description="Run a Python program that reads the file trajectory.txt, and return what it printed.",
    parameters_json_schema={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)


@dataclass(slots=True)
class TrajectoryFile:
    """One trajectory, and the programs that were run over it."""

    files: "TrajectoryFiles"
    steps: Sequence[Step]
    unit: WorkUnit
    stack: AsyncExitStack
    calls: int = 0
    _programs: list[str] = field(default_factory=list[str])
    """Programs that are to be run: the newest, and those before it whose results came from the journal."""
    _session: Session | None = None

    async def read(self, call: ToolCallPart) -> str:
        """Run the program of a tool call and return what it printed, or why there is nothing. Raises ToolError."""
        self.calls += 1
        code = call.args_as_dict().get("code")
        if call.tool_name != READ_TRAJECTORY.name or not isinstance(code, str) or self.calls > MOST_CALLS:
            return f"not run: at most {MOST_CALLS} calls of {READ_TRAJECTORY.name} with a text as 'code' are taken"
        record = tool_record(self.unit, READ_TRAJECTORY.name, code)
        self._programs.append(code)
        if (past := await self.unit.recorded(record.id)) is not None:
            return past.response
        started, session = time.perf_counter(), self._session or await self._open()
        results = [await session.run(program) for program in self._programs]
        self._programs.clear()
        text = storable(render_result(results[-1]))
        await commit_tool(self.unit, record, results[-1].status, text, time.perf_counter() - started)
        return text

    async def _open(self) -> Session:
        sandbox = await self.files.sandbox()
        session = self._session = await self.stack.enter_async_context(sandbox.open(self.unit.seed))
        first = "_file = open('trajectory.txt', 'w', encoding='utf-8', errors='replace')"
        for line in chain([first], map("_ = _file.write({!r})".format, _pieces(self.steps)), ["_file.close()"]):
            if (result := await session.run(line)).status != "ok":
                raise ToolError(f"the trajectory could not be put into a file: {result.error}")
        return session


@dataclass(slots=True)
class TrajectoryFiles:
    """Gives the summarise stage the trajectories that are too long for one request. It starts the sandbox if needed."""

    tokens: int
    """Largest size of a request (estimated), `history_tokens`."""
    name: str | None
    """Name of the sandbox; None: the usual one."""
    stack: AsyncExitStack
    """Ends the sandbox."""
    _sandbox: CodeSandbox | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    @property
    def shown(self) -> int:
        """Characters of the trajectory that a request shows."""
        return int(self.tokens * BYTES_PER_TOKEN) // 2

    @asynccontextmanager
    async def open(self, steps: Sequence[Step], unit: WorkUnit) -> AsyncGenerator[TrajectoryFile | None]:
        """Yield the trajectory as a file; None where it fits into a request."""
        characters = sum(len(one.content if one.kind == "tool" else one.text) for one in steps)
        characters += sum(len(call.arguments) for one in steps if one.kind == "model" for call in one.tool_calls)
        if characters <= self.tokens * BYTES_PER_TOKEN:
            yield None
            return
        async with self._slots, AsyncExitStack() as stack:
            yield TrajectoryFile(self, steps, unit, stack)

    async def sandbox(self) -> CodeSandbox:
        """Return the sandbox. Raises ConfigError where it cannot isolate code; ToolError."""
        async with self._starting:
            if self._sandbox is None:
                limits = SandboxLimits(file_bytes=_FILE_BYTES, scratch_bytes=_FILE_BYTES, output_chars=MOST_PRINTED)
                opened = open_sandbox(self.name or DEFAULT_SANDBOX, limits=limits)
                self._sandbox = await self.stack.enter_async_context(opened)
            return self._sandbox


def _pieces(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the whole transcript in pieces, without ever holding all of it."""
    for first in range(0, len(steps), _STEPS_AT_ONCE):
        some = enumerate(steps[first : first + _STEPS_AT_ONCE], start=first + 1)
        text = "".join(f"{step_text(number, step)}\n" for number, step in some)
        yield from (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


ListKey = Literal["steps", "proposals", "edits", "lessons"]
Fault = Literal["prose", "object_not_array", "cut_json", "wrong_key", "no_reply"]
"""What is wrong with the shape of a reply. prose: it has no JSON; object_not_array: one object instead of a list;
cut_json: the JSON ends too early; wrong_key: a list, but not under the requested key; no_reply: nothing usable."""
FAULTS: tuple[str, ...] = get_args(Fault)

_STRING = {"type": "string"}
_LABELS = {"type": "array", "items": _STRING}
_STEPS = {
    "type": "array",
    "items": {"type": "object", "properties": {"text": _STRING, "used": _LABELS}, "required": ["text"]},
}
_PROPOSALS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "op": {"type": "string", "enum": ["add", "modify", "merge", "delete"]},
            "lesson": _STRING,
            "target": _STRING,
            "targets": _LABELS,
            "rests_on": _LABELS,
            "tags": _LABELS,
        },
        "required": ["op"],
    },
}
_EDITS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "op": {"type": "string", "enum": ["add", "edit", "delete"]},
            "target": _STRING,
            "old": _STRING,
            "new": _STRING,
            "rests_on": _LABELS,
        },
        "required": ["op"],
    },
}


_SUBMIT, _TAKEN = "submit", "Final result processed."
"""Name of the tool through which a model replies, and its result, in pydantic-ai's words."""
_SCHEMAS: dict[str, dict[str, Any]] = {
    key: {"type": "object", "properties": {key: items}, "additionalProperties": True}
    for key, items in (("steps", _STEPS), ("proposals", _PROPOSALS), ("edits", _EDITS), ("lessons", _LABELS))
}
_TOOLS = {
    key: ToolDefinition(name=_SUBMIT, description="Hand in your result.", parameters_json_schema=schema, kind="output")
    for key, schema in _SCHEMAS.items()
}
_PARAMETERS = {key: ModelRequestParameters(output_mode="tool", output_tools=[tool]) for key, tool in _TOOLS.items()}
"""What a request offers, by the key of the reply. The schema tells what to write, and nothing is refused by it."""
_REFUSES = frozenset({"endpoint_400", "endpoint_422"})
"""How a service answers that does not hold replies to a schema."""


@dataclass(frozen=True, slots=True)
class _Salvaged:
    """The items of a reply, and the faults of its shape."""

    items: tuple[object, ...]
    """JSON values in the order of the reply."""
    faults: tuple[Fault, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether the reply has items or is a well-formed empty list."""
        return bool(self.items) or not self.faults


_REPLY_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)(?:```|\Z)", re.DOTALL)
_ITEM_KEYS = frozenset({"op", "option", "operation", "action", "lesson", "text", "experience", "new"})


def salvage(reply: object, key: ListKey) -> _Salvaged:
    """Return the items of a reply: an object with the key, a bare list, one item, or text that holds any of these."""
    match reply:
        case str():
            return _from_text(reply, key)
        case list():
            return _Salvaged(tuple(reply), ("wrong_key",))
        case dict():
            inner, lists = reply.get(key), [value for value in reply.values() if isinstance(value, list)]
            if isinstance(inner, list):
                return _Salvaged(tuple(inner))
            if isinstance(inner, str) and inner.strip() and (found := _from_text(inner, key)).items:
                return found
            if isinstance(inner, dict) or (isinstance(inner, str) and inner.strip()):
                return _Salvaged((inner,), ("object_not_array",))
            if _ITEM_KEYS & reply.keys():
                return _Salvaged((reply,), ("object_not_array",))
            if len(lists) == 1:
                return _Salvaged(tuple(lists[0]), ("wrong_key",))
        case _:
            pass
    return _Salvaged((), ("no_reply",))


def _from_text(text: str, key: ListKey) -> _Salvaged:
    if not text.strip():
        return _Salvaged((), ("no_reply",))
    for candidate in [*_REPLY_FENCE.findall(text), text]:
        start = min((at for at in (candidate.find("{"), candidate.find("[")) if at >= 0), default=-1)
        if start < 0:
            continue
        try:
            value, end = json.JSONDecoder().raw_decode(candidate[start:])
        except ValueError:
            with suppress(ValueError):  # JSON that ends too early may have complete values
                found = salvage(from_json(candidate[start:], allow_partial=True), key)
                return _Salvaged(tuple(item for item in found.items if item), ("cut_json",))
            continue
        if isinstance(value, dict) and _ITEM_KEYS & value.keys() and key not in value:
            further = _further_objects(candidate[start + end :])
            if further.items or further.faults:
                return _Salvaged((value, *further.items), further.faults or ("wrong_key",))
        if isinstance(value, dict | list):
            return salvage(value, key)
    return _Salvaged((), ("prose",))


def _further_objects(text: str) -> _Salvaged:
    """Return the objects that the text starts with, one after the other; the fault says when the last is cut off."""
    items: list[object] = []
    while (text := text.lstrip(" \t\r\n,")).startswith("{"):
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            return _Salvaged(tuple(items), ("cut_json",))
        items.append(value)
        text = text[end:]
    return _Salvaged(tuple(items))


MAX_RAW_CHARACTERS = 4_000
"""Largest number of characters of a reply that is stored."""


@dataclass(frozen=True, slots=True)
class StageReply:
    """A stage's reply."""

    salvaged: _Salvaged
    """The items of the reply."""
    raw: str
    """The text that the model wrote, at most 4,000 characters."""
    messages: tuple[ModelMessage, ...] = ()
    """The conversation so far, for a repair round; empty when the model gave no reply."""


@dataclass(frozen=True, slots=True)
class StageAgent:
    """Asks a model the questions of one stage. It replies through the tool `submit`, or in text."""

    instructions: str
    key: ListKey
    """Key of the reply object that holds the items."""
    most: int | None = None
    """Largest number of items that a reply held to the schema has."""

    async def ask(
        self,
        question: str,
        endpoint: Endpoint,
        unit: WorkUnit,
        *,
        history: tuple[ModelMessage, ...] = (),
        held: bool = False,
        file: TrajectoryFile | None = None,
    ) -> StageReply:
        """Ask once. Raises EndpointError when the call fails. A malformed reply does not raise; its items are kept.

        history: the conversation that the question continues. held: have the service hold the reply to the schema, if
        it can; for a model that wrote something else before. file: what the model may run programs over before it
        replies; raises ToolError when none can be run.
        """
        called = (one for one in (history[-1].parts if history else ()) if isinstance(one, ToolCallPart))
        taken = (ToolReturnPart(one.tool_name, _TAKEN, tool_call_id=one.tool_call_id) for one in called)
        asked = ModelRequest(parts=[*taken, UserPromptPart(question)], instructions=self.instructions)
        client = endpoint.client(unit, history_tokens=None if file is None else file.files.tokens)
        held = held and client.profile.get("supports_json_schema_output", False)
        with unit.traced() as tracing:
            messages: list[ModelMessage] = [*history, asked]

            async def reply(held: bool) -> ModelResponse:
                offered = self._held if held else _PARAMETERS[self.key]
                reads = file is not None and file.calls < MOST_CALLS
                return await model_request(
                    client,
                    messages,
                    model_request_parameters=replace(offered, function_tools=[READ_TRAJECTORY]) if reads else offered,
                    instrument=tracing[0].settings if tracing else None,
                )

            try:
                response = await reply(held)
            except EndpointError as error:
                if not held or error.code not in _REFUSES:
                    raise
                response = await reply(held=False)
            while file is not None and file.calls < MOST_CALLS and (called := response.tool_calls):
                if called[0].tool_name == _SUBMIT:
                    break
                results = [ToolReturnPart(one.tool_name, await file.read(one), one.tool_call_id) for one in called]
                messages += [response, ModelRequest(parts=results, instructions=self.instructions)]
                response = await reply(held=False)
        calls = (one for one in response.parts if isinstance(one, ToolCallPart) and one.tool_name == _SUBMIT)
        call = next(calls, None)
        given = response.text or "" if call is None else call.args or {}
        text = given if isinstance(given, str) else json.dumps(given, default=str)
        return StageReply(
            salvage(split_thoughts(text).said if call is None else given, self.key),
            raw=storable(text)[:MAX_RAW_CHARACTERS],
            messages=(*messages, response) if text else (),  # an empty reply has nothing to repair
        )

    @property
    def _held(self) -> ModelRequestParameters:
        """What a request asks for that holds the reply to the schema."""
        items = _SCHEMAS[self.key]["properties"][self.key] | ({} if self.most is None else {"maxItems": self.most})
        schema = {"type": "object", "properties": {self.key: items}, "required": [self.key]}
        output = OutputObjectDefinition(json_schema={**schema, "additionalProperties": True}, name=self.key)
        return ModelRequestParameters(output_mode="native", output_object=output)


MAX_REASON_CHARACTERS = 1_000
"""Longer reasons keep their beginning and their end."""
_READ_CHARACTERS = 8 * MAX_REASON_CHARACTERS
"""Of a longer reason only the two ends are read at all."""
MAX_QUOTED_CHARACTERS = 160
"""Longer reasons that are quoted within a line keep their beginning."""
_HEAD, _TAIL = MAX_REASON_CHARACTERS * 2 // 3, MAX_REASON_CHARACTERS // 3
_WITHOUT_PICTURE = frozenset({"Cf", "Cs", "Co", "Cn"})
_BRACKETS = str.maketrans(dict.fromkeys("<＜﹤〈⟨", "‹") | dict.fromkeys(">＞﹥〉⟩", "›"))
_QUOTES = frozenset('"„‟‚‛`´')
_FENCE = re.compile(r"`{3,}|~{3,}")
_SPEAKER = re.compile(r"(?<!\w)(system|assistant|user|human|developer|tool|model)\s*[:：](?!\w)", re.IGNORECASE)
_INSTRUCTION = re.compile(r"\[\s*(/?\s*(?:inst|system|sys|user|assistant)[^\[\]]{0,20})\]", re.IGNORECASE)


def shown_reason(trajectory: Trajectory) -> str:
    """Return the reason of a decided verdict, made harmless; empty when there is none."""
    if trajectory.outcome != "ok" or trajectory.verdict is None:
        return ""
    return harmless_reason(trajectory.verdict.reason)


def quoted_reason(reason: str) -> str:
    """Return a harmless reason for use within a line: short, between quotation marks, without any inside.

    It has no brackets of any script either, so that it cannot hold a label such as `[P1]`.
    """
    plain = unicodedata.normalize("NFKC", harmless_reason(reason))
    written = list[str]()
    for one in plain:
        kind = unicodedata.category(one)
        if kind in {"Pi", "Pf"} or one in _QUOTES:
            written.append("'")
        else:
            written.append("(" if kind == "Ps" or one == "<" else ")" if kind == "Pe" or one == ">" else one)
    line, room = " ".join("".join(written).split()), MAX_QUOTED_CHARACTERS - len("“”")
    if len(line) > room:  # without half a word at the end, unless the word is very long
        cut = line[: room - 1]
        whole = cut.rpartition(" ")[0]
        line = f"{whole if len(whole) > (room - 1) // 2 else cut}…"
    return f"“{line}”"


def harmless_reason(text: str) -> str:
    """Return the text on one line of at most about 1,000 characters, without tags, fences and changes of speaker."""

    def plain(part: str) -> str:
        # a space for white space and control characters, and nothing for characters without a picture
        seen = (c if c.isprintable() else "" if unicodedata.category(c) in _WITHOUT_PICTURE else " " for c in part)
        line = " ".join(_FENCE.sub(" ", "".join(seen).translate(_BRACKETS)).split())
        return _INSTRUCTION.sub(r"(\1)", _SPEAKER.sub(r"\1 –", line))

    half, length = _READ_CHARACTERS // 2, len(text)
    if length > _READ_CHARACTERS:
        start, end = plain(text[:half]), plain(text[-half:])
    else:
        start = end = plain(text)
        length = len(start)
        if length <= MAX_REASON_CHARACTERS:
            return start
    return f"{start[:_HEAD]} [… {length - _HEAD - _TAIL:,} characters left out …] {end[-_TAIL:]}"


@dataclass(frozen=True, slots=True)
class StagePrompt:
    """Name and version of a prompt file."""

    name: str
    version: int
    package: str = "agentlearn.prompts"
    """Python package that holds the file `NAME/vVERSION.md`."""
    own: OwnPrompt | None = None
    """A user's text in its place."""

    def load(self) -> Prompt:
        """Return the prompt's text and reference. Raises ConfigError for a missing file, or a user's unknown hole."""
        released = load_prompt(self.name, self.version, package=self.package)
        return released if self.own is None else own_prompt(released, self.name, self.own)


@dataclass(frozen=True, slots=True)
class StagePrompts:
    """The prompts that one run uses."""

    summarise: StagePrompt = StagePrompt("summarise", 1)
    compare: StagePrompt = StagePrompt("compare", 1)
    compare_wrong: StagePrompt = StagePrompt("compare_wrong", 1)
    """In place of `compare` where no attempt was right."""
    consolidate: StagePrompt = StagePrompt("consolidate", 1)
    repair: StagePrompt = StagePrompt("repair", 1)
    """Sent once when items of a reply were refused, by the compare and the consolidate stage."""
    once: StagePrompt = StagePrompt("once", 1)
    """In place of the three stages, for a whole batch."""
    look_up: StagePrompt = StagePrompt("look_up", 1)
    """After `summarise` where a trajectory is too long for a request."""

    @classmethod
    def of(cls, own: Mapping[StageName, OwnPrompt], *, document: bool = False) -> "StagePrompts":
        """Return the prompts of a run, with a user's own among them. Raises ConfigError for unknown holes.

        document: whether the run improves a document, which other prompts ask for.
        """
        released = DOCUMENT_PROMPTS if document else STAGE_PROMPTS
        mine = {stage: replace(getattr(released, stage), own=text) for stage, text in own.items()}
        found = replace(released, **mine)
        found.load_all()
        return found

    def load_all(self) -> tuple[Prompt, ...]:
        """Return every prompt, as the run stores them."""
        stages = (self.summarise, self.compare, self.compare_wrong, self.consolidate, self.repair, self.look_up)
        return tuple(stage.load() for stage in (*stages, self.once))


DOCUMENT_PROMPTS = StagePrompts(
    compare=StagePrompt("document_compare", 1),
    compare_wrong=StagePrompt("document_compare", 1),
    consolidate=StagePrompt("document_consolidate", 1),
)
"""The released prompts where a run improves a document."""
STAGE_PROMPTS = StagePrompts()
"""The released prompts. To release a new version, add its file and change the number above."""
