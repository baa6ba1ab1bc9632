"""Runs in which groups stop early and settled tasks are skipped: the same rollouts whatever stops or delays the run."""

import asyncio
import csv
import random
import time
from pathlib import Path
from typing import Any

import pytest

from agentlearn import LearnReport, LearnSettings
from agentlearn.cli.app import run as command_line
from agentlearn.errors import BudgetExceeded
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.resume import settings_of
from agentlearn.store import read_store
from agentlearn.types.ids import TaskId
from tests.support.openai_script import Reply, Request, Solver, stage_of, user_text
from tests.support.openai_stub import OpenAIStub

PROBLEMS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(11, 23)}
pytestmark = pytest.mark.slow

IN_FLIGHT = 4
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


def test_stopped_at_every_point_a_run_makes_the_same_rollouts_and_repeats_no_call(tmp_path: Path) -> None:
    """Without labels, and with batches that begin under an older library. Answers take their time in the second run."""
    changes: dict[str, Any] = {"labels": "none", "max_staleness": 1}
    with OpenAIStub(Uneven()) as stub:
        plain = settings(tmp_path, stub, "plain", **changes)
        undisturbed = run(plain)
        asked = questions(stub)
    made, size = undisturbed.allocated, plain.group_size
    assert made.stopped
    assert made.skipped
    assert made.planned == len(PROBLEMS) * size * plain.epochs == made.drawn + made.saved + made.skipped * size
    assert made.drawn == sum(map(len, drawn(plain, undisturbed).values()))
    whole = sum(one.tokens_in + one.tokens_out for one in undisturbed.stages.values())
    with OpenAIStub(Uneven(delayed=True)) as stub:
        chosen = settings(tmp_path, stub, "stopped", **changes, max_tokens=whole // 8)
        with pytest.raises(BudgetExceeded):
            run(chosen)
        with read_store(chosen.store) as reader:
            (row,) = reader.runs()
        stops, report = 1, None
        while report is None:
            identity, again = settings_of(row.run, chosen.store, {"max_tokens": (stops + 1) * whole // 8})
            try:
                report = asyncio.run(run_learning(again, resume=identity))
            except BudgetExceeded:
                stops += 1
        assert stops > 3
        # A reply that the rest of a limit cuts off is asked for again.
        assert questions(stub) == asked
    assert drawn(chosen, report) == drawn(plain, undisturbed)
    assert (report.library, report.groups) == (undisturbed.library, undisturbed.groups)
    assert report.allocated == undisturbed.allocated
    unlike = {"seconds": 0.0}
    epochs = [[one.model_copy(update=unlike) for one in found.epochs] for found in (report, undisturbed)]
    assert epochs[0] == epochs[1]


def questions(stub: OpenAIStub) -> set[tuple[str, int]]:
    """What was asked, without consolidations, whose replies are long."""
    return {(repr(one["messages"]), one["seed"]) for one in stub.requests if stage_of(one) != "consolidate"}


def test_a_run_says_what_it_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIStub(Uneven()) as stub:
        chosen = settings(tmp_path, stub, "said")
        names = ("model", "reward", "epochs", "batch_size", "group_size", "stop_after", "revisit_every", "store")
        options = [word for name in names for word in (f"--{name.replace('_', '-')}", str(getattr(chosen, name)))]
        given = ["learn", str(chosen.data), *options, "--validation-rollouts", "0", "--no-eval"]
        assert command_line([*given, "--dry-run"]) == 0
        assert "of groups stop after 2 rollouts, which are enough" in capsys.readouterr().out
        assert command_line(given) == 0
    said = capsys.readouterr().out
    with read_store(chosen.store) as reader:
        row = reader.runs()[0]
        made = LearnReport.model_validate_json(row.report)
    counts = made.allocated
    assert f"rollouts   {counts.drawn} of 240 planned to learn from: {counts.stopped} groups needed no more" in said
    assert f"skipped {counts.skipped} visits to tasks that were all right when last seen" in said
    assert command_line(["trace", row.run, "--store", str(chosen.store)]) == 0
    listed = capsys.readouterr().out
    assert listed.count("2 of 5 rollouts: enough to tell") == counts.stopped
    assert f"epoch-2: {12 - made.epochs[1].skipped} tasks, {made.epochs[1].skipped} skipped" in listed
