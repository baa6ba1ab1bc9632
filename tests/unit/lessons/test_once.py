"""`reflect: once`: one request shows a whole batch and asks for new lessons, and each draft makes a version."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentlearn.config import BudgetOptions, LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.learning.callbacks import Advanced, Held, Update
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.store import open_store
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.group import Group
from agentlearn.types.operation import Rejected
from agentlearn.types.task import Task
from tests.support.stages import RUN, group, scripted

FIRST = Task.of("shop", "What does delivery cost at Huxwick?", "seventeen coins")
SECOND = Task.of("shop", "What does storage cost at Huxwick?", "forty coins")
RULE, OTHER = "When a shop delivers, add the flat fee.", "When goods are stored, count each week."


def learned(
    folder: Path, groups: Sequence[Group], replies: Sequence[object], library: Library = EMPTY_LIBRARY, **settings: Any
) -> tuple[Update, LessonLearner, list[str]]:
    """One update whose requests are answered by these replies in turn, and what was asked."""
    asked, left = list[str](), list(replies)

    def reply(text: str) -> object:
        asked.append(text)
        return left.pop(0)

    async def stream() -> AsyncGenerator[Group]:
        for one in groups:
            yield one

    async def update() -> tuple[Update, LessonLearner]:
        async with open_store(folder) as store:
            given = {"domain": "shop", "model": "scripted", "reflect": "once", **settings}
            learner = LessonLearner(
                library=library,
                settings=LearnSettings.model_validate(given),
                call_context=CallContext(RUN, store, Budget(BudgetOptions())),
                reflector=scripted(reply),
                store=store,
            )
            return await learner.update(stream(), step="epoch-1/1", tasks=[one.task for one in groups]), learner

    return *asyncio.run(update()), asked


def test_one_request_shows_what_was_expected_and_no_wrong_answer(tmp_path: Path) -> None:
    update, learner, asked = learned(tmp_path, [group([0, 0], FIRST), group([0, 1], SECOND)], [{"lessons": [RULE]}])
    assert asked == [
        f"Problem: {FIRST.problem}\nExpected: seventeen coins\n\nProblem: {SECOND.problem}\nExpected: forty coins"
    ]
    assert [one.lesson for one in learner.library.experiences] == [RULE]
    assert isinstance(update.outcome, Advanced)


def test_without_expected_answers_the_attempts_are_shown(tmp_path: Path) -> None:
    _, _, asked = learned(tmp_path, [group([0, 1], FIRST)], [{"lessons": []}], labels="none")
    assert "Answered: " in asked[0]
    assert "(right)" in asked[0]
    assert "(wrong)" in asked[0]
    assert "seventeen" not in asked[0]


def test_each_draft_makes_a_version_of_the_same_start(tmp_path: Path) -> None:
    start = Library.of(["When in doubt, ask."])
    replies = [{"lessons": [RULE]}, "nothing useful", {"lessons": [OTHER, "It costs seventeen coins."]}]
    update, learner, asked = learned(tmp_path, [group([0], FIRST)], replies, start, drafts=3)
    assert asked[0] == asked[1] == asked[2]
    assert "When in doubt, ask." in asked[0]
    made = [[one.lesson for one in version.experiences][1:] for version in learner.candidates.libraries.values()]
    assert [one for one in made if one] == [[RULE], [OTHER]]
    codes = {one.end.code for one in update.evidence.ended if isinstance(one.end, Rejected)}
    assert codes == {"prose", "holds_answer"}
    assert learner.library.experiences


def test_nothing_is_asked_where_no_group_teaches(tmp_path: Path) -> None:
    update, _, asked = learned(tmp_path, [group([1, 1], FIRST)], [])
    assert not asked
    assert isinstance(update.outcome, Held)


@pytest.mark.parametrize("given", [{"drafts": 2}, {"reflect": "once", "on": "guide.md"}])
def test_settings_that_contradict_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="--reflect once"):
        LearnSettings.model_validate({"domain": "math", "model": "sim:novice", **given})
