"""Hiding lessons at random in a run that learns, so that each lesson's effect can be measured, and what that costs.

Only lessons that the run started with are hidden: newer ones live for a few batches, too short to be measured.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean

from agentlearn.learning.batch import Batch, PlannedBatch
from agentlearn.learning.evidence import LessonBlock, blocks_of
from agentlearn.library.hiding import masks
from agentlearn.store import ExposedRow
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import ExperienceId, TaskId
from agentlearn.types.treatment import Treatment


@dataclass(frozen=True, slots=True)
class HiddenLessons:
    """Which lessons the rollouts of a run are not shown."""

    start: Library
    """The library that the run started with."""
    hidden: int
    """Rollouts of each group that a lesson is hidden from."""
    seed: int
    """Seed of the run. A resumed run hides the same lessons."""

    def apply(self, planned: PlannedBatch) -> PlannedBatch:
        """Return the batch with treatments that hide lessons."""
        lessons = [one for one in planned.library.by_id if one in self.start.by_id]
        if not lessons:
            return planned
        treatments = {
            task: self._masked(planned.batch, task, found, lessons) for task, found in planned.treatments.items()
        }
        return replace(planned, treatments=treatments)

    def _masked(
        self, batch: Batch, task: TaskId, treatments: tuple[Treatment, ...], lessons: Iterable[ExperienceId]
    ) -> tuple[Treatment, ...]:
        key = f"{self.seed}/{batch.phase}/{task}/{treatments[0].library}"
        chosen = masks(lessons, rollouts=len(treatments), hidden=self.hidden, key=key)
        return tuple(one.model_copy(update={"masked": mask}) for one, mask in zip(treatments, chosen, strict=True))


def reflector_sees(group: Group, threshold: float) -> Group:
    """Return the group without the rollouts that failed while a lesson was hidden.

    Their failures may come from the missing lesson, so lessons learned from them would repeat it.
    """
    seen = tuple(
        one
        for one in group.trajectories
        if not one.treatment.masked or (one.reward is not None and one.reward >= threshold)
    )
    if len(seen) == len(group.trajectories):
        return group
    return Group(task=group.task, trajectories=seen, others=group.others)


def hiding_note(rows: Iterable[ExposedRow], run: str, threshold: float) -> str:
    """Return a sentence on the rollouts of a run that had hidden lessons, and on what that cost; empty without any."""
    own = [row for row in rows if row.run == run]
    hidden = [row for row in own if row.masked]
    if not hidden:
        return ""
    unseen = sum(row.reward is not None and row.reward < threshold for row in hidden)
    cost = hiding_cost(blocks_of(own), len(own))
    change = f"by about {abs(100 * cost):.1f} points (estimate)"
    direction = "lowered" if cost > 0 else "raised"
    return (
        f"lessons were hidden from {len(hidden)} of {len(own)} rollouts to measure them, which {direction} the mean"
        f" reward {change}; {unseen} failures among them were not shown to the model that writes lessons"
    )


def hiding_cost(blocks: Iterable[LessonBlock], rollouts: int) -> float:
    """Return the mean reward that hiding cost: each lesson's estimated effect, as often as it was hidden."""
    by_lesson: defaultdict[ExperienceId, list[LessonBlock]] = defaultdict(list)
    for block in blocks:
        by_lesson[block.lesson].append(block)
    lost = (fmean(one.effect for one in found) * sum(one.hidden for one in found) for found in by_lesson.values())
    return sum(lost) / rollouts if rollouts else 0.0
