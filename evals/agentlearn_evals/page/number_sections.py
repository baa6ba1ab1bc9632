"""The numbers of the page: differences with their tests, and the results, cost and several tries of each arm."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeVar

from agentlearn.views.charts import Forest, ForestRow
from agentlearn.views.figure import DASH, Tone, count, decimal, duration, interval, large, money, p_value, signed
from agentlearn.views.lines import Scatter, ScatterPoint
from agentlearn.views.page import PagePart, Section
from agentlearn.views.table import Column, Note, Table, TableCell
from agentlearn_evals.comparison import ArmLine
from agentlearn_evals.comparison_words import TONES, VERDICTS, ComparisonWords, rollouts_words

_N = TypeVar("_N", int, float)

_CORRECTIONS = {
    "holm": "Corrected p: corrected for the number of contrasts (Holm) and for earlier looks if any.",
    "bh": "Corrected p: corrected for the number of contrasts (Benjamini and Hochberg) and for earlier looks if any.",
    "none": "Corrected p: corrected for earlier looks if any, but not for the number of contrasts.",
}
_P = (
    "p: two-sided sign-flip test, uncorrected. It asks how often random signs of the differences of tasks, or "
    "of clusters, give a mean difference at least this large."
)
_PAIRS = (
    "Pairs: rollouts of both arms with the same task and index. Clusters: groups of tasks with a common source, whose "
    "errors are not independent. Bounds: the difference if all undecided or missing rollouts had gone against the arm, "
    "or in its favour."
)
_METHODS = {
    "t": "t: Student's t over tasks.",
    "cr2": "cr2: clustered standard errors for few clusters (CR2), with Satterthwaite's degrees of freedom.",
    "score": "score: a score interval, for tasks of which most tie.",
}
_EVIDENCE = (
    "Wins, losses and ties count tasks. Detectable: the smallest true difference that this many tasks and rollouts "
    "detect with 80 % power. Needed: rollouts per task and arm, or tasks, to detect the observed difference. "
    "Degrees: degrees of freedom of the interval."
)
_ARM_NOTES = {
    "Score": "Score: mean over tasks. Failed rollouts count as 0; undecided ones are left out.",
    "Rollouts": "Rollouts: those that the score rests on, of all where some are left out.",
    "Cost": "Cost: of all rollouts, including reused ones.",
    "Tokens in": "Tokens in: below, the part that lessons took (estimated).",
    "Tool calls": "Tool calls: mean per rollout.",
    "Time p50, p95": "Time: half of the rollouts took at most this long; below: 95 % of them did.",
}
_OPTIONAL = frozenset(("p_mean", "McNemar p", "Tokens in", "Tokens out", "Tool calls", "Time p50, p95"))
"""Columns that are left out where no arm has a value."""
_KINDS: dict[str, Literal["text"]] = {"Interval method": "text", "Finding": "text"}


def number(value: _N | None, words: Callable[[_N | None], str], sub: str = "") -> TableCell:
    """Return a cell with a number: in words, and as the value by which the table is sorted."""
    return TableCell(text=words(value), sub=sub, value=value)


def scale_limits(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the limits of a scale of differences: -1 and 1, unless scores go beyond 0 to 1."""
    usual = all(value is None or abs(value) <= 1 for value in values)
    return (-1.0, 1.0) if usual else (-float("inf"), float("inf"))


def _table(caption: str, first: Sequence[TableCell], columns: Mapping[str, Sequence[TableCell]], note: str) -> Table:
    """Return a table of arms; optional columns without any value are left out."""
    shown = {
        name: cells
        for name, cells in columns.items()
        if name not in _OPTIONAL or any(cell.value is not None for cell in cells)
    }
    return Table(
        caption=caption,
        columns=(Column(name="Arm"), *(Column(name=name, kind=_KINDS.get(name, "number")) for name in shown)),
        rows=tuple(zip(first, *shown.values(), strict=True)),
        note=note,
    )


def _names(arms: Sequence[ArmLine]) -> list[TableCell]:
    return [TableCell(text=arm.arm) for arm in arms]


