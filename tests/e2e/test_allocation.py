"""Runs in which groups stop early and settled tasks are skipped: the same rollouts whatever stops or delays the run."""

import asyncio
import csv
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentlearn import LearnReport, LearnSettings
from agentlearn.cli.app import run as command_line
from agentlearn.errors import BudgetExceeded
from agentlearn.learning.batch import Allocation, Schedule
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.open_run import domain_of, task_sets
from agentlearn.learning.resume import settings_of
from agentlearn.store import read_store
from agentlearn.types.group import Group
from agentlearn.types.ids import TaskId
from tests.support.openai_script import Reply, Request, Solver, Stage, stage_of, user_text
from tests.support.openai_stub import OpenAIStub

PROBLEMS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(11, 23)}
IN_FLIGHT = 4
_SHORT: tuple[Stage, ...] = ("solve", "summarise", "compare")
"""Stages whose replies are short."""
Drawn = dict[tuple[str, int, TaskId], list[tuple[int, float | None]]]
"""Number and reward of each rollout, by phase, batch and task."""


class Uneven:
    """Solves the first half of the problems always, the others at times. delayed: answers take their time."""

    def __init__(self, *, easy: float = 1.0, hard: float = 0.5, delayed: bool = False) -> None:
        self.delayed = delayed
        self.solvers = [Solver(answers=PROBLEMS, success_rate=rate, final="{0}".format) for rate in (easy, hard)]

    def __call__(self, request: Request) -> Reply:
        if self.delayed:
            time.sleep(random.random() / 50)
        said = user_text(request)
        easy = any(problem in said for problem in list(PROBLEMS)[:6])
        return self.solvers[0 if easy and stage_of(request) == "solve" else 1](request)


def settings(folder: Path, stub: OpenAIStub, store: str, **changes: Any) -> LearnSettings:
    data = folder / "dots.csv"
    with data.open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *PROBLEMS.items()])
    fields: dict[str, Any] = {
        "domain": "dots",
        "data": str(data),
        "reward": "number",
        "model": f"{stub.base_url}#any",
        "evaluate": False,
        "epochs": 4,
        "batch_size": 5,
        "group_size": 5,
        "stop_after": 2,
        "revisit_every": 3,
        "reward_margin": 0.05,
        "validation_rollouts": 0,
        "concurrency": IN_FLIGHT,
        "store": folder / store,
    }
    return LearnSettings(**fields | changes)


def run(chosen: LearnSettings) -> LearnReport:
    return asyncio.run(run_learning(chosen))


def drawn(chosen: LearnSettings, report: LearnReport) -> Drawn:
    with read_store(chosen.store) as reader:
        rows = reader.trajectories(report.run)
    found: Drawn = {}
    for row in sorted((one for one in rows if one.phase.startswith("epoch-")), key=lambda one: one.g):
        found.setdefault((row.phase, row.batch, row.task), []).append((row.g, row.reward))
    return found


def assert_as_allocated(chosen: LearnSettings, report: LearnReport) -> None:
    """The stored rollouts are those that the rules draw from the stored rewards, and the report counts them."""
    allocation, found = Allocation.of(chosen), drawn(chosen, report)
    with read_store(chosen.store) as reader:
        tasks = task_sets(chosen, domain_of(chosen)).train
        groups = {
            key: Group(task=reader.task(key[2]), trajectories=tuple(reader.group(report.run, key[0], key[2])))
            for key in found
        }
    for members in found.values():
        assert [g for g, _ in members] == list(range(len(members)))
        wave = [reward for _, reward in members[: allocation.first_wave]]
        if chosen.labels == "gold":
            assert len(members) == len(wave) + allocation.more(wave)
    settled: dict[Any, bool] = {}
    schedule = Schedule(
        tasks, allocation, epochs=chosen.epochs, size=chosen.batch_size, seed=chosen.seed, settled=settled
    )
    visited = set[tuple[str, int, TaskId]]()
    while (batch := schedule.following()) is not None:
        keys = {(batch.phase, batch.number, one.id) for one in batch.tasks}
        visited |= keys
        settled.update({key[2]: groups[key].settled(1.0, allocation.margin) for key in keys & groups.keys()})
    assert visited == set(found)
    made = report.allocated
    size, stopped = chosen.group_size, [one for one in found.values() if len(one) < chosen.group_size]
    assert made.planned == len(tasks) * size * chosen.epochs
    assert made.drawn == sum(map(len, found.values()))
    assert made.planned == made.drawn + made.saved + made.skipped * size
    assert made.stopped == len(stopped)
    assert [one.epoch for one in report.epochs] == list(range(1, chosen.epochs + 1))
    assert sum(one.drawn for one in report.epochs) == made.drawn
    assert sum(one.skipped for one in report.epochs) == made.skipped
    assert all(sum(one.groups.values()) + one.skipped == len(tasks) for one in report.epochs)


def asked_of(stub: OpenAIStub) -> Counter[str]:
    """Different requests by stage."""
    return Counter(
        stage for stage, *_ in {(stage_of(one), repr(one["messages"]), one["seed"]) for one in stub.requests}
    )


