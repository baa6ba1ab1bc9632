"""Exports of tracers as conversations: OTLP in JSON, Langfuse and Logfire.

A span that says what a model was sent and what it answered is a call of a model. It says so by OpenTelemetry's
conventions for generative AI, by their older forms (OpenLLMetry, OpenInference, events), or in the input and output of
Langfuse. A call that was sent the whole of an earlier one goes on from it, so the calls of an agent are one
conversation, and sub-agents have conversations of their own. Where a call encloses others, the inner ones count.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agentlearn.data.files import PACKED, ending, file_rows, read_bytes, read_text, text_lines
from agentlearn.errors import DataError
from agentlearn.models.reply import CallResult, DialogueMessage, UnreadReply, fields_of, read_messages, written

TraceFormat = Literal["otlp", "langfuse", "logfire"]
_Json = dict[str, Any]

_TRACE = "traceId|trace_id|context.trace_id"
_SPAN = "spanId|span_id|context.span_id|id"
_PARENT = "parentSpanId|parent_span_id|parent_id|parentObservationId|parent_observation_id"
_START = "startTimeUnixNano|start_time|start_timestamp|startTime"
_INPUTS = "gen_ai.input.messages|input.messages|llm.input_messages|gen_ai.prompt|request_data|raw_input|input"
_OUTPUTS = "gen_ai.output.messages|output.messages|llm.output_messages|gen_ai.completion|response_data|response|output"
_SYSTEM = "gen_ai.system_instructions"
_SYSTEM_IN = "system|instructions|system_instruction|config.system_instruction"
_HELD_IN = "messages|contents|prompt|input"
_MODEL = "gen_ai.response.model|gen_ai.request.model|llm.model_name|model|providedModelName|provided_model_name"
_SESSION = "gen_ai.conversation.id|session.id|langfuse.session.id|sessionId|session_id"
_USER = "user.id|enduser.id|langfuse.user.id|userId|user_id"
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "choice": "assistant"}
_KNOWN_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))
_TOKENS = {
    "input": "gen_ai.usage.input_tokens|gen_ai.usage.prompt_tokens|llm.token_count.prompt",
    "output": "gen_ai.usage.output_tokens|gen_ai.usage.completion_tokens|llm.token_count.completion",
    "cached": "gen_ai.usage.cache_read.input_tokens|gen_ai.usage.details.cache_read_tokens"
    "|gen_ai.usage.cache_read_input_tokens|input_cache_read|prompt_details.cache_read",
}
_FEEDBACK, _EVALUATION = "logfire.feedback.name", "gen_ai.evaluation.name"


@dataclass(frozen=True, slots=True)
class TraceScore:
    """A score or a comment on a trace, on one of its spans, or on a session."""

    name: str
    value: object
    """A number, true or false, or the name of a category."""
    comment: str = ""
    trace: str = ""
    span: str = ""
    session: str = ""
    by: str = ""
    scale: tuple[float, float] | None = None
    """The lowest and the highest value, where the export names them."""
    right: str = ""
    """The right answer that a person wrote."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model."""

    span: str
    at: str
    asked: list[DialogueMessage]
    said: list[DialogueMessage]
    model: str
    tokens: tuple[int, int, int]
    """Tokens of the input, those of them that were read from a cache, and tokens of the output."""


@dataclass(slots=True)
class Conversation:
    """Calls of which each goes on from the one before."""

    dialogue: list[DialogueMessage]
    asked: int
    """Number of messages that the first call was sent."""
    calls: dict[int, ModelCall]
    """Each call by the number of the model's message in which its answer ends, from 1."""
    spans: set[str]
    """Its calls, and the spans around them."""

    def goes_on(self, call: ModelCall) -> list[DialogueMessage] | None:
        """Return what stands before the call's answer when it goes on from here; None when it does not."""
        before, sent = _keys(self.dialogue), _keys(call.asked)
        if sent[: len(before)] == before:
            return call.asked
        called = {one.id for one in self.dialogue[-1].calls if one.id}
        answers = {part.call for part in (call.asked[0].parts if call.asked else ()) if isinstance(part, CallResult)}
        return [*self.dialogue, *call.asked] if called & answers else None


@dataclass(slots=True)
class Trace:
    """What an export holds of one trace."""

    id: str
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    parents: dict[str, str] = field(default_factory=dict[str, str])
    scores: list[TraceScore] = field(default_factory=list[TraceScore])
    session: str = ""
    user: str = ""
    failed: int = 0
    """Calls that broke, so that nothing was answered."""

    def conversations(self) -> list[Conversation]:
        """Return the conversations in the order of their first calls."""
        around = {one.span: self._around(one.span) for one in self.calls}
        outer = set[str]().union(*around.values())
        found: list[Conversation] = []
        for call in sorted((one for one in self.calls if one.span not in outer), key=lambda one: one.at):
            for here in reversed(found):
                if (before := here.goes_on(call)) is not None:
                    break
            else:
                before, here = call.asked, Conversation([], len(call.asked), {}, set())
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


