"""A comparison as a person sees it while its rollouts are made: what is reused, how far each arm is, what it costs."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from agentlearn.errors import BudgetExceeded, Interrupted, only_stops
from agentlearn.models.call_context import CallContext
from agentlearn.types.trajectory import Trajectory
from agentlearn_evals.compare_callbacks import CompareCallbacks

if TYPE_CHECKING:
    from agentlearn_evals.plan import ComparePlan


class CompareProgress(CompareCallbacks):
    """One bar per arm on a terminal; elsewhere one line at the beginning."""

    def __init__(self, plan: "ComparePlan", out: Console) -> None:
        self.plan, self.out = plan, out
        self.call_context: CallContext | None = None
        self.bars: Bars | None = None
        self.rows: dict[str, TaskID] = {}
        self.right: dict[str, list[float]] = {}
        if out.is_terminal and not out.is_dumb_terminal:
            columns = (
                TextColumn("  {task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[score]}"),
                TimeRemainingColumn(),
            )
            self.bars = Bars(*columns, console=out, transient=True)

    def __enter__(self) -> Self:
        if self.bars is not None:
            self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bars is not None:
            self.bars.stop()
        if self.call_context is not None and only_stops(error):
            more = " with a higher limit" if isinstance(error, BudgetExceeded) else ""
            fresh = " and without --fresh" if self.plan.settings.fresh else ""
            self._line("go on", f"run the same command again{more}{fresh}: rollouts that are stored are reused")

    def interrupt(self) -> bool:
        """Stop in good order; False when it is stopping already, or not yet begun."""
        if self.call_context is None or self.call_context.stopped is not None:
            return False
        self.call_context.stop(Interrupted("interrupted; what was finished is stored"))
        if calls := self.call_context.in_flight:
            self._line("stopping", f"{calls} calls in flight will be stored; Ctrl-C again stops now")
        return True

    def opened(self, call_context: CallContext, wanted: int, reused: Mapping[str, int]) -> None:
        self.call_context = call_context
        for arm in self.plan.arms:
            self._line("arm", f"{arm.name}: {arm.label()}")
        domains, k = ", ".join(task_set.domain.name for task_set in self.plan.task_sets), self.plan.settings.k
        there = f"{sum(reused.values()):,} of {wanted * len(reused):,} are stored already"
        self._line("tasks", f"{self.plan.tasks} of {domains} · {k} rollouts per task and arm · {there}")
        self._line("run", call_context.run)
        if self.bars is not None:
            for arm, there in reused.items():
                self.rows[arm] = self.bars.add_task(arm, total=wanted, completed=there, score="")

    def rollout_done(self, arm: str, trajectory: Trajectory) -> None:
        if self.bars is None:
            return
        if trajectory.outcome != "undecided":
            self.right.setdefault(arm, []).append(trajectory.reward or 0.0)
        scores = self.right.get(arm, [])
        score = f"{sum(scores) / len(scores):.2f}" if scores else ""
        self.bars.update(self.rows[arm], advance=1, score=score)

    def _line(self, label: str, text: str) -> None:
        self.out.print(f"  {label.ljust(10)}{text}")
