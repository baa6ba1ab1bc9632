"""Finds reasons not to trust an arm's score: lessons that contain answers, and tasks that were learned from."""

from collections.abc import Mapping, Sequence

from agentlearn.library.curate.answer_search import AnswerSearch
from agentlearn.library.curate.similarity import shingles, words_line
from agentlearn.rollout.learned_from import LearnedFrom
from agentlearn.store import StoreReader
from agentlearn.types.experience import Experience
from agentlearn.types.task import Task
from agentlearn_evals.arms import Arm
from agentlearn_evals.comparison import ArmFlag


def find_flags(arm: Arm, tasks: Sequence[Task], reader: StoreReader, known: LearnedFrom) -> tuple[ArmFlag, ...]:
    """Return all reasons not to trust the arm's score on these tasks. known: what lessons of the store rest on."""
    found = lesson_flags(arm, tasks)
    learned = known.tasks(arm.library, arm.without)
    problems = {words_line(one.problem) for one in reader.tasks(sorted(learned)).values()}
    count = sum(task.id in learned or words_line(task.problem) in problems for task in tasks)
    if not count:
        return found
    words = f"its library was learned from {count} of the {len(tasks)} tasks that it is measured on"
    return (*found, ArmFlag(arm=arm.name, code="learned_from", words=words))


def lesson_flags(arm: Arm, tasks: Sequence[Task]) -> tuple[ArmFlag, ...]:
    """Return the reasons that are in the text of the arm's lessons."""
    shown = [one for one in arm.library.experiences if one.id not in arm.without]
    return (*_leaks(arm.name, shown, tasks), *_copies(arm.name, shown, tasks))


def untrusted_arms(flags: Sequence[ArmFlag]) -> Mapping[str, str]:
    """Return, by arm, why its score gets no verdict."""
    return {
        one.arm: f"{one.words}; its score does not show what it can do on new tasks. Measure it on other tasks."
        for one in reversed(flags)
    }


def _leaks(arm: str, shown: Sequence[Experience], tasks: Sequence[Task]) -> list[ArmFlag]:
    """Flag lessons with an expected answer that is too distinctive to be there by chance."""
    search = AnswerSearch.of(task.answer for task in tasks if task.answer is not None)
    leaking = [one for one in shown if search.found(one.lesson) == "distinctive"]
    return _flag(arm, "leaks_answer", "contain an expected answer of the tasks it is measured on", leaking)


def _copies(arm: str, shown: Sequence[Experience], tasks: Sequence[Task]) -> list[ArmFlag]:
    """Flag lessons that repeat eight consecutive words of a problem."""
    known = frozenset().union(*(shingles(task.problem) for task in tasks))
    copying = [one for one in shown if shingles(one.lesson) & known]
    return _flag(arm, "copies_problem", "repeat the words of tasks it is measured on", copying)


def _flag(arm: str, code: str, what: str, lessons: Sequence[Experience]) -> list[ArmFlag]:
    if not lessons:
        return []
    named = ", ".join(one.id[:8] for one in lessons[:3]) + (", …" if len(lessons) > 3 else "")
    return [ArmFlag(arm=arm, code=code, words=f"{len(lessons)} of its lessons ({named}) {what}")]
