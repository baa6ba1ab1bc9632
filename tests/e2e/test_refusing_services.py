"""Services that refuse: a run stops soon, says in one sentence what was refused, and says what to do next."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import agentlearn, agentlearn_here
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


def without_seed(request: Request) -> Mapping[str, Any] | None:
    if "seed" not in request:
        return None
    detail = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 1}
    return {"detail": [detail]}


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
    ("refused", "option"),
    [
        (without_temperature, ("--temperature", "none")),
        (without_seed, ("--no-seed",)),
        (without_system, ("--fold-system",)),
    ],
)
def test_a_refused_setting_is_named_and_can_be_left_out(
    refused: Callable[[Request], Mapping[str, Any] | None], option: tuple[str, ...], tasks: str, tmp_path: Path
) -> None:
    with OpenAIStub(refusing(refused)) as stub:
        command = ("learn", tasks, *ADDING, "--model", f"{stub.base_url}#any", *QUICK)
        done = agentlearn(*command, "--store", "refused", "--concurrency", "1", cwd=tmp_path, expect=1)
        asked = len(stub.requests)
        assert asked == 8
        sentence = the_sentence(done.stderr)
        assert "no call has been answered (8 tried)" in sentence
        assert " ".join(option) in sentence
        assert not list((tmp_path / "refused" / "libraries").glob("*"))
        # The stub ignores lessons, so no version is better than the start: take the last one.
        last = ("--select", "last")
        report = json.loads(agentlearn(*command, *option, *last, "--json", cwd=tmp_path).stdout)
    assert report["rollouts"]["failed"] == 0
    assert report["library"]["lessons"] > 0


@pytest.mark.parametrize("status", [403, 500])
def test_a_service_that_answers_nothing_stops_the_run(status: int, tasks: str, tmp_path: Path) -> None:
    body = {"error": {"message": "this service is closed"}}
    with OpenAIStub(lambda _: error(status, body, headers={"Retry-After": "0"})) as stub:
        done = agentlearn(
            *("learn", tasks, *ADDING, "--model", f"{stub.base_url}#any", *QUICK, "--concurrency", "2"),
            cwd=tmp_path,
            expect=1,
        )
        assert len(stub.requests) <= 30
    sentence = the_sentence(done.stderr)
    assert "no call has been answered" in sentence
    assert "this service is closed" in sentence
    assert state_of(tmp_path) == "failed"
    assert not list((tmp_path / ".agentlearn" / "libraries").glob("*"))


def test_a_service_that_sends_no_completions_stops_the_run(tasks: str, tmp_path: Path) -> None:
    with OpenAIStub(lambda _: Reply(status=200, body="<html>It works!</html>")) as stub:
        done = agentlearn(
            *("learn", tasks, *ADDING, "--model", f"{stub.base_url}#any", *QUICK, "--concurrency", "3"),
            cwd=tmp_path,
            expect=1,
        )
        assert len(stub.requests) <= 40
    assert "no call has been answered" in the_sentence(done.stderr)
    assert state_of(tmp_path) == "failed"


def test_solve_and_compare_stop_too(tasks: str, tmp_path: Path) -> None:
    with OpenAIStub(refusing(without_temperature)) as stub:
        model = ("--model", f"{stub.base_url}#any", "--sandbox", "unsafe-local")
        done = agentlearn("solve", "math", "What is 1 + 1?", *model, cwd=tmp_path, expect=1)
        assert "--temperature none" in the_sentence(done.stderr)
        assert state_of(tmp_path) == "failed"
        agentlearn("solve", "math", "What is 1 + 1?", *model, "--temperature", "none", cwd=tmp_path)
        compare = ("compare", "a=none", "b=none,temperature=0.2", "--domain", tasks, *ADDING, *model, "-k", "2")
        stub.requests.clear()
        done = agentlearn(*compare, "--store", "two", cwd=tmp_path, expect=1)
        assert "refused with status" in the_sentence(done.stderr)
        assert len(stub.requests) <= 64
        mixed = ("compare", "a=none,temperature=none", "b=none,temperature=0.2", *compare[3:])
        done = agentlearn(*mixed, "--store", "three", cwd=tmp_path, expect=1)
        assert "leave the temperature out with --temperature none" in the_sentence(done.stderr)


def test_a_reflector_that_answers_nothing_is_said(tasks: str, tmp_path: Path) -> None:
    def lessons_refused(request: Request) -> Mapping[str, Any] | None:
        return None if stage_of(request) == "solve" else {"error": {"message": "too long for me"}}

    with OpenAIStub(refusing(lessons_refused)) as stub:
        done = agentlearn(
            *("learn", tasks, *ADDING, "--model", f"{stub.base_url}#any", *QUICK, "--concurrency", "2"),
            cwd=tmp_path,
            expect=1,
        )
    sentence = the_sentence(done.stderr)
    assert "no call of the model that writes the lessons has been answered" in sentence
    assert "too long for me" in sentence
    assert state_of(tmp_path) == "interrupted", "the rollouts are paid for, so the run can be resumed"
    assert not list((tmp_path / ".agentlearn" / "libraries").glob("*"))


@pytest.mark.parametrize("own", [True, False], ids=["a reflector of its own", "the model writes lessons"])
@pytest.mark.parametrize("lessons", [None, 700])
def test_short_answers_and_lessons_have_limits_of_their_own(
    own: bool, lessons: int | None, tasks: str, tmp_path: Path
) -> None:
    with OpenAIStub(solver()) as stub:
        model = (*ADDING, "--model", f"{stub.base_url}#any", "--max-output-tokens", "90", *QUICK, "--no-eval")
        reflector = ("--reflector", f"{stub.base_url}#other") if own else ()
        limit = () if lessons is None else ("--reflector-output-tokens", str(lessons))
        agentlearn("learn", tasks, *model, *reflector, *limit, cwd=tmp_path)
        sent = {(stage_of(one) != "solve", one.get("max_tokens")) for one in stub.requests}
    assert sent == {(False, 90), (True, lessons or (None if own else 90))}


def test_a_few_refusals_stop_nothing(tasks: str, tmp_path: Path) -> None:
    """Half of the requests to solve are refused at once, while answers take longer."""

    def half(request: Request) -> Mapping[str, Any] | None:
        refused = stage_of(request) == "solve" and request["seed"] % 2
        return {"error": {"message": "this prompt is too long"}} if refused else None

    with OpenAIStub(refusing(half)) as stub:
        agentlearn("learn", tasks, *ADDING, "--model", f"{stub.base_url}#any", *QUICK, cwd=tmp_path)
    assert state_of(tmp_path) == "done"


def test_what_is_sent_is_another_condition_of_compare(tasks: str, tmp_path: Path) -> None:
    with OpenAIStub(solver()) as stub:
        model = ("--model", f"{stub.base_url}#any", "--sandbox", "unsafe-local", "-k", "1", "--limit", "4")
        compare = ("compare", "a=none", "b=none,temperature=none", "--domain", tasks, *ADDING, *model, "--json")
        agentlearn(*compare, cwd=tmp_path)
        first = len(stub.requests)
        agentlearn(*compare, cwd=tmp_path)
        assert len(stub.requests) == first, "the stored rollouts are reused"
        report = json.loads(agentlearn(*compare, "--top-p", "0.9", "--reasoning-effort", "low", cwd=tmp_path).stdout)
        later = stub.requests[first:]
        assert len(later) == first
        assert {(one["top_p"], one["reasoning_effort"]) for one in later} == {(0.9, "low")}
        assert {one.get("temperature") for one in later} == {0.3, None}
    sampling = report["reproducibility"]["sampling"]
    assert set(sampling.values()) == {
        "temperature 0.3, top p 0.9, reasoning effort low",
        "no temperature sent, top p 0.9, reasoning effort low",
    }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 7", "gave 7 (own_reward.py:3) for the answer '3' to task 'sums.jsonl:1'"),
        ("return float(answer) == float(task.answer)", "raised ValueError: could not convert string to float"),
        ("return 0", "earns 0 by the reward 'own_reward:score' (own_reward.py:3)"),
    ],
)
def test_a_reward_that_cannot_judge_is_refused_before_the_first_call(
    body: str, said: str, tasks: str, tmp_path: Path
) -> None:
    (tmp_path / "own_reward.py").write_text(f"import math\n\ndef score(task, answer):\n    {body}\n")
    with OpenAIStub(solver()) as stub:
        model = ("--reward", "own_reward:score", "--model", f"{stub.base_url}#any", "--sandbox", "unsafe-local")
        done = agentlearn("learn", tasks, *model, cwd=tmp_path, expect=2)
        assert said in the_sentence(done.stderr)
        done = agentlearn("compare", "none", "b=none,temperature=0", "--domain", tasks, *model, cwd=tmp_path, expect=2)
        assert said in the_sentence(done.stderr)
        assert stub.requests == []


def test_the_first_cause_of_an_undecided_verdict_is_in_the_notes(tasks: str, tmp_path: Path) -> None:
    """The reward reads every answer that is tried, and fails on what the model writes."""
    code = "def score(task, answer):\n    if answer == task.answer or 'nobody' in answer or not answer:\n"
    code += "        return answer == task.answer\n    raise RuntimeError('no such unit')\n"
    (tmp_path / "own_reward.py").write_text(code)
    with OpenAIStub(solver()) as stub:
        model = ("--reward", "own_reward:score", "--model", f"{stub.base_url}#any", *QUICK)
        report = json.loads(agentlearn("learn", tasks, *model, "--json", cwd=tmp_path).stdout)
    (note,) = [one for one in report["notes"] if "rollouts undecided and not counted" in one]
    assert "the first because reward_raised: the reward 'own_reward:score' raised RuntimeError: no such unit" in note
