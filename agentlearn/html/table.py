"""Tables with aligned numbers. They can be sorted when scripts run, and scroll sideways on a narrow screen."""

from typing import Literal, Self

from pydantic import Field, model_validator

from agentlearn.html.figure import figure, named, scrolling
from agentlearn.html.markup import Html, element
from agentlearn.html.number_format import finite
from agentlearn.html.tone import Tone, glyph
from agentlearn.types.value import Value


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
    inside = (
        glyph(cell.tone),
        element("bdi", cell.text) if column.kind == "text" else cell.text,
        element("span", element("bdi", cell.sub), class_="sub") if cell.sub else None,
    )
    classes = " ".join(_classes(cell, column))
    sort = None if value is None else f"{value:.6g}"
    if position == 0:
        return element("th", *inside, scope="row", class_=classes or None, data_value=sort)
    return element("td", *inside, class_=classes or None, data_value=sort)
