"""Tables with aligned numbers. They can be sorted when scripts run, and scroll sideways on a narrow screen."""

import re
from collections.abc import Callable
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from agentlearn.types.value import Value
from agentlearn.views.figure import Tone, figure, finite, glyph, named, scrolling
from agentlearn.views.markup import Html, element


class Column(Value):
    """A column: its heading and what it holds."""

    name: str
    kind: Literal["text", "number"] = "text"
    choices: bool = False
    """Whether rows can be chosen by the texts of this column when scripts run. For columns of a few distinct texts."""


class TableCell(Value):
    """A cell of a table."""

    text: str
    sub: str = ""
    """A second line in smaller type, such as an interval."""
    value: float | None = None
    """Value to sort by, if not the text."""
    tone: Tone = "plain"
    href: str = ""
    """Address that the text links to; empty for none."""


def number_cells(words: Callable[[Any], str], *values: float | None) -> tuple[TableCell, ...]:
    """A cell for each number, which is written with `words` and sorted by its value."""
    return tuple(TableCell(text=words(value), value=value) for value in values)


def number_columns(*names: str) -> tuple[Column, ...]:
    """Columns of numbers."""
    return tuple(Column(name=name, kind="number") for name in names)


class Table(Value):
    """A table. The first cell of a row is its name."""

    caption: str
    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[tuple[TableCell, ...], ...]
    """Rows with as many cells as `columns`."""
    note: str = ""

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        for n, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ValueError(f"row {n} has {len(row)} cells, the table has {len(self.columns)} columns")
        return self


WORDY = 30
"""Length of a text from which its cell gets a minimum width."""


def table(part: Table, mark: str) -> Html:
    """A `Table` as HTML."""
    head = element("tr", *(_heading(column) for column in part.columns))
    body = [
        element("tr", *(_cell(cell, column, n) for n, (cell, column) in enumerate(zip(row, part.columns, strict=True))))
        for row in part.rows
    ]
    content = element("table", element("thead", head), element("tbody", *body), class_="sortable")
    return figure("table", part.caption, scrolling(content, named(part.caption, mark)), mark=mark, note=part.note)


def _heading(column: Column) -> Html:
    classes = "num" if column.kind == "number" else "choices" if column.choices else None
    return element("th", column.name, scope="col", class_=classes)


def _classes(cell: TableCell, column: Column) -> list[str]:
    known = (("num", column.kind == "number"), ("long", len(cell.text) > WORDY), (cell.tone, cell.tone != "plain"))
    return [name for name, holds in known if holds]


def _cell(cell: TableCell, column: Column, position: int) -> Html:
    value = finite(cell.value)
    text = element("bdi", cell.text) if column.kind == "text" else cell.text
    inside = (
        glyph(cell.tone),
        element("a", text, href=cell.href) if cell.href else text,
        element("span", element("bdi", cell.sub), class_="sub") if cell.sub else None,
    )
    classes = " ".join(_classes(cell, column))
    sort = None if value is None else f"{value:.6g}"
    if position == 0:
        return element("th", *inside, scope="row", class_=classes or None, data_value=sort)
    return element("td", *inside, class_=classes or None, data_value=sort)


_BRACKET = re.compile(r"\[[^\[\]\n]{1,24}\]")
"""An interval, which is not broken over two lines."""


class Statement(Value):
    """A result in one sentence, in large type."""

    text: str
    tone: Tone = "plain"


class Paragraph(Value):
    """Running text. Its line ends are kept."""

    text: str
    quiet: bool = False
    """Use smaller, paler type, for explanations."""


class Note(Value):
    """A remark in a box. A warning is something to know before trusting the figures."""

    text: str
    kind: Literal["note", "warning"] = "note"
    title: str = ""
    """Heading of the box. Empty: `Note` or `Warning`."""


class KeyFigure(Value):
    """A number with its name."""

    label: str
    value: str
    sub: str = ""


class KeyFigures(Value):
    """A few numbers side by side."""

    caption: str
    figures: tuple[KeyFigure, ...]


class CodeBlock(Value):
    """Commands, transcripts or settings. Line ends are kept and long lines are wrapped."""

    text: str
    label: str = ""


def statement(part: Statement) -> Html:
    """A `Statement` as HTML."""
    unbroken = _BRACKET.sub(lambda found: found.group().replace(" ", "\u00a0"), part.text)
    return element("p", glyph(part.tone), element("bdi", unbroken), class_=f"statement {part.tone}")


def paragraph(part: Paragraph) -> Html:
    """A `Paragraph` as HTML."""
    return element("p", element("bdi", part.text), class_="quiet" if part.quiet else "prose")


def note(part: Note) -> Html:
    """A `Note` as HTML."""
    title = part.title or part.kind.capitalize()
    return element(
        "div",
        element("p", title, class_="title"),
        element("p", element("bdi", part.text), class_="prose"),
        class_=part.kind,
        role="note",
    )


def key_figures(part: KeyFigures, mark: str) -> Html:
    """`KeyFigures` as HTML."""
    items = [
        element(
            "div",
            element("dt", element("bdi", one.label)),
            element(
                "dd",
                element("bdi", one.value),
                element("span", element("bdi", one.sub), class_="sub") if one.sub else None,
            ),
        )
        for one in part.figures
    ]
    return figure("keys", part.caption, element("dl", *items), mark=mark)


def code(part: CodeBlock) -> Html:
    """A `CodeBlock` as HTML."""
    label = element("p", element("bdi", part.label), class_="quiet") if part.label else None
    return element("div", label, element("pre", element("code", part.text), tabindex=0), class_="code")
