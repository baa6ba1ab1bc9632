"""A model that is served at two addresses, in whole runs: also when one of them stops, and when it is gone for good."""

import itertools
import json
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_killed_processes import rewards
from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, Solver
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

PROBLEMS = {f"What is {n} plus {n + 3}?": str(2 * n + 3) for n in range(20)}
LEARN = ("sums.jsonl", "--reward", "number", "--epochs", "1", "--batch-size", "14", "--eval-rollouts", "2")


@pytest.fixture
def folders(tmp_path: Path) -> Callable[[str], Path]:
    """A function that makes a folder with the tasks."""

    def make(name: str) -> Path:
        (tmp_path / name).mkdir()
        rows = [json.dumps({"problem": problem, "answer": answer}) for problem, answer in PROBLEMS.items()]
        (tmp_path / name / "sums.jsonl").write_text("\n".join(rows))
        return tmp_path / name

    return make


@contextmanager
def served(count: int, *, stops_after: int | None = None) -> Generator[tuple[list[OpenAIStub], tuple[str, ...]]]:
    """Run servers of one model, and yield them and the options that name them.

    stops_after: requests after which the last one closes its port and all its connections.
    """
    solver, number = Solver(answers=PROBLEMS, success_rate=0.5), itertools.count(1)

    def script(request: Request) -> Reply:
        if next(number) == stops_after:
            threading.Thread(target=stubs[-1].__exit__, args=(None, None, None)).start()
        return solver(request)

    stubs = [OpenAIStub(solver, latency_s=0.01) for _ in range(count - 1)]
    stubs.append(OpenAIStub(script, latency_s=0.01))
    with ExitStack() as stack:
        for one in stubs:
            stack.enter_context(one)
        yield stubs, tuple(word for one in stubs for word in ("--model", f"{one.base_url}#any"))


def learned(folder: Path, *options: str, expect: int = 0) -> dict[str, Any]:
    done = agentlearn_here("learn", *options, "--json", cwd=folder, expect=expect)
    return json.loads(done.stdout) if expect == 0 else {"stderr": done.stderr}


def same(folder: Path, report: dict[str, Any], other: Path, expected: dict[str, Any]) -> None:
    """Check that two runs have the same rollouts and the same library."""
    assert rewards(folder) == rewards(other)
    assert report["library"]["version"] == expected["library"]["version"]
    assert report["rollouts"]["undecided"] == 0


def test_two_endpoints_give_what_one_gives_also_when_one_stops(folders: Callable[[str], Path]) -> None:
    one, two, stopped = folders("one"), folders("two"), folders("stopped")
    with served(1) as (_, models):
        expected = learned(one, *LEARN, *models)
    with served(2) as (stubs, models):
        report = learned(two, *LEARN, *models, "--workers", "2")
    same(two, report, one, expected)
    counts = [len(stub.requests) for stub in stubs]
    assert max(counts) <= 1.2 * sum(counts) / 2
    (service,) = report["services"]
    assert [each["answers"] for each in service["endpoints"]] == counts
    assert [each["failures"] for each in service["endpoints"]] == [{}, {}]
    with served(2, stops_after=30) as (stubs, models):
        report = learned(stopped, *LEARN, *models)
    same(stopped, report, one, expected)
    (service,) = report["services"]
    assert service["endpoints"][0]["failures"] == {}
    assert service["endpoints"][1]["failures"].get("connection", 0) >= 1, service["endpoints"]
    assert service["endpoints"][1]["set_asides"] >= 1
    assert report["failed_requests"]["connection"] == service["endpoints"][1]["failures"]["connection"]
    assert any("had 2 endpoints: " in note and "set aside" in note for note in report["notes"])
