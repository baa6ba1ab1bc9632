"""Exports of tracers as conversations: OTLP in JSON, Langfuse and Logfire.

A span that says what a model was sent and what it answered is a call of a model. It says so by OpenTelemetry's
conventions for generative AI, by their older forms (OpenLLMetry, OpenInference, events), or in the input and output of
Langfuse. A call that was sent the whole of an earlier one goes on from it, so the calls of an agent are one
conversation, and sub-agents have conversations of their own. Where a call encloses others, the inner ones count.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agentlearn.data.files import PACKED, ending, file_rows, line_rows, read_bytes, text_lines
from agentlearn.data.row import NumberText, SourceRow
from agentlearn.errors import DataError
from agentlearn.models.reply import (
    CallResult,
    DialogueMessage,
    UnreadReply,
    fields_of,
    read_messages,
    read_usage,
    written,
)

TraceFormat = Literal["otlp", "langfuse", "logfire"]
_Json = dict[str, Any]

# Where things stand, in the words of each program. The first that says anything is read; a dot also reads inside.
_TRACE = "traceId|trace_id|context.trace_id"
_SPAN = "spanId|span_id|context.span_id|id"
_PARENT = "parentSpanId|parent_span_id|parent_id|parentObservationId|parent_observation_id"
_START = "startTimeUnixNano|start_time|start_timestamp|startTime"
_STATUS = "level|status.code|status.status_code|otel_status_code"
_OTEL_OUTPUT = "gen_ai.output.messages"
_INPUT = "gen_ai.input.messages|llm.input_messages|gen_ai.prompt|raw_input|input|request_data"
_OUTPUT = f"{_OTEL_OUTPUT}|llm.output_messages|gen_ai.completion|response|output|response_data"
_SYSTEM = "gen_ai.system_instructions|system|instructions|system_instruction|config.system_instruction"
_HELD_IN = "messages|contents|prompt|input|args"
_MODEL = "gen_ai.response.model|gen_ai.request.model|llm.model_name|model|providedModelName|provided_model_name"
_SESSION = "gen_ai.conversation.id|session.id|langfuse.session.id|sessionId|session_id"
_USER = "user.id|enduser.id|langfuse.user.id|userId|user_id"
_SENT = "gen_ai.usage.input_tokens|gen_ai.usage.prompt_tokens|llm.token_count.prompt"
_MADE = "gen_ai.usage.output_tokens|gen_ai.usage.completion_tokens|llm.token_count.completion"
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens|gen_ai.usage.details.cache_read_tokens|gen_ai.usage.cache_read_input_tokens"
)
_FEEDBACK, _EVALUATION = "logfire.feedback", "gen_ai.evaluation"
_NO_CALLS = frozenset(("invoke_agent", "create_agent", "execute_tool", "embeddings"))
_CONTENT = ("parts", "content", "text", "combined_chunk_content")
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "choice": "assistant"}
_READ_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))


@dataclass(frozen=True, slots=True)
class TraceScore:
    """A score or a comment on a trace or on one of its spans."""

    name: str
    value: object
    """A number, true or false, or the name of a category; None for a comment alone."""
    comment: str = ""
    span: str = ""
    """Empty: the whole trace."""
    by: str = ""
    scale: tuple[float, float] | None = None
    """The lowest and the highest value, where the export names them."""


@dataclass(frozen=True, slots=True)
class _TracedCall:
    """One call of a model."""

    span: str
    at: str
    """When it began; sorts."""
    asked: list[DialogueMessage]
    said: list[DialogueMessage]
    model: str
    tokens: tuple[int, int, int]
    """Tokens of the input, those of them that were read from a cache, and tokens of the output."""


@dataclass(slots=True)
class TracedConversation:
    """Calls of which each goes on from the one before."""

    dialogue: list[DialogueMessage]
    asked: int
    """Number of messages that the first call was sent."""
    calls: dict[int, _TracedCall] = field(default_factory=dict[int, _TracedCall])
    """Each call by the number of the model's message in which its answer ends, from 1."""
    spans: set[str] = field(default_factory=set[str])
    """Its calls, and the spans around them."""

    def goes_on(self, call: _TracedCall) -> list[DialogueMessage] | None:
        """Return what stands before the call's answer when it goes on from here; None when it does not."""
        before = _keys(self.dialogue)
        if _keys(call.asked)[: len(before)] == before:
            return call.asked
        called = {one.id for one in self.dialogue[-1].calls if one.id}
        new = [one for one in call.asked if one.role != "system"]
        results = {part.call for part in (new[0].parts if new else ()) if isinstance(part, CallResult)}
        return [*self.dialogue, *new] if called & results else None


