"""A benchmark whose tasks have users: `learn` and `compare` with models of a service, on a small made-up one."""

import json
import re
from pathlib import Path

import pytest

from agentlearn_adapters.tau_bench import VARIABLE as TAU_BENCH
from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, Solver, digest, stage_of, text, tool_call
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

CLONES = Path(__file__).parents[1] / "adapters" / "small_clones"
WISH = re.compile(r"You are (\w+)\. You want to (\w+) the book '([^']+)'")
STAGES = Solver()


def served(request: Request) -> Reply:
    """A reader, or a desk that does what it is asked in half of its attempts, and always once it has read lessons."""
    messages = request["messages"]
    said = " ".join(str(one["content"]) for one in messages)
    answers = sum(one["role"] == "assistant" for one in messages)
    if request["model"] == "reader":
        wish = WISH.search(said)
        assert wish
        return text(wish[0] if not answers else "Thank you. ###STOP###")
    if stage_of(request) != "solve":
        return STAGES(request)
    wish = WISH.search(said)
    assert wish
    done = {"borrow": "lend", "return": "give_back"}[wish[2]]
    lucky = "<experiences" in said or digest(request.get("seed"), wish[0]) % 2
    if answers or not lucky:
        return text("It is lent for 1 week, or returned.")
    return tool_call(done, {"reader": wish[1], "book": wish[3]})


@pytest.fixture
def clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TAU_BENCH, str(CLONES / "tau"))


def test_lessons_from_tau_bench_wait_and_the_run_names_the_word_that_opens_them(clone: None, tmp_path: Path) -> None:
    with OpenAIStub(served) as stub:
        models = ("--model", f"{stub.base_url}#desk", "--user-model", f"{stub.base_url}#reader", "--yes")
        learned = json.loads(
            agentlearn_here(
                "learn", "tau-bench:retail", *models, "--epochs", "1", "--no-eval", "--json", cwd=tmp_path
            ).stdout
        )
    assert learned["selection"]["status"] == "pending"
    assert "tasks of a dataset (tau-bench:retail); --trust tasks " in learned["selection"]["reason"]


def test_tau_bench_is_learned_compared_and_its_users_are_another_model(clone: None, tmp_path: Path) -> None:
    with OpenAIStub(served) as stub:
        models = ("--model", f"{stub.base_url}#desk", "--user-model", f"{stub.base_url}#reader", "--yes")
        learned = json.loads(
            agentlearn_here(
                *("learn", "tau-bench:retail", *models, "--epochs", "1", "--eval-rollouts", "2"),
                *("--trust", "tasks", "--json"),
                cwd=tmp_path,
            ).stdout
        )
        assert learned["library"]["name"] == "tau-bench-retail"
        assert learned["rollouts"]["undecided"] == 0
        assert learned["before"]["mean"] < learned["after"]["mean"] == 1.0
        assert learned["stages"]["user"]["calls"] > learned["stages"]["summarise"]["calls"] > 0
        compared = json.loads(
            agentlearn_here(
                *("compare", "none", "tau-bench-retail", "--domain", "tau-bench:airline", "--k", "2", *models),
                "--json",
                cwd=tmp_path,
            ).stdout
        )
    assert [arm["undecided"] for arm in compared["arms"]] == [0, 0]
    assert compared["arms"][1]["score"] == 1.0


def test_recorded_trials_are_learned_from_and_compared(clone: None, tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Done."}]
    for name, worse in (("before", 3), ("after", 1)):
        rows = [
            {"task_id": task, "reward": float(trial >= worse), "trial": trial, "info": {}, "traj": said}
            for task in range(6)
            for trial in range(4)
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    named = ("--domain", "tau-bench:airline")
    imported = agentlearn_here("store", "import", "before.json", *named, cwd=tmp_path).stdout
    assert "24 rollouts of 6 tasks, 24 with a reward" in imported
    with OpenAIStub(served) as stub:
        models = ("--model", f"{stub.base_url}#desk", "--user-model", f"{stub.base_url}#reader")
        learned = ("learn", "tau-bench:airline", "--from-store", "--no-eval", *models, "--yes", "--json")
        report = json.loads(agentlearn_here(*learned, cwd=tmp_path).stdout)
    assert report["groups"]["mixed"] == 6
    compared = agentlearn_here(
        "compare", "--logs", "before.json", "--logs", "after.json", *named, "--json", cwd=tmp_path
    )
    (contrast,) = json.loads(compared.stdout)["contrasts"]
    assert (contrast["baseline"], contrast["arm"], contrast["mean"]) == ("before", "after", 0.5)
