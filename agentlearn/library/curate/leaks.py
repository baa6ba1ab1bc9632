"""Which tasks lessons give away. A score on such a task says nothing about new tasks, so no verdict counts it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentlearn.library.curate.answer_search import class_answers
from agentlearn.library.curate.library_draft import CheckContext
from agentlearn.types.experience import Experience, counted_lessons
from agentlearn.types.ids import ExperienceId, TaskId
from agentlearn.types.task import Task

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Leaks:
    """The tasks that lessons give away: those whose expected answer they hold, or whose words they repeat."""

    asked: int
    """Number of tasks that were looked at."""
    lessons: Mapping[TaskId, frozenset[ExperienceId]]
    """Each task that is given away, with the lessons that do it."""

    def kept(self, tasks: Iterable[Task]) -> tuple[Task, ...]:
        """Return the tasks that no lesson gives away."""
        return tuple(task for task in tasks if task.id not in self.lessons)

    @property
    def why(self) -> str:
        """Which lessons give tasks away, in words."""
        by = sorted(frozenset[str]().union(*self.lessons.values()))
        named = ", ".join(one[:8] for one in by[:_MOST_NAMED]) + (", …" if len(by) > _MOST_NAMED else "")
        verbs = ("holds", "repeats") if len(by) == 1 else ("hold", "repeat")
        return f"{counted_lessons(len(by))} ({named}) {verbs[0]} an expected answer or {verbs[1]} the words of a task"

    @property
    def sentence(self) -> str:
        """Which tasks are not counted, and why; empty when all are."""
        count = len(self.lessons)
        return f"{count} of {self.asked} tasks {'is' if count == 1 else 'are'} not counted: {self.why}" if count else ""


def leaks(lessons: Iterable[Experience], tasks: Sequence[Task]) -> Leaks:
    """Return which of the tasks these lessons give away.

    Answers that occur in many sentences anyway, such as a small integer, and the classes that tasks are sorted into
    give nothing away; see `answer_search`.
    """
    classes = class_answers(tasks)

    def gives_away(context: CheckContext, lesson: str) -> bool:
        return context.holds_answer(lesson) or bool(context.copied_words(lesson))

    every = CheckContext.of(tasks, classes=classes)
    suspects = {one.id: one.lesson for one in lessons if gives_away(every, one.lesson)}
    found: dict[TaskId, frozenset[ExperienceId]] = {}
    for task in tasks if suspects else ():
        alone = CheckContext.of([task], classes=classes)
        if given := frozenset(one for one, lesson in suspects.items() if gives_away(alone, lesson)):
            found[task.id] = given
    return Leaks(len(tasks), found)
