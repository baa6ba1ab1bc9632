"""`learn` takes what a recorder kept, in place of tasks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from agentlearn import Experiences, Groups, LearnReport, LibraryStore, Recorder, Task, learn, open_store
from agentlearn.cli.app import run as command
from agentlearn.errors import ConfigError
from agentlearn.types.value import Author

LESSON = "When somebody asks about an invoice, send the question to the billing team."
WHY = "the words about money were overlooked"


def writes_lessons(asked: list[str], messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that summarises, compares and consolidates, and remembers what it was asked."""
    text = "".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
    asked.append(text)
    if "<trajectory" in text:
        return ModelResponse(parts=[TextPart('{"steps": [{"text": "It chose a team.", "used": []}]}')])
    rests = ', "rests_on": ["P1"]' if "<proposals" in text else ""
    return ModelResponse(parts=[TextPart(f'{{"proposals": [{{"op": "add", "lesson": "{LESSON}"{rests}}}]}}')])


async def recorded(store: Path) -> Groups:
    async with Recorder("desk", store) as recorder:
        for said, reward in [("it", (0.0, WHY)), ("billing", 1.0), ("it", 0.0), ("billing", True)]:
            messages = [{"role": "user", "content": "My invoice is wrong"}, {"role": "assistant", "content": said}]
            await recorder.feedback(await recorder.record(messages), reward=reward)
        return recorder.groups()


@pytest.mark.parametrize("way", ["groups", "an agent and groups", "groups in an open store"])
def test_what_was_recorded_teaches(tmp_path: Path, way: str) -> None:
    async def work() -> tuple[LearnReport, list[str]]:
        asked = list[str]()
        options: dict[str, Any] = {
            "model": FunctionModel(lambda messages, info: writes_lessons(asked, messages, info)),
            "library": "desk",
            "evaluate": False,
            "trust": "traffic",
        }
        groups = await recorded(tmp_path)
        assert [len(group.rollouts) for group in groups.groups] == [4]
        if way == "an agent and groups":
            agent = Agent(TestModel(), name="clerk")
            return await learn(agent, groups, reward="exact", **options), asked
        if way == "groups":
            return await learn(groups, **options), asked
        async with open_store(tmp_path) as store:
            return await learn(groups, store=store, **options), asked

    report, asked = asyncio.run(work())
    assert [one.lesson for one in report.learned.experiences] == [LESSON]
    assert any(f"<reason>\n{WHY}\n</reason>" in text for text in asked)
    assert any("live traffic" in note for note in report.notes)
    assert Experiences("desk", store=tmp_path).library == report.learned


def test_what_was_learned_from_traffic_waits_for_a_person_unless_traffic_is_trusted(tmp_path: Path) -> None:
    libraries = LibraryStore(tmp_path / "libraries")

    async def learned(**options: Any) -> LearnReport:
        model = FunctionModel(lambda messages, info: writes_lessons(list[str](), messages, info))
        return await learn(await recorded(tmp_path), model=model, library="desk", evaluate=False, **options)

    report = asyncio.run(learned())
    assert report.selection is not None
    assert report.selection.status == "pending"
    assert "recorded traffic (desk); --trust traffic (in Python trust=['traffic']) publishes" in report.selection.reason
    assert libraries.names() == ()
    assert command(["library", "approve", f"desk@{report.library.version[:12]}", "--store", str(tmp_path)]) == 0
    (made,) = libraries.load("desk").experiences
    assert (made.lesson, made.origin.strangers) == (LESSON, (Author(kind="traffic", name="desk"),))
    again = asyncio.run(learned(trust="traffic"))
    assert again.selection is not None
    assert again.selection.status in {"published", "unchanged"}


def test_a_program_may_learn_from_groups_with_tasks_to_measure_on(tmp_path: Path) -> None:
    def clerk(task: Task, lessons: str) -> str:
        return "billing" if LESSON in lessons else "it"

    async def work() -> LearnReport:
        groups, asked = await recorded(tmp_path), list[str]()
        model = FunctionModel(lambda messages, info: writes_lessons(asked, messages, info))
        test = [(f"Invoice {number} is wrong", "billing") for number in range(6)]
        return await learn(clerk, groups, reward="exact", reflector=model, test=test, library="desk")

    report = asyncio.run(work())
    assert report.before is not None
    assert report.after is not None
    assert (report.before.mean, report.after.mean) == (0.0, 1.0)


def test_learning_again_from_live_traffic_serves_what_a_person_wrote_in_between(tmp_path: Path) -> None:
    written = "When a customer is angry, answer calmly."

    async def work() -> LearnReport:
        asked = list[str]()
        model = FunctionModel(lambda messages, info: writes_lessons(asked, messages, info))
        followed = Experiences("desk", store=tmp_path, follow=True, missing="empty")
        LibraryStore(tmp_path / "libraries").history("desk").add(written)
        report = await learn(await recorded(tmp_path), model=model, library="desk", evaluate=False, trust="traffic")
        assert [one.lesson for one in followed.library.experiences] == [written, LESSON]
        return report

    assert asyncio.run(work()).selection is not None


def test_the_counts_of_groups_add_up_and_say_what_is_missing(tmp_path: Path) -> None:
    async def work(rewards: list[float | None]) -> Groups:
        async with Recorder("desk", tmp_path / str(len(rewards))) as recorder:
            for number, reward in enumerate(rewards):
                messages = [{"role": "user", "content": "My invoice is wrong"}, {"role": "assistant", "content": "it"}]
                rollout = await recorder.record(messages, episode=str(number))
                if reward is not None:
                    await recorder.feedback(rollout, reward=reward)
            return recorder.groups()

    found = asyncio.run(work([0.0] * 6 + [1.0] * 6 + [None] * 3))
    assert (len(found), len(found.groups[0].rollouts)) == (1, 8)
    assert (found.single, found.set_aside, found.without_reward) == (0, 4, 3)
    assert "4 more repeat a task with its reward or found their group full; 3 have no reward yet" in found.summary
    nothing = asyncio.run(work([None, None]))
    with pytest.raises(ConfigError, match=r"2 without a reward and 0 with one, .*; give feedback on more of them"):
        asyncio.run(learn(nothing, model=TestModel(), library="desk"))
