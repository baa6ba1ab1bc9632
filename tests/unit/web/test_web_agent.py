"""The web agent without a browser: its acts reach the walk, and its answer must name a visited page."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from pydantic_ai import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.messages import BinaryContent, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile

from agentlearn.domain.base import Answer
from agentlearn.models.token_estimate import message_bytes
from agentlearn.prompts import load_prompt
from agentlearn.rollout.runner import stored_messages
from agentlearn.types.trajectory import STATUS
from agentlearn_web import WebDomain
from agentlearn_web.act_tools import WalkDeps, web_agent
from agentlearn_web.browser.acts.navigation import Screenshot
from agentlearn_web.browser.walk import Walk
from agentlearn_web.browser.walk_settings import ACTS, WalkSettings
from agentlearn_web.observation import PageObservation, TabLine, page_key
from tests.support.cases import cases

HOME = "http://a.test/"
SETTINGS = WalkSettings()
PICTURE = b"\x89PNG" + bytes(300_000)
EVERY_ACT: list[tuple[str, dict[str, Any]]] = [
    ("open", {"url": HOME}),
    ("click", {"ref": "t1:e5", "kind": "double"}),
    ("type", {"ref": "t1:e6", "text": "shoes", "submit": True}),
    ("choose", {"ref": "t1:e7", "options": ["Red", "Green"]}),
    ("press", {"keys": "Enter", "ref": "t1:e6", "text": "ab"}),
    ("hover", {"ref": "t1:e5"}),
    ("drag", {"ref": "t1:e5", "to": "t1:e6"}),
    ("scroll", {"direction": "down", "ref": "t1:e5"}),
    ("upload", {"ref": "t1:e8", "files": ["cv.txt"]}),
    ("dialog", {"accept": True, "text": "Ada"}),
    ("back", {}),
    ("find", {"text": "sh[eo]es", "regex": True}),
    ("more", {"page": 2}),
    ("wait", {"text": "late", "seconds": 3}),
    ("tabs", {"select": "t2", "close": "t1"}),
]


class FakeWalk:
    """Notes each act, and shows the same page after all of them."""

    visited = (HOME,)
    page: Any = None

    def __init__(self, settings: WalkSettings = SETTINGS, files: Sequence[str] = ("cv.txt",)) -> None:
        self.acts: list[tuple[str, tuple[object, ...]]] = []
        self.settings, self.files = settings, files

    def __getattr__(self, name: str) -> Any:
        async def act(*values: object, **named: object) -> PageObservation:
            self.acts.append((name, (*values, *named.values())))
            status = "stale_ref" if name == "click" else "ok"
            view = PageObservation(status=status, note="n", tab="t1", tabs=(TabLine(id="t1", url=HOME, title="A"),))
            return Screenshot(view, PICTURE) if name == "screenshot" else view  # type: ignore[return-value]

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
    ended = asyncio.run(web_agent().run("q", model=model(*EVERY_ACT, answer), deps=WalkDeps(cast("Walk", walk), "n0")))
    assert walk.acts == [(name, tuple(arguments.values()) or ()) for name, arguments in EVERY_ACT]
    assert ended.output == Answer(text=f"18:30\n\n{HOME}#top", answer="18:30")
    returns = [part for one in ended.all_messages() for part in one.parts if isinstance(part, ToolReturnPart)]
    assert [part.metadata[STATUS] for part in returns[:2]] == ["ok", "stale_ref"]
    assert "<page n0>" in str(returns[0].content)


def offered(walk: FakeWalk, *, images: bool = True) -> set[str]:
    """The acts that a model is offered."""
    seen: set[str] = set()

    def reply(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.update(tool.name for tool in info.function_tools)
        return ModelResponse([ToolCallPart(info.output_tools[0].name, {"answer": "x", "url": ""})])

    seeing = FunctionModel(reply, profile=ModelProfile(supports_image_input=images))
    asyncio.run(web_agent().run("q", model=seeing, deps=WalkDeps(cast("Walk", walk), "n0")))
    return seen


def test_a_model_is_offered_the_acts_that_make_sense() -> None:
    plain = ACTS - {"screenshot"}
    assert offered(FakeWalk()) == plain
    assert offered(FakeWalk(files=())) == plain - {"upload"}
    seeing = WalkSettings(acts=ACTS)
    assert offered(FakeWalk(seeing)) == ACTS
    assert offered(FakeWalk(seeing), images=False) == plain
    assert offered(FakeWalk(WalkSettings(acts=frozenset({"open", "find"})))) == {"open", "find"}


def test_the_instructions_name_every_act() -> None:
    prompt = load_prompt("walk", 1, package="agentlearn_web.prompts")
    assert [name for name in ACTS if f"`{name}`" not in prompt.text] == []
    assert prompt.ref == WebDomain().prompts()[0]
    assert prompt.ref.sha256 == "bdfbe58f64395135ca6429fa9cfcb8caf4e5d2b01d90bb23ad993b06951cd2a8", "it is released"


def test_a_screenshot_is_sent_as_a_picture_and_stored_as_its_hash() -> None:
    walk, answer = FakeWalk(WalkSettings(acts=ACTS)), ("answer", {"answer": "1", "url": ""})
    deps = WalkDeps(cast("Walk", walk), "n0")
    ended = asyncio.run(web_agent().run("q", model=model(("screenshot", {}), answer), deps=deps))
    parts = [part for one in ended.all_messages() for part in one.parts]
    pictures = [
        part.content for part in parts if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
    ]
    assert pictures == [[BinaryContent(PICTURE, media_type="image/png")]]
    result = next(part for part in parts if isinstance(part, ToolReturnPart) and part.tool_name == "screenshot")
    assert "<page n0>" in str(result.content)
    kept = stored_messages(ended.all_messages())
    assert len(kept) < len(PICTURE)
    assert f"[image/png, {len(PICTURE)} bytes, sha256 ".encode() in kept
    assert message_bytes(next(one for one in ended.all_messages() if result in one.parts)) < 10_000


def test_an_answer_with_a_page_that_was_not_visited_is_asked_for_again() -> None:
    calls = [("answer", {"answer": "1", "url": "http://b.test/"}), ("answer", {"answer": "not found", "url": ""})]
    deps = WalkDeps(cast("Walk", FakeWalk()), "n0")
    ended = asyncio.run(web_agent().run("q", model=model(*calls), deps=deps))
    assert ended.output == Answer(text="not found", answer="not found")
    assert "You have not visited 'http://b.test/'" in str(ended.all_messages())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    cases(__file__, "two_addresses_of_one_page_are_the_same"),
)
def test_two_addresses_of_one_page_are_the_same(one: str, other: str, same: bool) -> None:
    assert (page_key(one) == page_key(other)) is same
