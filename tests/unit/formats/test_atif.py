"""What is written as ATIF is read back by our own reader: the same messages, calls and results."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from agentlearn import Recorder
from agentlearn.cli.app import run
from agentlearn.errors import DataError
from agentlearn.formats.export import to_atif
from agentlearn.formats.session_files import AgentSession, Reading
from agentlearn.live.sessions import record_whole
from agentlearn.store import read_store
from agentlearn.types.trajectory import STATUS
from tests.support.agent_sessions import STORY, write

CONVERSATION: list[ModelMessage] = [
    ModelRequest(
        parts=[UserPromptPart(["<task>Count the files.</task>", BinaryContent(b"\x89PNG", media_type="image/png")])],
        instructions="Be brief.",
    ),
    ModelResponse(
        parts=[
            ThinkingPart("There may be many."),
            TextPart("I look."),
            ToolCallPart("ls", '{"path": "."}', "c1"),
            ToolCallPart("ls", "not json", "c2"),
        ],
        usage=RequestUsage(input_tokens=10, output_tokens=4),
    ),
    ModelRequest(
        parts=[
            ToolReturnPart("ls", "a\nb", "c1"),
            ToolReturnPart("ls", "bad arguments", "c2", metadata={STATUS: "failed"}),
            UserPromptPart("And now?"),
        ],
        instructions="Be brief.",
    ),
    ModelResponse(parts=[TextPart("Two.")]),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Recorder("bot", tmp_path / "store") as recorder:
        recorder.record_sync(CONVERSATION, model="m")
    return tmp_path / "store"


def written(store: Path) -> dict[str, Any]:
    with read_store(store) as reader:
        return to_atif(reader.text(reader.trajectories(reader.runs()[0].run)[0].id))


def entries(session: AgentSession) -> list[tuple[str, str, str, str, bool]]:
    return [(one.kind, one.text, one.tool, one.call, bool(one.failed)) for one in session.entries]


def test_a_rollout_comes_back_with_the_same_messages_calls_and_results(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.atif.json"
    file.write_text(json.dumps(written(store)), encoding="utf-8")
    (session,) = Reading(file)
    assert session.model == "m"
    assert entries(session) == [
        ("user", "<task>Count the files.</task>\n[image]", "", "", False),
        ("model", "I look.", "", "", False),
        ("call", '{"path": "."}', "ls", "c1", False),
        ("call", "not json", "ls", "c2", False),
        ("result", "a\nb", "ls", "c1", False),
        ("result", "bad arguments", "ls", "c2", True),
        ("user", "And now?", "", "", False),
        ("model", "Two.", "", "", False),
    ]


def test_the_document_keeps_the_rules_of_the_format(store: Path) -> None:
    document = written(store)
    steps = document["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    assert [step["source"] for step in steps] == ["system", "user", "agent", "user", "agent"]
    for step in steps:
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        assert {one["source_call_id"] for one in step.get("observation", {"results": []})["results"]} <= calls
        assert all(isinstance(call["arguments"], dict) for call in step.get("tool_calls", ()))
        assert step["source"] == "agent" or not step.keys() & {"tool_calls", "reasoning_content", "metrics"}
    assert steps[1]["message"][1]["source"]["media_type"] == "image/png"
    assert steps[2]["reasoning_content"] == "There may be many."
    assert document["final_metrics"]["total_prompt_tokens"] == 10


@pytest.mark.parametrize("form", ["ATIF", "Claude Code", "Codex"])
def test_a_session_of_another_program_goes_out_as_it_came_in(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    write(folder, form, STORY)
    store, out = tmp_path / "store", tmp_path / "out"
    (rollout,) = record_whole(folder, store)
    assert run(["store", "export", "--format", "atif", "--out", str(out), "--store", str(store)]) == 0
    assert [path.name for path in out.iterdir()] == [f"{rollout}.atif.json"]
    (came,), (goes,) = Reading(folder), Reading(out)
    assert entries(goes) == entries(came)


def test_a_rollout_without_messages_is_refused(store: Path) -> None:
    with read_store(store) as reader:
        text = reader.text(reader.trajectories(reader.runs()[0].run)[0].id)
    empty = type(text)(**{name: getattr(text, name) for name in text.__slots__} | {"messages": b"[]"})
    with pytest.raises(DataError, match="no messages of it are stored"):
        to_atif(empty)
    assert ModelMessagesTypeAdapter.validate_json(text.messages)


def test_a_file_is_looked_at_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "ATIF", STORY)
    (file,) = tmp_path.glob("*.json")
    assert run(["view", str(file), "--bundle", str(tmp_path / "pages")]) == 0
    page = (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")
    assert "uv run pytest -q" in page
    assert "Resolved 5 packages" in page
    assert run(["view", str(tmp_path / "none.atif.json")]) == 2
    assert "there is no file" in capsys.readouterr().err
