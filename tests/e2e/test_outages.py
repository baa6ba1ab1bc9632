"""A service that fails for a while, cuts replies off, or changes its model, in whole runs."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import openai_stub
from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, Solver, error
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

PROBLEMS = {f"What is {n} plus {n + 3}?": str(2 * n + 3) for n in range(20)}
QUICK = ("--epochs", "1", "--batch-size", "14", "--eval-rollouts", "2", "--sandbox", "unsafe-local")
ADDING = ("--reward", "number")


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    rows = [json.dumps({"problem": problem, "answer": answer}) for problem, answer in PROBLEMS.items()]
    (tmp_path / "sums.jsonl").write_text("\n".join(rows))
    return "sums.jsonl"


class Failing:
    """A service that answers `first` requests, then fails for `seconds` in one way, then answers again."""

    def __init__(self, first: int, seconds: float, reply: Reply) -> None:
        self.inner = Solver(answers=PROBLEMS, success_rate=0.5)
        self.left, self.seconds, self.reply = first, seconds, reply
        self.began: float | None = None
        self.failed: list[float] = []
        """Seconds from the begin of the outage to each request that failed."""
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            self.left -= 1
            if self.left < 0 and self.began is None:
                self.began = time.monotonic()
            since = None if self.began is None else time.monotonic() - self.began
            failing = since is not None and since < self.seconds
            if failing and since is not None:
                self.failed.append(since)
        return self.reply if failing else self.inner(request)


def report_of(done: Any) -> dict[str, Any]:
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def test_a_short_outage_costs_no_rollout_and_is_asked_once_at_a_time(tasks: str, tmp_path: Path) -> None:
    script = Failing(30, 6.0, error(503))
    with OpenAIStub(script) as stub:
        model = ("--model", f"{stub.base_url}#any", *QUICK, "--workers", "2", "--concurrency", "16", "--json")
        done = agentlearn_here("learn", tasks, *ADDING, *model, cwd=tmp_path)
    report = report_of(done)
    assert report["rollouts"]["undecided"] == 0
    assert len(script.failed) <= 2 * 24 + 12, "one request at a time asks again"
    assert sum(one > 4 for one in script.failed) <= 3
    assert "(HTTP 503); asking again until" in done.stderr
    assert f"--resume {report['run']}" in done.stderr
    assert "answers again after" in done.stderr
    (service,) = report["services"]
    assert service["outages"] == 1
    assert 4 < service["outage_s"] < 60
    assert any("did not answer for" in note and "the run waited" in note for note in report["notes"])


def test_cut_off_replies_and_a_changed_model_are_noted(
    tasks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, seen = openai_stub.completion, list[str]()

    def completion(request: Request, reply: Reply) -> dict[str, Any]:
        whole = plain(request, reply)
        seen.append("")
        whole["model"] = "small-1" if len(seen) <= 10 else "small-2"
        whole["choices"][0]["finish_reason"] = {0: "length", 1: "content_filter"}.get(len(seen) % 5, "stop")
        return whole

    monkeypatch.setattr(openai_stub, "completion", completion)
    with OpenAIStub(Solver(answers=PROBLEMS, success_rate=0.5)) as stub:
        model = ("--model", f"{stub.base_url}#any", "--json", "--max-output-tokens", "2")
        report = report_of(agentlearn_here("learn", tasks, *ADDING, *model, *QUICK, cwd=tmp_path))
    (service,) = report["services"]
    notes = " ".join(report["notes"])
    assert sum(service["cut_off"].values()) > 0
    assert "replies were cut off at the output limit; raise --max-output-tokens" in notes
    assert service["models"]["small-1"] == 10
    assert "answered as 'small-1' 10 times and then as 'small-2'" in notes
    assert sum(service["faults"]["filtered"].values()) > 0
    assert "withheld its reply ('content_filter'); reword the problems" in notes