def _keys(dialogue: Sequence[DialogueMessage]) -> list[object]:
    """What messages have in common wherever they are repeated: without thoughts, ids and instructions."""
    return [
        (
            one.role,
            one.text.strip(),
            [(call.name, _parsed(call.arguments)) for call in one.calls],
            [part.text for part in one.parts if isinstance(part, CallResult)],
        )
        for one in dialogue
        if one.role != "system"
    ]


@dataclass(slots=True)
class Trace:
    """What an export holds of one trace."""

    id: str
    calls: list[_TracedCall] = field(default_factory=list[_TracedCall])
    parents: dict[str, str] = field(default_factory=dict[str, str])
    scores: list[TraceScore] = field(default_factory=list[TraceScore])
    session: str = ""
    user: str = ""
    failed: int = 0
    """Calls that broke, so that nothing was answered."""

    def conversations(self) -> list[TracedConversation]:
        """Return the conversations in the order of their first calls."""
        around = {one.span: self._around(one.span) for one in self.calls}
        outer = set[str]().union(*around.values())
        found: list[TracedConversation] = []
        for call in sorted((one for one in self.calls if one.span not in outer), key=lambda one: one.at):
            for here in reversed(found):
                if (before := here.goes_on(call)) is not None:
                    break
            else:
                before, here = call.asked, TracedConversation([], len(call.asked))
                found.append(here)
            here.dialogue = [*before, *call.said]
            here.calls[sum(one.role == "assistant" for one in here.dialogue)] = call
            here.spans |= {call.span, *around[call.span]}
        return found

    def _around(self, span: str) -> set[str]:
        """The spans that enclose a span."""
        found = set[str]()
        while (span := self.parents.get(span, "")) and span not in found:
            found.add(span)
        return found

    def add(self, row: _Json) -> None:
        """Add what a row says: a trace, a score or an observation of Langfuse, a span, or an event."""
        attributes = _attributes(row.get("attributes"))
        events = _listed(_parsed(_at(row, "otel_events|events"))) + _listed(_parsed(attributes.get("events")))
        row = row | attributes | (fields_of(_plain(row.get("body"))) or {})
        self.session = self.session or str(_at(row, _SESSION) or "")
        self.user = self.user or str(_at(row, _USER) or "")
        span, parent = str(_at(row, _SPAN) or ""), str(_at(row, _PARENT) or "")
        if "value" in row:
            self._add_langfuse_score(row)
        elif not _at(row, _TRACE):
            return
        elif name := _at(row, f"{_FEEDBACK}.name"):
            self.scores.append(TraceScore(name, row.get(name), _at(row, f"{_FEEDBACK}.comment") or "", parent))
        elif name := _at(row, f"{_EVALUATION}.name"):
            value = _at(row, f"{_EVALUATION}.score.value|{_EVALUATION}.score.label")
            self.scores.append(TraceScore(name, value, _at(row, f"{_EVALUATION}.explanation") or "", span))
        else:
            self.parents.setdefault(span, parent)
            self._add_call(row, span, [one | _attributes(one.get("attributes")) for one in events])

    def _add_langfuse_score(self, row: _Json) -> None:
        value, label = row["value"], _at(row, "stringValue|string_value")
        limits = [_at(row, f"{name}|config.{name}") for name in ("minValue", "maxValue")]
        kind = _at(row, "dataType|data_type")
        self.scores.append(
            TraceScore(
                name=str(row.get("name")),
                value=bool(value) if kind == "BOOLEAN" else label if label is not None else value,
                comment=str(row.get("comment") or ""),
                span=str(_at(row, "observationId|observation_id") or ""),
                by=str(_at(row, "authorUserId|author_user_id|source") or "").lower(),
                scale=None if None in limits else (float(limits[0]), float(limits[1])),
            )
        )

    def _add_call(self, row: _Json, span: str, events: list[_Json]) -> None:
        """Add the call that a span is, when it is one that was answered."""
        row = {key: one for event in events for key, one in event.items() if key.startswith("gen_ai.")} | row
        is_call = any(key.startswith(("gen_ai.", "llm.", "request_data")) for key in row) and _at(row, _MODEL)
        if not (is_call or row.get("type") == "GENERATION") or _at(row, "gen_ai.operation.name") in _NO_CALLS:
            return
        output = _value(row, _OUTPUT)
        asked, said = _turns(_value(row, _INPUT), "user"), _turns(output, "assistant")
        told = [one for one in events if _speaker(one)]
        if told and not _value(row, _OTEL_OUTPUT):
            split = next((at for at, one in enumerate(told) if _speaker(one) == "choice"), len(told))
            while (
                split and _speaker(told[split - 1]) == "assistant"
            ):  # where no event is a choice, the last ones answer
                split -= 1
            asked, said = _turns(told[:split], "user"), _turns(told[split:], "assistant")
        if all(one.get("role") != "system" for one in asked):
            asked = _turns(_at(row, _SYSTEM) or _at(fields_of(_parsed(output)) or {}, "instructions"), "system") + asked
        at, model = str(_at(row, _START) or ""), str(_at(row, _MODEL) or "")
        if said:
            at = at.rjust(24, "0") if at.isdecimal() else at
            self.calls.append(_TracedCall(span, at, _dialogue(asked), _dialogue(said), model, _tokens(row)))
        self.failed += not said and str(_at(row, _STATUS) or "").upper() in {"ERROR", "2", "STATUS_CODE_ERROR"}


