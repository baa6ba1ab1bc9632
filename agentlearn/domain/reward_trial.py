"""Trying a reward before the first model call, on expected answers and on wrong ones.

A reward that raises an error or returns something else than a reward would decide nothing in the whole run. It is tried
in the same way whether the command line names it or a program gives it. Only a fault that a real rollout would show too
ends the run; an error that may be due to the made-up output or record becomes a note. Rewards that ask a model are not
tried, because they cost money. Nothing but the reward, and the function that finds the answer in an output, is called.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from typing import Any

from agentlearn.domain.base import Domain
from agentlearn.domain.contract import WRONG_ANSWER, rollout_ending_in
from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.custom.own_functions import place_of
from agentlearn.domain.custom.reward import FunctionReward
from agentlearn.domain.objects import MadeUp, OutputTasks
from agentlearn.errors import AgentlearnError, ConfigError, VerifierError
from agentlearn.text import short_repr
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict

TRIED = 5
"""Largest number of tasks whose answers are tried."""
LIMIT_S = 20.0
"""Seconds after which no further answer is tried. An answer that is being judged by an async function is given up."""
_WRONG = ("", WRONG_ANSWER)
_BEFORE = "before the first model call,"


async def try_reward(domain: Domain, tasks: Sequence[Task], *, limit_s: float = LIMIT_S) -> tuple[str, ...]:
    """Try the reward of the user's own tasks, or the verifier of a domain. Return notes for the report.

    Raises ConfigError when it would fail in a real rollout too, when it returns something else than a
    reward, and when no expected answer that was tried counts as right.
    """
    judged = domain.judged if isinstance(domain, OutputTasks) else domain
    answered = [task for task in tasks if task.answer is not None] or list(tasks)
    chosen = answered[:: max(1, len(answered) // TRIED)][:TRIED]  # from the first to the last
    if not chosen or domain.uses_judge:
        return ()
    if isinstance(judged, CustomTasks):
        if not isinstance(judged.reward, FunctionReward):
            return ()
        trial = _RewardTrial(domain, judged.reward, judged.threshold)
        return await trial.run(chosen, until=time.monotonic() + limit_s)
    if type(domain).running is Domain.running:  # a verifier that has to be started first is not tried
        return await _verifier_notes(domain, chosen, until=time.monotonic() + limit_s)
    return ()


@dataclass(frozen=True, slots=True)
class _Tried:
    """One answer that was tried."""

    task: Task
    made_up: MadeUp
    expected: bool
    verdict: Verdict | None
    """None where there is none because of an error that may be due to the made-up output or record."""
    error: VerifierError | None = None
    """That error."""

    def reaches(self, threshold: float) -> bool:
        """Whether the answer counts as right."""
        return self.verdict is not None and self.verdict.reward is not None and self.verdict.reward >= threshold


@dataclass(frozen=True, slots=True)
class _RewardTrial:
    """The trial of a reward that is a function of the user's."""

    domain: Domain
    reward: FunctionReward
    threshold: float

    async def run(self, tasks: Sequence[Task], *, until: float) -> tuple[str, ...]:
        """Return notes for the report. Raises ConfigError."""
        tried: list[_Tried] = []
        late: tuple[str, ...] = ()
        try:
            async for one in self._tries(tasks, until):
                tried.append(one)  # noqa: PERF401  those before a TimeoutError are kept
        except TimeoutError:
            late = (f"the reward {self.reward.name!r} ({self.reward.place}) is slow: not all answers were tried",)
        self._refuse_nothing_but_errors(tried)
        unsure = next((one.error for one in tried if one.error is not None), None)
        notes = () if unsure is None else (f"tried without a real rollout, {unsure.message}",)
        wrong = [one for one in tried if not one.expected]
        if wrong and all(one.reaches(self.threshold) for one in wrong):
            named = f"the reward {self.reward.name!r} ({self.reward.place})"
            return (*late, *notes, *self._gold_notes(tried), f"{named} counts every answer as right, also an empty one")
        return (*late, *notes, *self._gold_notes(tried))

    async def _tries(self, tasks: Sequence[Task], until: float) -> AsyncIterator[_Tried]:
        for task in tasks:
            if task.answer is not None and self.reward.gold_is_answer:
                async for one in self._outputs(task, task.answer, expected=True, until=until):
                    yield one
        for task in tasks:
            for answer in _WRONG:
                async for one in self._outputs(task, answer, expected=False, until=until):
                    yield one

    async def _outputs(self, task: Task, answer: str, *, expected: bool, until: float) -> AsyncIterator[_Tried]:
        if isinstance(self.domain, OutputTasks):
            made_up = await self.domain.made_up(answer, expected=expected)
        else:
            made_up = MadeUp(answer, fits=True, text=True)
        if made_up is not None:
            yield await self._try(task, made_up, expected=expected, until=until)

    async def _try(self, task: Task, made_up: MadeUp, *, expected: bool, until: float) -> _Tried:
        trajectory = rollout_ending_in(task, None)
        try:
            trajectory = rollout_ending_in(task, self._answer_of(made_up))
            verdict = await _within(
                lambda: self.reward.judge_output(task, trajectory, made_up.output),
                until,
            )
            return _Tried(task, made_up, expected, verdict)
        except VerifierError as error:
            if error.code == "bad_reward" and made_up.fits:
                raise ConfigError(f"{_BEFORE} {error.message}", code=error.code) from error
            if error.code == "reward_raised":
                await self._refuse_swapped(task, trajectory, made_up, error)
                whole = made_up.text and made_up.fits and not self.reward.sees_trajectory
                if whole or _surely(error.__cause__, task, trajectory, *([made_up.output] if made_up.fits else [])):
                    raise ConfigError(f"{_BEFORE} {error.message}", code=error.code) from error
            return _Tried(task, made_up, expected, None, error)

    def _answer_of(self, made_up: MadeUp) -> str | None:
        """Return the answer in an output. Raises VerifierError when the user's function for that fails."""
        if made_up.text or not isinstance(self.domain, OutputTasks):
            return str(made_up.output)
        try:
            return self.domain.answer_of(made_up.output).answer
        except (Exception, SystemExit) as error:
            raise VerifierError(
                f"answer_of raised {type(error).__name__}: {' '.join(str(error).split())} ({place_of(error)}) for the"
                f" output {short_repr(made_up.output)}; correct the function",
                code="reward_raised",
            ) from error

    async def _refuse_swapped(self, task: Task, trajectory: Trajectory, made_up: MadeUp, error: VerifierError) -> None:
        """Raise ConfigError when the function works with its first two parameters the other way round.

        Where names or types say which one gets the task, they are right already.
        """
        function = self.reward.function
        if self.reward.named:
            return

        def other_way_round(task: object, output: object, *rest: object) -> object:
            return function(output, task, *rest)

        swapped = replace(self.reward, function=other_way_round)
        try:
            await _within(lambda: swapped.judge_output(task, trajectory, made_up.output), time.monotonic() + 1)
        except (VerifierError, TimeoutError):
            return
        raise ConfigError(
            f"{_BEFORE} {error.message}; its first two parameters are the wrong way round: it is called with (task,"
            " answer)"
        ) from error

    def _refuse_nothing_but_errors(self, tried: Sequence[_Tried]) -> None:
        """Raise ConfigError when no output got a reward, not even an expected answer of the right type."""
        errors = [one.error for one in tried if one.error is not None]
        if not tried or len(errors) < len(tried):
            return
        if any(one.expected and one.made_up.fits for one in tried) and not self.reward.sees_trajectory:
            raise ConfigError(f"{_BEFORE} {errors[0].message}", code=errors[0].code)
        if all(error.code == "bad_reward" for error in errors):
            hint = "; if your function returns something else than text, say so in its annotation: -> dict[str, int]"
            unknown = any(one.made_up.text and not one.made_up.fits for one in tried)
            raise ConfigError(f"{_BEFORE} {errors[0].message}{hint if unknown else ''}", code="bad_reward")

    def _gold_notes(self, tried: Sequence[_Tried]) -> tuple[str, ...]:
        """Return a note on expected answers that do not count as right. Raises ConfigError when none does."""
        reward = self.reward
        golds = [one for one in tried if one.expected and one.verdict is not None]
        missed = [one for one in golds if not one.reaches(self.threshold)]
        if not missed:
            return ()
        first, task = missed[0], missed[0].task
        assert first.verdict is not None
        earned = "is undecided" if first.verdict.reward is None else f"earns {first.verdict.reward:g}"
        words = (
            f"the expected answer {first.made_up.output!r} of task {task.source or task.id!r} {earned} by the reward"
            f" {reward.name!r} ({reward.place})"
        )
        if len(missed) < len(golds) or not first.made_up.fits:
            return (f"{len(missed)} of {len(golds)} expected answers that were tried do not count as right: {words}",)
        raise ConfigError(
            f"{words}, and so do all {len(golds)} that were tried; correct the function or the answers, or set"
            f" {reward.own_name}.gold_is_answer = False if the expected answers are no answers themselves"
        )


