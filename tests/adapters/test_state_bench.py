"""STATE-Bench: its tools, databases, prompts and scores, with scripted models.

The tests run on a made-up benchmark in its layout; on a clone of STATE-Bench where TEST_STATE_BENCH names its folder.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo

from agentlearn.config import RolloutOptions
from agentlearn.domain.base import load_domain
from agentlearn.errors import ConfigError, DataError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, UserTurn
from agentlearn_adapters.state_bench import VARIABLE, StateBenchDomain
from tests.adapters.scripted_rollouts import Script, rollouts
from tests.support.stages import ListJournal

REAL = os.environ.get("TEST_STATE_BENCH")
CLONE = REAL or str(Path(__file__).parent / "small_clones" / "state")
DOMAINS = ("travel", "customer_support", "shopping_assistant") if REAL else ("travel",)
SIZES = (100, 50) if REAL else (4, 2)
Act = tuple[str, dict[str, Any]] | str
"""A tool with its arguments, or what the agent says."""
USER = ("Please go on.", "Fine, thank you. [TASK_DONE]")
LOOK = ("get_policies", {}) if REAL else ("look", {"bike": "red"})


@pytest.fixture(autouse=True)
def clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, CLONE)


def domain(name: str = "travel") -> StateBenchDomain:
    found = load_domain(f"state-bench:{name}")
    assert isinstance(found, StateBenchDomain)
    return found


def recorded_calls(task: Task) -> list[Act]:
    """Calls that change the database: of a recorded trajectory, or those that the task of the small clone requires."""
    if not REAL:
        (want,) = json.loads(task.answer or "")["state_requirements"]
        return [("rent", {"bike": want["bike"], "user": want["rented_by"]})]
    name, task_id = task.domain.removeprefix("state-bench:"), task.fields["id"]
    file = Path(REAL) / "datasets/train_task_trajectories" / name / f"{task_id}.json"
    said = json.loads(file.read_text())["conversation"]
    return [(call["name"], call["arguments"]) for one in said for call in one.get("tool_calls") or ()]


def as_recorded(task: Task) -> list[Act]:
    return [LOOK, *recorded_calls(task), "It costs 9 euros.", "Good bye."]


def without_a_change(task: Task) -> list[Act]:
    return [LOOK, "It costs 9 euros."]


def without_an_end(task: Task) -> list[Act]:
    return ["What is it about?"] * 20


WAYS: list[Callable[[Task], list[Act]]] = [as_recorded, without_a_change, without_an_end]


def playing(acts: Sequence[Act]) -> Script:
    """A model that does one act after the other, by how often it has answered."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        act = acts[min(sum(isinstance(one, ModelResponse) for one in messages), len(acts) - 1)]
        return ModelResponse(parts=[TextPart(act) if isinstance(act, str) else ToolCallPart(*act)])

    return reply


def shown(messages: list[ModelMessage]) -> str:
    return "\n".join(str(part.content) for one in messages if isinstance(one, ModelRequest) for part in one.parts)


def customer(last: str = USER[-1]) -> Script:
    """Says the last words when the agent has spoken twice, as the one text shows it that it is given."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        spoken = shown(messages).lower().count("assistant: ")
        return ModelResponse(parts=[TextPart(USER[0] if spoken < 2 else last)])

    return reply


def ids_of(task: Task) -> list[str]:
    return [one["id"] for one in json.loads(task.answer or "")["task_requirements"]]


def judging(task: Task, *, passed: bool = True, leave_out: int = 0) -> Script:
    details = [{"id": one, "passed": passed, "reasoning": "seen"} for one in ids_of(task)]
    return playing([json.dumps({"details": details[leave_out:]})])


def ours(of: StateBenchDomain, task: Task, acts: Sequence[Act], judge: Script, **more: Any) -> Trajectory:
    more = {"user": customer(), "options": RolloutOptions(max_turns=60), **more}
    return rollouts(of, [task], playing(acts), judge=judge, **more)[0].trajectory


def theirs(task: Task, acts: Sequence[Act], passed: bool, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """The completion that the benchmark's own orchestrator and scoring give, with the same models."""
    client = ModuleType("state_bench.client")
    vars(client).update(dict.fromkeys(("BaseLLMClient", "LLMClient", "PooledLLMClient"), object))
    monkeypatch.setitem(sys.modules, "state_bench.client", client)
    parts = ("orchestrator", "agents.base", "domain", "env_loader", "schemas", "scoring", "paths")
    orchestrator, base, domains, loader, schemas, scoring, paths = (
        importlib.import_module(f"state_bench.{one}") for one in parts
    )
    name, left = task.domain.removeprefix("state-bench:"), [*acts, *[acts[-1]] * 20]

    class Scripted(base.BaseAgent):  # type: ignore[misc]
        def generate_next_turn(self, **_: Any) -> dict[str, Any]:
            if isinstance(left[0], str):
                return {"text": left.pop(0), "tool_calls": []}
            calls: list[dict[str, Any]] = []  # all at once, because its own loop has at most 8 rounds in a turn
            while not isinstance(left[0], str):
                name, arguments = left.pop(0)
                calls.append({"name": name, "arguments": arguments})
            return {"text": "", "tool_calls": calls}

    class Client:
        def complete_chat(self, messages: Any) -> str:
            return USER[0] if messages[1]["content"].lower().count("assistant: ") < 2 else USER[1]

        def complete_json(self, **_: Any) -> dict[str, Any]:
            return {"details": [{"id": one, "passed": passed, "reasoning": ""} for one in ids_of(task)]}

    one = schemas.TaskDefinition.load(paths.domain_tasks_dir(name) / f"{task.fields['id']}.json")
    config = domains.get_domain_config(name)
    data, _ = loader.load_task_environment(config, one)
    done = orchestrator.run_task(
        one, data, one.user_id, None, domain=config, agent=Scripted(), simulator_client=Client()
    )
    calls = [call for said in done.conversation for call in said.get("tool_calls") or ()]
    judge = scoring.TaskRequirementsJudge(Client(), config.prompts_dir, config.judge_system_prompt)
    judged = judge.evaluate(one, done.conversation, calls, done.state_diff)
    return scoring.combine_task_completion(scoring.evaluate_state_requirements(one, done.state_diff), judged)