def _tokens(row: _Json) -> tuple[int, int, int]:
    sent, cached, made = (_at(row, one) for one in (_SENT, _CACHED, _MADE))
    if sent is None and made is None:
        given = fields_of(_parsed(_at(row, "usageDetails|usage_details|usage"))) or {}
        known = read_usage(given) or {}
        sent, made = known.get("prompt_tokens"), known.get("completion_tokens")
        cached = _at(known, "prompt_tokens_details.cached_tokens") or _at(
            given, "input_cache_read|prompt_details.cache_read"
        )
        if not known:  # names in Langfuse begin with the part that they count
            sent, made = (
                sum(_count(given[key]) for key in given if key.startswith(part)) for part in ("input", "output")
            )
    return _count(sent), _count(cached), _count(made)


def _count(value: object) -> int:
    return int(float(str(value))) if str(value).replace(".", "", 1).isdecimal() else 0


def read_traces(file: Path, form: TraceFormat) -> Iterator[Trace]:
    """Yield the traces of an export, each when its last row was read. JSON lines are read one at a time, twice.

    Raises DataError with the line for what is no export of this format, and before the first trace is yielded.
    """
    last = {trace: number for number, row in enumerate(_rows(file)) for trace, _ in _parts(row, form)}
    if not last:
        raise DataError(
            f"{file.name} holds no trace in the format {form}; choose another --format, or export its spans"
        )
    traces: dict[str, Trace] = {}
    for number, row in enumerate(_rows(file)):
        for trace, part in _parts(row, form):
            traces.setdefault(trace, Trace(trace)).add(part)
        yield from [traces.pop(trace) for trace in [*traces] if last[trace] == number]