async def _verifier_notes(domain: Domain, tasks: Sequence[Task], *, until: float) -> tuple[str, ...]:
    """Try the verifier of a domain. Return notes. Raises ConfigError.

    It may need the steps of a real rollout, so that only a fault which every rollout would show is refused.
    """
    for task in tasks:
        for answer in (*([task.answer] if task.answer is not None else []), *_WRONG):
            trajectory = rollout_ending_in(task, answer or None)
            try:
                verdict: object = await _within(partial(domain.verify, task, trajectory), until)
            except TimeoutError:
                return (f"verify of the domain {domain.name!r} is slow: not all answers were tried",)
            except AgentlearnError:
                continue
            except (Exception, SystemExit) as error:
                words = (
                    f"verify of the domain {domain.name!r} raised {type(error).__name__}:"
                    f" {' '.join(str(error).split())} ({place_of(error)}) for the answer {short_repr(answer)} to task"
                    f" {task.source or task.id!r}"
                )
                if _surely(error, task, trajectory):
                    raise ConfigError(f"{_BEFORE} {words}; correct it", code="verify_raised") from error
                return (f"tried without a real rollout, {words}",)
            if not isinstance(verdict, Verdict):
                raise ConfigError(
                    f"{_BEFORE} verify of the domain {domain.name!r} gave {short_repr(verdict)}; return a Verdict, such"
                    " as Verdict(status='correct', reward=1.0)"
                )
    return ()


async def _within(judge: Callable[[], Any], until: float) -> Any:
    """Return what `judge` returns, awaited if needed. Raises TimeoutError when it is too late to start or to wait."""
    if (left := until - time.monotonic()) <= 0:
        raise TimeoutError
    judged: Any = judge()
    if not isawaitable(judged):
        return judged
    awaited: Awaitable[Any] = judged
    async with asyncio.timeout(left):
        return await awaited


def _surely(error: BaseException | None, *real: object) -> bool:
    """Whether a real rollout would raise the same error: a name is missing, or one of these objects lacks a member.

    real: the objects that are like those of a real rollout.
    """
    if isinstance(error, AttributeError):
        return any(error.obj is one for one in real)
    return isinstance(error, NameError | ImportError)
