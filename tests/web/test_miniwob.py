"""MiniWoB++ in a real browser: many pages solved by scripted acts, and rewards that no model sees or writes.

Skipped where no Chromium is found, or no pages are.
"""

import asyncio
from typing import Any

import pytest

pytest.importorskip("playwright")

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.domain.base import RolloutContext
from agentlearn.domain.contract import check_domain
from agentlearn.errors import ConfigError, DataError
from agentlearn_web.browser.chromium import find_chromium
from agentlearn_web.browser.walk_settings import ACTS
from agentlearn_web.miniwob import EpisodeDeps, MiniwobDomain, _miniwob_folder, _page_url, domain, variant
from agentlearn_web.observation import PageObservation, render_observation
from tests.web.miniwob_hands import Hands


def _missing() -> str:
    try:
        find_chromium()
        _miniwob_folder()
    except ConfigError as error:
        return str(error)
    return ""


pytestmark = [pytest.mark.skipif(bool(_missing()), reason=_missing() or "nothing is missing"), pytest.mark.slow]


def _opened(running: MiniwobDomain, page: str, episode: int) -> Any:
    return running.open(RolloutContext(task=running.task(page, episode), seed=episode))


def test_only_labelled_pages_are_altered() -> None:
    async def controls(of: MiniwobDomain) -> list[str]:
        async with of.running() as running, _opened(running, "click-link", 1) as deps:
            seen = await deps.walk.tabs()
            return [line.role for line in seen.lines if line.role == "link"]

    async def page_is_refused() -> None:
        async with domain.running() as running, _opened(running, "click-link", 1):
            pass

    assert asyncio.run(controls(variant("labelled")))
    with pytest.raises(DataError, match="'MiniWoB click-link, episode 1'"):
        asyncio.run(page_is_refused())


def test_no_observation_shows_the_reward() -> None:
    async def both() -> None:
        async with domain.running() as running:
            for right in (True, False):
                async with _opened(running, "click-button", 1) as deps:
                    await one(deps, right=right)

    async def one(deps: EpisodeDeps, *, right: bool) -> None:
        hands = Hands(deps.walk, await deps.walk.tabs())
        before = render_observation(hands.seen, deps.nonce)
        (wanted,) = hands.quoted()
        await hands.click(next(line for line in hands.lines("button") if (line.name == wanted) == right))
        assert await deps.reward() == (1 if right else -1)
        for seen in (hands.seen, await deps.walk.tabs(), await deps.walk.find("e"), await deps.walk.more(1)):
            assert not {"reward", "last", "average", "episodes", "start", "time left"} & _words(seen)
        assert render_observation(await deps.walk.tabs(), deps.nonce) == before

    asyncio.run(both())


def _words(seen: PageObservation) -> set[str]:
    return set(" ".join(f"{line.name} {line.text}" for line in seen.lines).casefold().replace(":", " ").split())


async def test_an_episode_counts_once_and_only_on_its_document() -> None:
    async with domain.running() as running, _opened(running, "click-test-2", 1) as deps:
        hands = Hands(deps.walk, await deps.walk.tabs())
        await hands.button("TWO")
        assert await deps.reward() == -1
        await hands.button("ONE")
        assert await deps.reward() == -1
        await hands.took(await deps.walk.open(_page_url("click-test-2")))
        assert await deps.reward() is None
        await hands.click(next(line for line in hands.lines() if line.text == "START"))
        await hands.button("TWO")  # the page places both at random; this one is drawn last, so ONE cannot cover it
        assert await deps.reward() is None


def test_the_same_seed_draws_the_same_page() -> None:
    async def views() -> list[str]:
        found: list[str] = []
        async with domain.running() as running:
            for episode in (7, 7, 8):
                async with _opened(running, "click-checkboxes", episode) as deps:
                    found.append(render_observation(await deps.walk.tabs(), "n"))
        return found

    first, again, other = asyncio.run(views())
    assert first == again != other


def _scripted(*calls: tuple[str, dict[str, object]]) -> FunctionModel:
    left = list(calls)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert {tool.name for tool in info.function_tools} == ACTS - {"back", "open", "screenshot", "upload"}
        name, arguments = left.pop(0)
        return ModelResponse(parts=[ToolCallPart(name, arguments)])

    return FunctionModel(answer)


def test_the_answer_is_the_reward_of_the_page() -> None:
    async def all_three() -> None:
        async with domain.running() as running:
            for clicked, answer in (("ONE", "reward 1"), ("TWO", "reward -1"), ("", "unfinished")):
                async with _opened(running, "click-test-2", 1) as deps:
                    assert await one(deps, clicked) == answer

    async def one(deps: EpisodeDeps, clicked: str) -> str | None:
        seen = await deps.walk.tabs()
        refs = [line.ref for line in seen.lines if line.name == clicked]
        calls: list[tuple[str, dict[str, object]]] = [("click", {"ref": refs[0]})] if clicked else []
        model = _scripted(("tabs", {}), *calls, ("done", {"note": "reward 1"}))
        ran = await domain.agent().run("go", model=model, deps=deps)
        results = [part for one in ran.all_messages() for part in one.parts if isinstance(part, ToolReturnPart)]
        assert all("reward" not in str(part.content).casefold() for part in results if part.tool_name != "done")
        assert ran.output.text == "reward 1"
        return ran.output.answer

    asyncio.run(all_three())


def test_the_domain_keeps_its_promises() -> None:
    promises = asyncio.run(check_domain(domain))
    assert [one for one in promises if one.state == "broken"] == []
