"""Sessions of coding agents, whichever agent wrote them."""

import json
from pathlib import Path

import pytest

from agentlearn.formats import session_files
from agentlearn.formats.session_files import MAX_TEXT, AgentSession, Reading
from tests.support.agent_sessions import (
    CORRECTION,
    FORMS,
    REPOSITORY,
    STORY,
    Ran,
    Said,
    claude_code,
    codex,
    lines,
    write,
)


def read(folder: Path) -> tuple[list[AgentSession], Reading]:
    reading = Reading(folder)
    return list(reading), reading


@pytest.mark.parametrize("form", FORMS)
def test_every_agent_tells_the_same_session(tmp_path: Path, form: str) -> None:
    write(tmp_path, form)
    (session,), reading = read(tmp_path)
    assert session.agent == form.partition(",")[0]
    assert session.repository == REPOSITORY
    said = [(one.kind, one.text) for one in session.entries if one.kind in {"user", "model"}]
    wanted = [("user" if one.by == "user" else "model", one.text) for one in STORY if isinstance(one, Said)]
    assert said == wanted[1:], "what the program says is not the user's"
    results = [(one.status or 0, bool(one.failed), one.refused) for one in session.entries if one.kind == "result"]
    assert results == [(one.status, one.status != 0, False) for one in STORY if isinstance(one, Ran)]
    calls = [one.text for one in session.entries if one.kind == "call"]
    assert all(one.command in call for one, call in zip((x for x in STORY if isinstance(x, Ran)), calls, strict=True))
    assert sum(reading.files.values()) == 1


@pytest.mark.parametrize("form", [one for one in FORMS if one != "ATIF"])
def test_a_refused_call_is_the_users_and_not_a_failure_of_the_command(tmp_path: Path, form: str) -> None:
    story = (
        Said("user", "Clean up."),
        Ran("rm -rf build", "Keep the wheels.", 0, refused=True),
        Said("model", "Sorry."),
    )
    write(tmp_path, form, story)
    (session,), _ = read(tmp_path)
    (result,) = [one for one in session.entries if one.kind == "result"]
    assert result.refused
    users = [one.text for one in session.entries if one.kind == "user"]
    assert users == (
        ["Clean up.", "Keep the wheels."] if form in {"Claude Code", "OpenHands", "OpenHands, JSON lines"} else users
    )


def test_what_cannot_be_read_is_counted_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_files, "MAX_LINE_BYTES", 10_000)
    whole = claude_code(STORY)
    long = json.dumps({"type": "user", "message": {"content": "x" * 30_000}})
    bad = '{"silly": 1}\n42\n"text"\n\xff\n' + long + '\n{"type": "user", "message": {"content": [17]}}\n'
    (tmp_path / "cut.jsonl").write_bytes((bad + whole + whole[: len(whole) // 3]).encode("latin-1"))
    write(tmp_path / "x", "ATIF")
    text = (tmp_path / "x/a.json").read_text()
    (tmp_path / "x/a.json").write_text(text[: len(text) * 2 // 3])
    (tmp_path / "package.json").write_text('{"name": "shop"}')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "history.jsonl").write_text('{"display": "hello"}\n')
    sessions, reading = read(tmp_path)
    assert [one.agent for one in sessions] == ["Claude Code", "ATIF"]
    assert CORRECTION in [one.text for one in sessions[0].entries]
    assert sum(one.kind == "user" for one in sessions[0].entries) == 3, "lines that stand twice count once"
    assert CORRECTION in [one.text for one in sessions[1].entries]
    assert {what.partition(" of more")[0].partition(",")[0]: n for what, n in reading.left_out.items()} == {
        "lines of no known kind": 4,
        "lines that are no JSON": 2 + 4,
        "texts by the agent's program": 2,
        "lines of other kinds": 2,
        "lines that an earlier session has too": 4,
        "JSON files that hold no session": 1,
        "files of JSON lines that hold no session": 2,
        "files that end too early or are no JSON; what is whole was read": 1,
    }
    assert reading.examples["files that end too early or are no JSON; what is whole was read"].endswith("x/a.json")


def test_a_large_file_is_read_line_by_line_and_long_texts_are_cut(tmp_path: Path) -> None:
    story = [Said("user", "Look."), *(Ran("cat log", "line " * 20_000) for _ in range(20)), Said("model", "Seen.")]
    (tmp_path / "a.jsonl").write_text(claude_code(story))
    (session,), _ = read(tmp_path)
    assert (tmp_path / "a.jsonl").stat().st_size > 20 * MAX_TEXT * 10
    assert max(len(one.text) for one in session.entries) < MAX_TEXT + 100
    assert "characters left out" in session.entries[2].text


def test_whoever_speaks_to_a_sub_agent_is_not_the_user(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in claude_code(STORY).splitlines()]
    (tmp_path / "side.jsonl").write_text(lines([{**row, "isSidechain": True} for row in rows]))
    meta, *rest = codex(STORY).splitlines()
    payload = json.loads(meta)["payload"] | {"source": {"subagent": {"thread_spawn": 1}}}
    (tmp_path / "codex.jsonl").write_text("\n".join([json.dumps({"type": "session_meta", "payload": payload}), *rest]))
    sessions, reading = read(tmp_path)
    assert sessions == []
    assert reading.left_out["lines of sub-agents"] > 5
    assert reading.left_out["sessions of sub-agents"] == 1