def read_traces(file: Path, form: TraceFormat) -> Iterator[Trace]:
    """Yield the traces of an export, each when its last row was read. JSON lines are read one at a time, twice.

    Raises DataError with the line for what is no export of this format, and before the first trace is yielded.
    """
    last: dict[str, int] = {}
    for number, row in enumerate(_rows(file)):
        last |= {trace: number for trace, _ in _facts(row, form)}
    if not last:
        raise DataError(
            f"{file.name} holds no trace in the format {form}; choose another --format, or export spans with their"
            " attributes, one JSON object per line"
        )
    traces: dict[str, Trace] = {}
    for number, row in enumerate(_rows(file)):
        held = dict.fromkeys(trace for trace, _ in _facts(row, form))
        for trace, add in _facts(row, form):
            add(traces.setdefault(trace, Trace(trace)))
        yield from (traces.pop(trace) for trace in held if last[trace] == number)


def _rows(file: Path) -> Iterator[_Json]:
    """Yield the objects of a file, those of JSON lines one at a time. Raises DataError with the line."""
    if ending(file) not in {".json", ".jsonl"}:
        yield from (dict(row.fields) for row in file_rows(file))
        return
    read_bytes(file, most=1)
    if ending(file) == ".json" or file.suffix == PACKED:
        text = read_text(file, file.name)
        with_lines = enumerate(text.split("\n"), start=1) if ending(file) == ".jsonl" else [(1, text)]
        yield from (row for number, line in with_lines for row in _objects(line, file.name, number))
        return
    with file.open("rb") as stream:
        for number, line in enumerate(text_lines(stream, file.name), start=1):
            yield from _objects(line, file.name, number)


def _objects(text: str, name: str, number: int) -> Iterator[_Json]:
    if not text.strip():
        return
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = number + getattr(error, "lineno", 1) - 1
        raise DataError(
            f"{name} line {line} is not JSON ({error}); export it again, or take the line out. Nothing was imported"
        ) from error
    rows = (
        next((value[key] for key in ("data", "rows") if isinstance(value.get(key), list)), None)
        if isinstance(value, dict)
        else value
    )
    for one in rows if isinstance(rows, list) else [value]:
        if not isinstance(one, dict):
            raise DataError(f"{name} line {number} holds {written(one)!r:.60} and no object; write one object per line")
        yield one


_Fact = tuple[str, Callable[[Trace], None]]


def _facts(row: _Json, form: TraceFormat) -> Iterator[_Fact]:
    """Yield what a row says, each with its trace."""
    if form == "langfuse":
        about = fields_of(row.get("trace")) or row
        parts = [*_listed(row.get("observations")), *_listed(row.get("scores")), *_listed(about.get("scores"))]
        if parts or about is not row or not _at(row, _TRACE):
            trace = str(_at(about, "id") or "")
            yield trace, partial(_add_about, session=str(_at(about, _SESSION) or ""), user=str(_at(about, _USER) or ""))
        for one in parts if about is not row else [*parts, *([row] if _at(row, _TRACE) else [])]:
            if fields := fields_of(one):
                trace = str(_at(fields, _TRACE) or _at(about, "id") or "")
                is_score = "value" in fields or "dataType" in fields or "data_type" in fields
                yield trace, partial(_add_score if is_score else _add_span, row=fields)
        return
    for group in [*_listed(row.get("resourceSpans")), *_listed(row.get("resourceLogs")), *_listed(row.get("batches"))]:
        for scope in _listed(_at(group, "scopeSpans|scopeLogs|instrumentationLibrarySpans")):
            for one in _listed(_at(scope, "spans|logRecords")):
                yield from _facts(one, form)
    if (trace := str(_at(row, _TRACE) or "")) and row.get("kind") != "pending_span":
        yield trace, partial(_add_span, row=row)


def _add_about(trace: Trace, session: str, user: str) -> None:
    trace.session, trace.user = trace.session or session, trace.user or user


