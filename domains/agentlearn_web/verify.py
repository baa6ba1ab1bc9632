"""The verdict on a walk: whether its answer is the expected one, and how much of a known way it went."""

from collections.abc import Awaitable

from agentlearn.domain.base import JudgeModel
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ToolResult, Trajectory, Verdict
from agentlearn_web.matching import match_answers
from agentlearn_web.matching.answer_text import normal_text
from agentlearn_web.observation import parse_observation
from agentlearn_web.page_key import page_key

MAX_ANSWER_CHARACTERS = 2_000
"""Longer answers are wrong by their length: what is asked for is an answer, not a report."""
NOT_FOUND = "not found"
"""What a walker answers that gave up."""
GENERATED = "generated"
"""Source of tasks whose answers were made to be compared exactly."""
PATH_SHARE = 0.5
"""The most that a walk without the right answer can earn by its way."""


def verify_walk(
    task: Task, trajectory: Trajectory, judge: JudgeModel | None = None, *, shaped: bool = False
) -> Verdict | Awaitable[Verdict]:
    """The exact verdict; where that is not right and the expected answer is free text, what a judge says, to await.

    judge: whom to ask about tasks that were not generated here, whose answers exact comparison may do wrong. shaped:
    with partial credit for the way.
    """
    verdict = exact_verdict(task, trajectory)
    if judge is None or task.source == GENERATED or not _open_to_judgement(verdict, task, trajectory):
        return with_path_credit(verdict, task, trajectory) if shaped else verdict
    return _judged(task, trajectory, judge, shaped=shaped)


def exact_verdict(task: Task, trajectory: Trajectory) -> Verdict:
    """The answer held against the expected one as date, number, list and words. Pure.

    Undecided where the task has no expected answer, or one that can be read in several ways of which the answer is one.
    """
    if task.answer is None:
        return Verdict(status="undecided", reason="the task has no expected answer")
    answer = (trajectory.answer or "").strip()
    if not answer:
        return Verdict(status="no_answer", reward=0.0, reason="no answer")
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return Verdict(status="incorrect", reward=0.0, reason=f"longer than {MAX_ANSWER_CHARACTERS} characters")
    match = match_answers(answer, task.answer, task.problem)
    match match.status:
        case "equal":
            return Verdict(status="correct", reward=1.0, reason=match.reason)
        case "different" if normal_text(answer) == NOT_FOUND:
            return Verdict(status="no_answer", reward=0.0, reason="says that it was not found")
        case "different":
            return Verdict(status="incorrect", reward=0.0, reason=match.reason)
        case "unclear":
            return Verdict(status="undecided", reason=match.reason)


def _open_to_judgement(verdict: Verdict, task: Task, trajectory: Trajectory) -> bool:
    """Whether a judge may know better: not where the answer is right, missing or too long, or there is no gold."""
    if verdict.status not in {"incorrect", "undecided"} or task.answer is None:
        return False
    return len((trajectory.answer or "").strip()) <= MAX_ANSWER_CHARACTERS


async def _judged(task: Task, trajectory: Trajectory, judge: JudgeModel, *, shaped: bool) -> Verdict:
    from agentlearn_web.judge import JUDGE

    verdict = await JUDGE.with_model(judge).judge(task, trajectory)
    return with_path_credit(verdict, task, trajectory) if shaped else verdict


def with_path_credit(verdict: Verdict, task: Task, trajectory: Trajectory) -> Verdict:
    """The verdict with partial credit for the way: at most half of what the right answer earns.

    A right answer keeps its reward, and what could not be decided stays undecided.
    """
    credit = path_credit(task, trajectory) if verdict.status in {"incorrect", "no_answer"} else 0.0
    if not credit:
        return verdict
    reason = f"{verdict.reason}; went {credit:.0%} of the known way"
    return Verdict(status="partial", reward=PATH_SHARE * credit, reason=reason)


def path_credit(task: Task, trajectory: Trajectory) -> float:
    """Share of the known way's pages that the walk showed in their order, 0..1; 0 where no way is known.

    It reads our own headers of what the tools gave back, never what a page says.
    """
    wanted = [page_key(url) for url in task.path]
    return _longest_common(wanted, visited_pages(trajectory)) / len(wanted) if wanted else 0.0


def visited_pages(trajectory: Trajectory) -> list[str]:
    """The addresses that the walk showed, in order and in the form of `page_key`."""
    views = (parse_observation(step.content) for step in trajectory.steps if isinstance(step, ToolResult) and step.ok)
    return [page_key(view.url) for view in views if view.tab and view.url]


def _longest_common(wanted: list[str], shown: list[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(wanted) + 1)
    for one in shown:
        before = 0
        for at, other in enumerate(wanted, start=1):
            before, row[at] = row[at], before + 1 if one == other else max(row[at], row[at - 1])
    return row[-1]
