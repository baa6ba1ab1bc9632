"""Tables and texts as lines of a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agentlearn.text import Block, block, visible_line
from agentlearn.views.figure import cost_words, large

if TYPE_CHECKING:
    from rich.console import Console

    from agentlearn.learning.report import StageLine

_GAP = "  "


def print_table(out: "Console", rows: Sequence[Sequence[str]], *, label: int = 0, indent: int = 0) -> None:
    """Print a table whose first row is its header; in several parts where a terminal is too narrow for all columns."""
    columns = out.width - indent if out.is_terminal else None
    for header, *lines in parts_of_table(rows, label=label, columns=columns):
        out.print(" " * indent + header, style="dim")
        for line in lines:
            out.print(" " * indent + line)


def parts_of_table(
    rows: Sequence[Sequence[str]], *, label: int = 0, columns: int | None = None
) -> Iterator[tuple[str, ...]]:
    """The lines of a table, a line per row; all rows have the same number of cells.

    label: smallest width of the first column. columns: where the table is wider, it comes in several parts, each with
    the first column and as many of the others as there is room for.
    """
    rows = [[visible_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths[0] = max(label, widths[0])
    start = 1
    while start < len(widths) or start == 1:
        end, width = start, widths[0]
        while end < len(widths) and (end == start or columns is None or width + len(_GAP) + widths[end] <= columns):
            width += len(_GAP) + widths[end]
            end += 1
        yield tuple(
            _GAP.join((row[0].ljust(widths[0]), *(row[one].rjust(widths[one]) for one in range(start, end))))
            for row in rows
        )
        start = max(end, start + 1)


_WIDTH = 11
"""Width of the column of labels."""


def labelled(label: str, text: str) -> Block:
    """The text with a label to the left of its first line."""
    return block(text, label.ljust(_WIDTH), " " * _WIDTH)


def labelled_command(label: str, text: str) -> str:
    """One line of ours with a label. A terminal breaks it where it likes, so that a command in it can be copied."""
    return f"{label.ljust(_WIDTH)}{text}"


def indented(text: str) -> Block:
    """The text with spaces to the left of each line."""
    return block(text, "  ")


def shortened(text: str, *, full: bool) -> str:
    """The text, or without `full` its beginning and its end, with the number of characters left out."""
    limit = 2_000
    if full or len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out; --full prints them …]\n{text[-tail:]}"


def one_line(text: str, limit: int = 100) -> str:
    """The text on one line, cut at its end."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


_STAGES = ("rollout", "user", "judge", "summarise", "compare", "consolidate")
"""Stages in the order of a run; other stages follow."""
_RARE = frozenset({"cached", "retried", "replayed", "malformed"})
"""Columns that are left out where every count is 0."""


def ordered_stages(stages: "Mapping[str, StageLine]") -> "list[tuple[str, StageLine]]":
    """The stages that made calls, in the order of a run, and the sum of all where there are several."""
    places = {name: place for place, name in enumerate(_STAGES)}
    named = sorted(stages.items(), key=lambda stage: (places.get(stage[0], len(places)), stage[0]))
    named = [(name, line) for name, line in named if line.calls]
    if len(named) < 2:
        return named
    lines = [line for _, line in named]
    costs = [line.cost_usd for line in lines if line.cost_usd is not None]
    total = lines[0].model_copy(
        update={
            name: sum(getattr(line, name) for line in lines)
            for name in ("calls", "tokens_in", "tokens_cached", "tokens_out", "seconds", "retried", "replayed")
        }
        | {
            "cost_usd": sum(costs) if len(costs) == len(lines) else None,
            "malformed": {"all": sum(sum(line.malformed.values()) for line in lines)},
        }
    )
    return [*named, ("all", total)]


def stage_rows(stages: "Mapping[str, StageLine]") -> list[tuple[str, ...]]:
    """A header, a line per stage that made calls, and a sum when there are several stages.

    `in`, `cached` and `out` are tokens. `seconds` is the sum over all calls, many of which ran at the same time.
    """
    rows = [
        {
            "stage": name,
            "calls": f"{line.calls:,}",
            "in": large(line.tokens_in),
            "cached": large(line.tokens_cached),
            "out": large(line.tokens_out),
            "cost": cost_words(line.cost_usd),
            "seconds": f"{line.seconds:,.0f}",
            "retried": f"{line.retried:,}",
            "replayed": f"{line.replayed:,}",
            "malformed": f"{sum(line.malformed.values()):,}",
        }
        for name, line in ordered_stages(stages)
    ]
    shown = [name for name in (rows[0] if rows else ()) if name not in _RARE or {row[name] for row in rows} - {"0"}]
    return [tuple(shown), *(tuple(row[name] for name in shown) for row in rows)] if rows else []


def stage_lines(stages: "Mapping[str, StageLine]", columns: int | None = None) -> Iterator[str]:
    """The table of stages, in two parts where it is wider than `columns`; then the kinds of malformed replies."""
    if rows := stage_rows(stages):
        for part in parts_of_table(rows, label=_WIDTH, columns=columns):
            yield from part
    for name, line in ordered_stages(stages):
        if line.malformed and name in stages:
            counts = ", ".join(f"{code} {count:,}" for code, count in line.malformed.items())
            yield labelled("malformed", f"{name}: {counts}")
