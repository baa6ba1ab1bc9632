"""The end of a comparison for the terminal, `print` and a notebook: verdicts first, then numbers, and what to check."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.measure.contrasts import signed_difference
from agentlearn.pages.figure import TONES, decimal, money
from agentlearn.pages.figure import large as short_count
from agentlearn.pages.notebook import result_html
from agentlearn.pages.table import Paragraph
from agentlearn.pages.terminal import EndPart, parts_text, print_parts, print_table
from agentlearn.text import number_text
from agentlearn_evals.comparison import Comparison, Flip
from agentlearn_evals.comparison_words import worst_first
from agentlearn_evals.designing import PowerReport
from agentlearn_evals.page.number_sections import NumberSections

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