class NumberSections(ComparisonWords):
    """The sections that compare the arms in numbers."""

    def differences(self) -> Section | None:
        """Return the section that compares the arms in numbers."""
        found = self.found.contrasts
        if not found:
            return None
        arms = [
            TableCell(text=self.found.label(one), sub=VERDICTS[one.verdict], tone=TONES[one.verdict]) for one in found
        ]
        estimates = {
            "Difference": [number(one.mean, signed, interval(one.low, one.high, sign=True)) for one in found],
            "Bounds": [TableCell(text=self.bounds(one).replace("-", "−") or DASH) for one in found],
            "Standard error": [number(one.standard_error, partial(decimal, digits=3)) for one in found],
            "Corrected p": [number(one.p_adjusted, p_value) for one in found],
            "p": [number(one.p, p_value) for one in found],
            "p_mean": [number(one.p_mean, p_value) for one in found],
            "McNemar p": [number(one.mcnemar_p, p_value) for one in found],
            "Tasks": [number(one.tasks, count) for one in found],
            "Pairs": [number(one.pairs, count) for one in found],
            "Clusters": [number(one.clusters, count) for one in found],
        }
        notes = (
            _P,
            *(f"{line.rstrip('.')}." for line in self.assumptions),
            _CORRECTIONS[self.found.correction],
            _PAIRS,
        )
        caption = "Pairs of arms" if self.found.pairwise else f"Arms compared with {self.found.baseline}"
        parts: list[PagePart] = [_table(caption, arms, estimates, " ".join(notes))]
        if any(one.method or one.tasks or one.unsafe for one in found):
            evidence = {
                "Wins": [number(one.wins, count) for one in found],
                "Losses": [number(one.losses, count) for one in found],
                "Ties": [number(one.ties, count) for one in found],
                "Detectable": [number(one.detectable, decimal) for one in found],
                "Rollouts needed": [number(one.rollouts_needed, count) for one in found],
                "Tasks needed": [number(one.tasks_needed, count) for one in found],
                "Degrees": [number(one.degrees, partial(decimal, digits=1)) for one in found],
                "Interval method": [TableCell(text=one.method or DASH) for one in found],
            }
            used = {one.method for one in found}
            note = " ".join((_EVIDENCE, *(words for name, words in _METHODS.items() if name in used)))
            parts.append(_table("What this comparison can detect", arms, evidence, note))
        if margins := [(arm, one.margin) for arm, one in zip(arms, found, strict=True) if one.margin is not None]:
            columns = {
                "Margin": [TableCell(text=signed(-one.margin), value=-one.margin) for _, one in margins],
                "Lower bound": [number(one.bound, signed) for _, one in margins],
                "p": [number(one.p, p_value) for _, one in margins],
                "Finding": [
                    TableCell(text="shown", tone="held") if one.holds else TableCell(text="not shown", tone="open")
                    for _, one in margins
                ],
            }
            caption = "Test: the arm is not worse than the baseline by more than the margin"
            note = "Lower bound: one-sided 95 % bound of the difference. The margin was stated beforehand."
            parts.append(_table(caption, [arm for arm, _ in margins], columns, note))
        return Section(title="Differences", parts=(*parts, *self._methods()))

    def _methods(self) -> list[PagePart]:
        if not self.found.methods:
            return []
        rows = tuple(
            ForestRow(
                label=one.method,
                sub=f"{len(one.arms)} libraries: {', '.join(one.arms)}",
                mean=one.mean,
                low=one.low,
                high=one.high,
                words=f"p {p_value(one.p)}" if one.p is not None else "",
            )
            for one in self.found.methods
        )
        figure = Forest(
            caption=f"Methods compared with {self.found.baseline}, over the libraries that they learned",
            rows=rows,
            row_name="method",
            words_name="sign-flip test",
            limits=scale_limits(row.mean for row in rows),
            left=f"{self.found.baseline} better",
            right="method better",
        )
        return [figure, *(Note(title=one.method, text=one.note) for one in self.found.methods if one.note)]

    def arms(self) -> Section | None:
        """Return the section with the results of each arm."""
        arms = self.found.arms
        if not arms:
            return None
        first: list[TableCell] = []
        for arm in arms:
            details = (
                arm.label,
                f"library {arm.library[:12]}" if arm.library else "",
                f"{arm.lessons} lessons" if arm.lessons is not None else "",
                "simulated model" if arm.simulated and not self.found.simulated else "",
            )
            first.append(TableCell(text=arm.arm, sub=" · ".join(filter(None, details))))
        reused = [f"{arm.reused:,} reused" if arm.reused else "" for arm in arms]
        lessons = [f"~{large(arm.tokens_library)} library" if arm.tokens_library else "" for arm in arms]
        columns = {
            "Score": [number(arm.score, decimal, interval(arm.low, arm.high)) for arm in arms],
            "Tasks": [number(arm.tasks, count) for arm in arms],
            "Rollouts": [
                TableCell(text=rollouts_words(arm), sub=sub, value=arm.rollouts)
                for arm, sub in zip(arms, reused, strict=True)
            ],
            "Failed": [number(arm.failed, count) for arm in arms],
            "Timeouts": [number(arm.timeouts, count) for arm in arms],
            "Undecided": [number(arm.undecided, count) for arm in arms],
            "Cost": [number(arm.cost_usd, money) for arm in arms],
            "Tokens in": [number(arm.tokens_in, large, sub) for arm, sub in zip(arms, lessons, strict=True)],
            "Tokens out": [number(arm.tokens_out, large) for arm in arms],
            "Tool calls": [number(arm.tool_calls, decimal) for arm in arms],
            "Time p50, p95": [number(arm.seconds_p50, duration, duration(arm.seconds_p95)) for arm in arms],
        }
        empty = {name for name in _OPTIONAL & columns.keys() if all(cell.value is None for cell in columns[name])}
        notes = (words for name, words in _ARM_NOTES.items() if name not in empty)
        note = " ".join((f"Intervals are {self.level} over tasks.", *notes))
        parts = [_table("Score, failures, cost and time of each arm", first, columns, note)]
        if codes := sorted({code for arm in arms for code in arm.errors}):
            errors = {code: [number(arm.errors.get(code, 0), count) for arm in arms] for code in codes}
            parts.append(_table("Failed and undecided rollouts by code", _names(arms), errors, ""))
        return Section(title="Arms", parts=tuple(parts))

    def passes(self) -> Section | None:
        """Return the section with pass@k and pass^k of every arm; None when no arm has them."""
        by_size = [{one.k: one for one in arm.passes} for arm in self.found.arms]
        sizes = sorted({k for found in by_size for k in found})
        if not sizes:
            return None
        columns = {
            f"pass@{k}": [number(found[k].at_least_one if k in found else None, decimal) for found in by_size]
            for k in sizes
        } | {
            f"pass^{k}": [number(found[k].all_of_them if k in found else None, decimal) for found in by_size]
            for k in sizes
            if k > 1
        }
        note = (
            "pass@k: chance that at least one of k rollouts is right. pass^k: chance that all k rollouts are right. "
            "Unbiased means over tasks; a dash when some task has fewer than k rollouts."
        )
        table = _table("pass@k and pass^k", _names(self.found.arms), columns, note)
        return Section(title="Several tries", parts=(table,))

    def cost(self) -> Section | None:
        """Return a chart of score against cost: in dollars when all prices are known and above 0, else in tokens."""
        arms = [arm for arm in self.found.arms if arm.score is not None and arm.rollouts]
        dollars = [(arm.cost_usd or 0.0) / arm.rollouts for arm in arms]
        tokens = [((arm.tokens_in or 0) + (arm.tokens_out or 0)) / arm.rollouts for arm in arms]
        if len(arms) > 1 and all(dollars):
            x_name, amounts, words = "US dollars per rollout", dollars, money
        elif len(arms) > 1 and all(arm.tokens_in is not None and arm.tokens_out is not None for arm in arms):
            x_name, amounts, words = "tokens per rollout, in and out", tokens, large
        else:
            return None
        tones: dict[str, Tone] = {
            one.arm: TONES[one.verdict] for one in self.found.contrasts if one.baseline == self.found.baseline
        }
        points = tuple(
            ScatterPoint(
                label=arm.arm,
                x=amount,
                x_words=words(amount),
                y=arm.score or 0.0,
                low=arm.low,
                high=arm.high,
                tone=tones.get(arm.arm, "plain"),
            )
            for arm, amount in zip(arms, amounts, strict=True)
        )
        chart = Scatter(
            caption=f"Mean score against {x_name}",
            x_name=x_name,
            y_name="mean score",
            points=points,
            note=f"Square: {self.found.baseline}. ▲ better, ▼ worse, ◆ no worse, ○ cannot tell. Vertical lines: "
            f"{self.level} intervals.",
        )
        return Section(title="Cost and score", parts=(chart,))
