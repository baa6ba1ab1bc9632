"""The verdict on a walk: whether its answer is right, and how much of the known path it visited.

The answer is put between marks with a code that its writer cannot know. If the judge is unavailable, or replies twice
without a valid verdict, the walk stays undecided.
"""

from collections.abc import Awaitable

from agentlearn.answers.answer_text import normal_text
from agentlearn.answers.matching import match_answers
from agentlearn.domain.base import JudgeModel
from agentlearn.domain.custom.judge import JudgeReward
from agentlearn.prompts import load_prompt
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ToolResult, Trajectory, Verdict
from agentlearn_web.observation import page_key, parse_observation

MAX_ANSWER_CHARACTERS = 2_000
"""A longer answer is incorrect: the task asks for an answer, not a report."""
_NOT_FOUND = "not found"
"""The answer of an agent that gave up."""
_GENERATED = "generated"
"""Source of generated tasks, whose answers can be compared exactly."""
_PATH_SHARE = 0.5
"""Largest reward of a walk with a wrong answer, for its path."""


def verify_walk(
    task: Task, trajectory: Trajectory, judge: JudgeModel | None = None, *, shaped: bool = False, judged: bool = False
) -> Verdict | Awaitable[Verdict]:
    """Return the exact verdict, or an awaitable verdict of the judge if the exact one is undecided.

    judge: model to ask about tasks that were not generated here, whose expected answers are free text.
    shaped: whether to give partial credit for the path. judged: whether the judge is asked about every answer.
    """
    verdict = _exact_verdict(task, trajectory)
    asks = verdict.status == "undecided" or (judged and verdict.status != "no_answer")
    if judge is None or task.answer is None or not asks:
        return _with_path_credit(verdict, task, trajectory) if shaped else verdict
    return _judged(task, trajectory, judge, shaped=shaped)


def _exact_verdict(task: Task, trajectory: Trajectory) -> Verdict:
    """Compare the answer with the expected one as values, lists and words. Pure.

    Undecided if the task has no expected answer, or if neither equality nor difference is proven. The expected answer
    of a generated task has one reading, so there an answer that is not proven equal is incorrect.
    """
    if task.answer is None:
        return Verdict(status="undecided", reason="the task has no expected answer")
    answer = (trajectory.answer or "").strip()
    if not answer:
        return Verdict(status="no_answer", reward=0.0)
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return Verdict(status="incorrect", reward=0.0, reason=f"longer than {MAX_ANSWER_CHARACTERS} characters")
    match = match_answers(answer, task.answer, task.problem)
    match match.status:
        case "equal":
            return Verdict(status="correct", reward=1.0, reason=match.reason)
        case "different" | "unclear" if normal_text(answer) == _NOT_FOUND:
            return Verdict(status="no_answer", reward=0.0, reason="says that it was not found")
        case "different":
            return Verdict(status="incorrect", reward=0.0, reason=match.reason)
        case "unclear" if task.source == _GENERATED:
            return Verdict(status="incorrect", reward=0.0, reason=match.reason)
        case _:
            return Verdict(status="undecided", reason=f"the comparison does not decide: {match.reason}")


async def _judged(task: Task, trajectory: Trajectory, judge: JudgeModel, *, shaped: bool) -> Verdict:
    verdict = await _JUDGE.with_model(judge).judge(task, trajectory)
    return _with_path_credit(verdict, task, trajectory) if shaped else verdict


def _with_path_credit(verdict: Verdict, task: Task, trajectory: Trajectory) -> Verdict:
    """Return the verdict with credit for the share of the known path's pages that the walk visited in order.

    Correct and undecided verdicts are returned unchanged. Reads only our own headers of the tool results, never text
    from a page.
    """
    wanted = [page_key(url) for url in task.path]
    if not wanted or verdict.status not in {"incorrect", "no_answer"}:
        return verdict
    views = (parse_observation(step.content) for step in trajectory.steps if isinstance(step, ToolResult) and step.ok)
    row = [0] * (len(wanted) + 1)  # lengths of longest common subsequences
    for shown in (page_key(view.url) for view in views if view.tab and view.url):
        before = 0
        for at, other in enumerate(wanted, start=1):
            before, row[at] = row[at], before + 1 if shown == other else max(row[at], row[at - 1])
    credit = row[-1] / len(wanted)
    if not credit:
        return verdict
    reason = f"{verdict.reason}; went {credit:.0%} of the known way"
    return Verdict(status="partial", reward=_PATH_SHARE * credit, reason=reason)


_JUDGE = JudgeReward(rubric=lambda: load_prompt("judge", 1, package="agentlearn_web.prompts"))
"""Needs a model first: `_JUDGE.with_model(model).judge(task, trajectory)`."""
