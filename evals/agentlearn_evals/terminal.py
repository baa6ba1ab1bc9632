"""A comparison on the terminal: its progress, and its end, which `print` and a notebook show too.

The end has the verdicts first, then numbers, and what to check.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from agentlearn.cli.live import RunDisplay
from agentlearn.cli.output import same_command
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.defaults import command_words
from agentlearn.measure.contrasts import signed_difference
from agentlearn.models.call_context import CallContext
from agentlearn.pages.figure import TONES, decimal, money
from agentlearn.pages.figure import large as short_count
from agentlearn.pages.notebook import result_html
from agentlearn.pages.table import Paragraph
from agentlearn.pages.terminal import EndPart, parts_text, print_parts, print_table
from agentlearn.text import number_text, visible_line
from agentlearn.types.trajectory import Trajectory
from agentlearn_evals.analysis import worst_first
from agentlearn_evals.comparison import Comparison, Flip
from agentlearn_evals.designing import PowerReport
from agentlearn_evals.page.number_sections import NumberSections

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


_FLIPS = 5
"""Number of flips, and of missing tasks, that are printed."""
_ID = 12
"""Characters of a rollout id that are printed; `agentlearn trace` accepts the start of an id."""
_EXCERPT = 48
_GAP = Paragraph(text="")


def comparison_end(found: Comparison, store: Path = DEFAULT_STORE) -> Iterator[EndPart]:
    """The verdicts or the score of the only arm, the main numbers, and what to check; the page and the JSON have more.

    store: directory of the rollouts, for the commands that show them.
    """
    shown = NumberSections(found)
    yield from shown.verdicts()
    for table in shown.tables():
        yield from (_GAP, table)
    yield _GAP
    yield from (Paragraph(text=f"  {line}", quiet=True) for line in shown.assumptions)
    for one in found.methods:
        limits = f"[{signed_difference(one.low)}, {signed_difference(one.high)}]"
        yield "method", f"{one.method} - {found.baseline}: {signed_difference(one.mean)} {limits}, {one.note}"
    yield from shown.controls()
    yield from shown.cautions()
    yield from (("missing", f"{one.arm}: {one.task}: {one.reason}") for one in found.missing[:_FLIPS])
    if (more := len(found.missing) - _FLIPS) > 0:
        yield "missing", f"and {more:,} more; --json lists them"
    if len(found.arms) == 1:
        lowest = sorted((one.scores[0] or 0.0, one.problem or one.task) for one in found.tasks)[:_FLIPS]
        yield from (("lowest", f"{decimal(score, 3)} {_excerpt(text)}") for score, text in lowest if score < 1)
    for flip in found.flips[:_FLIPS]:
        if flip.rollout or flip.place:
            yield "flip", _flip(flip, store, pairwise=found.pairwise)
    yield from (("note", note) for note in found.notes)
    yield "run", f"{found.run}   {found.title}   {found.k} rollouts per task and arm".lstrip()


def comparison_text(found: Comparison) -> str:
    """Return the end of a comparison as lines of at most 80 columns."""
    return parts_text(comparison_end(found))


def comparison_html(found: Comparison) -> str:
    """Return the end of a comparison as HTML."""
    contrasts = worst_first(found.contrasts)
    return result_html(comparison_end(found), TONES[contrasts[0].verdict] if contrasts else "plain")


def _flip(flip: Flip, store: Path, *, pairwise: bool) -> str:
    """A task on which two arms differ, with where its rollouts are."""
    scores = f"{number_text(flip.baseline_score)} → {number_text(flip.score)}"
    against = f" against {flip.baseline}" if pairwise else ""
    result = f"{flip.arm} {'wins' if flip.won else 'loses'}{against} {scores} {_excerpt(flip.problem or flip.task)}"
    if flip.place:
        return f"{result}   {flip.baseline_place} → {flip.place}"
    rollouts = filter(None, (flip.rollout, flip.baseline_rollout))
    return f"{result}   {'   '.join(command_words('trace', one[:_ID], store=store) for one in rollouts)}"


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 1]}…")


def print_power(report: PowerReport, out: Console) -> None:
    """Print the sizes that detect the effect, one row each."""
    settings = report.settings
    what = f"to detect a difference of {settings.effect:g} with {settings.power:.0%} power at alpha {settings.alpha:g}"
    out.print(f"{what}, {settings.arms} arms, {settings.model}")
    out.print()
    rows = [("tasks", "rollouts each", "all rollouts", "detects", "chance", "tokens in", "tokens out", "about")]
    for one in report.designs:
        sizes = (f"{one.tasks:,}", f"{one.k:,}", f"{one.rollouts:,}", f"{one.detectable:.3f}", f"{one.chance:.2f}")
        price = one.price
        tokens = (short_count(price.tokens_in), short_count(price.tokens_out))
        rows.append((*sizes, *tokens, money(price.cost_usd)))
    print_table(out, rows, indent=2)
    out.print()
    if report.rollouts_needed is not None:
        print_parts(out, [("needed", f"{settings.tasks} tasks need {report.rollouts_needed:,} rollouts each")])
    print_parts(out, (("note", note) for note in report.notes))
