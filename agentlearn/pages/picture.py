"""Charts as SVG files of their own: the same marks as on a page, with plain colours, for papers and slides."""

import re
import textwrap
from importlib.resources import files

from agentlearn.pages.charts import Bars, Forest, words_at
from agentlearn.pages.figure import named
from agentlearn.pages.lines import LineChart, Scatter
from agentlearn.pages.markup import element, raw

CHARTS = (Bars, Forest, LineChart, Scatter)
"""The parts of pages that can be saved as a file."""
WIDTH, _MARGIN, _LINE = 760, 20, 16
"""Width of a drawing in pixels, the margin around it, and the height of a line of text."""
_STYLE = """
text { font: 12px sans-serif; fill: {muted}; } text.strong, text.label { fill: {ink}; }
text.caption { font: bold 14px sans-serif; fill: {ink}; } .x, .axis text { text-anchor: middle; }
.paper { fill: {paper}; } line, .cap { stroke: {rule}; fill: none; } line.grid { stroke: {faint}; }
line.zero { stroke: {muted}; stroke-width: 1.5; } line.leader { stroke: {muted}; }
line.margin { stroke: {accent}; stroke-width: 1.5; stroke-dasharray: 4 4; }
line.whisker, .cap { stroke: {ink}; stroke-width: 2; } .shape { fill: {ink}; stroke: {paper}; stroke-width: 1.5; }
.track { stroke: {faint}; stroke-width: 10; } .bar { stroke: {accent}; stroke-width: 10; }
.stroke { stroke-width: 2; } .series line.whisker { stroke-width: 1.5; opacity: .55; }
"""
_KINDS = {"good": "good", "bad": "bad", "held": "accent", "open": "muted"} | {
    f"s{n}": ("accent", "ink", "muted", "ink")[n % 4] for n in range(8)
}
"""Colours of tones and of the lines of a chart."""
_HOLLOW = {"open", "s4", "s5", "s6", "s7"}


def svg_file(chart: Bars | Forest | LineChart | Scatter, mark: str) -> str:
    """A chart as the text of an SVG file. mark: a label in its caption, such as `simulated`."""
    caption, (drawing, height) = named(chart.caption, mark), chart.picture()
    top = _MARGIN + _LINE
    notes = textwrap.wrap(getattr(chart, "note", ""), 110)
    bottom = top + 12 + height + 24
    whole = bottom + _LINE * len(notes)
    size = WIDTH + 2 * _MARGIN
    picture = element(
        "svg",
        element("title", caption),
        raw("style", _style()),
        element("path", class_="paper", d=f"M0 0H{size}V{whole}H0z"),
        words_at(caption, _MARGIN, top, "caption", most=96),
        element("svg", drawing, x=_MARGIN, y=top + 12, width=WIDTH, height=height, overflow="visible"),
        *(words_at(line, _MARGIN, bottom + _LINE * n, most=120) for n, line in enumerate(notes)),
        xmlns="http://www.w3.org/2000/svg", width=size, height=whole, viewBox=f"0 0 {size} {whole}",
    )  # fmt: skip
    return f"{picture.text}\n"


def _style() -> str:
    """The style sheet, with the colours of a light page."""
    page = files("agentlearn.pages").joinpath("page.css").read_text(encoding="utf-8").partition("@media")[0]
    colours = dict(re.findall(r"--(\w+): (#\w+)", page))
    rules = [_STYLE]
    for kind, colour in _KINDS.items():
        paint = f"{{{colour}}}"
        shape = f"fill: {{paper}}; stroke: {paint}; stroke-width: 2;" if kind in _HOLLOW else f"fill: {paint};"
        rules.append(f".{kind} .shape {{ {shape} }}")
        rules.append(f".{kind} line.whisker, .{kind} .cap, .{kind} .stroke {{ stroke: {paint}; }}")
    return re.sub(r"\{(\w+)\}", lambda found: colours[found[1]], "\n".join(rules))
