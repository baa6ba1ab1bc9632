"""What a reward is, and finding the reward that `--reward` names."""

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from types import CodeType
from typing import Any, Protocol

from agentlearn.answers.answer_text import contains, normalised
from agentlearn.answers.numbers import number_key, same_number, single_number
from agentlearn.answers.reply import single_choice
from agentlearn.domain.custom.judge import JUDGE, JudgeReward
from agentlearn.domain.custom.own_functions import check_function, find_object
from agentlearn.domain.custom.scoring import ScoringProcess
from agentlearn.errors import ConfigError, VerifierError
from agentlearn.text import seen, short_repr, storable
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn.types.value import reward_of

_DECIMAL_COMMA = re.compile(r"\D*\d[\d. ]*,\d+\D*")


@dataclass(frozen=True, slots=True)
class ComparisonReward:
    """A reward of 1 for an answer that equals the expected one, and of 0 for any other."""

    name: str
    form: str
    """What an answer must look like; the agent is given this sentence."""
    wants: str
    """What an answer must contain to be compared, as in `the answer holds no …`."""
    key: Callable[[str], str | None]
    """Return a form that equal answers share; None for a text that cannot be compared."""
    compare: Callable[[str, str], bool] | None = None
    """Whether an answer (first) that has a key equals the expected answer; None: when their keys are equal."""
    votes: bool = True
    """Whether all answers that are equal have the same key."""
    needs_gold = True

    def gold(self, text: str) -> str:
        """Return the expected answer. Raises ValueError with words that continue `FILE line N`."""
        if text.strip() and self.key(text) is None:
            decimal_comma = self.name == "number" and _DECIMAL_COMMA.fullmatch(text.strip())
            step = "write a point before its decimals" if decimal_comma else "write one"
            raise ValueError(
                f"has the answer {text.strip()!r}, which holds no {self.wants}; {step}, or choose another --reward"
            )
        return text.strip()

    def judge(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Compare answer and expected answer. Undecided only when there is no expected answer that can be compared."""
        answer, gold = trajectory.answer, task.answer
        if gold is None or self.key(gold) is None:
            return Verdict(status="undecided", reason=f"the task has no expected answer that holds one {self.wants}")
        if answer is None or not seen(answer).strip():
            return Verdict(status="no_answer", reward=0.0)
        if self.key(answer) is None:
            return Verdict(status="incorrect", reward=0.0, reason=f"the answer holds no {self.wants}")
        right = self.equal(answer, gold)
        return Verdict(status="correct" if right else "incorrect", reward=float(right))

    def equal(self, answer: str, gold: str) -> bool:
        """Whether an answer that has a key equals the expected answer."""
        return self.key(answer) == self.key(gold) if self.compare is None else self.compare(answer, gold)

    def answer_key(self, answer: str) -> str | None:
        """Return the key, for majority votes; None when equal answers may have different keys."""
        return self.key(answer) if self.votes else None


def _text_key(text: str) -> str | None:
    return normalised(text) or None


def _number_key(text: str) -> str | None:
    value = single_number(text)
    return None if value is None else number_key(value)


def _same_number(answer: str, gold: str) -> bool:
    value, expected = single_number(answer), single_number(gold)
    return value is not None and expected is not None and same_number(value, expected)


EXACT = ComparisonReward(
    name="exact",
    form="The answer is given in as few words as possible.",
    wants="text",
    key=_text_key,
)
NUMBER = ComparisonReward(
    name="number",
    form="The answer is a single number in digits, with a point before its decimals.",
    wants="single number",
    key=_number_key,
    compare=_same_number,
)
CHOICE = ComparisonReward(
    name="choice",
    form="The answer is the letter of one of the given choices.",
    wants="single choice letter from A to J",
    key=single_choice,
)
CONTAINS = ComparisonReward(
    name="contains",
    form="The answer is given in a few words.",
    wants="text",
    key=_text_key,
    compare=contains,
    votes=False,
)


_ANY_ANSWER = "correct the function, which must give a reward for any answer"
_RESULTS = "True, False, or a number from 0 to 1, alone or with a reason, as in (0.5, 'the unit is missing')"
_SIGNATURE = f"def reward(task, answer): return {_RESULTS}"
MAX_REASON_CHARACTERS = 20_000
"""The end of a longer reason is not stored."""


@dataclass(frozen=True, slots=True)
class FunctionReward:
    """Judges by calling the function. An invalid result raises an error; it never counts as a reward of 0."""

    name: str
    function: Callable[..., object]
    parameters: tuple[str, ...] = ("task", "answer")
    """What each positional parameter gets: `task`, `answer` or `trajectory`."""
    keywords: tuple[str, ...] = ()
    """The same for parameters that must be given by name."""
    named: bool = False
    """Whether names or types in the signature say which parameter gets the task."""
    form = "The answer has the form that the task asks for."
    needs_gold = False

    def gold(self, text: str) -> str:
        """Return the text as it is; the function knows how to read it."""
        return text.strip()

    def judge(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Return the function's verdict, to be awaited when the function is async. Raises VerifierError when the
        function raises or returns something else than a reward.
        """
        return self.judge_output(task, trajectory, trajectory.answer)

    def judge_output(self, task: Task, trajectory: Trajectory, output: object) -> Verdict | Awaitable[Verdict]:
        """Return the function's verdict on an output of any type; see `judge`."""
        of = {"task": task, "answer": output, "trajectory": trajectory}
        # SystemExit too: a function of the user's must not end the run.
        try:
            given = self.function(*(of[one] for one in self.parameters), **{one: of[one] for one in self.keywords})
        except (Exception, SystemExit) as error:
            raise self._raised(error, task, trajectory.answer) from error
        if inspect.isawaitable(given):
            return self._awaited(given, task, trajectory.answer)
        return self._checked(given, task, trajectory.answer)

    async def _awaited(self, given: Awaitable[object], task: Task, answer: str | None) -> Verdict:
        try:
            found = await given
        except (Exception, SystemExit) as error:
            raise self._raised(error, task, answer) from error
        return self._checked(found, task, answer)

    def _raised(self, error: BaseException, task: Task, answer: str | None) -> VerifierError:
        cause = " ".join(str(error).split())
        return VerifierError(
            f"the reward {self.name!r} raised {type(error).__name__}: {cause} ({self._place_of(error)}) for the"
            f" answer {short_repr(answer)} to task {task.source or task.id!r}; {_ANY_ANSWER}",
            code="reward_raised",
        )

    @property
    def sees_trajectory(self) -> bool:
        """Whether the function gets the whole trajectory."""
        return "trajectory" in (*self.parameters, *self.keywords)

    @property
    def gold_is_answer(self) -> bool:
        """Whether an expected answer is itself a right answer, as the function's attribute says; True without it."""
        return bool(getattr(self.function, "gold_is_answer", True))

    @property
    def own_name(self) -> str:
        """The function's name in its own module."""
        name = self.name.rpartition(":")[2]
        return name if name.isidentifier() else "your_function"

    @property
    def place(self) -> str:
        """File and line of the function; its name where it has none."""
        code = _code_of(self.function)
        return self.name if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}"

    def _place_of(self, error: BaseException) -> str:
        """Return file and line of the error: the last place in the function's own file."""
        code, found = _code_of(self.function), self.place
        at = error.__traceback__
        while at is not None:
            if code is not None and at.tb_frame.f_code.co_filename == code.co_filename:
                found = f"{Path(code.co_filename).name}:{at.tb_lineno}"
            at = at.tb_next
        return found

    def answer_key(self, answer: str) -> str | None:
        """Return the result of the function's attribute `answer_key`; None without that attribute."""
        key = getattr(self.function, "answer_key", None)
        return None if key is None else key(answer)

    def _checked(self, given: object, task: Task, answer: str | None) -> Verdict:
        pair: Any = given if isinstance(given, tuple) and len(given) == 2 else (given, "")
        scored, reason, why = *pair, ""
        if isinstance(given, Verdict):
            if given.reward is None and given.status == "undecided":
                return given
            scored = None if given.status == "undecided" else given.reward
        try:
            if isinstance(reason, str):
                reward = reward_of(scored)
                return given if isinstance(given, Verdict) else _verdict(reward, reason, answer)
        except ConfigError as error:
            why = f"; {error}" if isinstance(scored, Real) else ""
        forgotten = "await what is async, and " if _close_unawaited(given) else ""
        raise VerifierError(
            f"the reward {self.name!r} gave {short_repr(given)} ({self.place}) for the answer {short_repr(answer)} to"
            f" task {task.source or task.id!r}; {forgotten}return {_RESULTS}{why}",
            code="bad_reward",
        )


