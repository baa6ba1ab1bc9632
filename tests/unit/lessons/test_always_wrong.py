"""Groups without a right attempt: which of them teach, what the model is asked, and what it may propose."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentlearn.config import BudgetOptions, LearnSettings
from agentlearn.learning.batch_runner import TeachingRules
from agentlearn.learning.callbacks import Held, Update
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.store import open_store
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Group
from agentlearn.types.operation import Rejected
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.value import Author
from tests.support.stages import RUN, group, scripted, task

RULES = [
    "When an order goes by express, add the flat handling fee.",
    "When goods are fragile, count the box as one more kilo.",
    "When a customer is new, ask for payment before the parcel leaves.",
]
TOLD = "the handling of express orders is missing"


def reasoned(of: Group, reason: str) -> Group:
    def one(trajectory: Trajectory) -> Trajectory:
        verdict = trajectory.verdict
        assert verdict is not None
        return trajectory.model_copy(update={"verdict": verdict.model_copy(update={"reason": reason})})

    return Group(task=of.task, trajectories=tuple(map(one, of.trajectories)))


def learned(folder: Path, groups: Sequence[Group], lessons: Sequence[str], **settings: Any) -> tuple[Update, list[str]]:
    """One update with a model that proposes these lessons, and what it was asked."""
    asked: list[str] = []

    def reply(text: str) -> object:
        asked.append(text)
        if "<trajectory" in text:
            return {"steps": [{"text": "It went by weight.", "used": []}]}
        if "<proposals" in text:
            return {"proposals": [{"op": "add", "lesson": RULES[0], "rests_on": ["P1"]}]}
        return {"proposals": [{"op": "add", "lesson": lesson} for lesson in lessons if "refused" not in text]}

    async def stream() -> AsyncGenerator[Group]:
        for one in groups:
            yield one

    async def update() -> Update:
        async with open_store(folder) as store:
            learner = LessonLearner(
                library=EMPTY_LIBRARY,
                settings=LearnSettings.model_validate({"domain": "shop", "model": "scripted", **settings}),
                call_context=CallContext(RUN, store, Budget(BudgetOptions())),
                reflector=scripted(reply),
                store=store,
            )
            return await learner.update(stream(), step="epoch-1/1", tasks=[one.task for one in groups])

    return asyncio.run(update()), asked


UNKNOWN = Task.of("shop", "What does the delivery cost?", None)
USES: list[tuple[str, Group, dict[str, bool], str]] = [
    ("rewards differ", group([1, 0]), {}, "mixed"),
    ("an expected answer", group([0, 0]), {}, "all_wrong"),
    ("an expected answer that may not be shown", group([0, 0]), {"gold": False}, "nothing"),
    ("a reason", reasoned(group([0, 0], UNKNOWN), TOLD), {}, "all_wrong"),
    ("a reason that may not be shown", reasoned(group([0, 0], UNKNOWN), TOLD), {"reasons": False}, "nothing"),
    ("nothing that says what was wanted", group([0, 0], UNKNOWN), {}, "nothing"),
    ("equal partial rewards with a reason", reasoned(group([0.5, 0.5], UNKNOWN), TOLD), {}, "all_wrong"),
    ("one attempt with a reason", reasoned(group([0], UNKNOWN), TOLD), {}, "single"),
    ("one judged attempt of three", reasoned(group([None, 0, None], UNKNOWN), TOLD), {}, "single"),
    ("one attempt without a word", group([0], UNKNOWN), {}, "nothing"),
    ("one right attempt with a comment", reasoned(group([1], UNKNOWN), "well done"), {}, "all_right"),
    ("no judged attempt", reasoned(group([None, None]), TOLD), {}, "undecided"),
    ("the published setting", reasoned(group([0, 0]), TOLD), {"all_wrong": False}, "not_wanted"),
]


def test_a_group_without_a_right_attempt_teaches_where_something_says_what_was_wanted(
    subtests: pytest.Subtests,
) -> None:
    for name, of, changes, use in USES:
        with subtests.test(name):
            assert TeachingRules(1.0, 0.05, **changes).use(of) == use


def test_the_question_has_a_prompt_of_its_own_calls_no_attempt_better_and_takes_two_proposals(tmp_path: Path) -> None:
    update, asked = learned(tmp_path, [reasoned(group([0.5, 0.5], UNKNOWN), TOLD)], RULES)
    question = next(text for text in asked if "<attempts>" in text)
    assert question.count('verdict="wrong" reward="0.50"') == 2
    assert question.count(f"<reason>\n{TOLD}\n</reason>") == 2
    proposals = [one for one in update.evidence.ended if one.proposal.stage == "compare"]
    assert {ref.name for one in proposals for ref in one.proposal.prompts} == {"agentlearn.prompts:compare_wrong"}
    ends = [one.end.code if isinstance(one.end, Rejected) else one.end.end for one in proposals]
    assert sorted(ends) == ["dropped", "folded", "too_many_proposals"]
    assert update.evidence.taught == {"all_wrong": 1}
    (lesson,) = update.library.experiences
    assert lesson.origin.strangers == (Author(kind="reasons", name=UNKNOWN.domain),)


def test_a_lesson_holds_no_expected_answer_of_any_task_of_the_batch(tmp_path: Path) -> None:
    groups = [
        group([0, 0], task("What does an express parcel cost?", "1,375")),
        group([1, 1], task("And two?", "2750")),
    ]
    update, asked = learned(tmp_path, groups, ["When two parcels go by express, expect 2750 coins."])
    assert len(update.library) == 0
    assert [one.end.code for one in update.evidence.ended if isinstance(one.end, Rejected)] == ["holds_answer"]
    assert any("refused" in text and "holds_answer" in text for text in asked), "the model may word it again"


def test_what_teaches_nothing_costs_no_call_and_is_counted(tmp_path: Path) -> None:
    update, asked = learned(tmp_path, [group([0, 0, 0], UNKNOWN)], RULES)
    assert asked == []
    assert update.evidence.taught == {"nothing": 1}
    assert isinstance(update.outcome, Held)
    assert update.outcome.reason == "no group had anything to learn from"