@pytest.mark.parametrize("name", DOMAINS)
def test_every_task_loads_in_the_split_of_the_benchmark(name: str) -> None:
    of = domain(name)
    train, test = of.tasks("train", seed=0), of.tasks("test", seed=0)
    assert (len(train), len(test)) == SIZES
    assert len({one.id for one in (*train, *test)}) == sum(SIZES)
    assert not of.tasks("validation", seed=0)


@pytest.mark.parametrize("passed", [True, False])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", DOMAINS)
def test_the_reward_is_the_one_of_its_own_loop_and_scoring(
    way: Callable[[Task], list[Act]], passed: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = domain(name)
    for task in of.tasks("train", seed=0)[:5]:
        got = ours(of, task, way(task), judging(task, passed=passed))
        assert got.failure is None
        assert got.reward == theirs(task, way(task), passed, monkeypatch)


def right(of: StateBenchDomain) -> Task:
    """A task whose database is as required after the recorded calls, and that has requirements for a judge."""
    return next(
        one
        for one in of.tasks("train", seed=0)
        if ids_of(one) and ours(of, one, as_recorded(one), judging(one)).reward == 1.0
    )


def test_a_requirement_that_is_not_met_is_the_reason() -> None:
    of = domain()
    task = right(of)
    got = ours(of, task, as_recorded(task), judging(task, passed=False))
    assert got.verdict
    assert got.verdict.reward == 0.0
    assert json.loads(task.answer or "")["task_requirements"][0]["requirement"] in got.verdict.reason


def test_a_judge_that_leaves_out_a_requirement_is_asked_again_and_then_nothing_is_decided() -> None:
    of, journal = domain(), ListJournal()
    task = right(of)
    got = ours(of, task, as_recorded(task), judging(task, leave_out=1), journal=journal)
    assert (got.outcome, got.reward) == ("undecided", None)
    assert sum(one.stage == "judge" for one in journal.records) == 3


def test_no_judge_is_asked_where_the_database_is_wrong() -> None:
    of, journal = domain(), ListJournal()
    task = next(one for one in of.tasks("train", seed=0) if json.loads(one.answer or "")["state_requirements"])
    got = ours(of, task, without_a_change(task), judging(task), journal=journal)
    assert got.reward == 0.0
    assert not any(one.stage == "judge" for one in journal.records)


def test_the_judge_and_the_user_see_what_the_benchmark_shows_them() -> None:
    of, seen = domain(), dict[str, list[str]](judge=[], user=[])
    task = right(of)

    def noting(who: str, script: Script) -> Script:
        def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            seen[who].append(f"{info.instructions}\n{shown(messages)}")
            return script(messages, info)

        return reply

    judge, user = noting("judge", judging(task)), noting("user", customer())
    got = ours(of, task, as_recorded(task), judge, user=user)
    assert task.user
    assert all(task.user.goal.splitlines()[0] in one for one in seen["user"])
    assert [one.text for one in got.steps if isinstance(one, UserTurn)] == list(USER)
    assert all(text in seen["judge"][0] for text in ("It costs 9 euros.", USER[1], "tool_calls"))


def test_a_user_that_gives_no_message_leaves_the_rollout_undecided() -> None:
    of = domain()
    task = of.tasks("train", seed=0)[0]
    got = ours(of, task, as_recorded(task), judging(task), user=playing([""]))
    assert (got.outcome, got.code) == ("undecided", "no_user")


def test_recorded_trajectories_have_the_reward_that_needs_no_judge(tmp_path: Path) -> None:
    of = domain()
    task = right(of)
    task_id = task.fields["id"]

    def record(file: str, acts: Sequence[Act], **more: Any) -> None:
        calls = [{"name": act[0], "arguments": act[1], "result": {}} for act in acts if not isinstance(act, str)]
        said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Done.", "tool_calls": calls}]
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"conversation": said, **more}))

    record(f"{task_id}.json", recorded_calls(task))
    (one,) = of.recordings(tmp_path)
    assert (one.task.id, one.reward) == (task.id, None)
    record(f"{task_id}.json", [])
    assert [one.reward for one in of.recordings(tmp_path)] == [0]
    record(f"run1/{task_id}.json", [], task_id=task_id, task_completion_pass=1)
    (tmp_path / "metrics.json").write_text("{}")
    assert sorted(one.reward or 0 for one in of.recordings(tmp_path)) == [0, 1]
    record("unknown.json", [])
    with pytest.raises(DataError, match=r"unknown\.json is no trajectory"):
        list(of.recordings(tmp_path))


def test_a_name_that_it_does_not_have_and_a_problem_of_ones_own_are_refused() -> None:
    with pytest.raises(ConfigError, match="choose one of these"):
        load_domain("state-bench:hotels")
    of = domain()
    with pytest.raises(ConfigError) as raised:
        of.question(Task.of(of.name, "Cancel my flight.", None))
    assert raised.value.code == "bad_config"
