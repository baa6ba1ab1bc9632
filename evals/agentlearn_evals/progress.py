"""Shows a comparison on the terminal while its rollouts are made."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from agentlearn.cli.live import RunDisplay
from agentlearn.cli.output import same_command
from agentlearn.models.call_context import CallContext
from agentlearn.pages.figure import large as short_count
from agentlearn.text import number_text, visible_line
from agentlearn.types.trajectory import Trajectory

if TYPE_CHECKING:
    from agentlearn_evals.plan import ComparePlan


class CompareCallbacks:
    """Every method does nothing; override the ones you need. Methods must be quick: they run in the event loop."""

    def opened(self, call_context: CallContext, wanted: int, reused: Mapping[str, int]) -> None:
        """Called when all models are open. `call_context.stop` ends the comparison.

        wanted: rollouts per arm. reused: how many of them are already stored, by arm.
        """

    def service_changed(self, words: str, silent: bool) -> None:
        """Called when a model service has fallen silent and the run waits for it, and when it answers again."""

    def rollout_done(self, arm: str, trajectory: Trajectory) -> None:
        """Called after each new rollout has been stored."""


_NAME = 60
"""Largest number of characters of an arm before its bar."""


class CompareProgress(RunDisplay, CompareCallbacks):
    """Prints the arms and tasks at the start; on a terminal it also shows one progress bar per arm."""

    def __init__(
        self, plan: "ComparePlan", out: Console, clock: Callable[[], float] = time.monotonic, *, python: bool = False
    ) -> None:
        """python: whether a program called `compare`, so that there is no command to go on with."""
        columns = (
            TextColumn("  {task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}", markup=False),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, console=out, transient=True)
        super().__init__(out, lambda: self._bars, clock)
        self.plan, self.python = plan, python
        self._bar_by_arm: dict[str, TaskID] = {}
        self._rewards: dict[str, list[float]] = {}
        self._wanted = self._done = 0

    def how_to_go_on(self) -> str:
        """The line with the command that goes on with the comparison: it reuses the stored rollouts."""
        if self.call_context is None or self.python:
            return ""
        higher = "   (with a higher limit)" if self.call_context.budget.reached else ""
        return self.labelled("continue", f"{same_command('--fresh')}{higher}")

    def opened(self, call_context: CallContext, wanted: int, reused: Mapping[str, int]) -> None:
        self.call_context = call_context
        self._wanted, self._done = wanted * len(reused), sum(reused.values())
        for arm in self.plan.arms:
            self.line("arm", f"{arm.name}: {arm.label()}")
        domains, k = ", ".join(task_set.domain.name for task_set in self.plan.task_sets), self.plan.settings.k
        stored = f"{sum(reused.values()):,} of {wanted * len(reused):,} rollouts are already stored"
        self.line("tasks", f"{self.plan.tasks} of {domains} · {k} rollouts per task and arm · {stored}")
        self.line("run", call_context.run)
        for arm, count in reused.items():
            name = visible_line(arm, _NAME)
            self._bar_by_arm[arm] = self._bars.add_task(name, total=wanted, completed=count, score="")

    def service_changed(self, words: str, silent: bool) -> None:
        stops = "; Ctrl-C stops" if self.python else "; Ctrl-C stops, the same command goes on"
        more = stops if silent else ""
        self.line("service", f"{words}{more}")

    def rollout_done(self, arm: str, trajectory: Trajectory) -> None:
        self._done += 1
        if trajectory.reward is not None:
            self._rewards.setdefault(arm, []).append(trajectory.reward)
        rewards = self._rewards.get(arm, [])
        score = f"score {number_text(sum(rewards) / len(rewards))}" if rewards else ""
        self._bars.update(self._bar_by_arm[arm], advance=1, score=score)

    def state_words(self) -> str:
        if self.call_context is None:
            return "the models are being opened"
        written = short_count(self.call_context.budget.usage.tokens_out)
        calls = f"{self.call_context.in_flight:,} model calls in flight"
        return f"{self._done:,} of {self._wanted:,} rollouts   {calls}   {written} tokens written"