def asked_twice(stub: OpenAIStub) -> int:
    """Requests that repeat an earlier one, unless the rest of a limit left it hardly room for an answer."""
    short = (one for one in stub.requests if stage_of(one) in _SHORT and one.get("max_tokens", 64) >= 64)
    return sum(count - 1 for count in Counter((repr(one["messages"]), one["seed"]) for one in short).values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"labels": "none", "max_staleness": 1}],
    ids=["plain", "unlabelled and stale"],
)
def test_stopped_at_every_point_a_run_makes_the_same_rollouts_and_repeats_no_call(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    with OpenAIStub(Uneven()) as stub:
        plain = settings(tmp_path, stub, "plain", **changes)
        undisturbed = run(plain)
        asked = {stage: asked_of(stub)[stage] for stage in _SHORT}
        assert_as_allocated(plain, undisturbed)
        assert undisturbed.allocated.stopped
        assert undisturbed.allocated.skipped
    whole = sum(one.tokens_in + one.tokens_out for one in undisturbed.stages.values())
    with OpenAIStub(Uneven(delayed=True)) as stub:
        chosen = settings(tmp_path, stub, "stopped", **changes, max_tokens=whole // 12)
        with pytest.raises(BudgetExceeded):
            run(chosen)
        with read_store(chosen.store) as reader:
            (row,) = reader.runs()
        stops, report = 1, None
        while report is None:
            identity, again = settings_of(row.run, chosen.store, {"max_tokens": (stops + 1) * whole // 12})
            try:
                report = asyncio.run(run_learning(again, resume=identity))
            except BudgetExceeded:
                stops += 1
        assert stops > 5
        # A reply that the rest of a limit cuts off is asked for again.
        assert {stage: asked_of(stub)[stage] for stage in _SHORT} == asked
        assert asked_twice(stub) == 0
    assert drawn(chosen, report) == drawn(plain, undisturbed)
    assert (report.library, report.groups) == (undisturbed.library, undisturbed.groups)
    assert report.allocated == undisturbed.allocated
    unlike = {"seconds": 0.0}
    assert [one.model_copy(update=unlike) for one in report.epochs] == [
        one.model_copy(update=unlike) for one in undisturbed.epochs
    ]


@pytest.mark.slow
def test_the_batches_do_not_depend_on_how_long_answers_take(tmp_path: Path) -> None:
    found: list[tuple[Drawn, str]] = []
    for number, delayed in enumerate((False, True, True)):
        with OpenAIStub(Uneven(delayed=delayed)) as stub:
            chosen = settings(tmp_path, stub, f"timing-{number}", max_staleness=1, concurrency=(1, 8, 16)[number])
            report = run(chosen)
            assert_as_allocated(chosen, report)
            found.append((drawn(chosen, report), report.library.version))
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 1])
def test_an_epoch_without_a_task_is_over_at_once(
    staleness: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OpenAIStub(Uneven(hard=1.0)) as stub:
        changes = {"revisit_every": 100, "max_staleness": staleness, "evaluate": True, "test_share": 0.25}
        chosen = settings(tmp_path, stub, f"right-{staleness}", **changes, eval_every=1)
        report = run(chosen)
        assert_as_allocated(chosen, report)
    assert [one.skipped for one in report.epochs] == [0, 9, 9, 9]
    assert [one.updates for one in report.curve] == [1], "nothing is measured again at the end"
    assert command_line(["trace", report.run, "--store", str(chosen.store)]) == 0
    assert "2 of 5 rollouts: enough to tell" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_says_what_it_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIStub(Uneven()) as stub:
        chosen = settings(tmp_path, stub, "said")
        names = ("model", "reward", "epochs", "batch_size", "group_size", "stop_after", "revisit_every", "store")
        options = [word for name in names for word in (f"--{name.replace('_', '-')}", str(getattr(chosen, name)))]
        given = [str(chosen.data), *options, "--validation-rollouts", "0", "--no-eval"]
        assert command_line(["learn", *given, "--dry-run"]) == 0
        assert "of groups stop after 2 rollouts, which are enough" in capsys.readouterr().out
        assert command_line(["learn", *given]) == 0
    said = capsys.readouterr().out
    with read_store(chosen.store) as reader:
        row = reader.runs()[0]
        made = LearnReport.model_validate_json(row.report)
    counts = made.allocated
    assert "12 to learn from, none held out · 2 to 5 rollouts each · 4 epochs" in said
    assert f"rollouts   {counts.drawn} of 240 planned to learn from: {counts.stopped} groups needed no more" in said
    assert f"skipped {counts.skipped} visits to tasks that were all right when last seen" in said
    for one in made.epochs:
        assert f"{one.drawn} of 60 planned rollouts" in said
    assert command_line(["trace", row.run, "--store", str(chosen.store)]) == 0
    listed = capsys.readouterr().out
    assert listed.count("2 of 5 rollouts: enough to tell") == counts.stopped
    assert f"epoch-2: {12 - made.epochs[1].skipped} tasks, {made.epochs[1].skipped} skipped" in listed
    easy = next(line.split()[0] for line in listed.splitlines() if "enough to tell" in line)
    assert command_line(["trace", easy, "--store", str(chosen.store)]) == 0
    assert "2 of 5 rollouts: enough to tell" in capsys.readouterr().out