def _add_score(trace: Trace, row: _Json) -> None:
    """Add a score of Langfuse."""
    limits = [_at(row, f"{name}|config.{name}") for name in ("minValue", "maxValue")]
    kind, value = _at(row, "dataType|data_type"), row.get("value")
    label = _at(row, "stringValue|string_value")
    right = str(_at(row, "longStringValue|long_string_value") or "") if kind == "CORRECTION" else ""
    trace.scores.append(
        TraceScore(
            name=str(row.get("name") or "score"),
            value=bool(value) if kind == "BOOLEAN" else label if kind in {"CATEGORICAL", "TEXT"} else value,
            comment=str(row.get("comment") or ""),
            trace=trace.id,
            span=str(_at(row, "observationId|observation_id") or ""),
            session=str(_at(row, _SESSION) or ""),
            by=str(_at(row, "authorUserId|author_user_id|source") or "").lower(),
            scale=(float(limits[0]), float(limits[1])) if None not in limits else None,
            right=right,
        )
    )


def _add_span(trace: Trace, row: _Json) -> None:
    """Add a span: a call of a model, a score, or only its place."""
    fields = {**row, **_attributes(row.get("attributes"))}
    span, parent = str(_at(row, _SPAN) or ""), str(_at(row, _PARENT) or "")
    events = [{**one, **_attributes(one.get("attributes"))} for one in _listed(_parsed(_at(row, "events|otel_events")))]
    body = {**fields, **(fields_of(_plain(row.get("body"))) or {})} if "body" in row else {}
    for one in (fields, body, *events):
        if name := _at(one, f"{_FEEDBACK}|{_EVALUATION}"):
            value = _at(one, "gen_ai.evaluation.score.value|gen_ai.evaluation.score.label")
            words = _at(one, "logfire.feedback.comment|gen_ai.evaluation.explanation")
            about = parent if one is fields and _FEEDBACK in one else span
            score = one.get(str(name)) if value is None else value
            trace.scores.append(TraceScore(str(name), score, str(words or ""), trace.id, about))
            return
    trace.parents.setdefault(span, parent)
    _add_about(trace, str(_at(fields, _SESSION) or ""), str(_at(fields, _USER) or ""))
    told = [one for one in events + [body] if str(_at(one, "event.name|event_name|name") or "").startswith("gen_ai.")]
    told += [one for one in _listed(_parsed(fields.get("events"))) if "event.name" in one]
    for one in told:
        fields = {**one, **fields} if _at(one, f"{_INPUTS}|{_OUTPUTS}") else fields
    choices = [one for one in told if _event(one) == "choice"]
    if row.get("type") not in (None, "GENERATION") and not _at(fields, "gen_ai.output.messages|gen_ai.completion"):
        return
    is_call = row.get("type") == "GENERATION" or any(
        one.startswith(("gen_ai.", "llm.", "request_data")) for one in fields
    )
    if not is_call or _at(fields, "gen_ai.operation.name") in {"invoke_agent", "execute_tool", "create_agent"}:
        return
    asked = _turns(_value(fields, _INPUTS), "user") or _turns([one for one in told if one not in choices], "user")
    output = choices or _value(fields, _OUTPUTS)
    said = [one for one in _turns(output, "assistant") if one.get("role", "assistant") == "assistant"]
    system = _turns(_parsed(fields.get(_SYSTEM)) or _at(fields_of(_parsed(output)) or {}, "instructions"), "system")
    if said:
        tokens = _tokens(fields)
        heard = _dialogue([*([] if any(one.get("role") == "system" for one in asked) else system), *asked])
        trace.calls.append(
            ModelCall(span, str(_at(row, _START) or ""), heard, _dialogue(said), str(_at(fields, _MODEL) or ""), tokens)
        )
    elif str(_at(row, "level|status.code|status.status_code|otel_status_code") or "").upper().endswith("ERROR"):
        trace.failed += 1


def _tokens(fields: _Json) -> tuple[int, int, int]:
    """Tokens of a call. What Langfuse names begins with the part that it counts."""
    given = fields_of(_parsed(_at(fields, "usageDetails|usage_details|usage"))) or {}
    read = {name: _at(fields, paths) for name, paths in _TOKENS.items()}
    for name in ("input", "output"):
        if read[name] is None:
            read[name] = sum(_count(count) for key, count in given.items() if key.startswith(name))
    return _count(read["input"]), _count(read["cached"] or _at(given, _TOKENS["cached"])), _count(read["output"])


def _count(value: object) -> int:
    try:
        return max(0, int(float(str(value))))
    except (ValueError, OverflowError):
        return 0


# Values of an export


def _at(row: _Json, names: str) -> Any:
    """What stands at the first of these names that says anything; a dot also reads inside."""
    for name in names.split("|"):
        found: Any = row.get(name)
        if found is None and "." in name:
            outer, _, inner = name.partition(".")
            found = _at(within, inner) if (within := fields_of(_parsed(row.get(outer)))) else None
        if found not in (None, ""):
            return found
    return None


