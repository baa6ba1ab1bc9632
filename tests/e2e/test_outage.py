"""An outage while held-out tasks are measured: nothing is scored as wrong, and no verdict is printed."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.command import agentlearn
from tests.support.openai_script import Reply, Request, Solver, error, stage_of
from tests.support.openai_stub import OpenAIStub

PROBLEMS = {f"What is the sum of all whole numbers from 1 to {n}?": n * (n + 1) // 2 for n in range(11, 41)}


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


@pytest.mark.slow
def test_an_outage_during_after_is_no_result(tmp_path: Path) -> None:
    tasks = tmp_path / "sums.jsonl"
    tasks.write_text("".join(json.dumps({"problem": p, "answer": str(a)}) + "\n" for p, a in PROBLEMS.items()))
    options = ("--sandbox", "unsafe-local", "--epochs", "1", "--batch-size", "30", "--test-share", "0.4")
    with OpenAIStub(OutageWithLessons()) as stub:
        done = agentlearn(
            "learn", "math", "--data", str(tasks), "--model", f"{stub.base_url}#any", *options, cwd=tmp_path
        )
    runs = json.loads(agentlearn("runs", "list", "--json", cwd=tmp_path).stdout)["runs"]
    report = json.loads(agentlearn("runs", "show", runs[0]["run"], "--json", cwd=tmp_path).stdout)["run"]["report"]
    delta, after = report["delta"], report["after"]
    assert after["undecided"] > 0
    assert after["errors"] == {"endpoint_503": after["undecided"]}
    assert (after["failed"], report["before"]["undecided"]) == (0, 0)
    assert delta["verdict"] == "cannot_tell"
    assert delta["withheld"]
    assert delta["worst"]["low"] < 0 < delta["worst"]["high"]
    line = next(line for line in done.stdout.splitlines() if line.strip().startswith("held out"))
    assert delta["withheld"] in line, "the reason comes before any number"
    assert f"{after['undecided']} of {after['rollouts']} after" in done.stdout
