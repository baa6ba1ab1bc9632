"""tau-bench: its tools, its database and its reward, with scripted models.

The tests run on a made-up benchmark in its layout; on a clone of tau-bench where TEST_TAU_BENCH names its folder.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo

from agentlearn.config import RolloutOptions
from agentlearn.domain.base import load_domain
from agentlearn.errors import ConfigError, DataError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory, UserTurn
from agentlearn_adapters.tau_bench import VARIABLE, TauBenchDomain
from tests.adapters.scripted_rollouts import Script, rollouts
from tests.support.stages import ListJournal

SMALL = Path(__file__).parent / "small_clones" / "tau"
CLONE = os.environ.get("TEST_TAU_BENCH") or str(SMALL)
COUNTS = {"airline": (35, 0, 15), "retail": (500, 20, 115)} if "TEST_TAU_BENCH" in os.environ else {}
Act = tuple[str, dict[str, Any]] | str
"""A tool with its arguments, or what the agent says."""
USER = ("Hello, I need help.", "That is right, go on.", "Thank you, bye. ###STOP###")


@pytest.fixture(autouse=True)
def clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, CLONE)


def domain(name: str = "airline") -> TauBenchDomain:
    found = load_domain(f"tau-bench:{name}")
    assert isinstance(found, TauBenchDomain)
    return found


def all_of(of: TauBenchDomain) -> dict[str, Task]:
    return {one.source: one for split in ("train", "validation", "test") for one in of.tasks(split, seed=0)}  # type: ignore[arg-type]


def told(task: Task) -> list[Act]:
    """The calls that the task expects, and what it wants to be told."""
    gold = json.loads(task.answer or "")
    return [(act["name"], act["kwargs"]) for act in gold["actions"]] + ["It is done: " + " ".join(gold["outputs"])]


def without_a_change(task: Task) -> list[Act]:
    return ["I cannot do that."]


def with_a_wrong_call(task: Task) -> list[Act]:
    return [("nothing_like_this", {}), *told(task)[:-1], *told(task)[:-1], "It is done."]


def passed_on(task: Task) -> list[Act]:
    head = "ask_the_head" if "TEST_TAU_BENCH" not in os.environ else "transfer_to_human_agents"
    return [*told(task)[:-1], (head, {"why" if head == "ask_the_head" else "summary": "difficult"}), "Never said."]


def with_talk(task: Task) -> list[Act]:
    return ["What is it about?", *told(task), "Is there more?"]


WAYS: list[Callable[[Task], list[Act]]] = [told, without_a_change, with_a_wrong_call, passed_on, with_talk]


def playing(acts: Sequence[Act]) -> Script:
    """A model that does one act after the other, by how often it has answered."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        act = acts[min(sum(isinstance(one, ModelResponse) for one in messages), len(acts) - 1)]
        return ModelResponse(parts=[TextPart(act) if isinstance(act, str) else ToolCallPart(*act)])

    return reply


def ours(of: TauBenchDomain, task: Task, acts: Sequence[Act], user: Sequence[str] = USER, **more: Any) -> Trajectory:
    return rollouts(of, [task], playing(acts), user=playing(user), **more)[0].trajectory


def theirs(task: Task, acts: Sequence[Act], monkeypatch: pytest.MonkeyPatch) -> float:
    """The reward that the benchmark's own agent loop, environment and user give, with the same models."""
    monkeypatch.setitem(sys.modules, "litellm", ModuleType("litellm"))
    sys.modules["litellm"].completion = None  # type: ignore[attr-defined]
    agents = importlib.import_module("tau_bench.agents.tool_calling_agent")
    envs, users = importlib.import_module("tau_bench.envs"), importlib.import_module("tau_bench.envs.user")
    agent_says, user_says = iter([*acts, *[acts[-1]] * 9]), iter([USER[0], *USER, *[USER[-1]] * 9])
    number = count()

    def message(content: str | None, calls: list[Any] | None = None) -> Any:
        fields = {"role": "assistant", "content": content, "tool_calls": calls}
        dumped = SimpleNamespace(content=content, model_dump=lambda: fields)
        return SimpleNamespace(choices=[SimpleNamespace(message=dumped)], _hidden_params={"response_cost": 0.0})

    def of_user(**_: Any) -> Any:
        return message(next(user_says))

    def of_agent(**_: Any) -> Any:
        act = next(agent_says)
        if isinstance(act, str):
            return message(act)
        function = {"name": act[0], "arguments": json.dumps(act[1])}
        return message(None, [{"id": f"call {next(number)}", "type": "function", "function": function}])

    monkeypatch.setattr(users, "completion", of_user)
    monkeypatch.setattr(agents, "completion", of_agent)
    env, _, rest = task.source.removeprefix("tau-bench:").partition("/")
    split, _, index = rest.partition(":")
    made = envs.get_env(env, "llm", "scripted", split, "scripted", int(index))
    agent = agents.ToolCallingAgent(made.tools_info, made.wiki, "scripted", "scripted")
    return agent.solve(made, task_index=int(index)).reward


@pytest.mark.parametrize("env", ["airline", "retail"])
def test_every_task_loads_and_is_in_one_split(env: str) -> None:
    of = domain(env)
    splits = [of.tasks(split, seed=0) for split in ("train", "validation", "test")]  # type: ignore[arg-type]
    assert len({one.id for tasks in splits for one in tasks}) == sum(map(len, splits))
    assert all(one.user is not None and one.user.goal not in one.problem for tasks in splits for one in tasks)
    if env in COUNTS:
        assert tuple(map(len, splits)) == COUNTS[env]