def _value(fields: _Json, names: str) -> object:
    """What stands at the first of these names, also where it is spread over `NAME.0.content` and so on."""
    for name in names.split("|"):
        if (found := fields.get(name)) not in (None, "", []):
            return found
        spread = {key[len(name) + 1 :]: one for key, one in fields.items() if key.startswith(f"{name}.")}
        if any(key[:1].isdecimal() for key in spread):
            return _nested(spread)
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
        case {"arrayValue": found}:
            return [_plain(one) for one in (fields_of(found) or {}).get("values", ())]
        case {"kvlistValue": found}:
            return _attributes((fields_of(found) or {}).get("values", []))
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


def _event(one: _Json) -> str:
    """Who speaks in an event: `user` of `gen_ai.user.message`."""
    parts = str(_at(one, "event.name|event_name|name") or "").split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "gen_ai" else ""


def _turns(value: object, role: str) -> list[_Json]:
    """Return what was sent or answered as messages, or as items of Responses. role: of what names none."""
    value = _parsed(value)
    if value in (None, "", [], {}):
        return []
    if isinstance(value, list):
        if role == "assistant" and all("toolName" in one for one in _listed(value)) and _listed(value):
            value = [{"role": role, "content": [{**one, "type": "tool_call"} for one in _listed(value)]}]
        return [turn for one in value for turn in _turns(one, role)]
    one = fields_of(value)
    if one is None:
        return [{"role": role, "content": written(value)}]
    if "event.name" in one and "role" not in one:
        one = {**one, "role": _event(one)}
    if inner := fields_of(one.get("message")):
        return _turns(inner, role)
    if held := _listed(one.get("choices")) or _listed(one.get("candidates")):
        return _turns(held[0].get("message") or held[0].get("content") or held[0].get("text"), "assistant")
    if isinstance(one.get("output"), list) and "role" not in one:
        return _turns(one["output"], role)
    if "role" not in one and (held := _at(one, _HELD_IN)) is not None and role != "assistant":
        return [*_turns(_at(one, _SYSTEM_IN), "system"), *_turns(held, role)]
    if "role" not in one and "parts" not in one and "type" in one and "content" not in one and "text" not in one:
        return [one]  # an item of Responses
    content = fields_of(one.get("content"))
    if content and "parts" in content:
        return _turns(content, role)
    if not {"role", "parts", "content", "text"} & one.keys():
        return [{"role": role, "content": written(one)}]
    return [_message(one, role)]


def _message(one: _Json, role: str) -> _Json:
    """Return a message as Chat Completions has it. A tool may stand in the place of the role."""
    named = str(one.get("role") or role)
    said = _ROLES.get(named, named)
    message = {"role": said if said in _KNOWN_ROLES else "tool", "name": one.get("name") or named}
    parts = next((one[key] for key in ("parts", "content", "text") if one.get(key) is not None), None)
    message["content"] = [_part(part) for part in parts] if isinstance(parts, list) else parts
    calls = [call.get("tool_call", call) for call in _listed(_at(one, "tool_calls|additional_kwargs.tool_calls"))]
    message |= {"tool_calls": calls} if calls else {}
    message |= {"tool_call_id": _at(one, "tool_call_id|id")} if message["role"] == "tool" else {}
    return message | {key: one[key] for key in ("reasoning", "reasoning_content", "refusal") if one.get(key)}


def _part(part: object) -> object:
    """Return a part of a message as the reader of replies knows it."""
    fields = fields_of(part) or {}
    if call := fields_of(_at(fields, "function_call|functionCall")):
        return {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
    answer = fields_of(_at(fields, "function_response|functionResponse"))
    if answer or fields.get("type") == "tool_call_response":
        given = _at(answer or fields, "response|result|content")
        text = given if isinstance(given, str) else "" if given is None else written(given)
        return {
            "type": "tool_result",
            "tool_use_id": _at(answer or fields, "id"),
            "name": _at(answer or fields, "name"),
            "content": text,
        }
    return {"type": "thinking", "content": fields.get("text")} if fields.get("thought") is True else part


def _dialogue(turns: list[_Json]) -> list[DialogueMessage]:
    """Return messages as the reader of replies reads them; one that it cannot read stands as its JSON."""
    try:
        return read_messages(turns)
    except UnreadReply:
        pass
    found: list[DialogueMessage] = []
    for one in turns:
        try:
            found += read_messages([one])
        except UnreadReply:
            found += read_messages([{"role": one.get("role", "user"), "content": written(one.get("content", one))}])
    return found
