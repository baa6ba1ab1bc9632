"""The results of each arm: scores, failures, tokens and time; pass@k; score against cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agentlearn.views import Column, PagePart, Scatter, ScatterPoint, Section, Table, TableCell, Tone
from agentlearn.views.figure import count, decimal, duration, interval, large, money
from agentlearn_evals.comparison import ArmLine, Comparison
from agentlearn_evals.contrast_words import rollouts_words
from agentlearn_evals.page.findings import TONES, level_text

_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True)
class _Measure:
    """One column of the table of arms."""

    name: str
    cell: Callable[[ArmLine], TableCell]
    has_value: Callable[[ArmLine], object] = lambda _: True
    """Whether an arm has a value here; a column without any value is left out."""
    note: str = ""
    """What the column's numbers mean, shown below the table."""


_MEASURES = (
    _Measure(
        "Score",
        lambda arm: _number(arm.score, decimal, interval(arm.low, arm.high)),
        note="Score: mean over tasks. Failed rollouts count as 0; undecided ones are left out.",
    ),
    _Measure("Tasks", lambda arm: _number(arm.tasks, count)),
    _Measure(
        "Rollouts",
        lambda arm: TableCell(
            text=rollouts_words(arm), sub=f"{arm.reused:,} reused" if arm.reused else "", value=arm.rollouts
        ),
        note="Rollouts: those that the score rests on, of all where some are left out.",
    ),
    _Measure("Failed", lambda arm: _number(arm.failed, count)),
    _Measure("Timeouts", lambda arm: _number(arm.timeouts, count)),
    _Measure("Undecided", lambda arm: _number(arm.undecided, count)),
    _Measure(
        "Cost",
        lambda arm: _number(arm.cost_usd, money),
        note="Cost: of all rollouts, including reused ones.",
    ),
    _Measure(
        "Tokens in",
        lambda arm: _number(arm.tokens_in, large, _of_library(arm)),
        lambda arm: arm.tokens_in is not None,
        note="Tokens in: below, the part that lessons took (estimated).",
    ),
    _Measure("Tokens out", lambda arm: _number(arm.tokens_out, large), lambda arm: arm.tokens_out is not None),
    _Measure(
        "Tool calls",
        lambda arm: _number(arm.tool_calls, decimal),
        lambda arm: arm.tool_calls is not None,
        note="Tool calls: mean per rollout.",
    ),
    _Measure(
        "Time p50, p95",
        lambda arm: _number(arm.seconds_p50, duration, duration(arm.seconds_p95)),
        lambda arm: arm.seconds_p50 is not None,
        note="Time: half of the rollouts took at most this long; below: 95 % of them did.",
    ),
)


def arms_section(comparison: Comparison) -> Section | None:
    """Return the section with the results of each arm."""
    if not comparison.arms:
        return None
    measures = [one for one in _MEASURES if any(one.has_value(arm) for arm in comparison.arms)]
    table = Table(
        caption="Score, failures, cost and time of each arm",
        columns=(Column(name="Arm"), *(Column(name=one.name, kind="number") for one in measures)),
        rows=tuple((_arm(arm, comparison.simulated), *(one.cell(arm) for one in measures)) for arm in comparison.arms),
        note=" ".join(
            (f"Intervals are {level_text(comparison)} over tasks.", *(one.note for one in measures if one.note))
        ),
    )
    parts: list[PagePart] = [table]
    errors = _errors(comparison.arms)
    return Section(title="Arms", parts=(*parts, *([errors] if errors else [])))