def test_all_tasks_of_a_list_can_be_held_out() -> None:
    of = domain("airline/test")
    assert not of.tasks("train", seed=0)
    assert len(of.tasks("test", seed=0)) == len(all_of(domain()))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("env", ["airline", "retail"])
def test_the_reward_is_the_one_of_its_own_loop(
    way: Callable[[Task], list[Act]], env: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = domain(env)
    rewards = set[float]()
    for task in list(all_of(of).values())[:5]:
        got = ours(of, task, way(task), options=RolloutOptions(max_turns=30))
        assert got.code in ("", "too_many_turns")
        assert got.reward == theirs(task, way(task), monkeypatch)
        rewards.add(got.reward or 0.0)
    if way is told:
        assert rewards == {1.0}


def test_what_the_user_said_is_recorded_and_its_model_is_told_what_the_benchmark_tells_it() -> None:
    of, seen = domain(), list[str]()
    task = next(iter(all_of(of).values()))

    def user(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = [p.content for one in messages if isinstance(one, ModelRequest) for p in one.parts]
        seen.append(f"{info.instructions}\n{said}")
        return playing(USER)(messages, info)

    got = rollouts(of, [task], playing(with_talk(task)), user=user)[0].trajectory
    assert [one.text for one in got.steps if isinstance(one, UserTurn)] == list(USER)
    assert task.user
    assert all(task.user.goal in one for one in seen)
    assert "What is it about?" in seen[1]


def test_the_agent_sees_neither_the_goal_nor_what_the_user_is_told() -> None:
    of, seen = domain(), list[str]()
    task = next(iter(all_of(of).values()))

    def agent(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = [
            str(p.content)
            for one in messages
            if isinstance(one, ModelRequest)
            for p in one.parts
            if isinstance(p, UserPromptPart)
        ]
        seen.append(f"{info.instructions} {said}")
        return playing(told(task))(messages, info)

    rollouts(of, [task], agent, user=playing(USER))
    assert task.user
    assert not any(task.user.goal in one for one in seen)


def test_a_user_that_gives_no_message_leaves_the_rollout_undecided() -> None:
    of = domain()
    task = next(iter(all_of(of).values()))
    got = ours(of, task, told(task), user=["Hello.", ""])
    assert (got.outcome, got.reward, got.code) == ("undecided", None, "no_user")


def test_a_conversation_without_an_end_is_the_agents_failure() -> None:
    of = domain()
    task = next(iter(all_of(of).values()))
    got = ours(of, task, ["Hm?"], user=["Go on."], options=RolloutOptions(max_turns=4))
    assert (got.outcome, got.reward, got.code) == ("failed", 0.0, "too_many_turns")


def test_calls_of_the_user_are_counted_as_such() -> None:
    of, journal = domain(), ListJournal()
    task = next(iter(all_of(of).values()))
    got = ours(of, task, told(task), journal=journal)
    stages = [one.stage for one in journal.records if one.kind != "tool"]
    assert stages.count("user") == len(USER)
    assert stages.count("rollout") == sum(isinstance(one, ModelTurn) for one in got.steps)


def recorded(of: TauBenchDomain, folder: Path, **more: Any) -> Path:
    """A file of results with two trials of one task, and one that ended with an error."""
    task = next(one for one in all_of(of).values() if one.fields["index"] == 1)
    theirs = {"user_id": task.problem.split()[0]}
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Done."}]
    rows = [
        {"task_id": 1, "reward": 1.0, "trial": 0, "info": {"task": theirs}, "traj": said},
        {"task_id": 1, "reward": 0.0, "trial": 1, "info": {"task": theirs}, "traj": said},
        {"task_id": 1, "reward": 0.0, "trial": 2, "info": {"error": "RateLimitError"}, "traj": []},
    ]
    path = folder / "results.json"
    path.write_text(json.dumps([{**one, **more} for one in rows]))
    return path


def test_recorded_trials_are_rollouts_of_the_same_tasks_and_errors_have_no_reward(tmp_path: Path) -> None:
    of = domain()
    found = list(of.recordings(recorded(of, tmp_path)))
    assert {one.task.id for one in found} <= {one.id for one in all_of(of).values()}
    assert [one.reward for one in found] == [1.0, 0.0, None]
    assert [one.failed for one in found] == ["", "", "RateLimitError"]


@pytest.mark.parametrize(("more", "code"), [({"task_id": 999}, "bad_data"), ({"traj": 3}, "bad_data")])
def test_results_of_other_tasks_are_refused(more: dict[str, Any], code: str, tmp_path: Path) -> None:
    of = domain()
    with pytest.raises(DataError) as raised:
        list(of.recordings(recorded(of, tmp_path, **more)))
    assert raised.value.code == code


@pytest.mark.parametrize("name", ["trains", "airline/train"])
def test_a_name_that_it_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"found: .*; choose one of these"):
        load_domain(f"tau-bench:{name}")


def test_a_problem_of_ones_own_is_refused() -> None:
    of = domain()
    with pytest.raises(ConfigError) as raised:
        of.question(Task.of(of.name, "Cancel my flight.", None))
    assert raised.value.code == "bad_config"
