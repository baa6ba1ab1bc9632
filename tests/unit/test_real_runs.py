"""The tasks, rewards and table of `just real`: what they hold out, pay for, and print."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentlearn.types.ids import LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory, Treatment
from scripts.bench.real.rewards import last_number, right_with_tool, same_record, towards_the_steps, towards_the_tool
from scripts.bench.real.tasks import HELD_OUT, LEARNED, TASKS


def task(answer: str) -> Task:
    return Task(id=TaskId("t"), domain="real", problem="?", answer=answer)


def rollout(said: str, printed: str | None = None, *, ok: bool = True) -> Trajectory:
    result = () if printed is None else (ToolResult(call="c", tool="run_python", content=printed, ok=ok),)
    return Trajectory(
        id=RolloutId("r"),
        run=RunId("0" * 26),
        phase="epoch-1",
        task=TaskId("t"),
        g=0,
        seed=0,
        treatment=Treatment(model="local:x", library=LibraryVersion("a" * 16)),
        steps=(*result, ModelTurn(text=said)),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize("one", [one for one in TASKS if not one.gym], ids=lambda one: one.name)
def test_no_held_out_problem_is_learned_from_and_each_call_makes_the_same(one: Any, tmp_path: Path) -> None:
    learned, held_out = (
        [json.loads(line)["problem"] for line in Path(file).read_text().splitlines()] for file in one.sources(tmp_path)
    )
    assert (len(learned), len(held_out)) == (LEARNED, HELD_OUT)
    assert len({*learned, *held_out}) == LEARNED + HELD_OUT
    assert one.rows() == one.rows()
    _, more = one.sources(tmp_path, held_out=2 * HELD_OUT)
    many = [json.loads(line)["problem"] for line in Path(more).read_text().splitlines()]
    assert (many[:HELD_OUT], len(many)) == (held_out, 2 * HELD_OUT)


def test_a_record_is_paid_by_its_keys_and_the_last_number_and_each_step_count() -> None:
    record = task('{"name": "Eva", "age": 51, "city": "Lima"}')
    said = ('{"name": "Eva", "age": 51, "city": "Lima"}', '{"city": "Lima", "age": 51, "name": "Ann"}', "[1]", None)
    assert [same_record(record, answer) for answer in said] == [1.0, 2 / 3, 0.0, 0.0]
    said = ("It is 12.", "12 or 13", "112", "")
    assert [last_number(task("12"), one, rollout(one)) for one in said] == [1.0, 0.0, 0.0, 0.0]
    problem = "Question: Gus has 3.\nReply: 3\n\nQuestion: Ann has 4, gets 9 and loses 3.\nReply:"
    story = task("10").model_copy(update={"problem": problem})
    said = ("4 + 9 = 13, 13 - 3 = 10", "4 + 9 = 13, 13 - 3 = 9", "Ann has 4")
    assert [towards_the_steps(story, one, rollout(one)) for one in said] == pytest.approx([1.0, 0.5 * 21 / 23, 0.0])


WANTED = '<tool_call>\n{"name": "run_python", "arguments": {"code": "print(38 * 39)"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("said", "printed", "full", "towards"),
    [
        ("It printed 1,482.", "1482\n", 1.0, 1.0),
        ("It printed 57.", "1482", 0.0, 0.7),
        ("1482", None, 0.0, 0.0),
        ("<tool_response>\n1482\n</tool_response>", None, 0.0, 0.0),
        (f"\n{WANTED[:20]}x", None, 0.0, 0.5 * 20 / len(WANTED)),
        (WANTED.replace("38", "39"), "1521", 0.0, 0.5 * (WANTED.index("38") + 1) / len(WANTED)),
    ],
)
def test_a_product_needs_the_tool_and_each_step_towards_it_is_paid(
    said: str, printed: str | None, full: float, towards: float
) -> None:
    product = task("1482").model_copy(update={"problem": "Question: 38 * 39\nReply:"})
    given = product, said, rollout(said, printed)
    assert (right_with_tool(*given), towards_the_tool(*given)) == (full, pytest.approx(towards))
