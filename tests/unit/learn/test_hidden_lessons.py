"""Hiding lessons in a run: which rollouts, what the reflector sees, and what it costs."""

import pytest

from agentlearn.config import LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.learning.batch import Allocation, Batch, LearnerState
from agentlearn.learning.batch_runner import HiddenLessons, TeachingRules, hiding_cost
from agentlearn.learning.evidence import LessonBlock
from agentlearn.types.experience import Library, library_of
from agentlearn.types.group import Group
from agentlearn.types.ids import ExperienceId
from agentlearn.types.trajectory import Treatment
from tests.support.stages import group, task

START = library_of(["Check the units.", "Try small cases."])
NEW = library_of(["Read the question twice."], kind="add")
GROWN = Library(parent=START.version, experiences=(*START.experiences, *NEW.experiences))


def planned(library: Library, epoch: int = 1, size: int = 5) -> tuple[Batch, LearnerState]:
    one = task()
    treatments = (Treatment(model="m", library=library.version),) * size
    return Batch(epoch, 1, (one,), 1, first=True, last=True), LearnerState(library, {one.id: treatments})


def masked(found: LearnerState) -> list[tuple[ExperienceId, ...]]:
    return [one.masked for one in found.treatments[task().id]]


def test_only_lessons_that_the_run_started_with_are_hidden_and_each_equally_often() -> None:
    found = masked(HiddenLessons(START, 2, seed=1).apply(*planned(GROWN)))
    for lesson in START.by_id:
        assert sum(lesson in one for one in found) == 2
    assert not any(lesson in one for lesson in NEW.by_id for one in found)


def test_a_resumed_run_hides_the_same_and_another_epoch_or_seed_something_else() -> None:
    def hidden(seed: int, epoch: int) -> list[tuple[ExperienceId, ...]]:
        return masked(HiddenLessons(START, 1, seed).apply(*planned(START, epoch)))

    assert hidden(1, 1) == hidden(1, 1)
    assert len({tuple(hidden(seed, epoch)) for seed in range(4) for epoch in range(1, 4)}) > 4


def test_groups_are_made_whole_when_lessons_are_hidden() -> None:
    settings = LearnSettings(domain="math", model="m", group_size=5, stop_after=3, hidden_rollouts=1)
    assert Allocation.of(settings).first_wave == 5
    assert Allocation.of(settings.model_copy(update={"hidden_rollouts": 0})).first_wave == 3


@pytest.mark.parametrize("hidden", [5, 9])
def test_hiding_a_lesson_from_a_whole_group_is_refused(hidden: int) -> None:
    settings = LearnSettings(domain="math", model="m", group_size=5, hidden_rollouts=hidden)
    with pytest.raises(ConfigError, match="fewer rollouts than a group has"):
        Allocation.of(settings)


def test_hiding_lessons_from_stored_rollouts_is_refused() -> None:
    settings = LearnSettings(domain="math", model="m", from_store=True, hidden_rollouts=1)
    with pytest.raises(ConfigError, match="leave out one of hidden_rollouts and from_store"):
        Allocation.of(settings)


def test_the_reflector_sees_no_failure_of_a_rollout_with_a_hidden_lesson() -> None:
    whole = group([0.0, 1.0, 0.0, 1.0, None])
    hide = {"treatment": Treatment(model="m", library=START.version, masked=(START.experiences[0].id,))}
    members = [one.model_copy(update=hide if g >= 2 else {}) for g, one in enumerate(whole.trajectories)]
    hidden = Group(task=whole.task, trajectories=tuple(members))
    assert len(hidden.decided) == 4
    seen = TeachingRules().seen(hidden)
    assert [one.g for one in seen.trajectories] == [0, 1, 3]
    assert [one.g for one in seen.decided] == [0, 1, 3]
    assert TeachingRules().seen(whole) is whole


def test_the_cost_is_each_effect_as_often_as_it_was_missed() -> None:
    first, second = ExperienceId("a"), ExperienceId("b")
    blocks = [
        LessonBlock(first, "m", 0.5, 4, 1, 0),
        LessonBlock(first, "m", 0.3, 4, 1, 1),
        LessonBlock(second, "m", -0.2, 4, 1, 0),
    ]
    assert hiding_cost(blocks, 10) == pytest.approx((0.4 * 2 - 0.2) / 10)
    assert hiding_cost([], 0) == 0
