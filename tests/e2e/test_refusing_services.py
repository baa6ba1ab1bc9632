"""Services that refuse: a run stops soon, says in one sentence what was refused, and says what to do next."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, Script, Solver, error, stage_of
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


def solver() -> Solver:
    return Solver(answers=PROBLEMS, success_rate=0.5)


def refusing(refused: Callable[[Request], Mapping[str, Any] | None], status: int = 400) -> Script:
    """A service that refuses a request with the body that `refused` returns; the others it answers."""
    inner = solver()

    def script(request: Request) -> Reply:
        body = refused(request)
        return inner(request) if body is None else error(status, body)

    return script


def without_temperature(request: Request) -> Mapping[str, Any] | None:
    if "temperature" not in request:
        return None
    message = f"Unsupported value: 'temperature' does not support {request['temperature']} with this model."
    return {"error": {"message": message, "param": "temperature", "code": "unsupported_value"}}


def without_system(request: Request) -> Mapping[str, Any] | None:
    if all(one["role"] != "system" for one in request["messages"]):
        return None
    return {"object": "error", "message": "System role not supported", "code": 400}


def state_of(cwd: Path) -> str:
    (run,) = json.loads(agentlearn_here("runs", "list", "--json", cwd=cwd).stdout)["runs"]
    return run["state"]


def the_sentence(stderr: str) -> str:
    assert "Traceback" not in stderr
    (line,) = [one for one in stderr.splitlines() if one.startswith("agentlearn: ")]
    return line


@pytest.mark.parametrize(
    ("refused", "option"), [(without_temperature, ("--temperature", "none")), (without_system, ("--fold-system",))]
)
def test_a_refused_setting_is_named_and_can_be_left_out(
    refused: Callable[[Request], Mapping[str, Any] | None], option: tuple[str, ...], tasks: str, tmp_path: Path
) -> None:
    with OpenAIStub(refusing(refused)) as stub:
        command = ("learn", tasks, *ADDING, "--model", f"{stub.base_url}#any", *QUICK)
        done = agentlearn_here(*command, "--store", "refused", "--concurrency", "1", cwd=tmp_path, expect=1)
        asked = len(stub.requests)
        assert asked == 8
        sentence = the_sentence(done.stderr)
        assert "no call has been answered (8 tried)" in sentence
        assert " ".join(option) in sentence
        assert not list((tmp_path / "refused" / "libraries").glob("*"))
        # The stub ignores lessons, so no version is better than the start: take the last one.
        last = ("--select", "last")
        report = json.loads(agentlearn_here(*command, *option, *last, "--json", cwd=tmp_path).stdout)
    assert report["rollouts"]["failed"] == 0
    assert report["library"]["lessons"] > 0


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (
            error(500, {"error": {"message": "this service is closed"}}, headers={"Retry-After": "0"}),
            "this service is closed",
        ),
        (Reply(status=200, body="<html>It works!</html>"), "no call has been answered"),
    ],
    ids=["closed", "no completions"],
)
def test_a_service_that_answers_nothing_stops_the_run(reply: Reply, cause: str, tasks: str, tmp_path: Path) -> None:
    with OpenAIStub(lambda _: reply) as stub:
        done = agentlearn_here(
            *("learn", tasks, *ADDING, "--model", f"{stub.base_url}#any", *QUICK, "--concurrency", "2"),
            cwd=tmp_path,
            expect=1,
        )
        assert len(stub.requests) <= 40
    sentence = the_sentence(done.stderr)
    assert "no call has been answered" in sentence
    assert cause in sentence
    assert state_of(tmp_path) == "failed"
    assert not list((tmp_path / ".agentlearn" / "libraries").glob("*"))


def test_solve_and_compare_stop_too(tasks: str, tmp_path: Path) -> None:
    with OpenAIStub(refusing(without_temperature)) as stub:
        model = ("--model", f"{stub.base_url}#any", "--sandbox", "unsafe-local")
        done = agentlearn_here("solve", "math", "What is 1 + 1?", *model, cwd=tmp_path, expect=1)
        assert "--temperature none" in the_sentence(done.stderr)
        assert state_of(tmp_path) == "failed"
        agentlearn_here("solve", "math", "What is 1 + 1?", *model, "--temperature", "none", cwd=tmp_path)
        mixed = ("compare", "a=none,temperature=none", "b=none,temperature=0.2", "--domain", tasks, *ADDING, *model)
        stub.requests.clear()
        done = agentlearn_here(*mixed, "-k", "2", "--store", "two", cwd=tmp_path, expect=1)
        assert "leave the temperature out with --temperature none" in the_sentence(done.stderr)
        assert len(stub.requests) <= 128


def test_a_reflector_that_answers_nothing_is_said(tasks: str, tmp_path: Path) -> None:
    def lessons_refused(request: Request) -> Mapping[str, Any] | None:
        return None if stage_of(request) == "solve" else {"error": {"message": "too long for me"}}

    with OpenAIStub(refusing(lessons_refused)) as stub:
        done = agentlearn_here(
            *("learn", tasks, *ADDING, "--model", f"{stub.base_url}#any", *QUICK, "--concurrency", "2"),
            cwd=tmp_path,
            expect=1,
        )
    sentence = the_sentence(done.stderr)
    assert "no call of the model that writes the lessons has been answered" in sentence
    assert "too long for me" in sentence
    assert state_of(tmp_path) == "interrupted", "the rollouts are paid for, so the run can be resumed"
    assert not list((tmp_path / ".agentlearn" / "libraries").glob("*"))


@pytest.mark.parametrize(("own", "lessons"), [(True, None), (False, 700)])
def test_short_answers_and_lessons_have_limits_of_their_own(
    own: bool, lessons: int | None, tasks: str, tmp_path: Path
) -> None:
    with OpenAIStub(solver()) as stub:
        model = (*ADDING, "--model", f"{stub.base_url}#any", "--max-output-tokens", "90", *QUICK, "--no-eval")
        reflector = ("--reflector", f"{stub.base_url}#other") if own else ()
        limit = () if lessons is None else ("--reflector-output-tokens", str(lessons))
        agentlearn_here("learn", tasks, *model, *reflector, *limit, cwd=tmp_path)
        sent = {(stage_of(one) != "solve", one.get("max_tokens")) for one in stub.requests}
    assert sent == {(False, 90), (True, lessons)}


def test_a_reward_that_cannot_judge_is_refused_before_the_first_call(
    tasks: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    bodies = {
        "return 7": "gave 7 ({0}.py:3) for the answer '3' to task 'sums.jsonl:1'",
        "return float(answer) == float(task.answer)": "raised ValueError: could not convert string to float",
        "return 0": "earns 0 by the reward '{0}:score' ({0}.py:3)",
    }
    with OpenAIStub(solver()) as stub:
        model = ("--model", f"{stub.base_url}#any", "--sandbox", "unsafe-local")
        for number, (body, said) in enumerate(bodies.items()):
            name = f"own_reward_{number}"
            (tmp_path / f"{name}.py").write_text(f"import math\n\ndef score(task, answer):\n    {body}\n")
            reward = ("--reward", f"{name}:score", *model)
            arms = ("none", "b=none,temperature=0", "--domain", tasks)
            with subtests.test(body):
                for command in (("learn", tasks, *reward), ("compare", *arms, *reward)):
                    done = agentlearn_here(*command, cwd=tmp_path, expect=2)
                    assert said.format(name) in the_sentence(done.stderr)
        assert stub.requests == []
