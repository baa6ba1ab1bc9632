"""What `learn` prints about held-out tasks when the service fails there."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, Solver, error, stage_of
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

PROBLEMS = {f"What is the sum of all whole numbers from 1 to {n}?": n * (n + 1) // 2 for n in range(11, 71)}


@dataclass
class OutageWithLessons:
    """A service that refuses a third of the solving requests whose prompt holds lessons: here, those of `after`."""

    solver: Solver = field(default_factory=lambda: Solver(answers={p: str(a) for p, a in PROBLEMS.items()}))

    def __call__(self, request: Request) -> Reply:
        asked = json.dumps(request["messages"])
        number = next((n for n, problem in enumerate(PROBLEMS) if problem in asked), 0)
        if stage_of(request) == "solve" and "[G1]" in asked and number % 3 == 0:
            return error(503, headers={"Retry-After": "300"})  # longer than any retry waits
        return self.solver(request)


def learn_sums(folder: Path, service: OutageWithLessons) -> tuple[str, dict[str, Any]]:
    """Return what `learn` prints, and the report that it stores. The last version is taken, whatever it does."""
    tasks = folder / "sums.jsonl"
    tasks.write_text("".join(json.dumps({"problem": p, "answer": str(a)}) + "\n" for p, a in PROBLEMS.items()))
    options = (
        "--sandbox",
        "unsafe-local",
        "--epochs",
        "1",
        "--batch-size",
        "30",
        "--test-share",
        "0.5",
        "--select",
        "last",
    )
    with OpenAIStub(service) as stub:
        model = f"{stub.base_url}#any"
        done = agentlearn_here("learn", "math", "--data", str(tasks), "--model", model, *options, cwd=folder)
    runs = json.loads(agentlearn_here("runs", "list", "--json", cwd=folder).stdout)["runs"]
    shown = json.loads(agentlearn_here("runs", "show", runs[0]["run"], "--json", cwd=folder).stdout)
    return done.stdout, shown["run"]["report"]


def test_an_outage_during_after_is_no_result(tmp_path: Path) -> None:
    said, report = learn_sums(tmp_path, OutageWithLessons())
    delta, after = report["delta"], report["after"]
    assert after["undecided"] > 0
    assert after["errors"] == {"endpoint_503": after["undecided"]}
    assert (after["failed"], report["before"]["undecided"]) == (0, 0)
    assert delta["verdict"] == "cannot_tell"
    assert delta["worst"]["low"] < 0 < delta["worst"]["high"]
    line = next(line for line in said.splitlines() if line.strip().startswith("held out"))
    lost = f"{after['undecided']} of {after['rollouts'] + report['before']['rollouts']} rollouts have no score"
    assert line.split(None, 2)[2].startswith(f"cannot tell: {lost}, so the difference could be between -0.")
    assert f"{after['undecided']} of {after['rollouts']} after" in said