def load_function(reference: str) -> FunctionReward:
    """Return the reward of that name, as `find_object` finds it. Raises ConfigError, also for wrong parameters."""
    function = find_object(reference, "reward")
    if not callable(function):
        raise ConfigError(
            f"the reward {reference!r} is {type(function).__name__}, not a function; write {_SIGNATURE}",
            code="bad_reward",
        )
    return function_reward(reference, function)


def _unloaded_function(reference: str) -> FunctionReward:
    """Return a reward for plans that is named like a function and judges nothing. Raises ConfigError for a bad name."""

    def judge(*_: object) -> Verdict:
        raise VerifierError(f"the reward {reference!r} was not imported: a plan judges nothing", code="reward_raised")

    return FunctionReward(reference, judge)


def function_reward(name: str, function: Callable[..., object]) -> FunctionReward:
    """Return the function as a reward. name: for messages. Raises ConfigError when it has the wrong parameters."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # built-in functions have none
        return FunctionReward(name, function)
    wanted = [
        one for one in signature.parameters.values() if one.default is one.empty or one.name in _NAMES or _is_task(one)
    ]
    placed = [one for one in wanted if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    only_named = [one for one in wanted if one.kind == one.KEYWORD_ONLY]
    gathered = any(one.kind == one.VAR_POSITIONAL for one in wanted)
    roles = _roles([*placed, *only_named])
    if gathered and not only_named and [one.name for one in placed] in ([], ["task"]):  # *arguments
        return FunctionReward(name, function)
    if roles is None or any(one.name != role for one, role in zip(only_named, roles[len(placed) :], strict=True)):
        raise ConfigError(
            f"the reward {name!r} takes {signature}; write {_SIGNATURE}, with a third parameter 'trajectory' if wanted;"
            " parameters with these names may be in any order",
            code="bad_reward",
        )
    named = any(one.name in ("task", "answer") or _is_task(one) for one in (*placed, *only_named))
    return FunctionReward(name, function, roles[: len(placed)], roles[len(placed) :], named=named)


_NAMES = ("task", "answer", "trajectory")


def _is_task(parameter: inspect.Parameter) -> bool:
    return parameter.annotation is Task or parameter.annotation == "Task"


def _roles(parameters: Sequence[inspect.Parameter]) -> tuple[str, ...] | None:
    """Return what each parameter gets, by names, then types, then the order; None where that cannot be told.

    An answer that comes first needs a named task: with `(answer, expected)` the second one is probably not the task.
    """
    found = [one.name if one.name in _NAMES else "task" if _is_task(one) else "" for one in parameters]
    if found.count("") == 1 and {*found} - {"", "trajectory"}:
        found[found.index("")] = "answer" if "task" in found else "task"
        if found.index("answer") < found.index("task") and parameters[found.index("answer")].name == "answer":
            return None
    elif found[:2] == ["", ""]:
        found[:2] = ["task", "answer"]
    return tuple(found) if sorted(found) in (["answer", "task"], ["answer", "task", "trajectory"]) else None


def _code_of(function: object) -> CodeType | None:
    """Return the code of a function, a method, a wrapped function or a callable object; None where there is none."""
    plain: Any = inspect.unwrap(function) if callable(function) else function
    plain = getattr(plain, "func", plain)  # functools.partial
    plain = getattr(plain, "__func__", plain)
    code = getattr(plain, "__code__", None) or getattr(vars(type(plain)).get("__call__"), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _close_unawaited(given: object) -> bool:
    """Whether a result holds a coroutine that was not awaited. It is closed, so that nothing warns of it later."""
    found = [one for one in (given if isinstance(given, tuple) else ()) if inspect.iscoroutine(one)]
    for one in found:
        one.close()
    return bool(found)


def _verdict(reward: float, reason: str, answer: str | None) -> Verdict:
    reason = storable(reason.strip()[:MAX_REASON_CHARACTERS])
    if answer is None and reward == 0:
        return Verdict(status="no_answer", reward=0.0, reason=reason)
    return Verdict.of(reward, reason)


@dataclass(frozen=True, slots=True)
class GymReward:
    """Judges in a separate process. The run sets `scorer`."""

    scorer: ScoringProcess | None = None
    name = "gym"
    form = "The answer has the form that the task asks for."
    needs_gold = False

    def with_scorer(self, scorer: ScoringProcess) -> "GymReward":
        """Return the same reward with a scoring process."""
        return replace(self, scorer=scorer)

    def gold(self, text: str) -> str:
        """Return the text as it is; the scorer knows how to read it."""
        return text.strip()

    async def judge(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Return the scorer's verdict. Raises VerifierError when there is no score: the rollout is then undecided, not
        wrong.
        """
        if self.scorer is None:
            raise VerifierError("the reward 'gym' has no scoring process; judge inside `domain.running()`")
        if trajectory.answer is None or not trajectory.answer.strip():
            return Verdict(status="no_answer", reward=0.0)
        score = await self.scorer.score(task.source, trajectory.answer)
        return Verdict.of(score)

    def answer_key(self, answer: str) -> str | None:
        """Return None: a scorer rates one answer and does not compare two."""
        return None


