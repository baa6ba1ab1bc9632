"""Read traces that others published, and compare each call with what stands in the export and with other readers.

`python -m scripts.bench.public_traces --langfuse CLONE --logfire CLONE`, with clones of langfuse/langfuse (whose tests
hold exports of twenty frameworks, and for most calls the messages as Langfuse's own code reads them) and of
pydantic/logfire (whose tests hold the spans of many instrumentations). Nothing of the clones is run.
"""

import argparse
import ast
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentlearn.formats.traces import read_traces
from agentlearn.models.reply import CallResult, DialogueMessage

_LANGFUSE = "worker/src/__tests__/chatml/framework-traces"
Said = tuple[str, list[str]]
"""All words without white space, results of tools with them, and the names of the called tools."""


def main() -> None:
    """Print what was read of each export, and every difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--langfuse", type=Path, required=True, help="clone of langfuse/langfuse")
    parser.add_argument("--logfire", type=Path, required=True, help="clone of pydantic/logfire")
    chosen = parser.parse_args()
    for found in (_langfuse(chosen.langfuse / _LANGFUSE), _logfire(chosen.logfire / "tests")):
        print("; ".join(f"{name} {number}" for name, number in found.items()), "\n")


def _ours(messages: Sequence[DialogueMessage]) -> Said:
    shown = [one for one in messages if one.role != "system"]
    words = [one.text + "".join(part.text for part in one.parts if isinstance(part, CallResult)) for one in shown]
    return _packed("".join(words)), [call.name for one in shown for call in one.calls]


def _packed(text: str) -> str:
    """The text without white space and quotation marks, which JSON writes in several ways."""
    return "".join(text.encode().decode("unicode_escape", "replace").split()).replace('"', "").replace("\\", "")


def _langfuse(folder: Path) -> Counter[str]:
    found = Counter[str]()
    for file in sorted(folder.glob("*.trace.json")):
        given = json.loads(file.read_text(encoding="utf-8"))
        other = file.with_name(file.name.replace(".trace.", ".chatml."))
        read = json.loads(other.read_text(encoding="utf-8")) if other.is_file() else {}
        spans = {one["id"]: one for one in given["observations"]}
        (trace,) = read_traces(file, "langfuse")
        found.update(traces=1, unread=not trace.calls, calls=len(trace.calls), scores=len(trace.scores))
        found["scores that differ"] += len(trace.scores) != len(given["trace"]["scores"])
        for call in trace.calls:
            usage = spans[call.span].get("inputUsage") or 0, spans[call.span].get("outputUsage") or 0
            found["usage that differs"] += usage != (call.tokens[0], call.tokens[2])
            for side, mine in (("input", call.asked), ("output", call.said)):
                theirs = read.get(call.span, {}).get(side, {}).get("data")
                if not isinstance(theirs, list) or not any(one.get("role") for one in theirs):
                    found["sides that Langfuse does not read"] += 1
                    continue
                shown = [one for one in theirs if one.get("role") != "system"]
                words = _packed("".join(_text(one.get("content")) for one in shown))
                calls = [_name(one) for message in shown for one in message.get("tool_calls") or ()]
                _count(found, "sides", file.stem, _ours(mine), (words, calls))
    return found


def _name(call: dict[str, Any]) -> str:
    return str(call.get("name") or (call.get("function") or {}).get("name"))


def _text(content: object) -> str:
    match content:
        case str():
            return content
        case list():
            return "".join(_text(one.get("text") or one.get("content")) for one in content if isinstance(one, dict))
        case None:
            return ""
        case _:
            return json.dumps(content)


def _count(found: Counter[str], what: str, name: str, ours: Said, theirs: Said) -> None:
    found[what] += 1
    if ours != theirs:
        found[f"{what} that differ"] += 1
        print(f"{name}: {ours[1]} {theirs[1]}\n  ours   {ours[0][:300]}\n  theirs {theirs[0][:300]}")


def _logfire(tests: Path) -> Counter[str]:
    """Read the spans that the tests of Logfire expect, as rows of its export."""
    found, form = Counter[str](), "logfire"
    with TemporaryDirectory() as folder:
        for name, rows in _expected_spans(tests):
            file = Path(folder, "rows.json")
            file.write_text(json.dumps(rows, default=str), encoding="utf-8")
            calls = [call for trace in read_traces(file, form) for call in trace.calls]
            found.update(traces=bool(calls), calls=len(calls))
            spans = {one["span_id"]: one["attributes"] for one in rows}
            for call in calls:
                about = spans[call.span]
                sent, made = (about.get(f"gen_ai.usage.{one}_tokens") for one in ("input", "output"))
                if isinstance(sent, int) and isinstance(made, int):
                    _count(found, "usage", name, (f"{call.tokens[0]}, {call.tokens[2]}", []), (f"{sent}, {made}", []))
                for key, mine in (("gen_ai.input.messages", call.asked), ("gen_ai.output.messages", call.said)):
                    if isinstance(messages := about.get(key), list):
                        _count(found, "sides", name, _ours(mine), _told(messages))
    return found


def _told(messages: list[dict[str, Any]]) -> Said:
    """What messages of OpenTelemetry's conventions say."""
    words, calls = "", list[str]()
    for part in (part for one in messages if one.get("role") != "system" for part in one.get("parts", ())):
        match part.get("type"):
            case "text":
                words += str(part.get("content"))
            case "tool_call":
                calls.append(str(part.get("name")))
            case "tool_call_response":
                words += _text(part.get("result", part.get("response")))
            case "blob":
                words += f"[{part.get('modality') or 'file'}]"
            case _:
                pass
    return _packed(words), calls


def _expected_spans(tests: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for file in sorted(tests.glob("otel_integrations/test_*.py")):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test"):
                lists = (_literal(one) for one in ast.walk(function) if isinstance(one, ast.List) and one.elts)
                spans = [
                    one
                    for one in lists
                    if all(isinstance(s, dict) and {"attributes", "context"} <= s.keys() for s in one)
                ]
                if spans:
                    yield f"{file.stem}:{function.name}", [_row(one) for one in spans[-1]]


def _row(span: dict[str, Any]) -> dict[str, Any]:
    about, parent = span["context"], span.get("parent") or {}
    return {
        "trace_id": str(about.get("trace_id")),
        "span_id": str(about.get("span_id")),
        "parent_span_id": str(parent["span_id"]) if parent else None,
        "start_timestamp": str(span.get("start_time")),
        "kind": "span",
        "attributes": span["attributes"],
        "otel_events": span.get("events"),
    }


def _literal(node: ast.expr) -> Any:
    """The value of a literal; what is none, such as a matcher of the tests, as its text."""
    match node:
        case ast.Dict():
            return {_literal(key): _literal(one) for key, one in zip(node.keys, node.values, strict=True) if key}
        case ast.List() | ast.Tuple():
            return [_literal(one) for one in node.elts]
        case _:
            try:
                return ast.literal_eval(node)
            except ValueError:
                return f"<{ast.unparse(node)[:30]}>"


if __name__ == "__main__":
    main()
