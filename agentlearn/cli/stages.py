"""A table of calls, tokens and costs by stage. A column without a count in it is left out."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from agentlearn.cli.table import parts_of_table, print_table
from agentlearn.learning.report import StageLine

_HEADERS = ("stage", "calls", "in", "cached", "out", "cost", "seconds", "retried", "replayed", "malformed")
_ORDER = ("rollout", "judge", "summarise", "compare", "consolidate")
"""Stages in the order of a run; other stages follow."""
_RARE = frozenset({"cached", "retried", "replayed", "malformed"})
"""Columns that are left out where every count is 0."""
_LABEL = 11


def print_stages(stages: Mapping[str, StageLine], out: Console, *, indent: int = 0) -> None:
    """Print the table unless it is empty."""
    rows = _rows(stages)
    if len(rows) > 1:
        print_table(out, rows, label=_LABEL, indent=indent)


def stage_lines(stages: Mapping[str, StageLine], columns: int | None = None) -> tuple[str, ...]:
    """The header, a line per stage that made calls, and a sum when there are several stages.

    `in`, `cached` and `out` are tokens. `seconds` is the sum over all calls, many of which ran at the same time.
    columns: where the table is wider, it comes in two parts, one below the other.
    """
    return tuple(line for part in parts_of_table(_rows(stages), label=_LABEL, columns=columns) for line in part)


def _rows(stages: Mapping[str, StageLine]) -> list[tuple[str, ...]]:
    named = [(name, line) for name, line in stage_order(stages) if line.calls]
    rows = [_cells(name, line) for name, line in named]
    if len(rows) > 1:
        rows.append(_cells("all", sum_of_stages([line for _, line in named])))
    columns = [
        column for column in zip(_HEADERS, *rows, strict=True) if column[0] not in _RARE or {*column[1:]} - {"0"}
    ]
    return list(zip(*columns, strict=True))


def malformed_words(stages: Mapping[str, StageLine]) -> tuple[str, ...]:
    """For each stage with malformed replies, the counts by kind of mistake."""
    return tuple(
        f"{name}: {', '.join(f'{code} {count:,}' for code, count in line.malformed.items())}"
        for name, line in stage_order(stages)
        if line.malformed
    )


def stage_order(stages: Mapping[str, StageLine]) -> list[tuple[str, StageLine]]:
    """The stages in the order of a run."""
    places = {name: place for place, name in enumerate(_ORDER)}
    return sorted(stages.items(), key=lambda stage: (places.get(stage[0], len(places)), stage[0]))


def _cells(name: str, line: StageLine) -> tuple[str, ...]:
    return (
        name,
        f"{line.calls:,}",
        short_count(line.tokens_in),
        short_count(line.tokens_cached),
        short_count(line.tokens_out),
        cost_words(line.cost_usd),
        f"{line.seconds:,.0f}",
        f"{line.retried:,}",
        f"{line.replayed:,}",
        f"{sum(line.malformed.values()):,}",
    )


def cost_words(cost_usd: float | None) -> str:
    """A cost in dollars; None is `unknown`, not `nothing`."""
    if cost_usd is None:
        return "unknown"
    return f"${cost_usd:,.4f}" if 0 < cost_usd < 1 else f"${cost_usd:,.2f}" if cost_usd else "nothing"


def short_count(number: int) -> str:
    """A count in at most six characters: `812`, `81.2k`, `38.0M`."""
    for unit, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        # a number that rounds up to the next unit uses that unit: 999,960 is 1.0M, not 1000.0k
        if number >= unit * 0.99995:
            return f"{number / unit:.1f}{name}"
    return str(number)


def sum_of_stages(lines: Sequence[StageLine]) -> StageLine:
    """The sum of several stages."""
    costs = [line.cost_usd for line in lines if line.cost_usd is not None]
    return StageLine(
        calls=sum(line.calls for line in lines),
        tokens_in=sum(line.tokens_in for line in lines),
        tokens_cached=sum(line.tokens_cached for line in lines),
        tokens_out=sum(line.tokens_out for line in lines),
        cost_usd=sum(costs) if len(costs) == len(lines) else None,
        seconds=sum(line.seconds for line in lines),
        retried=sum(line.retried for line in lines),
        replayed=sum(line.replayed for line in lines),
        malformed={"all": sum(sum(line.malformed.values()) for line in lines)},
    )
