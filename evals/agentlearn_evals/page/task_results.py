"""Task by task: what went up, what went down, and for those that flipped the two rollouts to look at."""

import shlex
from collections.abc import Callable, Iterator

from agentlearn.html import (
    CodeBlock,
    Column,
    Details,
    Dumbbell,
    DumbbellRow,
    PagePart,
    Paragraph,
    Section,
    Table,
    TableCell,
)
from agentlearn.html.markup import clipped
from agentlearn.html.number_format import decimal, finite, signed
from agentlearn_evals.comparison import Comparison, Flip, TaskLine

FLIPS_SHOWN = 20
"""Tasks won, and tasks lost, that are shown of each contrast."""
EXCERPT, PROBLEM = 110, 2_000
"""Characters of a problem in a list, and where it stands by itself."""
TRACE, TRACES = 12_000, 3_000_000
"""Characters of one transcript, and of all on one page."""


def tasks_section(comparison: Comparison) -> Section | None:
    """Every task in every arm, and what changed in each contrast."""
    if not comparison.tasks:
        return None
    charts = [chart for arm in comparison.names[1:] if (chart := _dumbbell(comparison, arm)) is not None]
    parts: list[PagePart] = []
    if len(charts) == 1:
        parts += charts
    else:
        parts += [Details(summary=one.caption, parts=(one,), unfolded=n == 0) for n, one in enumerate(charts)]
    return Section(title="Tasks", parts=(*parts, _every_task(comparison)))


def flips_section(comparison: Comparison, trace_of: Callable[[str], str] | None) -> Section | None:
    """Tasks that an arm and the baseline answer differently, with both rollouts."""
    if not comparison.flips:
        return None
    transcripts = _Transcripts(trace_of)
    parts: list[PagePart] = []
    for contrast in comparison.contrasts:
        for won in (True, False):
            flips = [one for one in comparison.flips if one.arm == contrast.arm and one.won is won]
            parts += _flips(contrast.arm, comparison.baseline, won, flips, transcripts)
    return Section(
        title="Flips",
        lede="Tasks on which an arm and the baseline differ, the largest differences first, each with two rollouts of "
        "the same index. The commands show a rollout down to each message.",
        parts=tuple(parts),
    )


def _dumbbell(comparison: Comparison, arm: str) -> Dumbbell | None:
    position = comparison.names.index(arm)
    rows = tuple(
        DumbbellRow(label=task.task, sub=clipped(task.problem, EXCERPT), before=before, after=after)
        for task in comparison.tasks
        if (before := _score(task, 0)) is not None and (after := _score(task, position)) is not None
    )
    if not rows:
        return None
    caption = f"{arm} against {comparison.baseline}, task by task"
    return Dumbbell(caption=caption, before=comparison.baseline, after=arm, rows=rows)


def _score(task: TaskLine, position: int) -> float | None:
    return finite(task.scores[position]) if position < len(task.scores) else None


def _every_task(comparison: Comparison) -> Details:
    wheres = any(task.domain or task.cluster for task in comparison.tasks)
    where = [Column(name="PagePart")] if wheres else []
    columns = (Column(name="Task"), *where, *(Column(name=arm, kind="number") for arm in comparison.names))
    table = Table(
        caption="Every task in every arm",
        columns=columns,
        rows=tuple(_task_row(task, len(comparison.arms), wheres) for task in comparison.tasks),
        note="Mean score over the rollouts of a task; a dash where every one was undecided or left out.",
    )
    return Details(summary="Every task in every arm", aside=f"{len(comparison.tasks)} tasks", parts=(table,))


def _task_row(task: TaskLine, arms: int, wheres: bool) -> tuple[TableCell, ...]:
    scores = [_score(task, position) for position in range(arms)]
    part = [TableCell(text=" · ".join(filter(None, (task.domain, task.cluster))))] if wheres else []
    name = TableCell(text=task.task, sub=clipped(task.problem, EXCERPT))
    return (name, *part, *(TableCell(text=decimal(score)) for score in scores))


class _Transcripts:
    """Transcripts as parts, as long as there is room for them on the page."""

    def __init__(self, trace_of: Callable[[str], str] | None) -> None:
        self._trace_of = trace_of
        self._room = TRACES

    def of(self, rollout: str) -> Iterator[PagePart]:
        if self._trace_of is None or self._room <= 0:
            return
        text = self._trace_of(rollout)
        if text:
            kept = text[: min(TRACE, self._room)]
            self._room -= len(kept)
            cut = f"\n… {len(text) - len(kept):,} more characters" if len(kept) < len(text) else ""
            yield Details(summary=f"Transcript of {rollout}", parts=(CodeBlock(text=kept + cut),))


def _flips(arm: str, baseline: str, won: bool, flips: list[Flip], transcripts: _Transcripts) -> list[PagePart]:
    if not flips:
        return []
    ordered = sorted(flips, key=lambda one: (-abs(one.score - one.baseline_score), one.task))
    word = "better" if won else "worse"
    parts: list[PagePart] = [_flip(one, transcripts) for one in ordered[:FLIPS_SHOWN]]
    if len(ordered) > FLIPS_SHOWN:
        rest = f"{len(ordered) - FLIPS_SHOWN} more are in the comparison as JSON."
        parts.append(Paragraph(text=rest, quiet=True))
    return [Details(summary=f"{arm} {word} than {baseline}", aside=f"{len(ordered)} tasks", parts=tuple(parts))]


def _flip(flip: Flip, transcripts: _Transcripts) -> Details:
    parts: list[PagePart] = []
    if len(flip.problem) > EXCERPT:  # else the line above holds all of it
        parts.append(Paragraph(text=clipped(flip.problem, PROBLEM)))
    for name, score, rollout in (
        (flip.baseline, flip.baseline_score, flip.baseline_rollout),
        (flip.arm, flip.score, flip.rollout),
    ):
        label = f"{name}, mean score {decimal(score)}"
        if rollout:
            parts.append(CodeBlock(label=label, text=f"agentlearn trace {shlex.quote(rollout)}"))
            parts += transcripts.of(rollout)
        else:
            parts.append(Paragraph(text=f"{label}; there is no record of its rollouts.", quiet=True))
    summary = ": ".join(filter(None, (clipped(flip.task, EXCERPT), clipped(flip.problem, EXCERPT))))
    return Details(summary=summary, aside=signed(flip.score - flip.baseline_score), parts=tuple(parts))
