"""Asking a model one question of a stage and reading its typed reply.

The schema tells a model what to write, but validation accepts anything under the key, in every output mode (tool,
native, prompted). `salvage` then takes the items out, so that one bad item, a wrong wrapping or a cut reply does not
lose the good items.

A reward may pass on what an end user wrote, so a reason is text by an unknown author. The stages see it between tags of
its own. No lesson may copy from it at length (`curate.rules`).

The stages load their prompts from this table and the run stores the texts from this table, so the two cannot differ.
"""

import json
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, WithJsonSchema
from pydantic_ai import Agent, ModelRetry, RunContext, TextOutput, ToolOutput, UsageLimits
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage
from pydantic_ai.output import OutputContext
from pydantic_core import from_json

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.config.options import LessonOptions
from agentlearn.models.call_context import CallContext, Stage, WorkUnit
from agentlearn.models.endpoint import Endpoint
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.text import storable
from agentlearn.types.experience import Library
from agentlearn.types.ids import derive_seed
from agentlearn.types.rendering import Rendered
from agentlearn.types.trajectory import Trajectory

ListKey = Literal["steps", "proposals"]
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


class StepsReply(BaseModel):
    """Reply of the summarise stage."""

    model_config = ConfigDict(extra="allow", defer_build=True)
    steps: Annotated[Any, WithJsonSchema(_STEPS)] = None


class ProposalsReply(BaseModel):
    """Reply of the compare and consolidate stages."""

    model_config = ConfigDict(extra="allow", defer_build=True)
    proposals: Annotated[Any, WithJsonSchema(_PROPOSALS)] = None


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


