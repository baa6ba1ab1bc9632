"""The wall time that `learn --dry-run` predicts, against that of the run: five runs with other settings.

A stub service answers after a set time. A small run of 12 tasks measures it first, as a user would. Then the plan of a
larger run with other settings is taken, and the run itself is made. The stub's problems are tasks from a file with one
call a rollout; half of the answers are right, by chance.

    just bench wall_time
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from scripts.bench.found import Found, Row, Target
from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub

LIMIT = 0.15


class Case(NamedTuple):
    """A run to predict. The options differ from those of the run that measures the service."""

    latency_s: float
    tasks: int
    options: tuple[str, ...]


CASES = (
    Case(1.0, 50, ("--concurrency", "8", "--epochs", "1", "--batch-size", "20")),
    Case(2.0, 50, ("--concurrency", "16", "--epochs", "2", "--batch-size", "10")),
    Case(
        8.0,
        36,
        (
            *("--concurrency", "32", "--epochs", "2", "--batch-size", "12", "--group-size", "8"),
            *("--eval-rollouts", "2"),
        ),
    ),
    Case(8.0, 40, ("--concurrency", "24", "--epochs", "1", "--batch-size", "20", "--workers", "2")),
    Case(10.0, 40, ("--concurrency", "40", "--epochs", "2", "--batch-size", "10", "--workers", "2", "--no-eval")),
)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", type=int, choices=range(1, len(CASES) + 1), help="measure only this run")


def measure(chosen: argparse.Namespace) -> Found:
    """Predict and make the runs."""
    rows = [
        _case(f"run {number}", case)
        for number, case in enumerate(CASES, start=1)
        if chosen.only is None or chosen.only == number
    ]
    worst = max(abs(float(row.figures["ratio"] or 0) - 1) for row in rows)
    return Found(
        rows=tuple(rows),
        targets=(Target(what="largest error of the predicted wall time", figure=worst, bound="at_most", limit=LIMIT),),
    )


def _case(name: str, case: Case) -> Row:
    answers = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(40, 40 + case.tasks)}
    script = Solver(answers=answers, final="The answer is {0}".format)
    with tempfile.TemporaryDirectory() as folder, OpenAIStub(script, latency_s=case.latency_s) as stub:
        data = Path(folder, "tasks.jsonl")
        data.write_text("\n".join(json.dumps({"problem": text, "answer": answer}) for text, answer in answers.items()))
        learn = ("learn", str(data), "--reward", "number", "--model", f"{stub.base_url}#any", "--yes")
        learn = (*learn, "--store", f"{folder}/store")
        _json(*learn, "--limit", "12", "--epochs", "1", "--concurrency", "16")
        plan = _json(*learn, *case.options, "--dry-run")
        report = _json(*learn, *case.options, "--from", "none")
    figures = {"latency_s": case.latency_s, "predicted_s": plan["wall_s"], "wall_s": report["wall_s"]}
    return Row(name=name, figures={**figures, "ratio": plan["wall_s"] / report["wall_s"]})


def _json(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "agentlearn", *arguments, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