def _rows(file: Path) -> Iterator[_Json]:
    """Yield the objects of a file, those of JSON lines one at a time. Raises DataError with the line."""
    if ending(file) != ".jsonl" or file.suffix == PACKED:
        yield from map(_fields, file_rows(file))
        return
    read_bytes(file, most=1)
    with file.open("rb") as stream:
        yield from map(_fields, line_rows(text_lines(stream, file.name), file.name))


def _fields(row: SourceRow) -> _Json:
    if row.fault:
        raise DataError(f"{row.fault} (an object is a span, a trace, or a list of them). Nothing was imported")
    return {name: _number(value) for name, value in row.fields.items()}


def _number(value: object) -> Any:
    """The value with numbers as JSON has them."""
    match value:
        case NumberText():
            return json.loads(value)
        case dict():
            return {key: _number(one) for key, one in value.items()}
        case list():
            return [_number(one) for one in value]
        case _:
            return value


def _parts(row: _Json, form: TraceFormat, trace: str = "") -> Iterator[tuple[str, _Json]]:
    """Yield what a row holds, each with the id of its trace."""
    for group in _listed(
        _at(row, "data|rows|resourceSpans|resourceLogs|batches|scopeSpans|scopeLogs|spans|logRecords")
    ):
        yield from _parts(group, form)
    if form == "langfuse" and (about := fields_of(row.get("trace")) or row):
        trace = str(_at(about, _TRACE) or (_at(about, "id") if "data" not in about else "") or "")
        for one in (row, about) if about is not row else (row,):
            for part in _listed(one.get("observations")) + _listed(one.get("scores")):
                yield trace, {"traceId": trace} | part
        row = about
    if (trace := str(_at(row, _TRACE) or trace)) and row.get("kind") != "pending_span":
        yield trace, row


# Values of an export


def _at(row: _Json, names: str) -> Any:
    """What stands at the first of these names that says anything; a dot also reads inside."""
    for name in names.split("|"):
        outer, dot, inner = name.partition(".")
        found = row.get(name)
        if found is None and dot and (within := fields_of(_parsed(row.get(outer)))):
            found = _at(within, inner)
        if found not in (None, ""):
            return found
    return None


def _value(row: _Json, names: str) -> object:
    """What stands at the first of these names, also where it is spread over `NAME.0.content` and so on."""
    for name in names.split("|"):
        spread = {key[len(name) + 1 :]: one for key, one in row.items() if key.startswith(f"{name}.")}
        found = _nested(spread) if any(key[:1].isdecimal() for key in spread) else row.get(name)
        if found not in (None, "", []):
            return found
    return None


def _nested(spread: _Json) -> object:
    """The value whose parts have these places: `{"0.role": "user"}` is `[{"role": "user"}]`."""
    groups: dict[str, _Json] = {}
    for key, one in spread.items():
        outer, _, inner = key.partition(".")
        groups.setdefault(outer, {})[inner] = one
    found = {key: inner[""] if "" in inner else _nested(inner) for key, inner in groups.items()}
    return [found[key] for key in sorted(found, key=int)] if all(map(str.isdecimal, found)) else found


def _attributes(given: object) -> _Json:
    """Attributes as an object: OTLP has a list of keys and values, and a table has JSON in a text."""
    given = _parsed(given)
    if isinstance(given, list):
        return {str(one.get("key")): _plain(one.get("value")) for one in _listed(given)}
    return fields_of(given) or {}


def _plain(value: object) -> object:
    """A value of OTLP."""
    match value:
        case {"stringValue": found} | {"boolValue": found} | {"doubleValue": found}:
            return found
        case {"intValue": found}:
            return int(found)
        case {"arrayValue": {"values": list(found)}}:
            return [_plain(one) for one in found]
        case {"kvlistValue": {"values": found}}:
            return _attributes(found)
        case _:
            return value


def _parsed(value: object) -> object:
    """What a JSON text holds; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _listed(value: object) -> list[_Json]:
    """The objects of a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


# What was said