_REPLY_SCHEMA_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)(?:```|\Z)", re.DOTALL)
_ITEM_KEYS = frozenset({"op", "option", "operation", "action", "lesson", "text", "experience"})


def salvage(reply: object, key: ListKey) -> _Salvaged:
    """Return the items of a reply: an object with the key, a bare list, one item, or text that holds any of these."""
    if isinstance(reply, str):
        return _from_text(reply, key)
    if isinstance(reply, list):
        return _Salvaged(tuple(reply), ("wrong_key",))
    if isinstance(reply, dict):
        return _from_object(reply, key)
    return _Salvaged((), ("no_reply",))


def _from_object(reply: dict[str, object], key: ListKey) -> _Salvaged:
    inner = reply.get(key)
    if isinstance(inner, list):
        return _Salvaged(tuple(inner))
    if isinstance(inner, dict):
        return _Salvaged((inner,), ("object_not_array",))
    if isinstance(inner, str) and inner.strip():
        found = _from_text(inner, key)
        return found if found.items else _Salvaged((inner,), ("object_not_array",))
    if _ITEM_KEYS & reply.keys():
        return _Salvaged((reply,), ("object_not_array",))
    lists = [value for value in reply.values() if isinstance(value, list)]
    if len(lists) == 1:
        return _Salvaged(tuple(lists[0]), ("wrong_key",))
    return _Salvaged((), ("no_reply",))


def _from_text(text: str, key: ListKey) -> _Salvaged:
    if not text.strip():
        return _Salvaged((), ("no_reply",))
    for candidate in [*_REPLY_SCHEMA_FENCE.findall(text), text]:
        start = min((at for at in (candidate.find("{"), candidate.find("[")) if at >= 0), default=-1)
        if start < 0:
            continue
        try:
            value, _ = json.JSONDecoder().raw_decode(candidate[start:])
        except ValueError:
            partial = _partial(candidate[start:])
            if partial is None:
                continue
            found = salvage(partial, key)
            return _Salvaged(tuple(item for item in found.items if item), ("cut_json",))
        if isinstance(value, dict | list):
            return salvage(value, key)
    return _Salvaged((), ("prose",))


def _partial(text: str) -> object:
    """The complete values of JSON that ends too early; None when there are none."""
    try:
        return from_json(text, allow_partial=True)
    except ValueError:
        return None


MAX_RAW_CHARACTERS = 4_000
"""Largest number of characters of a reply that is stored."""


@dataclass(frozen=True, slots=True)
class _Raw:
    """A reply that does not fit the schema: text, or arguments that could not be parsed."""

    text: str


@dataclass
class _KeepRaw(AbstractCapability[Any]):
    """Pass an invalid structured reply on unchanged, for `salvage` to read, instead of asking again."""

    async def on_output_validate_error(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, error: ValidationError | ModelRetry
    ) -> Any:
        return _Raw(output if isinstance(output, str) else str(output))


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
    """The agent of one stage."""

    agent: Agent[None, Any]
    key: ListKey
    """Key of the reply object that holds the items."""

    async def ask(
        self,
        question: str,
        endpoint: Endpoint,
        unit: WorkUnit,
        *,
        history: tuple[ModelMessage, ...] = (),
    ) -> StageReply:
        """Ask once. Raises EndpointError when the call fails. A malformed reply does not raise; its items are kept.

        history: the conversation that the question continues.
        """
        try:
            with unit.traced() as tracing:
                result = await self.agent.run(
                    question,
                    model=endpoint.client(unit),
                    message_history=list(history) or None,
                    usage_limits=UsageLimits(request_limit=2),
                    capabilities=tracing,
                )
        except (UnexpectedModelBehavior, UsageLimitExceeded) as error:
            return StageReply(_Salvaged((), ("no_reply",)), raw=storable(str(error))[:MAX_RAW_CHARACTERS])
        output: object = result.output
        content = _content(output)
        return StageReply(
            salvage(split_thoughts(content).said if isinstance(content, str) else content, self.key),
            raw=storable(content if isinstance(content, str) else _json(output))[:MAX_RAW_CHARACTERS],
            messages=tuple(result.all_messages()),
        )


def stage_agent(instructions: str, key: ListKey) -> StageAgent:
    """An agent that replies through the tool `submit`, or in text when the model does not call tools."""
    schema: type[BaseModel] = StepsReply if key == "steps" else ProposalsReply
    output: Any = [ToolOutput(schema, name="submit", description="Hand in your result."), TextOutput(_Raw)]
    agent = Agent(None, output_type=output, instructions=instructions, capabilities=[_KeepRaw()], retries=0)
    return StageAgent(agent, key)


def _content(output: object) -> object:
    return output.text if isinstance(output, _Raw) else output.model_dump() if isinstance(output, BaseModel) else output


def _json(output: object) -> str:
    return json.dumps(output.model_dump() if isinstance(output, BaseModel) else output, default=str)


MAX_REASON_CHARACTERS = 1_000
"""Longer reasons keep their beginning and their end."""
_READ_CHARACTERS = 8 * MAX_REASON_CHARACTERS
"""Of a longer reason only the two ends are read at all."""
MAX_QUOTED_CHARACTERS = 160
"""Longer reasons that are quoted within a line keep their beginning."""
_HEAD, _TAIL = MAX_REASON_CHARACTERS * 2 // 3, MAX_REASON_CHARACTERS // 3
_WITHOUT_PICTURE = frozenset({"Cf", "Cs", "Co", "Cn"})
_BRACKETS = str.maketrans(dict.fromkeys("<＜﹤〈⟨", "‹") | dict.fromkeys(">＞﹥〉⟩", "›"))
_QUOTES = frozenset({"Pi", "Pf"})
_MORE_QUOTES = frozenset('"„‟‚‛`´')
_SHOWN_REASON_FENCE = re.compile(r"`{3,}|~{3,}")
_SPEAKER = re.compile(r"(?<!\w)(system|assistant|user|human|developer|tool|model)\s*[:：](?!\w)", re.IGNORECASE)
_INSTRUCTION = re.compile(r"\[\s*(/?\s*(?:inst|system|sys|user|assistant)[^\[\]]{0,20})\]", re.IGNORECASE)


def shown_reason(trajectory: Trajectory) -> str:
    """Return the reason of a decided verdict, made harmless; empty when there is none."""
    if trajectory.outcome != "ok" or trajectory.verdict is None:
        return ""
    return harmless_reason(trajectory.verdict.reason)


def reason_block(reason: str) -> str:
    """Return a reason between its tags, with a line break behind it; empty for an empty reason."""
    return f"<reason>\n{reason}\n</reason>\n" if reason else ""


def quoted_reason(reason: str) -> str:
    """Return a harmless reason for use within a line: short, between quotation marks, without any inside.

    It has no brackets of any script either, so that it cannot hold a label such as `[P1]`.
    """
    plain = unicodedata.normalize("NFKC", harmless_reason(reason))
    line = " ".join("".join(map(_within_quotes, plain)).split())
    room = MAX_QUOTED_CHARACTERS - len("“”")
    return f"“{line if len(line) <= room else _beginning(line, room - 1)}”"


def _beginning(line: str, room: int) -> str:
    """The beginning of a line with a mark at its end, without half a word unless the word is very long."""
    cut = line[:room]
    whole = cut.rpartition(" ")[0]
    return f"{whole if len(whole) > room // 2 else cut}…"


def _within_quotes(character: str) -> str:
    kind = unicodedata.category(character)
    if kind in _QUOTES or character in _MORE_QUOTES:
        return "'"
    if kind == "Ps" or character == "<":
        return "("
    return ")" if kind == "Pe" or character == ">" else character


def harmless_reason(text: str) -> str:
    """Return the text on one line of at most about 1,000 characters, without tags, fences and changes of speaker."""
    if len(text) > _READ_CHARACTERS:
        half = _READ_CHARACTERS // 2
        return _shortened(_plain(text[:half]), _plain(text[-half:]), len(text))
    plain = _plain(text)
    return plain if len(plain) <= MAX_REASON_CHARACTERS else _shortened(plain, plain, len(plain))


def _shortened(start: str, end: str, length: int) -> str:
    return f"{start[:_HEAD]} [… {length - _HEAD - _TAIL:,} characters left out …] {end[-_TAIL:]}"


def _plain(text: str) -> str:
    shown = "".join(_plain_character(c) for c in text).translate(_BRACKETS)
    line = " ".join(_SHOWN_REASON_FENCE.sub(" ", shown).split())
    return _INSTRUCTION.sub(r"(\1)", _SPEAKER.sub(r"\1 –", line))


def _plain_character(character: str) -> str:
    """A space for white space and control characters, and nothing for characters without a picture."""
    if character.isprintable():
        return character
    return "" if unicodedata.category(character) in _WITHOUT_PICTURE else " "


@dataclass(frozen=True, slots=True)
class StagePrompt:
    """Name and version of a prompt file."""

    name: str
    version: int
    package: str = "agentlearn.prompts"
    """Python package that holds the file `NAME/vVERSION.md`."""

    def load(self) -> Prompt:
        """Return the prompt's text and reference. Raises ConfigError when there is no such file."""
        return load_prompt(self.name, self.version, package=self.package)


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

    def load_all(self) -> tuple[Prompt, ...]:
        """Return every prompt, as the run stores them."""
        stages = (self.summarise, self.compare, self.compare_wrong, self.consolidate, self.repair)
        return tuple(stage.load() for stage in stages)


STAGE_PROMPTS = StagePrompts()
"""The released prompts. To release a new version, add its file and change the number above."""


@dataclass(frozen=True, slots=True)
class StageContext:
    """The model that writes the lessons, and one batch of one run."""

    call_context: CallContext
    endpoint: Endpoint
    """Model that writes the lessons."""
    seed: int
    """Seed of the run."""
    step: str
    """Position in the run, such as `epoch-1/2`; part of every work unit's name and seed."""
    library: Library
    shown: Rendered
    """The library as the stages read it."""
    options: LessonOptions = field(default_factory=LessonOptions)
    """Limits on proposals and on the library."""
    show_gold: bool = True
    """Whether stages see the expected answer; False when learning without labels."""
    show_reasons: bool = True
    """Whether stages see the reasons of verdicts; False without labels, and where they explain nothing."""
    threshold: float = 1.0
    """Reward from which an answer counts as right."""
    margin: float = 0.0
    """Rewards of a group that differ by no more than this count as equal."""
    prompts: StagePrompts = STAGE_PROMPTS

    def unit(self, stage: Stage, name: str) -> WorkUnit:
        """A work unit whose seed depends only on (run seed, stage, step, name), not on the run's id."""
        key = f"{self.step}/{name}"
        return WorkUnit(self.call_context, stage, key, derive_seed(self.seed, stage, key))

    def reason_of(self, trajectory: Trajectory) -> str:
        """The reason of its verdict as the stages see it; empty when there is none, or when they see none."""
        return shown_reason(trajectory) if self.show_reasons else ""


def verdict_words(reward: float | None, threshold: float) -> tuple[str, str]:
    """A reward as text: ("right" | "wrong", "0.00")."""
    return ("right" if reward is not None and reward >= threshold else "wrong", f"{reward or 0.0:.2f}")
