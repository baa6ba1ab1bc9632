"""The web agent without a browser: its acts reach the walk, and its answer must name a visited page."""

import asyncio
from typing import Any, cast

import pytest
from pydantic_ai import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.domain.base import Answer, RolloutContext
from agentlearn.errors import ToolError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import STATUS
from agentlearn_web import WebDomain
from agentlearn_web.agent import WalkDeps, web_agent
from agentlearn_web.browser.walk import Walk
from agentlearn_web.miniwob.episode import Episode
from agentlearn_web.miniwob.episode_agent import EpisodeDeps, miniwob_agent
from agentlearn_web.observation import PageObservation, TabLine
from agentlearn_web.page_key import same_page

HOME = "http://a.test/"
ACTS: list[tuple[str, dict[str, Any]]] = [
    ("open", {"url": HOME}),
    ("click", {"ref": "t1:e5"}),
    ("type", {"ref": "t1:e6", "text": "shoes", "submit": True}),
    ("back", {}),
    ("find", {"text": "shoes"}),
    ("more", {"page": 2}),
    ("tabs", {"select": "t2", "close": "t1"}),
]


class FakeWalk:
    """Notes each act, and shows the same page after all of them."""

    visited = (HOME,)

    def __init__(self) -> None:
        self.acts: list[tuple[str, tuple[object, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        async def act(*values: object, **named: object) -> PageObservation:
            self.acts.append((name, (*values, *named.values())))
            status = "stale_ref" if name == "click" else "ok"
            return PageObservation(status=status, note="n", tab="t1", tabs=(TabLine(id="t1", url=HOME, title="A"),))

        return act


def model(*calls: tuple[str, dict[str, Any]]) -> FunctionModel:
    """A model that makes these calls, one after the other."""
    left = iter(calls)

    def reply(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        name, arguments = next(left)
        return ModelResponse([ToolCallPart(name, arguments)])

    return FunctionModel(reply)


def test_every_act_reaches_the_walk_and_returns_its_view() -> None:
    walk = FakeWalk()
    answer = ("answer", {"answer": " 18:30 ", "url": f"{HOME}#top"})
    ended = asyncio.run(web_agent().run("q", model=model(*ACTS, answer), deps=WalkDeps(cast("Walk", walk), "n0")))
    assert walk.acts == [(name, tuple(arguments.values()) or ()) for name, arguments in ACTS]
    assert ended.output == Answer(text=f"18:30\n\n{HOME}#top", answer="18:30")
    returns = [part for one in ended.all_messages() for part in one.parts if isinstance(part, ToolReturnPart)]
    assert [part.metadata[STATUS] for part in returns[:2]] == ["ok", "stale_ref"]
    assert "<page n0>" in str(returns[0].content)


def test_an_answer_with_a_page_that_was_not_visited_is_asked_for_again() -> None:
    calls = [("answer", {"answer": "1", "url": "http://b.test/"}), ("answer", {"answer": "not found", "url": ""})]
    deps = WalkDeps(cast("Walk", FakeWalk()), "n0")
    ended = asyncio.run(web_agent().run("q", model=model(*calls), deps=deps))
    assert ended.output == Answer(text="not found", answer="not found")
    assert "You have not visited 'http://b.test/'" in str(ended.all_messages())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://A.test:80/x/", "http://a.test/x#top", True),
        ("https://a.test:443/%7Ex", "https://a.test/~x", True),
        ("http://a.test/x", "https://a.test/x", False),
        ("http://a.test/x?y=1", "http://a.test/x", False),
        ("http://[bad", "http://[bad", True),
    ],
)
def test_two_addresses_of_one_page_are_the_same(one: str, other: str, same: bool) -> None:
    assert same_page(one, other) is same


def test_a_walk_needs_a_running_browser() -> None:
    async def main() -> None:
        async with WebDomain().open(RolloutContext(task=Task.of("web", "q", "a"), seed=0)):
            pass

    with pytest.raises(ToolError, match=r"open rollouts inside `domain.running\(\)`"):
        asyncio.run(main())


class FakePage:
    """A page of MiniWoB++ that gives one reward."""

    url = "http://miniwob.test/"

    async def evaluate(self, _: str, mark: str) -> float | None:
        return 0.5 if mark == "m" else None


def test_the_answer_of_an_episode_is_the_reward_of_its_page() -> None:
    def ended(mark: str) -> Answer:
        episode = Episode(cast("Any", FakePage()), mark)
        deps = EpisodeDeps(cast("Walk", FakeWalk()), "n0", episode)
        return asyncio.run(miniwob_agent().run("q", model=model(("done", {"note": "reward 1"})), deps=deps)).output

    assert ended("m") == Answer(text="reward 1", answer="reward 0.5")
    assert ended("other") == Answer(text="reward 1", answer="unfinished")
