"""Reports as pages: typed parts in, one self-contained HTML file out."""

from agentlearn.report.dumbbell import Dumbbell, DumbbellRow
from agentlearn.report.forest import Forest, ForestRow
from agentlearn.report.lines import LineChart, Point, Series
from agentlearn.report.page import Details, Page, Part, Section, render_page
from agentlearn.report.prose import Code, KeyFigure, KeyFigures, Note, Paragraph, Statement
from agentlearn.report.scatter import Scatter, ScatterPoint
from agentlearn.report.table import Cell, Column, Table
from agentlearn.report.tone import Tone

__all__ = [
    "Cell",
    "Code",
    "Column",
    "Details",
    "Dumbbell",
    "DumbbellRow",
    "Forest",
    "ForestRow",
    "KeyFigure",
    "KeyFigures",
    "LineChart",
    "Note",
    "Page",
    "Paragraph",
    "Part",
    "Point",
    "Scatter",
    "ScatterPoint",
    "Section",
    "Series",
    "Statement",
    "Table",
    "Tone",
    "render_page",
]
