"""Real input through a real door: task files, and an OpenAI-compatible server that is not the simulator."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import learn
from tests.support.openai_script import Reply, Request, Solver, error
from tests.support.openai_stub import OpenAIStub

PROBLEMS = {
    rf"A triangle with {n} rows of dots is drawn as in $\frac{{n(n+1)}}{{2}}$. How many dots has it?": n * (n + 1) // 2
    for n in range(11, 25)
}
_ALL = ("--group-size", "3", "--stop-after", "3", "--validation-rollouts", "0")
REAL = ("--sandbox", "unsafe-local", "--epochs", "1", "--batch-size", "10", "--eval-rollouts", "2", *_ALL)


@pytest.fixture
def aime_like(tmp_path: Path) -> Path:
    """`problem` and zero-padded `answer`, with columns nobody asked for."""
    path = tmp_path / "aime_like.jsonl"
    rows = [{"id": n, "problem": p, "answer": f"{a:03}", "url": "x"} for n, (p, a) in enumerate(PROBLEMS.items())]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def solver(**options: Any) -> Solver:
    return Solver(answers={p: str(a) for p, a in PROBLEMS.items()}, success_rate=0.5, **options)


@pytest.mark.slow
def test_a_task_file_is_learned_from_to_the_end_with_tool_calls(aime_like: Path, tmp_path: Path) -> None:
    with OpenAIStub(solver()) as stub:
        report = learn(tmp_path, "--data", str(aime_like), "--model", f"{stub.base_url}#any", *REAL, here=True)
        counts = dict(stub.counts)
    assert report["simulated"] is False
    assert report["tasks"] == {"train": 10, "test": 4}
    assert report["rollouts"] == {"ok": 10 * 3 + 2 * 4 * 2, "failed": 0, "undecided": 0}
    assert report["library"]["lessons"] > 0
    assert 0.2 < report["before"]["mean"] < 0.8
    # The server's own count: nothing was asked that the report does not know of.
    for stage, calls in counts.items():
        assert report["stages"]["rollout" if stage == "solve" else stage]["calls"] == calls
    assert counts["solve"] == 2 * sum(report["rollouts"].values())
    assert report["cost_usd"] is None, "the price of a model on loopback is unknown, not zero"


def breaking(every: int) -> Callable[[Request], Reply]:
    """A solver that refuses each `every`-th request, first with 429 and then with 500."""
    inner, asked = solver(), 0

    def script(request: Request) -> Reply:
        nonlocal asked
        asked += 1
        if asked % every == 0:
            return error(429 if asked % (2 * every) else 500, headers={"Retry-After": "0"})
        return inner(request)

    return script


def test_refusals_are_tried_again_and_counted(aime_like: Path, tmp_path: Path) -> None:
    with OpenAIStub(breaking(10)) as stub:
        report = learn(
            tmp_path,
            *("--data", str(aime_like), "--limit", "6", "--model", f"{stub.base_url}#any"),
            *(*REAL, "--no-eval"),
            here=True,
        )
    assert report["rollouts"]["failed"] == 0
    assert set(report["failed_requests"]) == {"status_429", "status_500"}
    assert sum(line["retried"] for line in report["stages"].values()) == sum(report["failed_requests"].values())
