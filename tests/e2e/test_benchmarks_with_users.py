"""Benchmarks whose tasks have users: `learn` and `compare` with models of a service, on small made-up benchmarks."""

import json
import re
from pathlib import Path

import pytest

from agentlearn_adapters.state_bench import VARIABLE as STATE_BENCH
from agentlearn_adapters.tau_bench import VARIABLE as TAU_BENCH
from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, Solver, digest, stage_of, text, tool_call
from tests.support.openai_stub import OpenAIStub

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


@pytest.mark.slow
def test_tau_bench_is_learned_compared_and_its_users_are_another_model(clone: None, tmp_path: Path) -> None:
    with OpenAIStub(served) as stub:
        models = ("--model", f"{stub.base_url}#desk", "--user-model", f"{stub.base_url}#reader", "--yes")
        learned = json.loads(
            agentlearn_here(
                *("learn", "tau-bench:retail", *models, "--epochs", "1", "--eval-rollouts", "2"),
                "--json",
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


def rented(request: Request) -> Reply:
    """A customer, a judge that also writes lessons, or a shop that rents in half of its attempts and with lessons."""
    said = " ".join(str(one["content"]) for one in request["messages"])
    if request["model"] == "customer":
        return text("Fine. [TASK_DONE]" if said.count("assistant: ") > 1 else "What does it cost?")
    if "Judge these requirements" in said:
        return text(json.dumps({"details": [{"id": "price", "passed": "9 euros" in said.split('"conversation"')[1]}]}))
    if request["model"] == "teacher":
        return STAGES(request)
    bike, user = re.search(r"I want the (\w+) bike", said), re.search(r"Customer: (\w+)", said)
    assert bike
    assert user
    if any(one["role"] == "tool" for one in request["messages"]):
        return text("It costs 9 euros.")
    if "<experiences" in said or digest(request.get("seed"), bike[0]) % 2:
        return tool_call("rent", {"bike": bike[1], "user": user[1]})
    return text("It costs 9 euros, and is not here.")


@pytest.mark.slow
def test_state_bench_is_learned_judged_and_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(STATE_BENCH, str(CLONES / "state"))
    with OpenAIStub(rented) as stub:
        models = ("--model", f"{stub.base_url}#shop", "--user-model", f"{stub.base_url}#customer", "--yes")
        learned = json.loads(
            agentlearn_here(
                *("learn", "state-bench:travel", *models, "--reflector", f"{stub.base_url}#teacher"),
                *("--epochs", "1", "--eval-rollouts", "4", "--json"),
                cwd=tmp_path,
            ).stdout
        )
        assert learned["library"]["name"] == "state-bench-travel"
        assert learned["rollouts"]["undecided"] == 0
        assert learned["before"]["mean"] < learned["after"]["mean"] == 1.0
        assert min(learned["stages"][one]["calls"] for one in ("user", "judge", "summarise")) > 0
        compared = json.loads(
            agentlearn_here(
                *("compare", "none", "state-bench-travel", "--k", "2", "--domain", "state-bench:travel", *models),
                *("--judge", f"{stub.base_url}#teacher", "--json"),
                cwd=tmp_path,
            ).stdout
        )
    assert [arm["undecided"] for arm in compared["arms"]] == [0, 0]
    assert compared["arms"][1]["score"] == 1.0


@pytest.mark.slow
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
