"""HTML reports: `render_page` turns typed parts into one self-contained file."""

from agentlearn.views.charts import Bar, BarGroup, Bars, Dumbbell, DumbbellRow, Forest, ForestRow
from agentlearn.views.figure import Tone
from agentlearn.views.lines import LineChart, Point, Scatter, ScatterPoint, Series
from agentlearn.views.page import Details, HtmlPage, PagePart, Section, render_page
from agentlearn.views.table import (
    CodeBlock,
    Column,
    KeyFigure,
    KeyFigures,
    Note,
    Paragraph,
    Statement,
    Table,
    TableCell,
)

__all__ = [
    "Bar",
    "BarGroup",
    "Bars",
    "CodeBlock",
    "Column",
    "Details",
    "Dumbbell",
    "DumbbellRow",
    "Forest",
    "ForestRow",
    "HtmlPage",
    "KeyFigure",
    "KeyFigures",
    "LineChart",
    "Note",
    "PagePart",
    "Paragraph",
    "Point",
    "Scatter",
    "ScatterPoint",
    "Section",
    "Series",
    "Statement",
    "Table",
    "TableCell",
    "Tone",
    "render_page",
]
