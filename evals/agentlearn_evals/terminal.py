"""What the terminal, `print` and a notebook show of a comparison: verdicts first, then arms, and what to check."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.measure.contrasts import signed_difference
from agentlearn.text import number_text, wrapped
from agentlearn.views.figure import cost_words
from agentlearn.views.figure import large as short_count
from agentlearn.views.notebook import SUMMARY_COLUMNS, NotebookSummary, summary_html
from agentlearn.views.terminal import parts_of_table, print_table
from agentlearn_evals.comparison import ArmLine, Comparison, Flip, Slice
from agentlearn_evals.comparison_words import TONES, ComparisonWords, full_sentence, rollouts_words, worst_first
from agentlearn_evals.designing import PowerReport

_FLIPS = 5
"""Number of flips, and of missing tasks, that are printed."""
_LABEL = 10
_ID = 12
"""Characters of a rollout id that are printed; `agentlearn trace` accepts the start of an id."""
_EXCERPT = 48
_HEADER = ("arm", "score", "95 % interval", "rollouts", "failed", "undecided")


def print_comparison(found: Comparison, out: Console, *, store: Path = DEFAULT_STORE) -> None:
    """Print the verdicts and the main numbers, in the columns of the terminal; the page and the JSON have the rest.

    store: directory of the rollouts, for the commands that show them.
    """
    shown = _Shown(found)
    for warning in filter(None, (*found.warnings, shown.model_caution)):
        out.print(warning)
    for contrast in worst_first(found.contrasts):
        out.print(full_sentence(contrast), style="bold")
        if contrast.holds_if:
            out.print(contrast.holds_if)
    out.print()
    _print_rows(out, shown.arms())
    _print_rows(out, shown.differences())
    for line in shown.assumptions:
        out.print(f"  {line}", style="dim")
    out.print()
    _print_rows(out, shown.across_domains())
    _print_rows(out, shown.passes())
    missing = [f"{one.arm}: {one.task}: {one.reason}" for one in found.missing[:_FLIPS]]
    if more := len(found.missing) - len(missing):
        missing.append(f"and {more:,} more; --json lists them")
    methods = [
        f"{one.method} - {found.baseline}: {signed_difference(one.mean)} [{signed_difference(one.low)},"
        f" {signed_difference(one.high)}], {one.note}"
        for one in found.methods
    ]
    _print_lines(
        out,
        ("method", methods),
        ("caution", [f"{arms}: {caution}" for caution, arms in shown.interval_cautions.items()]),
        ("suspect", [f"{one.arm}: {one.words}" for one in found.flags]),
        ("look", shown.looks),
        ("missing", missing),
        ("flip", [shown.flip(one, store) for one in found.flips[:_FLIPS] if one.rollout or one.place]),
        ("note", found.notes),
    )


def print_score(found: Comparison, out: Console, *, page: Path | None) -> None:
    """Print the score of the only arm, what failed, and the tasks with the lowest scores. page: its page, if any."""
    arm, shown = found.arms[0], _Shown(found)
    for warning in filter(None, (*found.warnings, shown.model_caution)):
        out.print(warning)
    interval = "" if arm.low is None else f" (95 % interval {_interval(arm.low, arm.high)})"
    out.print(f"score {_share(arm.score)}{interval} on {arm.tasks:,} tasks", style="bold")
    out.print()
    for rows in (shown.arms(), shown.across_domains(), shown.passes()):
        _print_rows(out, rows)
    scored = [(one.scores[0] or 0.0, one.problem or one.task) for one in found.tasks]
    lowest = sorted(one for one in scored if one[0] < 1)[:_FLIPS]
    _print_lines(
        out,
        ("lowest", [f"{_share(score)} {_excerpt(problem)}" for score, problem in lowest]),
        ("suspect", [one.words for one in found.flags]),
        ("missing", [f"{one.task}: {one.reason}" for one in found.missing[:_FLIPS]]),
        ("note", found.notes),
        ("run", [found.run]),
        ("page", [] if page is None else [str(page)]),
    )


def comparison_text(found: Comparison) -> str:
    """Return the comparison as a few lines of at most 80 columns: the verdicts, a row for each arm, cautions."""
    shown = _Shown(found)
    rows = parts_of_table([_HEADER, *map(_arm_cells, found.arms)], columns=SUMMARY_COLUMNS)
    lines = [*shown.sentences(), *(line for part in rows for line in part), *shown.cautions(), shown.footer]
    return "\n".join(wrapped(line, SUMMARY_COLUMNS) for line in lines)


def comparison_html(found: Comparison) -> str:
    """Return the comparison as HTML: the verdicts, cautions, and a row for each arm."""
    contrasts, shown = worst_first(found.contrasts), _Shown(found)
    return summary_html(
        NotebookSummary(
            sentences=shown.sentences(),
            tone=TONES[contrasts[0].verdict] if contrasts else "plain",
            cautions=shown.cautions(),
            header=_HEADER,
            rows=tuple(map(_arm_cells, found.arms)),
            footer=shown.footer,
        )
    )


class _Shown(ComparisonWords):
    """What is printed of a comparison: sentences, and tables as rows of texts."""

    @property
    def footer(self) -> str:
        """What was compared, in one line."""
        found = self.found
        return f"{found.title} · {found.k} rollouts per task and arm" + (f" · run {found.run}" * bool(found.run))

    def sentences(self) -> tuple[str, ...]:
        """Return the verdicts, the worst first."""
        contrasts = worst_first(self.found.contrasts)
        said = [words for one in contrasts for words in (full_sentence(one), one.holds_if) if words]
        return tuple(said) or ("There is nothing to compare.",)

    def cautions(self) -> tuple[str, ...]:
        """Return what a reader should know beside the verdicts, each once."""
        found = self.found
        cautions = (
            *found.warnings,
            *(f"{found.label(one)}: {one.unsafe}" for one in worst_first(found.contrasts) if one.unsafe),
            *(f"{arms}: {caution}" for caution, arms in self.interval_cautions.items()),
            *(f"{one.arm}: {one.words}" for one in found.flags),
            *([self.model_caution] if found.simulated else []),
            *found.notes,
        )
        return tuple(dict.fromkeys(cautions))

    def arms(self) -> list[tuple[str, ...]]:
        """Return the table of arms."""
        rows: list[tuple[str, ...]] = [(*_HEADER[:4], "reused", *_HEADER[4:], "cost", "in", "lessons", "out")]
        for arm in self.found.arms:
            shown = _arm_cells(arm)
            cost = "nothing" if arm.simulated else cost_words(arm.cost_usd)
            counts = ["-" if n is None else short_count(n) for n in (arm.tokens_in, arm.tokens_library, arm.tokens_out)]
            counts[1] = f"~{counts[1]}" if arm.tokens_library else counts[1]
            rows.append((*shown[:4], f"{arm.reused:,}", *shown[4:], cost, *counts))
        return rows

    def differences(self) -> list[tuple[str, ...]]:
        """Return the table of differences, with the bounds of each in its row; columns without a value are left out."""
        rows: list[dict[str, str]] = [
            {
                "difference": f"{one.arm} - {one.baseline}",
                "mean": signed_difference(one.mean),
                "95 % interval": _interval(one.low, one.high, sign=True),
                "bounds": self.bounds(one),
                "p": _p(one.p),
                "p_mean": "" if one.p_mean is None else _p(one.p_mean),
                "corrected": _p(one.p_adjusted),
                "won": str(one.wins),
                "lost": str(one.losses),
                "same": str(one.ties),
                "detectable": _share(one.detectable),
            }
            for one in self.found.contrasts
        ]
        shown = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
        return [tuple(shown), *(tuple(row[name] or "-" for name in shown) for row in rows)] if rows else []

    def across_domains(self) -> list[tuple[str, ...]]:
        """Return a table of arms by domains with differences from the baseline; empty for one domain."""
        slices = {(one.arm, one.name): one for one in self.found.slices if one.by == "domain"}
        domains = sorted({name for _, name in slices})
        if len(domains) < 2:
            return []

        def cells(one: Slice | None) -> tuple[str, str]:
            if one is None or one.mean is None:
                return _share(one and one.score), "-"
            limits = "" if one.low is None or one.high is None else f" [{one.low:+.3f}, {one.high:+.3f}]"
            return _share(one.score), f"{signed_difference(one.mean)}{limits}"

        header = ("by domain", *(word for name in domains for word in (name, "difference")))
        arms = self.found.names
        return [
            header,
            *((arm, *(word for name in domains for word in cells(slices.get((arm, name))))) for arm in arms),
        ]

    def passes(self) -> list[tuple[str, ...]]:
        """Return pass@k and pass^k for each k that all arms have; empty when one has none."""
        shared = sorted(set.intersection(*({one.k for one in arm.passes} for arm in self.found.arms)))
        if not shared:
            return []
        rows = [("arm", *(f"pass@{k}" for k in shared), *(f"pass^{k}" for k in shared[1:]))]
        for arm in self.found.arms:
            kept = [one for one in arm.passes if one.k in shared]
            values = (*(one.at_least_one for one in kept), *(one.all_of_them for one in kept[1:]))
            rows.append((arm.arm, *map(_share, values)))
        return rows

    def flip(self, flip: Flip, store: Path) -> str:
        """Return a task on which two arms differ, with where its rollouts are."""
        scores = f"{number_text(flip.baseline_score)} → {number_text(flip.score)}"
        against = f" against {flip.baseline}" if self.found.pairwise else ""
        result = f"{flip.arm} {'wins' if flip.won else 'loses'}{against} {scores} {_excerpt(flip.problem or flip.task)}"
        if flip.place:
            return f"{result}   {flip.baseline_place} → {flip.place}"
        rollouts = filter(None, (flip.rollout, flip.baseline_rollout))
        return f"{result}   {'   '.join(command_words('trace', one[:_ID], store=store) for one in rollouts)}"


def _print_rows(out: Console, rows: Sequence[Sequence[str]]) -> None:
    if rows:
        print_table(out, rows, label=_LABEL, indent=2)
        out.print()


def _print_lines(out: Console, *labelled: tuple[str, Iterable[str]]) -> None:
    for label, lines in labelled:
        for line in lines:
            out.print(f"  {label.ljust(_LABEL)}{line}")


def _arm_cells(arm: ArmLine) -> tuple[str, ...]:
    numbers = (rollouts_words(arm), f"{arm.failed:,}", f"{arm.undecided:,}")
    return arm.arm, _share(arm.score), _interval(arm.low, arm.high), *numbers


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 1]}…")


def _share(value: float | None) -> str:
    return "-" if value is None else number_text(value, 3)


def _interval(low: float | None, high: float | None, *, sign: bool = False) -> str:
    if low is None or high is None:
        return "-"
    return f"{number_text(low, 3, sign=sign)} to {number_text(high, 3, sign=sign)}"


def _p(p: float | None) -> str:
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


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
        rows.append((*sizes, *tokens, cost_words(price.cost_usd)))
    _print_rows(out, rows)
    if report.rollouts_needed is not None:
        out.print(f"  {'needed'.ljust(_LABEL)}{settings.tasks} tasks need {report.rollouts_needed:,} rollouts each")
    for note in report.notes:
        out.print(f"  {'note'.ljust(_LABEL)}{note}")
