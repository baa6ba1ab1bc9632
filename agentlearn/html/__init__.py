"""HTML reports: `render_page` turns typed parts into one self-contained file."""

from agentlearn.html.bars import Bar, BarGroup, Bars
from agentlearn.html.dumbbell import Dumbbell, DumbbellRow
from agentlearn.html.forest import Forest, ForestRow
from agentlearn.html.lines import LineChart, Point, Series
from agentlearn.html.page import Details, HtmlPage, PagePart, Section, render_page
from agentlearn.html.prose import CodeBlock, KeyFigure, KeyFigures, Note, Paragraph, Statement
from agentlearn.html.scatter import Scatter, ScatterPoint
from agentlearn.html.table import Column, Table, TableCell
from agentlearn.html.tone import Tone

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