def passes_section(comparison: Comparison) -> Section | None:
    """Return the section with pass@k and pass^k of every arm; None when no arm has them."""
    sizes = sorted({one.k for arm in comparison.arms for one in arm.passes})
    if not sizes:
        return None
    columns = [f"pass@{k}" for k in sizes] + [f"pass^{k}" for k in sizes if k > 1]
    rows: list[tuple[TableCell, ...]] = []
    for arm in comparison.arms:
        by_size = {one.k: one for one in arm.passes}
        some = [by_size[k].at_least_one if k in by_size else None for k in sizes]
        every = [by_size[k].all_of_them if k in by_size else None for k in sizes if k > 1]
        rows.append((TableCell(text=arm.arm), *(_number(value, decimal) for value in (*some, *every))))
    table = Table(
        caption="pass@k and pass^k",
        columns=(Column(name="Arm"), *(Column(name=name, kind="number") for name in columns)),
        rows=tuple(rows),
        note="pass@k: chance that at least one of k rollouts is right. pass^k: chance that all k rollouts are right. "
        "Unbiased means over tasks; a dash when some task has fewer than k rollouts.",
    )
    return Section(title="Several tries", parts=(table,))


def cost_section(comparison: Comparison) -> Section | None:
    """Return a chart of score against cost: in dollars when all prices are known and above 0, else in tokens."""
    arms = [arm for arm in comparison.arms if arm.score is not None and arm.rollouts]
    priced = [arm for arm in arms if arm.cost_usd]
    if len(arms) > 1 and len(priced) == len(arms):
        return _scatter(comparison, priced, "US dollars per rollout", _dollars, money)
    counted = [arm for arm in arms if arm.tokens_in is not None and arm.tokens_out is not None]
    if len(arms) > 1 and len(counted) == len(arms):
        return _scatter(comparison, counted, "tokens per rollout, in and out", _tokens, large)
    return None


def _scatter(
    comparison: Comparison,
    arms: Sequence[ArmLine],
    x_name: str,
    amount: Callable[[ArmLine], float],
    words: Callable[[float], str],
) -> Section:
    tones: dict[str, Tone] = {
        one.arm: TONES[one.verdict] for one in comparison.contrasts if one.baseline == comparison.baseline
    }
    points = tuple(
        ScatterPoint(
            label=arm.arm,
            x=amount(arm),
            x_words=words(amount(arm)),
            y=arm.score or 0.0,
            low=arm.low,
            high=arm.high,
            tone=tones.get(arm.arm, "plain"),
        )
        for arm in arms
    )
    chart = Scatter(
        caption=f"Mean score against {x_name}",
        x_name=x_name,
        y_name="mean score",
        points=points,
        note=f"Square: {comparison.baseline}. ▲ better, ▼ worse, ◆ no worse, ○ cannot tell. Vertical lines: "
        f"{level_text(comparison)} intervals.",
    )
    return Section(title="Cost and score", parts=(chart,))


def _dollars(arm: ArmLine) -> float:
    return (arm.cost_usd or 0.0) / arm.rollouts


def _tokens(arm: ArmLine) -> float:
    return ((arm.tokens_in or 0) + (arm.tokens_out or 0)) / arm.rollouts


def _of_library(arm: ArmLine) -> str:
    return f"~{large(arm.tokens_library)} library" if arm.tokens_library else ""


def _arm(arm: ArmLine, all_simulated: bool) -> TableCell:
    details = (
        arm.label,
        f"library {arm.library[:12]}" if arm.library else "",
        f"{arm.lessons} lessons" if arm.lessons is not None else "",
        "simulated model" if arm.simulated and not all_simulated else "",
    )
    return TableCell(text=arm.arm, sub=" · ".join(word for word in details if word))


def _errors(arms: Sequence[ArmLine]) -> Table | None:
    codes = sorted({code for arm in arms for code in arm.errors})
    if not codes:
        return None
    return Table(
        caption="Failed and undecided rollouts by code",
        columns=(Column(name="Arm"), *(Column(name=code, kind="number") for code in codes)),
        rows=tuple(
            (TableCell(text=arm.arm), *(_number(arm.errors.get(code, 0), count) for code in codes)) for arm in arms
        ),
    )


def _number(value: _N | None, words: Callable[[_N | None], str], sub: str = "") -> TableCell:
    return TableCell(text=words(value), sub=sub, value=value)
