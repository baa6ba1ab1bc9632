"""The numbers of the page: differences with their tests, and the results, cost and several tries of each arm."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeVar

from agentlearn.measure.contrasts import cost_share
from agentlearn.pages.charts import Forest, ForestRow
from agentlearn.pages.figure import (
    DASH,
    MINUS,
    TONES,
    Tone,
    count,
    decimal,
    duration,
    finite,
    interval,
    large,
    money,
    p_value,
    signed,
)
from agentlearn.pages.lines import Scatter, ScatterPoint
from agentlearn.pages.page import PagePart, Section
from agentlearn.pages.table import Column, Note, Table, TableCell
from agentlearn_evals.analysis import ComparisonWords, rollouts_words, verdict_name
from agentlearn_evals.comparison import ArmLine, Slice

_N = TypeVar("_N", int, float)
_score, _change, _interval = (partial(words, digits=3) for words in (decimal, signed, interval))
EXPLORATORY = (
    "Exploratory: these parts were not chosen beforehand and their intervals are not corrected for their number, so "
    "they get no verdict. Some will differ by chance alone."
)

_CORRECTIONS = {
    "holm": "Corrected p: corrected for the number of contrasts (Holm) and for earlier looks if any.",
    "bh": "Corrected p: corrected for the number of contrasts (Benjamini and Hochberg) and for earlier looks if any.",
    "none": "Corrected p: corrected for earlier looks if any, but not for the number of contrasts.",
}
_P = (
    "p: two-sided sign-flip test, uncorrected. It asks how often random signs of the differences of tasks, or "
    "of clusters, give a mean difference at least this large."
)
_BOUNDS = (
    "Bounds: the difference if all undecided or missing rollouts had gone against the arm, or in its favour. Wins, "
    "losses and ties count tasks. Detectable: the smallest true difference that this many tasks and rollouts detect "
    "with 80 % power."
)
_METHODS = {
    "t": "t: Student's t over tasks.",
    "cr2": "cr2: clustered standard errors for few clusters (CR2), with Satterthwaite's degrees of freedom.",
    "score": "score: a score interval, for tasks of which most tie.",
}
_EVIDENCE = (
    "Pairs: rollouts of both arms with the same task and index. Clusters: groups of tasks with a common source, whose "
    "errors are not independent. Needed: rollouts per task and arm, or tasks, to detect the observed difference. "
    "Degrees: degrees of freedom of the interval."
)
_ARM_NOTES = {
    "Score": "Score: mean over tasks. Failed rollouts count as 0; undecided ones are left out.",
    "Rollouts": "Rollouts: those that the score rests on, of all where some are left out.",
    "Cost": "Cost: of all rollouts, including reused ones.",
    "Tokens in": "Tokens in: below, the part that lessons took (estimated), and the part that the service had cached.",
    "Tool calls": "Tool calls: mean per rollout.",
    "Time p50, p95": "Time: half of the rollouts took at most this long; below: 95 % of them did.",
}
_CONTROLS = (
    "Controls change no verdict. First all arms are made together, then the baseline again, then the library again,"
    " with other seeds. placebo: lessons about something else. history: the attempts that the lessons rest on, as they"
    " were."
)
_OPTIONAL = frozenset(("Extra cost", "p_mean", "McNemar p", "Tokens in", "Tokens out", "Tool calls", "Time p50, p95"))
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
        table = self._differences()
        parts: list[PagePart] = [table]
        arms = [row[0] for row in table.rows]
        if any(one.method or one.tasks or one.unsafe for one in found):
            evidence = {
                "Standard error": [number(one.standard_error, _score) for one in found],
                "McNemar p": [number(one.mcnemar_p, p_value) for one in found],
                "Tasks": [number(one.tasks, count) for one in found],
                "Pairs": [number(one.pairs, count) for one in found],
                "Clusters": [number(one.clusters, count) for one in found],
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

    def tables(self) -> list[Table]:
        """Return the tables that the terminal prints too: arms, differences, domains, and several tries."""
        found = (self._arms(), self._differences() if self.found.contrasts else None, self._domains(), self._passes())
        return [table for table in found if table is not None]

    def _differences(self) -> Table:
        found = self.found.contrasts
        columns = {
            "Difference": [number(one.mean, _change, _interval(one.low, one.high, sign=True)) for one in found],
            "Bounds": [TableCell(text=self.bounds(one).replace("-", MINUS) or DASH) for one in found],
            "p": [number(one.p, p_value) for one in found],
            "p_mean": [number(one.p_mean, p_value) for one in found],
            "Corrected p": [number(one.p_adjusted, p_value) for one in found],
            "Wins": [number(one.wins, count) for one in found],
            "Losses": [number(one.losses, count) for one in found],
            "Ties": [number(one.ties, count) for one in found],
            "Detectable": [number(one.detectable, _score) for one in found],
            "Extra cost": [
                TableCell(text=DASH)
                if one.cost_change is None
                else TableCell(text=f"{cost_share(one.cost_change)} {one.cost_in}", value=one.cost_change)
                for one in found
            ],
        }
        notes = (
            _P,
            *(f"{line.rstrip('.')}." for line in self.assumptions),
            _CORRECTIONS[self.found.correction],
            _BOUNDS,
        )
        arms = [
            TableCell(text=f"{one.arm} - {one.baseline}", sub=verdict_name(one), tone=TONES[one.verdict])
            for one in found
        ]
        caption = "Pairs of arms" if self.found.pairwise else f"Arms compared with {self.found.baseline}"
        return _table(caption, arms, columns, " ".join(notes))

    def controlled(self) -> Section | None:
        """Return the section with the controls; None without any."""
        found = self.found.controls
        if not found:
            return None
        columns = {
            "Score": [number(one.score, _score, f"against {_score(one.baseline_score)}") for one in found],
            "Difference": [
                number(one.contrast.mean, _change, _interval(one.contrast.low, one.contrast.high, sign=True))
                for one in found
            ],
            "Corrected p": [number(one.contrast.p_adjusted, p_value) for one in found],
            "Tasks changed": [number(one.changed, count) for one in found],
            "Finding": [
                TableCell(
                    text="nothing expected" if one.expected == "open" else "as expected" if one.holds else "doubt",
                    tone="plain" if one.expected == "open" else "held" if one.holds else "open",
                )
                for one in found
            ],
        }
        arms = [TableCell(text=f"{one.arm} - {one.baseline}") for one in found]
        table = _table(
            "Each control beside the arm it is measured against",
            arms,
            columns,
            f"{_CONTROLS} {_CORRECTIONS[self.found.correction]}",
        )
        doubts = [Note(kind="warning", text=one.words) for one in found if not one.holds]
        return Section(title="Controls", parts=(*doubts, table))

    def domains(self) -> Section | None:
        """Return the section with the arms by domains; None for a single domain."""
        table = self._domains()
        return None if table is None else Section(title="Across domains", parts=(table,))

    def _domains(self) -> Table | None:
        found = {(one.arm, one.name): one for one in self.found.slices if one.by == "domain"}
        domains = sorted({name for _, name in found})
        if len(domains) < 2:
            return None

        def cell(one: Slice | None) -> TableCell:
            if one is None:
                return TableCell(text=DASH)
            difference = " ".join(filter(None, (_change(one.mean), _interval(one.low, one.high, sign=True))))
            return number(one.score, _score, difference if finite(one.mean) is not None else "")

        columns = {domain: [cell(found.get((arm, domain))) for arm in self.found.names] for domain in domains}
        note = f"Beside each score: the difference from {self.found.baseline} with its interval. {EXPLORATORY}"
        return _table("Score by arm and domain", _names(self.found.arms), columns, note)

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
        arms, table = self.found.arms, self._arms()
        if table is None:
            return None
        parts = [table]
        if codes := sorted({code for arm in arms for code in arm.errors}):
            errors = {code: [number(arm.errors.get(code, 0), count) for arm in arms] for code in codes}
            parts.append(_table("Failed and undecided rollouts by code", _names(arms), errors, ""))
        return Section(title="Arms", parts=tuple(parts))

    def _arms(self) -> Table | None:
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
        parts = [((arm.tokens_library, "~{} library"), (arm.tokens_cached, "{} cached")) for arm in arms]
        lessons = [", ".join(words.format(large(number)) for number, words in one if number) for one in parts]
        columns = {
            "Score": [number(arm.score, _score, _interval(arm.low, arm.high)) for arm in arms],
            "Tasks": [number(arm.tasks, count) for arm in arms],
            "Rollouts": [
                TableCell(text=rollouts_words(arm), sub=sub, value=arm.rollouts)
                for arm, sub in zip(arms, reused, strict=True)
            ],
            "Failed": [number(arm.failed, count) for arm in arms],
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
        return _table("Score, failures, cost and time of each arm", first, columns, note)

    def passes(self) -> Section | None:
        """Return the section with pass@k and pass^k of every arm; None when no arm has them."""
        table = self._passes()
        return None if table is None else Section(title="Several tries", parts=(table,))

    def _passes(self) -> Table | None:
        by_size = [{one.k: one for one in arm.passes} for arm in self.found.arms]
        sizes = sorted({k for found in by_size for k in found})
        if not sizes:
            return None
        columns = {
            f"pass@{k}": [number(found[k].at_least_one if k in found else None, _score) for found in by_size]
            for k in sizes
        } | {
            f"pass^{k}": [number(found[k].all_of_them if k in found else None, _score) for found in by_size]
            for k in sizes
            if k > 1
        }
        note = (
            "pass@k: chance that at least one of k rollouts is right. pass^k: chance that all k rollouts are right. "
            "Unbiased means over tasks; a dash when some task has fewer than k rollouts."
        )
        return _table("pass@k and pass^k", _names(self.found.arms), columns, note)

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
