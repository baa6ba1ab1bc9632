"""The tasks, rewards and table of `just real`: what they hold out, pay for, and print."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentlearn.data.gym import gym_rows
from agentlearn.types.ids import LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, ToolCall, ToolResult, Trajectory
from agentlearn.types.treatment import Treatment
from tests.bench.real.measuring import once
from tests.bench.real.rewards import last_number, right_with_tool, same_record, towards_the_steps, towards_the_tool
from tests.bench.real.runs import RunFailed, run
from tests.bench.real.table import Change, LessonsLine, OtherKind, RealResults, TaskLine, TrainingRun, as_text
from tests.bench.real.tasks import CHECK, HELD_OUT, LEARNED, TASKS, check_source


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


def test_no_held_out_problem_of_reasoning_gym_is_learned_from(tmp_path: Path) -> None:
    pytest.importorskip("reasoning_gym", reason="needs reasoning-gym")
    gym = next(one for one in TASKS if one.gym)
    learned, held_out = ([str(row.fields["question"]) for row in gym_rows(one)] for one in gym.sources(tmp_path))
    assert (len(learned), len(held_out)) == (LEARNED, HELD_OUT)
    assert len({*learned, *held_out}) == LEARNED + HELD_OUT


def test_the_check_has_problems_that_no_task_has(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in Path(check_source(tmp_path)).read_text().splitlines()]
    assert len({row["problem"] for row in rows}) == len(rows) >= 30
    assert {"problem": "What is the capital of India?", "answer": "New Delhi"} in rows
    assert CHECK.name not in {one.name for one in TASKS}


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        ('{"name": "Eva", "age": 51, "city": "Lima"}', 1.0),
        ('{"city": "Lima", "age": 51, "name": "Ann"}', 2 / 3),
        ('{"name": "Eva", "age": "51", "city": "Lima"}', 2 / 3),
        ('{"name": "Eva", "age": 51, "city": "Lima", "x": 1}', 0.0),
        ('Sure: {"name": "Eva", "age": 51, "city": "Lima"}', 0.0),
        ("[1]", 0.0),
        (None, 0.0),
    ],
)
def test_a_record_is_paid_by_its_keys(answer: str | None, reward: float) -> None:
    assert same_record(task('{"name": "Eva", "age": 51, "city": "Lima"}'), answer) == reward


@pytest.mark.parametrize(("said", "reward"), [("It is 12.", 1.0), ("12 or 13", 0.0), ("112", 0.0), ("", 0.0)])
def test_the_last_number_counts(said: str, reward: float) -> None:
    assert last_number(task("12"), said, rollout(said)) == reward


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        ("4 + 9 = 13, 13 - 3 = 10", 1.0),
        ("So 10", 1.0),
        ("4 + 9 = 13, 13 - 3 = 9", 0.5 * 21 / 23),
        (" 4 + 9 = 12", 0.5 * 9 / 23),
        ("Ann has 4", 0.0),
        ("", 0.0),
    ],
)
def test_each_step_of_a_story_is_paid(said: str, reward: float) -> None:
    story = task("10").model_copy(
        update={"problem": "Question: Gus has 3.\nReply: 3\n\nQuestion: Ann has 4, gets 9 and loses 3.\nReply:"}
    )
    assert towards_the_steps(story, said, rollout(said)) == pytest.approx(reward)


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


def test_a_call_that_was_read_is_paid_as_it_was_written() -> None:
    product = task("1482").model_copy(update={"problem": "Question: 38 * 39\nReply:"})
    call = ToolCall(id="c", tool="run_python", arguments='{"code": "print(38 * 39)"}')
    called = rollout("").model_copy(update={"steps": (ModelTurn(tool_calls=(call,)),)})
    assert towards_the_tool(product, "", called) == 0.5


def test_what_a_failed_call_says_is_no_result() -> None:
    assert right_with_tool(task("12"), "12", rollout("12", "line 12", ok=False)) == 0.0


def test_a_command_s_result_and_its_cpu_time_are_read() -> None:
    program = "import json, sys; print('x' * 200_000, file=sys.stderr); print(json.dumps({'n': sum(range(10**6))}))"
    ran = run([sys.executable, "-c", program], threads=1)
    assert ran.result == {"n": 499999500000}
    assert ran.cpu_s > 0
    assert ran.wall_s > 0


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RunFailed, match="ended with status 3: no model"):
        run([sys.executable, "-c", "import sys; print('no model', file=sys.stderr); sys.exit(3)"], threads=1)


def test_the_table_counts_only_intervals_above_zero() -> None:
    def line(name: str, low: float | None) -> TaskLine:
        change = Change(name="trained", before=0.1, after=0.4, mean=0.3, low=low, high=0.5)
        return TaskLine(task=name, what=name, gain=change, check=change)

    runs = tuple(
        TrainingRun(task=name, seed=0, weights="w", curve=(0.1, 0.4), wall_s=60, cpu_s=50, sampling_s=30, updating_s=20)
        for name in "abc"
    )
    found = RealResults(
        model="m", cores=2, seeds=2, k=2, lines=(line("a", 0.1), line("b", -0.1), line("c", None)),
        runs=runs, lessons=None, other_kind=None, wall_s=120,
    )  # fmt: skip
    text = as_text(found)
    assert "1 of 3 kinds of tasks gain with an interval above 0" in text
    assert "+0.30 [+0.10, +0.50]" in text
    assert "0.10 → 0.40" in text
    nothing = LessonsLine(task="a", changes=(), notes=("reflector itself: 0 lessons",))
    text = as_text(found.model_copy(update={"lessons": nothing}))
    assert text.endswith("lessons on a: reflector itself: 0 lessons")
    helped = LessonsLine(task="a", changes=(found.lines[0].gain,), notes=())
    assert as_text(found.model_copy(update={"lessons": helped})).endswith("+0.30 [+0.10, +0.50]")


def test_what_distilling_did_to_another_kind_of_task_is_one_sentence() -> None:
    change = Change(name="after", before=0.9, after=0.8, mean=-0.1, low=-0.15, high=-0.05)
    other = OtherKind(lessons_for="a", task="b", change=change, margin=0.05, verdict="worse")
    assert other.words.endswith("trained on b: b 0.900 → 0.800, -0.100 [-0.150, -0.050], worse (margin 0.05)")
    unknown = change.model_copy(update={"mean": None, "low": None, "high": None})
    assert "unknown, cannot tell" in other.model_copy(update={"change": unknown, "verdict": "cannot_tell"}).words


def test_the_table_tells_trainers_apart() -> None:
    change = Change(name="trained", before=0.1, after=0.4, mean=0.3, low=0.2, high=0.5)
    lines = tuple(TaskLine(task="a", what="a", gain=change, check=change, trainer=one) for one in ("agentlearn", "trl"))
    runs = tuple(
        TrainingRun(task="a", seed=0, weights="w", curve=(0.1, last), wall_s=wall_s, cpu_s=1, trainer=one)
        for one, last, wall_s in (("agentlearn", 0.4, 60), ("trl", 0.3, 90))
    )
    found = RealResults(
        model="m", cores=2, seeds=1, k=2, lines=lines, runs=runs, lessons=None, other_kind=None, wall_s=120
    )
    own, other = (line for line in as_text(found).splitlines() if line.startswith("a "))
    assert "0.10 → 0.40" in own
    assert "60" in own
    assert "0.10 → 0.30" in other
    assert "90" in other
    assert "1 of 1 kinds of tasks gain" in as_text(found)


def test_what_was_done_before_an_interruption_is_kept_and_what_was_half_done_is_not(tmp_path: Path) -> None:
    folder, calls = tmp_path / "a", list[int]()

    def make() -> LessonsLine:
        calls.append(1)
        assert not (folder / "half").exists()
        (folder / "half").touch()
        if len(calls) == 1:
            raise RunFailed("killed")
        return LessonsLine(task="a", changes=(), notes=("x",))

    with pytest.raises(RunFailed):
        once(folder, LessonsLine, make)
    assert once(folder, LessonsLine, make) == once(folder, LessonsLine, make)
    assert len(calls) == 2
    assert (folder / "half").exists()


def test_trl_s_trainer_is_paid_as_ours_is() -> None:
    trl_training = pytest.importorskip("tests.bench.real.trl_training", reason="needs trl", exc_type=ImportError)
    words = next(one for one in TASKS if one.name == "words")
    record = next(one for one in TASKS if one.name == "record")
    assert [trl_training.scorer(words)(task("12"), said) for said in ("It is 12.", "13", "")] == [1.0, 0.0, 0.0]
    gold = '{"name": "Eva", "age": 51, "city": "Lima"}'
    assert trl_training.scorer(record)(task(gold), gold) == 1.0
