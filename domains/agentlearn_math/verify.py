"""Whether an answer equals the expected one: exact numbers first, symbolic algebra only for what is left.

Integers, decimals and fractions are compared as exact rationals, without sympy; everything else by `symbolic`. What
cannot be decided is *undecided* with its reason, never a silent zero.
"""

from agentlearn.task import Task
from agentlearn.trajectory import Trajectory, Verdict
from agentlearn_math.answers import rational, tidy


def verify(task: Task, trajectory: Trajectory) -> Verdict:
    """Judge the rollout's boxed answer against the task's expected one."""
    if task.answer is None:
        return _undecided("the task has no expected answer")
    return judge(trajectory.answer, task.answer)


def judge(answer: str | None, gold: str) -> Verdict:
    """Whether `answer`, the content of the last box, equals `gold`. Pure."""
    if answer is None or not tidy(answer):
        return Verdict(status="no_answer", reward=0.0, reason="no boxed answer")
    value, expected = rational(answer), rational(gold)
    if value is not None and expected is not None:
        return _decided(value == expected, "compared as exact numbers")
    answer, gold = tidy(answer), tidy(gold)
    if answer == gold or (_is_word(answer) and answer.casefold() == gold.casefold()):
        return _decided(True, "the same text")
    if _is_word(answer) and _is_word(gold) and sorted(answer.casefold()) != sorted(gold.casefold()):
        return _decided(False, "compared as words")
    return _judge_expressions(answer, gold)


def _judge_expressions(answer: str, gold: str) -> Verdict:
    from agentlearn_math.symbolic import compare

    comparison = compare(answer, gold)
    if comparison.equal is None:
        return _undecided(comparison.reason)
    return _decided(comparison.equal, comparison.reason)


def _decided(equal: bool, reason: str) -> Verdict:
    return Verdict(status="correct" if equal else "incorrect", reward=float(equal), reason=reason)


def _undecided(reason: str) -> Verdict:
    return Verdict(status="undecided", reward=None, reason=reason)


def _is_word(text: str) -> bool:
    """A choice letter, yes, even; or a product such as `ab`, which another order of its letters may equal."""
    return text.replace(" ", "").isalpha()
