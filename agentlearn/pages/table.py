"""Tables with aligned numbers. They can be sorted when scripts run, and scroll sideways on a narrow screen."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from agentlearn.pages.figure import Html, Tone, element, figure, finite, glyph, named, scrolling, small
from agentlearn.types.rendering import headline, is_section
from agentlearn.types.value import Value

_LETTER = re.compile(r"[^\W\d_]")
"""A cell without letters, such as a date, is not broken over two lines."""
_WORDY = 30
"""Length of a text from which its cell gets a minimum width."""


class Column(Value):
    """A column: its heading and what it holds."""

    name: str
    kind: Literal["text", "number"] = "text"
    choices: bool = False
    """Whether rows can be chosen by the texts of this column when scripts run. For columns of a few distinct texts."""

    def heading(self) -> Html:
        """The heading as HTML."""
        classes = "num" if self.kind == "number" else "choices" if self.choices else None
        return element("th", self.name, scope="col", class_=classes)


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
    whole: str = ""
    """What unfolds below the text, as it was written; empty for nothing."""

    def html(self, column: Column, position: int) -> Html:
        """The cell as HTML. position: from 0; the first cell of a row is its name."""
        value = finite(self.value)
        text = element("bdi", self.text) if column.kind == "text" else self.text
        if self.whole:
            folded = element("details", element("summary", text), element("pre", self.whole, tabindex=0))
            address = element("a", "open its page", href=self.href, class_="sub") if self.href else None
            inside = (folded, address, small(self.sub))
        else:
            linked = element("a", text, href=self.href) if self.href else text
            inside = (glyph(self.tone), linked, small(self.sub))
        classes = [
            *(["num"] if column.kind == "number" else ()),
            *(["long"] if len(self.text) > _WORDY else () if _LETTER.search(self.text) else ["whole"]),
            *([self.tone] if self.tone != "plain" else ()),
        ]
        attributes = {"class_": " ".join(classes) or None, "data_value": None if value is None else f"{value:.6g}"}
        if position == 0 and self.text:
            return element("th", *inside, scope="row", **attributes)
        return element("td", *inside, **attributes)


def number_cells(words: Callable[[Any], str], *values: float | None) -> tuple[TableCell, ...]:
    """A cell for each number, which is written with `words` and sorted by its value."""
    return tuple(TableCell(text=words(value), value=value) for value in values)


def box(text: str, sub: str = "", href: str = "", *, value: float | None = None, tone: Tone = "plain") -> TableCell:
    """A cell of a table."""
    return TableCell(text=text, sub=sub, href=href, value=value, tone=tone)


def lesson_box(lesson: str, sub: str, href: str = "") -> TableCell:
    """A cell with a lesson. A section unfolds under its first line."""
    whole = lesson.strip("\n") if is_section(lesson) else ""
    return TableCell(text=headline(lesson), sub=sub, href=href, whole=whole)


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

    def html(self, mark: str) -> Html:
        """The part as HTML."""
        head = element("tr", *(column.heading() for column in self.columns))
        body = [
            element(
                "tr", *(cell.html(column, n) for n, (cell, column) in enumerate(zip(row, self.columns, strict=True)))
            )
            for row in self.rows
        ]
        content = element("table", element("thead", head), element("tbody", *body), class_="sortable")
        return figure("table", self.caption, scrolling(content, named(self.caption, mark)), mark=mark, note=self.note)


def sheet(caption: str, names: str, rows: Iterable[tuple[TableCell, ...]], note: str = "") -> Table:
    """A table. names: of the columns, with commas between; `#` before one of numbers, `*` before one to choose by."""
    columns = [
        Column(name=one.lstrip("#*"), kind="number" if one[:1] == "#" else "text", choices=one[:1] == "*")
        for one in names.split(", ")
    ]
    return Table(caption=caption, columns=tuple(columns), rows=tuple(rows), note=note)


_BRACKET = re.compile(r"\[[^\[\]\n]{1,24}\]")
"""An interval, which is not broken over two lines."""


class Statement(Value):
    """A result in one sentence, in large type."""

    text: str
    tone: Tone = "plain"

    def html(self, mark: str = "") -> Html:
        """The statement as HTML. It shows no mark."""
        unbroken = _BRACKET.sub(lambda found: found.group().replace(" ", "\u00a0"), self.text)
        return element("p", glyph(self.tone), element("bdi", unbroken), class_=f"statement {self.tone}")


class Paragraph(Value):
    """Running text. Its line ends are kept."""

    text: str
    quiet: bool = False
    """Use smaller, paler type, for explanations."""

    def html(self, mark: str = "") -> Html:
        """The paragraph as HTML. It shows no mark."""
        return element("p", element("bdi", self.text), class_="quiet" if self.quiet else "prose")


class Note(Value):
    """A remark in a box. A warning is something to know before trusting the figures."""

    text: str
    kind: Literal["note", "warning"] = "note"
    title: str = ""
    """Heading of the box. Empty: `Note` or `Warning`."""

    def html(self, mark: str = "") -> Html:
        """The note as HTML. It shows no mark."""
        title = self.title or self.kind.capitalize()
        return element(
            "div",
            element("p", title, class_="title"),
            element("p", element("bdi", self.text), class_="prose"),
            class_=self.kind,
            role="note",
        )


class KeyFigure(Value):
    """A number with its name."""

    label: str
    value: str
    sub: str = ""


class KeyFigures(Value):
    """A few numbers side by side."""

    caption: str
    figures: tuple[KeyFigure, ...]

    def html(self, mark: str) -> Html:
        """The part as HTML."""
        items = [
            element(
                "div",
                element("dt", element("bdi", one.label)),
                element("dd", element("bdi", one.value), small(one.sub)),
            )
            for one in self.figures
        ]
        return figure("keys", self.caption, element("dl", *items), mark=mark)


def keys(caption: str, *figures: tuple[str, str] | tuple[str, str, str]) -> KeyFigures:
    """A few numbers side by side. figures: name, number and small print of each."""
    made = (KeyFigure(label=label, value=value, sub="".join(sub)) for label, value, *sub in figures)
    return KeyFigures(caption=caption, figures=tuple(made))


class CodeBlock(Value):
    """Commands, transcripts or settings. Line ends are kept and long lines are wrapped."""

    text: str
    label: str = ""

    def html(self, mark: str = "") -> Html:
        """The block as HTML. It shows no mark."""
        label = element("p", element("bdi", self.label), class_="quiet") if self.label else None
        return element("div", label, element("pre", element("code", self.text), tabindex=0), class_="code")