def _speaker(event: _Json) -> str:
    """Who speaks in an event: `user` of `gen_ai.user.message`, `choice` of an answer; empty when nobody does."""
    named = str(_at(event, "event.name|event_name|name") or "").split(".")
    if named[0] == "gen_ai" and len(named) > 1:
        return str(event.get("role") or "") if named[1] == "unknown" else named[1]
    return "choice" if isinstance(event.get("message"), dict) else str(event.get("role") or "")


def _turns(value: object, role: str) -> list[_Json]:
    """Return what was sent or answered as messages, or as items of Responses. role: of what names none."""
    value = _parsed(value)
    if isinstance(value, list):
        return [turn for one in value for turn in _turns(one, role)]
    one = fields_of(value)
    if one is None:
        return [] if value in (None, "") else [{"role": role, "content": written(value)}]
    if "message" in one:
        return _turns(one["message"], role)
    if held := _listed(one.get("choices")) or _listed(one.get("candidates")):
        return _turns(_at(held[0], "message|content|text"), "assistant")
    content = fields_of(one.get("content"))
    if "role" in one or "parts" in one or _speaker(one):
        return [] if content and content.get("type") == "function" else [_message(one, role)]  # it defines a tool
    if content and "parts" in content:
        return _turns(content, role)
    if isinstance(one.get("output"), list) and role == "assistant":
        return _turns(one["output"], role)
    if role == "user" and (held := _at(one, _HELD_IN)) is not None:
        return [*_turns(_at(one, _SYSTEM), "system"), *_turns(held, role)]
    if "toolName" in one:
        one = {**one, "type": "tool_call"}
    is_said = any(key in one for key in _CONTENT)
    if "type" in one and not is_said:
        return [one]  # an item of Responses
    return [_message(one, role)] if is_said else [{"role": role, "content": written(one)}]


def _message(one: _Json, role: str) -> _Json:
    """Return a message as Chat Completions has it. The name of a tool may stand in the place of the role."""
    named = str(one.get("role") or _speaker(one) or role)
    said = _ROLES.get(named, named)
    content = next((one[key] for key in _CONTENT if one.get(key) is not None), None)
    message = {"role": said if said in _READ_ROLES else "tool", "name": one.get("name") or named}
    message["content"] = [_part(part) for part in content] if isinstance(content, list) else content
    calls = _listed(_at(one, "tool_calls|additional_kwargs.tool_calls"))
    held = _listed(_parsed(content)) if message["role"] in {"assistant", "tool"} else []
    if held and all(call.get("type") == "function" and "function" in call for call in held):  # Koog: calls as the text
        calls, message = held, message | {"role": "assistant", "content": None}
    if calls:
        message["tool_calls"] = [call.get("tool_call", call) for call in calls]
    if message["role"] == "tool":
        message["tool_call_id"] = _at(one, "tool_call_id|id")
    return message | {key: one[key] for key in ("reasoning", "reasoning_content", "refusal") if one.get(key)}


def _part(part: object) -> object:
    """Return a part of a message as the reader of replies knows it."""
    fields = fields_of(part) or {}
    if fields.get("type") == "blob":
        return {"type": str(fields.get("modality") or "file")}
    if call := fields_of(_at(fields, "function_call|functionCall")):
        return {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
    result = fields_of(_at(fields, "function_response|functionResponse")) or fields
    if result is not fields or fields.get("type") == "tool_call_response":
        given = _at(result, "response|result|content")
        return {
            "type": "tool_result",
            "tool_use_id": result.get("id"),
            "name": result.get("name"),
            "content": "" if given is None else written(given),
        }
    return {"type": "thinking", "content": fields.get("text")} if fields.get("thought") is True else part


def _dialogue(turns: list[_Json]) -> list[DialogueMessage]:
    """Return messages as the reader of replies reads them, or as their JSON where it cannot."""
    try:
        return read_messages(turns)
    except UnreadReply:
        plain = [{"role": one.get("role", "user"), "content": written(one.get("content", one))} for one in turns]
        return read_messages(plain)
