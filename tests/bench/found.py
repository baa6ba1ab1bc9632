"""What benchmarks found, as typed values, and the one place that shows them: tables for people, JSON for programs.

Names of figures carry their units (`open_p50_ms`, `wall_s`); `ratio` and counts have none.
"""

import os
import platform
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib.metadata import version
from itertools import groupby
from typing import Literal

import psutil
from pydantic import Field, computed_field

from agentlearn.types.value import Value

Number = int | float | bool | None
"""None: not measured here."""
_VERSIONS = ("agentlearn-lib", "pydantic-ai-slim", "openai", "pydantic", "duckdb", "numpy")


class Row(Value):
    """One line of a table: one thing that was measured, and its figures."""

    name: str
    figures: Mapping[str, Number]


class Target(Value):
    """A number that the design promises, and the figure that is held against it."""

    what: str
    figure: float
    bound: Literal["at_most", "at_least"]
    limit: float

    @computed_field
    @property
    def met(self) -> bool:
        """Whether the figure keeps to the bound."""
        return self.figure <= self.limit if self.bound == "at_most" else self.figure >= self.limit


class Found(Value):
    """What one benchmark found."""

    rows: tuple[Row, ...] = ()
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader of the figures has to know."""


class Bench(Value):
    """One benchmark as it was run."""

    bench: str
    about: str
    options: Mapping[str, object]
    load_1min: float
    """Of the machine as it began: processes that run or wait."""
    took_s: float
    found: Found
    error: str = ""
    """Why it came to no end; empty when it did."""


class Machine(Value):
    """What the figures depend on beside the code."""

    cores: int
    memory_gb: float
    system: str
    python: str
    versions: Mapping[str, str]
    load_1min: float
    """As the first benchmark began."""


class Report(Value):
    """One invocation of `just bench`."""

    command: tuple[str, ...]
    began_at: datetime
    machine: Machine
    benches: tuple[Bench, ...] = Field(default=())


def this_machine() -> Machine:
    """The machine as it is now, without its name."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        python=platform.python_version(),
        versions={name: version(name) for name in _VERSIONS},
        load_1min=load_1min(),
    )


def load_1min() -> float:
    """Processes that ran or waited in the last minute, on average."""
    return round(os.getloadavg()[0], 2)


def as_json(report: Report) -> str:
    """The report for programs."""
    return report.model_dump_json(indent=2) + "\n"


def as_text(bench: Bench) -> str:
    """One benchmark for people: a table for each run of rows with the same figures, then targets and notes."""
    return "\n".join([f"== {bench.bench} ({bench.took_s:.0f} s, load {bench.load_1min:g} before)", *_lines(bench)])


def _lines(bench: Bench) -> Iterator[str]:
    for names, rows in groupby(bench.found.rows, key=lambda row: tuple(row.figures)):
        yield from _table([("", *names), *((row.name, *map(_shown, row.figures.values())) for row in rows)])
        yield ""
    for target in bench.found.targets:
        bound = "at most" if target.bound == "at_most" else "at least"
        yield f"{'met   ' if target.met else 'MISSED'} {target.what}: {_shown(target.figure)}, {bound} {target.limit:g}"
    yield from bench.found.notes
    if bench.error:
        yield f"BROKEN OFF: {bench.error}"


def _table(cells: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *rest in cells:
        figures = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([f"{first:{widths[0]}}", *figures])


def _shown(number: Number) -> str:
    """A number with as many digits as it is worth."""
    match number:
        case None:
            return "-"
        case bool():
            return "yes" if number else "no"
        case int():
            return f"{number:,}"
        case float():
            size = abs(number)
            return f"{number:,.0f}" if size >= 100 else f"{number:.1f}" if size >= 10 else f"{number:.3g}"
