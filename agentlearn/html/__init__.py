"""HTML reports: `render_page` turns typed parts into one self-contained file."""

from agentlearn.html.bars import Bar, BarGroup, Bars, Dumbbell, DumbbellRow
from agentlearn.html.figure import Tone
from agentlearn.html.forest import Forest, ForestRow
from agentlearn.html.lines import LineChart, Point, Scatter, ScatterPoint, Series
from agentlearn.html.page import Details, HtmlPage, PagePart, Section, render_page
from agentlearn.html.table import CodeBlock, Column, KeyFigure, KeyFigures, Note, Paragraph, Statement, Table, TableCell

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
