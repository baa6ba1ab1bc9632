"""Sessions of coding agents, whichever agent wrote them."""

import gzip
import json
import tracemalloc
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.formats import session_files
from agentlearn.formats.session_files import MAX_TEXT, AgentSession, Reading
from agentlearn.live.sessions import attempts_of, reward_of
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
from tests.support.cases import cases


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
        "lines of no known kind": 5,
        "lines that are no JSON": 2 + 4,
        "texts by the agent's program": 2,
        "lines of other kinds": 3,
        "lines that an earlier session has too": 4,
        "files that hold no session": 3,
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


def put(folder: Path, files: dict[str, Any]) -> None:
    """Write the files of a case: rows as JSON lines, a text as it is, rows that are packed and perhaps cut, or JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case list() if name.endswith(".jsonl"):
                path.write_text(lines(content))
            case {"text": text}:
                path.write_text(text)
            case {"gzip": rows, **more}:
                path.write_bytes(gzip.compress(lines(rows).encode(), mtime=0)[: more.get("cut")])
            case _:
                path.write_text(json.dumps(content))


def test_sessions_are_read_as_they_were(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (name, case) in enumerate(cases(__file__, "sessions").items()):
        with subtests.test(name):
            put(tmp_path / str(number), case["files"])
            sessions, reading = read(tmp_path / str(number))
            entries = [one for session in sessions for one in session.entries]
            right = case["right"]
            if isinstance(right, list):
                assert [[one.kind, one.tool if one.kind == "call" else one.text] for one in entries] == right
            else:
                assert [one.text for one in entries if one.kind == "user"] == right["users"]
                models = [one.text for one in entries if one.kind == "model"]
                assert models == right.get("models", models)
            assert len(sessions) == case.get("sessions", len(sessions))
            assert [one.id for one in sessions] == case.get("ids", [one.id for one in sessions])
            counts = case.get("left_out", {})
            assert {what: reading.left_out[what] for what in counts} == counts
            if "taken_back" in case:
                assert [one.text for one in entries if one.reverted] == case["taken_back"]
                attempts = [one for session in sessions for one in attempts_of(session)]
                wrong = {
                    one.asked for one in attempts if (reward_of(one) or ("", ""))[1] == "the user took the work back"
                }
                assert wrong == {one.asked for one in attempts if one.asked in case["taken_back"]}


ROWS = [row for case in cases(__file__, "sessions").values() for rows in case["files"].values() for row in rows]
WORDS = sorted({*json.dumps(ROWS).replace('"', " ").split()} - {"NaN"})[::7]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(st.sampled_from(ROWS) | JSON, max_size=6), st.data())
def test_no_file_stops_the_reading(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], data: st.DataObject
) -> None:
    rows = deepcopy(rows)
    for row in rows:
        if isinstance(row, dict) and row and data.draw(st.booleans()):
            row[data.draw(st.sampled_from(sorted(row)))] = data.draw(JSON)
    folder = tmp_path_factory.mktemp("any")
    (folder / "a.jsonl").write_text(lines(rows))
    (folder / "a.json").write_text(json.dumps(rows))
    for session in read(folder)[0]:
        attempts_of(session)


def test_a_large_session_does_not_take_much_more_memory_than_its_texts(tmp_path: Path) -> None:
    story = [Said("user", "Look."), *(Ran(f"cat log{n}", "line " * 2_000) for n in range(80)), Said("model", "Seen.")]
    (tmp_path / "a.jsonl").write_text(claude_code(story))
    tracemalloc.start()
    list(Reading(tmp_path))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * (tmp_path / "a.jsonl").stat().st_size
