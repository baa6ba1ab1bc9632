"""Labels: one budget of errors for every lesson ever tested, and what it would take to know."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from agentlearn.learning.evidence import EvidenceRules, LessonBlock, LessonEvidence, judge
from agentlearn.types.ids import ExperienceId


def blocks(lesson: str, effects: Sequence[float], model: str = "m", *, own_task: bool = False) -> list[LessonBlock]:
    """Blocks of one lesson, in order."""
    return [
        LessonBlock(ExperienceId(lesson), model, effect, 4, 1, at, own_task)
        for at, effect in enumerate(effects, start=1)
    ]


def by_lesson(found: Sequence[LessonEvidence]) -> dict[str, LessonEvidence]:
    return {one.lesson: one for one in found}


def test_clear_effects_get_their_labels_and_nothing_else_does() -> None:
    found = by_lesson(
        judge([*blocks("bad", [-0.5] * 60), *blocks("good", [0.5] * 60), *blocks("none", [0.3, -0.3] * 30)])
    )
    assert {lesson: one.label for lesson, one in found.items()} == {
        "bad": "harmful",
        "good": "proven",
        "none": "unknown",
    }
    bad = found["bad"]
    assert (bad.points, bad.blocks, bad.shown, bad.hidden) == (pytest.approx(-50), 60, 240, 60)
    assert bad.low <= -50 <= bad.high < 0
    assert bad.rollouts_to_know == 0


def test_lessons_that_were_removed_stay_in_the_count() -> None:
    few = blocks("bad", [-0.5] * 20)
    assert by_lesson(judge(few))["bad"].label == "harmful"
    noise = [one for number in range(200) for one in blocks(f"old{number}", [0.3, -0.3])]
    assert by_lesson(judge([*few, *noise]))["bad"].label == "unknown"


def test_evidence_with_one_model_says_nothing_about_another() -> None:
    found = judge([*blocks("x", [-0.5] * 60, "a"), *blocks("x", [0.5] * 60, "b"), *blocks("x", [0.1, -0.1], "c")])
    assert [(one.model, one.label) for one in found] == [("a", "harmful"), ("b", "proven"), ("c", "unknown")]


def test_a_lesson_that_turns_harmful_is_no_longer_proven_and_is_found() -> None:
    good = blocks("x", [0.5] * 100)
    assert judge(good)[0].label == "proven"
    turned = judge(blocks("x", [0.5] * 100 + [-0.5] * 300))[0]
    assert turned.label == "harmful"
    assert turned.log_e_proven < turned.log_e_harmful
    assert turned.points == pytest.approx(-50)
    assert (turned.blocks, turned.blocks_counted) == (400, EvidenceRules().window)


def test_a_lesson_whose_latest_blocks_say_the_opposite_is_unknown() -> None:
    rules = EvidenceRules(window=10)
    turned = judge(blocks("x", [0.9] * 200 + [-0.1] * 10), rules)[0]
    assert turned.log_e_proven > math.log(100)
    assert turned.label == "unknown"


def test_blocks_on_the_tasks_that_a_lesson_comes_from_are_counted_apart() -> None:
    (one,) = judge([*blocks("x", [0.9] * 50, own_task=True), *blocks("x", [0.1])])
    assert (one.label, one.blocks, one.own_task_blocks) == ("unknown", 1, 50)
    (alone,) = judge(blocks("x", [0.9] * 50, own_task=True))
    assert (alone.label, alone.blocks, alone.rollouts_to_know) == ("unknown", 0, None)


def test_what_it_would_take_is_about_right_and_unknown_without_an_estimate() -> None:
    rng = Random(4)
    effects = [0.2 + rng.choice((-0.5, 0.5)) for _ in range(400)]
    (early,) = judge(blocks("x", effects[:20]))
    assert early.label == "unknown"
    assert early.rollouts_to_know is not None
    needed = 20 + early.rollouts_to_know // 5
    assert judge(blocks("x", effects[: 3 * needed]))[0].label == "proven"
    (flat,) = judge(blocks("x", [0.5, -0.5] * 5))
    assert (flat.label, flat.rollouts_to_know) == ("unknown", None)


@pytest.mark.slow
def test_wrong_labels_are_rare_however_often_one_looks() -> None:
    """20 libraries of 10 lessons without any effect, looked at after every 10 blocks."""
    rng, wrong = Random(7), 0
    for _ in range(20):
        effects = [[rng.choice((-1.0, 0.0, 1.0)) * 0.75 for _ in range(60)] for _ in range(10)]
        looks = (
            judge([one for n, e in enumerate(effects) for one in blocks(str(n), e[:at])]) for at in (10, 20, 40, 60)
        )
        wrong += any(one.label != "unknown" for look in looks for one in look)
    assert wrong <= 4


Effect = Callable[[int, Random], float]
"""Effect of a block, by the number of its task."""


def some(lesson: str, count: int, *, tasks: int, effect: Effect, **more: Any) -> list[LessonBlock]:
    """Blocks of a lesson, whose tasks come in turn."""
    rng, name = Random(5), ExperienceId(lesson)
    made = ((at, at % tasks) for at in range(count))
    return [LessonBlock(name, "m", effect(task, rng), 4, 1, at, task=f"t{task}", **more) for at, task in made]


def noisy(mean: float) -> Effect:
    return lambda _, rng: mean + rng.choice((-0.5, 0.5))


def test_a_label_holds_for_tasks_like_these_only_when_enough_of_them_agree() -> None:
    (many,) = judge(some("x", 600, tasks=100, effect=noisy(-0.2)))
    assert (many.label, many.holds_for_words) == ("harmful", "tasks like these 100")
    (few,) = judge(some("x", 600, tasks=4, effect=noisy(-0.2)))
    assert (few.label, few.holds_for_words) == ("harmful", "these 4 tasks")

    def two_tasks_suffer(task: int, rng: Random) -> float:
        return -0.9 if task < 2 else noisy(0.0)(task, rng)

    (mixed,) = judge(some("x", 600, tasks=20, effect=two_tasks_suffer))
    assert (mixed.label, mixed.holds_for) == ("harmful", "these_tasks")


def test_the_unit_is_the_family_and_a_single_family_is_none() -> None:
    def of_families(count: int) -> LessonEvidence:
        found = some("x", 600, tasks=100, effect=noisy(-0.2))
        return judge([replace(one, family=f"f{int(one.task[1:]) % count}") for one in found])[0]

    assert of_families(3).holds_for_words == "these 3 families"
    assert of_families(50).holds_for_words == "families like these 50"
    assert of_families(1).holds_for_words == "tasks like these 100"


def test_topics_that_come_in_waves_leave_a_label_for_the_latest_ones_only() -> None:
    earlier = some("x", 400, tasks=80, effect=lambda _, __: 0.5)
    later = [replace(one, effect=-0.5, task=f"late {one.task}", at=400 + one.at) for one in earlier[:300]]
    (found,) = judge([*earlier, *later])
    assert (found.label, found.holds_for) == ("harmful", "these_tasks")


@pytest.mark.parametrize(
    ("effect", "lost", "label"),
    [
        (0.1, (1, 0), "unknown"),  # wrong rollouts end as undecided where it is shown
        (-0.1, (1, 0), "unknown"),  # right ones do
        (0.3, (0, 0), "proven"),
        (0.3, (1, 1), "unknown"),  # wrong ones with it and right ones without it may be lost
    ],
)
def test_a_label_holds_whatever_the_undecided_rollouts_are(effect: float, lost: tuple[int, int], label: str) -> None:
    (found,) = judge(some("x", 1_200, tasks=100, effect=noisy(effect), lost_shown=lost[0], lost_hidden=lost[1]))
    assert found.label == label
    assert ("1,200 of 6,000 rollouts with it" in found.withheld) == (lost[0] > 0)


def test_few_undecided_rollouts_leave_a_clear_label() -> None:
    found = some("x", 400, tasks=100, effect=noisy(-0.2))
    lost = [replace(one, shown=3, lost_shown=1) if one.at % 20 == 0 else one for one in found]
    assert judge(lost)[0].label == "harmful"
