"""Exports of tracers: whatever the dialect, the same conversation with the same calls and tokens."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import DataError
from agentlearn.formats.traces import Trace, TracedConversation, TraceFormat, read_traces
from agentlearn.models.reply import CallResult

ASKED = "How warm is Oslo?"
CALL: dict[str, Any] = {"id": "c1", "name": "weather", "arguments": {"city": "Oslo", "days": 1}}
CHAT_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": json.dumps(CALL["arguments"])},
}
EXPECTED = [
    ("system", "Be brief.", []),
    ("user", ASKED, []),
    ("assistant", "", [("weather", CALL["arguments"])]),
    ("tool", "7", []),
    ("assistant", "7 degrees.", []),
]


def shown(one: TracedConversation) -> list[tuple[str, str, list[Any]]]:
    return [
        (
            message.role,
            "".join(part.text for part in message.parts if isinstance(part, CallResult)) or message.text,
            [(call.name, json.loads(call.arguments)) for call in message.calls],
        )
        for message in one.dialogue
    ]


def written(path: Path, rows: list[Any], name: str = "export.jsonl") -> Path:
    file = path / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def read(file: Path, form: TraceFormat) -> list[Trace]:
    return list(read_traces(file, form))


def otlp_value(value: object) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case list():
            return {"arrayValue": {"values": [otlp_value(one) for one in value]}}
        case dict():
            return {"kvlistValue": {"values": otlp_attributes(value)}}
        case _:
            return {"stringValue": value}


def otlp_attributes(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": otlp_value(value)} for key, value in fields.items()]


def otlp(span: str, fields: dict[str, Any], parent: str = "", **more: Any) -> dict[str, Any]:
    one = {"traceId": "t1", "spanId": span, "parentSpanId": parent, "startTimeUnixNano": f"{ord(span[-1])}" + "0" * 17}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [one | {"attributes": otlp_attributes(fields)} | more]}]}]}


def logfire(span: str, fields: dict[str, Any], parent: str = "") -> dict[str, Any]:
    started = {"start_timestamp": f"2026-01-01T00:00:0{ord(span[-1]) - ord('a')}Z", "kind": "span"}
    return {"trace_id": "t1", "span_id": span, "parent_span_id": parent, **started, "attributes": fields}


SPENT = {
    "gen_ai.response.model": "m-1",
    "gen_ai.usage.input_tokens": 20,
    "gen_ai.usage.output_tokens": 4,
    "gen_ai.usage.details.cache_read_tokens": 3,
}
PARTS: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
    {"role": "assistant", "parts": [{"type": "thinking", "content": "hm"}, {"type": "tool_call", **CALL}]},
    {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "name": "weather", "result": "7"}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "7 degrees."}]},
]
SYSTEM = [{"type": "text", "content": "Be brief."}]
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": ASKED},
    {"role": "assistant", "tool_calls": [CHAT_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "7"},
    {"role": "assistant", "content": "7 degrees."},
]
EVENTS = [{"event.name": f"gen_ai.{one['role']}.message", **one} for one in CHAT]
GEMINI = [
    {"role": "user", "parts": [{"text": ASKED}]},
    {"role": "model", "parts": [{"function_call": {"name": "weather", "args": CALL["arguments"]}}]},
    {"role": "user", "parts": [{"function_response": {"name": "weather", "response": {"result": "7"}}}]},
]
LANGCHAIN = [
    CHAT[0] | {"role": "system"},
    {"type": "x", **CHAT[1]},
    CHAT[2] | {"content": ""},
    CHAT[3] | {"role": "weather"},
]


def convention(start: int, end: int) -> dict[str, Any]:
    texts = {"gen_ai.input.messages": json.dumps(PARTS[start:end]), "gen_ai.output.messages": json.dumps([PARTS[end]])}
    return SPENT | texts | {"gen_ai.system_instructions": json.dumps(SYSTEM)}


def spread(end: int) -> dict[str, Any]:
    """As OpenLLMetry writes messages."""
    fields: dict[str, Any] = {}
    for prefix, messages in (("gen_ai.prompt", CHAT[:end]), ("gen_ai.completion", [CHAT[end]])):
        for number, one in enumerate(messages):
            fields |= {f"{prefix}.{number}.{key}": value for key, value in one.items() if key != "tool_calls"}
            for at, _ in enumerate(one.get("tool_calls", ())):
                call = {**CALL, "arguments": json.dumps(CALL["arguments"])}
                fields |= {f"{prefix}.{number}.tool_calls.{at}.{key}": value for key, value in call.items()}
    older = {"gen_ai.usage.prompt_tokens": 20, "gen_ai.usage.completion_tokens": 4, "gen_ai.request.model": "m-1"}
    return fields | older | {"gen_ai.usage.cache_read_input_tokens": 3}


def told(end: int) -> dict[str, Any]:
    """As pydantic-ai wrote messages before."""
    answer = {"event.name": "gen_ai.choice", "index": 0, "message": CHAT[end]}
    return SPENT | {"events": [*EVENTS[:end], answer]}


def observation(span: str, given: object, output: object, **more: Any) -> dict[str, Any]:
    usage = {"input": 17, "input_cache_read": 3, "output": 4, "total": 24}
    at = {"startTime": f"2026-01-01T00:00:0{ord(span[-1]) - ord('a')}Z", "type": "GENERATION", "model": "m-1"}
    return {"id": span, "traceId": "t1", **at, "input": given, "output": output, "usageDetails": usage, **more}


EXPORTS: dict[str, tuple[TraceFormat, list[Any]]] = {
    "conventions": ("otlp", [otlp("a", convention(0, 1), "r"), otlp("b", convention(0, 3), "r"), otlp("r", {"x": 1})]),
    "only new messages": ("otlp", [otlp("a", convention(0, 1)), otlp("b", convention(2, 3))]),
    "spread": ("otlp", [otlp("a", spread(2)), otlp("b", spread(4))]),
    "span events": (
        "otlp",
        [
            otlp("a", SPENT, events=[{"name": "details", "attributes": otlp_attributes(convention(0, 1))}]),
            otlp("b", SPENT, events=[{"name": "details", "attributes": otlp_attributes(convention(0, 3))}]),
        ],
    ),
    "rows": ("logfire", [logfire("b", told(4)), logfire("a", told(2))]),
    "rows as text": ("logfire", [logfire("a", told(2)), logfire("b", told(4)) | {"attributes": json.dumps(told(4))}]),
    "an agent around its calls": (
        "logfire",
        [
            logfire("a", convention(0, 1), "r"),
            logfire("b", convention(0, 3), "r"),
            logfire("r", convention(0, 3) | {"gen_ai.operation.name": "chat"}),
        ],
    ),
    "chat": (
        "langfuse",
        [observation("a", CHAT[:2], CHAT[2]), observation("b", json.dumps(CHAT[:4]), json.dumps(CHAT[4]))],
    ),
    "role of a tool": ("langfuse", [observation("a", LANGCHAIN[:2], CHAT[2]), observation("b", LANGCHAIN, CHAT[4])]),
    "bodies of requests": (
        "langfuse",
        [
            observation(
                "a",
                {"contents": GEMINI[:1], "config": {"system_instruction": "Be brief."}},
                {"candidates": [{"content": GEMINI[1]}]},
            ),
            observation(
                "b",
                {"contents": GEMINI, "config": {"system_instruction": "Be brief."}},
                {"content": {"parts": [{"text": "7 degrees."}], "role": "model"}},
            ),
        ],
    ),
    "one object": (
        "langfuse",
        [
            {
                "trace": {"id": "t1"},
                "observations": [observation("a", CHAT[:2], CHAT[2]), observation("b", CHAT[:4], CHAT[4])],
            }
        ],
    ),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_a_conversation_is_the_same_in_every_dialect(name: str, tmp_path: Path) -> None:
    form, rows = EXPORTS[name]
    (trace,) = read(written(tmp_path, rows), form)
    (one,) = trace.conversations()
    found = [(role, "7" if role == "tool" and "7" in text else text, calls) for role, text, calls in shown(one)]
    assert found == EXPECTED
    assert [(call.model, call.tokens) for call in one.calls.values()] == [("m-1", (20, 3, 4))] * 2
    assert [*one.calls] == [1, 2]


def test_whole_documents_and_lists_are_read_too(tmp_path: Path) -> None:
    rows = EXPORTS["chat"][1]
    for number, document in enumerate((rows, {"data": rows})):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(document, indent=1), encoding="utf-8")
        (trace,) = read(file, "langfuse")
        assert len(trace.conversations()) == 1


def test_sub_agents_have_conversations_of_their_own(tmp_path: Path) -> None:
    other = [{"role": "user", "content": "Name a city."}]
    rows = [
        observation("a", CHAT[:2], CHAT[2], parentObservationId="x"),
        observation("b", other, {"role": "assistant", "content": "Oslo"}, parentObservationId="y"),
        observation("c", CHAT[:4], CHAT[4], parentObservationId="x"),
        observation("d", other, None, level="ERROR"),
    ]
    (trace,) = read(written(tmp_path, rows), "langfuse")
    assert [sorted(one.spans) for one in trace.conversations()] == [["a", "c", "x"], ["b", "y"]]
    assert trace.failed == 1


def test_scores_are_read_where_each_program_keeps_them(tmp_path: Path) -> None:
    score = {"id": "s", "traceId": "t1", "name": "stars", "value": 4, "observationId": "a", "source": "ANNOTATION"}
    rows = [
        {"id": "t1", "sessionId": "s1", "userId": "u1", "scores": [score | {"config": {"minValue": 1, "maxValue": 5}}]},
        observation("a", CHAT[:2], CHAT[2]),
        {"traceId": "t1", "name": "good", "value": 0, "dataType": "BOOLEAN", "comment": "no"},
        {"traceId": "t1", "name": "tone", "value": 1, "dataType": "CATEGORICAL", "stringValue": "rude"},
    ]
    (trace,) = read(written(tmp_path, rows), "langfuse")
    assert (trace.session, trace.user) == ("s1", "u1")
    found = [(one.name, one.value, one.comment, one.span, one.by, one.scale) for one in trace.scores]
    assert found == [
        ("stars", 4, "", "a", "annotation", (1.0, 5.0)),
        ("good", False, "no", "", "", None),
        ("tone", "rude", "", "", "", None),
    ]
    feedback = {"logfire.feedback.name": "ok", "ok": False, "logfire.feedback.comment": "too cold"}
    (trace,) = read(written(tmp_path, [logfire("f", feedback, "a"), logfire("a", told(2))]), "logfire")
    assert [(one.name, one.value, one.comment, one.span) for one in trace.scores] == [("ok", False, "too cold", "a")]
    body = {
        "gen_ai.evaluation.name": "right",
        "gen_ai.evaluation.score.value": 1,
        "gen_ai.evaluation.explanation": "yes",
    }
    record = {"traceId": "t1", "spanId": "a", "attributes": otlp_attributes(body)}
    log = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    (trace,) = read(written(tmp_path, [log, otlp("a", spread(2))]), "otlp")
    assert [(one.name, one.value, one.comment, one.span) for one in trace.scores] == [("right", 1, "yes", "a")]


def test_a_trace_is_given_when_its_last_row_was_read(tmp_path: Path) -> None:
    rows = [observation("a", CHAT[:2], CHAT[2]) | {"traceId": trace} for trace in ("t1", "t2", "t1", "t3")]
    assert [one.id for one in read(written(tmp_path, rows), "langfuse")] == ["t2", "t1", "t3"]


def test_what_is_no_export_is_one_sentence_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, [observation("a", CHAT[:2], CHAT[2])])
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"id": ')
    with pytest.raises(DataError, match=r"^export.jsonl line 2 column \d+ is not JSON .*Nothing was imported$"):
        next(read_traces(file, "langfuse"))
    with pytest.raises(DataError, match=r"^other.jsonl holds no trace in the format otlp; choose another --format"):
        next(read_traces(written(tmp_path, [{"id": 1}], "other.jsonl"), "otlp"))


def test_calls_that_stand_in_the_text_of_a_message_are_calls(tmp_path: Path) -> None:
    span = {
        "traceId": "t", "id": "s", "type": "GENERATION", "model": "m", "startTime": "2026-01-01",
        "input": [{"role": "user", "content": ASKED}, {"role": "tool", "content": json.dumps([CHAT_CALL])}],
        "output": [{"role": "assistant", "content": "7 degrees."}],
    }  # fmt: skip
    (trace,) = read(written(tmp_path, [span]), "langfuse")
    assert shown(trace.conversations()[0]) == [EXPECTED[1], EXPECTED[2], EXPECTED[4]]


def test_the_bytes_of_a_recording_are_no_words(tmp_path: Path) -> None:
    heard = {"type": "blob", "modality": "audio", "content": "UklGRiQZ"}
    attributes = {
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": ASKED}, heard]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "7 degrees."}]}],
    }
    (trace,) = read(written(tmp_path, [{"trace_id": "t", "span_id": "s", "attributes": attributes}]), "logfire")
    assert shown(trace.conversations()[0]) == [("user", f"{ASKED}\n[audio]", []), EXPECTED[4]]
