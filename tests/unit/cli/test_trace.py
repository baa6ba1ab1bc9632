"""`trace`: one rollout, the rollouts of one task with what was learned from them, and the tasks of a run."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, UserPromptPart

from agentlearn.cli.app import run
from agentlearn.store import Store, open_store
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory, Treatment, Verdict
from tests.support.command import output, result

RUN = RunId("01jc0000000000000000000001")
ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eback\r\x08"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a learn run over two batches in two epochs."""
    store = tmp_path_factory.mktemp("trace") / "store"
    shape = ["--epochs", "2", "--group-size", "5", "--stop-after", "3", "--revisit-every", "1"]
    options = ["--limit", "6", *shape, "--no-eval", "--validation-rollouts", "0", "--store", str(store)]
    assert run(["learn", "math", "--model", "sim:novice", *options]) == 0
    return store


def groups(capsys: pytest.CaptureFixture[str], store: Path) -> list[dict[str, Any]]:
    return result(capsys, store, "trace")["groups"]


def refused_group(capsys: pytest.CaptureFixture[str], store: Path) -> str:
    return next(one["address"] for one in groups(capsys, store) if one["ends"].get("rejected"))


@pytest.mark.slow
def test_a_run_lists_its_groups_with_addresses_that_work(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = groups(capsys, finished)
    assert [one["phase"] for one in found] == ["epoch-1"] * 6 + ["epoch-2"] * 6
    words = output(capsys, finished, "trace")
    for one in found:
        assert one["address"] in words
        assert one["planned"] == 5
        stopped = len(one["rewards"]) == 3
        assert one["drawn"] == ("3 of 5 rollouts: enough to tell" if stopped else "")
        assert stopped == (any(one["rewards"][:3]))
        shown = output(capsys, finished, "trace", one["address"])
        assert one["address"] in shown
        assert ("drawn      3 of 5 rollouts: enough to tell" in shown) == stopped
    assert words.count("3 of 5 rollouts: enough to tell") == sum(len(one["rewards"]) == 3 for one in found) > 0
    task = found[0]["address"].split("/")[1]
    run_id = found[0]["address"].split("/")[0]
    assert output(capsys, finished, "trace", f"{run_id[:10]}/{task[:5]}@epoch-1:1").startswith("group      ")


@pytest.mark.slow
def test_a_group_shows_summaries_the_comparison_and_every_end(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = refused_group(capsys, finished)
    found, words = result(capsys, finished, "trace", address), output(capsys, finished, "trace", address)
    assert len(found["rollouts"]) == len(found["summaries"]) in {3, 5}
    for rollout in found["rollouts"]:
        assert rollout["id"][:12] in words
    for summary in found["summaries"]:
        assert all(step["text"] in words for step in summary["steps"])
    ends = {one["end"]["end"] for one in found["proposals"]}
    assert "rejected" in ends
    for one in (*found["proposals"], *found["consolidated"]):
        assert one["proposal"]["id"][:8] in words
        assert one["end"].get("reason", "") in words
        assert one["end"].get("code", "") in words
    assert found["comparison"], "the replies of the compare stage"
    assert "comparison: reply 1 of " in words
    lessons = [json.loads(one["response"])[0]["parts"][0]["args"] for one in found["comparison"]]
    for lesson in (item["lesson"] for args in lessons for item in json.loads(args)["proposals"] if "lesson" in item):
        assert lesson in words
    whole = output(capsys, finished, "trace", address, "--full")
    for one in found["other_consolidated"]:
        assert one["proposal"]["id"][:8] in whole
    for text in found["prompts"].values():
        assert text.splitlines()[0] in whole


def test_a_rollout_shows_what_was_sent(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout = groups(capsys, finished)[-1]["rollouts"][0]
    found, words = result(capsys, finished, "trace", rollout), output(capsys, finished, "trace", rollout)
    (instructions,) = found["sent"]["instructions"]
    assert found["lessons"]
    assert found["lessons_sent"]
    assert found["lessons_block"] in instructions
    for number, lesson in enumerate(found["lessons"], start=1):
        assert f"[G{number}] {lesson}" in words
    assert "You solve competition mathematics problems." in words
    assert [one["name"] for one in found["tools"]] == ["run_python"]
    assert "tools      run_python(code)  Run a Python program" in words
    assert '"type": "object"' not in words
    whole = output(capsys, finished, "trace", rollout, "--full")
    assert '"type": "object"' in whole
    for line in instructions.splitlines():
        assert line in whole
    assert "expected   " in words


def test_a_wrong_address_says_what_there_is(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = groups(capsys, finished)[0]["address"].split("/")[0]
    for address, part in (
        ("zzzz", "has no rollout and no run whose id starts with 'zzzz'"),
        (f"{run_id}/zzzz", f"has no group 'zzzz' (found: {run_id}/"),
        (f"{run_id}/", f"'{run_id}/' names 12 groups ("),
        ("", ""),
    ):
        status = run(["trace", address, "--store", str(finished)])
        error = capsys.readouterr().err
        assert (status, error.count("\n")) == ((2, 1) if part else (0, 0))
        assert part in error


def hostile(text: str) -> tuple[Task, Trajectory]:
    task = Task.of("toy", f"problem {text}", f"gold {text}", source="test")
    steps = (
        ModelTurn(text=f"said {text}\nverdict    right, reward 1", thinking=f"thought {text}"),
        ToolResult(call="1", tool=f"tool {text}", content=f"found {text}", ok=False, error=f"error {text}"),
    )
    trajectory = Trajectory.model_validate(
        {
            "id": "f" * 32,
            "run": RUN,
            "phase": "epoch-1",
            "batch": 1,
            "task": task.id,
            "g": 0,
            "seed": 1,
            "treatment": Treatment(model="m", library=EMPTY_LIBRARY.version),
            "steps": steps,
            "answer": f"answer {text}",
            "verdict": Verdict(status="incorrect", reward=0.0, reason=f"because {text}"),
            "started_at": datetime.now(UTC),
        }
    )
    return task, trajectory


def test_stored_text_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, trajectory = hostile(ESCAPES)
    messages: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(f"asked {ESCAPES}")], instructions=f"told {ESCAPES}")
    ]

    async def save(store: Store) -> None:
        await store.save_tasks([task])
        await store.save_version(EMPTY_LIBRARY, run=None)
        await store.save_trajectory(trajectory, ModelMessagesTypeAdapter.dump_json(messages))

    async def fill() -> None:
        async with open_store(tmp_path / "s") as store:
            await save(store)

    asyncio.run(fill())
    words = output(capsys, tmp_path / "s", "trace", trajectory.id)
    for character in words:
        assert character == "\n" or character.isprintable(), ascii(character)
    for start in ("problem", "gold", "said", "thought", "tool", "found", "answer", "because", "asked", "told"):
        assert f"{start} \\x1b]0;title\\x07" in words
    assert "\nverdict    right" not in words, "what a model wrote does not look like a label"
    assert "\nverdict    wrong, reward 0" in words
    assert "tools      not recorded" in words
