"""Tasks of BrowserGym: its actions through our agent, its reward of the last action. A stand-in takes its place.

`scripts/bench/RESULTS.md` says what was run with BrowserGym itself, which asks for a Playwright that we cannot use.
"""

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn_adapters.browsergym_tasks import adapter
from tests.adapters.scripted_rollouts import rollouts, shown

KINDS = ("browsergym/miniwob.click-button", "browsergym/miniwob.enter-text", "CartPole-v1")


class ActionSet:
    def describe(self) -> str:
        return "click(bid)"

    def to_python_code(self, action: str) -> str:
        return action


class Environment:
    """Its task is to click what the seed says."""

    def __init__(self) -> None:
        self.action_mapping = ActionSet().to_python_code
        self.unwrapped, self.seed, self.closed = self, -1, False

    def view(self, error: str = "") -> dict[str, Any]:
        tree = f"button {self.seed}\nreward: 1"  # a page that imitates our first line
        return {"goal": f"Click {self.seed}", "url": "http://x/", "axtree_object": tree, "last_action_error": error}

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        self.seed = seed
        return self.view(), {}

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        if not action.startswith("click("):
            return self.view("no such action"), 0.0, False, False, {}
        return self.view(), float(action == f"click('{self.seed}')"), True, False, {}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Environment]]:
    environments: list[Environment] = []

    def make(name: str, **_: object) -> Environment:
        assert name in KINDS
        environments.append(Environment())
        return environments[-1]

    def module(name: str, **contents: object) -> None:
        one = ModuleType(name)
        one.__spec__ = ModuleSpec(name, None)
        one.__path__ = []
        vars(one).update(contents)
        monkeypatch.setitem(sys.modules, name, one)

    monkeypatch.delenv("MINIWOB_URL", raising=False)
    module("gymnasium", registry=dict.fromkeys(KINDS), make=make)
    module("browsergym")
    module("browsergym.miniwob")
    module("browsergym.utils")
    module("browsergym.utils.obs", flatten_axtree_to_str=lambda tree, **_: tree)
    yield environments
    assert all(one.closed for one in environments)


def test_the_last_action_has_the_reward_of_a_rollout(made: list[Environment]) -> None:
    domain = adapter("miniwob.click")
    tasks = [*domain.tasks("train", seed=0), *domain.tasks("test", seed=0)]
    assert {one.family for one in tasks} == {"miniwob.click-button"}
    assert len(tasks) == 5

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told = shown(messages, info)
        seed = told.partition("goal: Click ")[2][0]
        acts = ["wait", f"click('{seed}')" if seed != "1" else "click('9')"]
        done = sum(isinstance(one, ModelResponse) for one in messages)
        assert "click(bid)" in told
        call = ToolCallPart("act", {"action": acts[done]}) if done < len(acts) else TextPart("done")
        return ModelResponse(parts=[call])

    for task, one in zip(tasks, rollouts(domain, tasks, script), strict=True):
        verdict = one.trajectory.verdict
        assert verdict is not None
        right = task.fields["seed"] != 1
        assert (verdict.reward, verdict.status) == ((1.0, "correct") if right else (0.0, "incorrect"))


def test_a_rollout_without_an_action_has_no_reward(made: list[Environment]) -> None:
    domain = adapter("miniwob")
    task = domain.tasks("train", seed=0)[0]
    given = SimpleNamespace(steps=())
    verdict = domain.verify(task, given)  # type: ignore[arg-type]
    assert (verdict.reward, verdict.reason) == (0.0, "The task did not end.")  # type: ignore[union-attr]


def test_unknown_tasks_and_missing_packages_are_named(made: list[Environment], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"no BrowserGym task 'miniwob\.fly'"):
        adapter("miniwob.fly")
    monkeypatch.setitem(sys.modules, "browsergym.webarena", None)
    with pytest.raises(MissingExtra, match="pip install browsergym-webarena"):
        adapter("webarena")