GYM_REWARD = GymReward()

_BY_NAME = {reward.name: reward for reward in (EXACT, NUMBER, CHOICE, CONTAINS, JUDGE, GYM_REWARD)}


class Reward(Protocol):
    """How answers to custom tasks are judged."""

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str:
        """What an answer must look like; the agent is given this sentence."""
        ...

    @property
    def needs_gold(self) -> bool:
        """Whether every task must have an expected answer."""
        ...

    def gold(self, text: str) -> str:
        """Return the expected answer in a cell. Raises ValueError with words that continue `FILE line N`."""
        ...

    def judge(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Judge a finished rollout. Raises VerifierError when judging fails."""
        ...

    def answer_key(self, answer: str) -> str | None:
        """Return a form that equal answers share; None: this answer gets no vote."""
        ...


def find_reward(name: str, *, imports: bool = True) -> Reward:
    """Return the reward of that name, or a user's own, as `find_object` finds it. Raises ConfigError.

    imports: False for a plan, which judges nothing: the module, which may come with somebody's recipe, does not run.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    check_function(name, "reward", own=_BY_NAME)
    if not imports:
        return _unloaded_function(name)
    found = find_object(name, "reward")
    return replace(found, name=name) if isinstance(found, JudgeReward) else load_function(name)


def default_reward(source: str) -> str | None:
    """Return the reward that a source comes with: `gym` for `gym:TASK`; None when the user must choose one."""
    from agentlearn.data.gym import GYM

    return GYM_REWARD.name if source.startswith(GYM) else None
