"""Typed parts, tables and texts as lines of a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agentlearn.pages.figure import DASH, MINUS, clipped, clock_time, count, large, money
from agentlearn.pages.table import Note, Paragraph, Statement, Table, TableCell, box, number_cells, sheet
from agentlearn.text import Block, block, visible_line, wrapped
from agentlearn.text.printing import columns_of

if TYPE_CHECKING:
    from rich.console import Console

    from agentlearn.learning.report import StageLine

_GAP = "  "
_WIDTH = 11
"""Width of the column of labels."""
TEXT_COLUMNS = 80
"""Largest number of columns of a result that a program prints."""

_CHARACTERS = 1_000
"""Largest number of characters of a labelled line on a page."""

EndPart = tuple[str, str] | Table | Statement | Paragraph | Note
"""A part of the end of a run: a label with its text, of which an empty label continues the line above; or a part that
pages have too."""


def part_lines(
    parts: Iterable[EndPart], *, label: int = _WIDTH, indent: int = 2, columns: int | None = None
) -> Iterator[tuple[str, str]]:
    """Each line of the parts with its style.

    label: width of the column of labels. indent: spaces before labels and tables. columns: of the terminal; tables that
    are wider come in several parts.
    """
    for part in parts:
        match part:
            case Table():
                room = None if columns is None else columns - indent
                for lines in parts_of_table(table_rows(part), label=label, columns=room):
                    yield from ((" " * indent + line, "" if number else "dim") for number, line in enumerate(lines))
            case Statement(text=text):
                yield text, "bold"
            case Paragraph(text=text, quiet=True):
                yield text, "dim"
            case Paragraph(text=text) | Note(text=text):
                yield text, ""
            case (name, text):
                yield f"{' ' * indent}{name.ljust(label)}{text}", ""


def labelled_lines(label: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The lines, the first of them with the label."""
    yield from (("" if number else label, line) for number, line in enumerate(lines))


def labelled_table(caption: str, lines: Iterable[tuple[str, str]]) -> Iterator[Table]:
    """Labelled lines as a table of a page; no table without lines."""
    if rows := [(box(label), box(clipped(text, _CHARACTERS))) for label, text in lines]:
        yield sheet(caption, "What, Result", rows)


def print_parts(out: "Console", parts: Iterable[EndPart], *, label: int = _WIDTH) -> None:
    """Print the parts in the columns that there are."""
    for line, style in part_lines(parts, label=label, columns=columns_of(out)):
        out.print(line, style=style)


def parts_text(parts: Iterable[EndPart]) -> str:
    """The parts as a text of at most 80 columns."""
    return "\n".join(wrapped(line, TEXT_COLUMNS) for line, _ in part_lines(parts, indent=0, columns=TEXT_COLUMNS))


def table_rows(table: Table) -> list[tuple[str, ...]]:
    """A table of a page as rows of texts, the header first. What stands below a number on a page is beside it here."""

    def text(cell: TableCell) -> str:
        return f"{'-' if cell.text == DASH else cell.text} {cell.sub}".rstrip().replace(MINUS, "-")

    header = tuple(column.name.lower() for column in table.columns)
    return [header, *((row[0].text, *map(text, row[1:])) for row in table.rows)]


def print_table(out: "Console", rows: Sequence[Sequence[str]], *, label: int = 0, indent: int = 0) -> None:
    """Print a table whose first row is its header; in several parts where there is no room for all columns."""
    columns = columns_of(out)
    room = None if columns is None else columns - indent
    for header, *lines in parts_of_table(rows, label=label, columns=room):
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
_RARE = frozenset({"#Cached", "#Retried", "#Replayed", "#Malformed"})
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


def stage_table(stages: "Mapping[str, StageLine]") -> Table | None:
    """A row per stage that made calls, and their sum when there are several stages; None without any."""
    rows = [
        (
            box(name),
            *number_cells(count, line.calls),
            *number_cells(large, line.tokens_in, line.tokens_cached, line.tokens_out),
            *number_cells(money, line.cost_usd),
            *number_cells(clock_time, line.seconds),
            *number_cells(count, line.retried, line.replayed, sum(line.malformed.values())),
        )
        for name, line in ordered_stages(stages)
    ]
    names = ("Stage", "#Calls", "#In", "#Cached", "#Out", "#Cost", "#Time", "#Retried", "#Replayed", "#Malformed")
    kept = [n for n, one in enumerate(names) if one not in _RARE or any(row[n].value for row in rows)]
    note = (
        "In, cached and out are tokens. Time is the sum over all calls, many of which ran side by side. Retried:"
        " requests sent again. Replayed: calls that a resumed run took from the journal."
    )
    shown = (tuple(row[n] for n in kept) for row in rows)
    return sheet("Model calls by stage", ", ".join(names[n] for n in kept), shown, note) if rows else None
