"""Benchmark results as typed values, and their output: tables for people, JSON for programs.

Names of figures end in their units (`open_p50_ms`, `wall_s`). Ratios and counts have no unit.
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
"""None means that the figure was not measured."""
_VERSIONS = ("agentlearn-lib", "pydantic-ai-slim", "openai", "pydantic", "duckdb", "numpy")


class Row(Value):
    """One row of a table: the name of the measured case, and its figures."""

    name: str
    figures: Mapping[str, Number]


class Target(Value):
    """A limit set by the design, and the measured figure that is compared with it."""

    what: str
    figure: float
    bound: Literal["at_most", "at_least"]
    limit: float

    @computed_field
    @property
    def met(self) -> bool:
        """Whether the figure is within the limit."""
        return self.figure <= self.limit if self.bound == "at_most" else self.figure >= self.limit


class Found(Value):
    """The results of one benchmark."""

    rows: tuple[Row, ...] = ()
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks that are needed to read the figures."""
    failures: tuple[str, ...] = ()
    """What is wrong, and not merely slow. With any, the exit status is 1."""


class Bench(Value):
    """One run of a benchmark: its options, duration and results."""

    bench: str
    about: str
    options: Mapping[str, object]
    load_1min: float
    """Load average of the machine over one minute (running and waiting processes) when the benchmark started."""
    took_s: float
    found: Found
    error: str = ""
    """The exception that stopped the benchmark; empty if it finished."""


class Machine(Value):
    """The machine and the package versions, because the figures depend on them."""

    cores: int
    memory_gb: float
    system: str
    python: str
    versions: Mapping[str, str]
    load_1min: float
    """Load average over one minute when the first benchmark started."""


class Report(Value):
    """One invocation of `just bench`."""

    command: tuple[str, ...]
    began_at: datetime
    machine: Machine
    benches: tuple[Bench, ...] = Field(default=())


def this_machine() -> Machine:
    """Return a description of this machine, without its host name."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        python=platform.python_version(),
        versions={name: version(name) for name in _VERSIONS},
        load_1min=load_1min(),
    )


def load_1min() -> float:
    """Return the load average over one minute: the mean number of running and waiting processes."""
    return round(os.getloadavg()[0], 2)


def as_json(report: Report) -> str:
    """Return the report as JSON."""
    return report.model_dump_json(indent=2) + "\n"


def as_text(bench: Bench) -> str:
    """Return one benchmark as text: a table for each block of rows with the same figures, then targets and notes."""
    return "\n".join([f"== {bench.bench} ({bench.took_s:.0f} s, load {bench.load_1min:g} before)", *_lines(bench)])


def targets_as_text(report: Report) -> str:
    """Return one table of all targets, with a line for each benchmark that has none or was broken off."""
    cells = [("", "figure", "target", "", "load", "s")]
    for bench in report.benches:
        took = (f"{bench.load_1min:g}", f"{bench.took_s:.0f}")
        for target in bench.found.targets:
            bound = f"{'<=' if target.bound == 'at_most' else '>='} {target.limit:g}"
            met = "met" if target.met else "MISSED"
            cells.append((f"{bench.bench}: {target.what}", _shown(target.figure), bound, met, *took))
        if bench.error or bench.found.failures or not bench.found.targets:
            state = "BROKEN OFF" if bench.error else "WRONG" if bench.found.failures else "no target"
            cells.append((bench.bench, "", "", state, *took))
    return "\n".join(_table(cells))


def _lines(bench: Bench) -> Iterator[str]:
    for names, rows in groupby(bench.found.rows, key=lambda row: tuple(row.figures)):
        yield from _table([("", *names), *((row.name, *map(_shown, row.figures.values())) for row in rows)])
        yield ""
    for target in bench.found.targets:
        bound = "at most" if target.bound == "at_most" else "at least"
        yield f"{'met   ' if target.met else 'MISSED'} {target.what}: {_shown(target.figure)}, {bound} {target.limit:g}"
    yield from bench.found.notes
    yield from (f"WRONG  {failure}" for failure in bench.found.failures)
    if bench.error:
        yield f"BROKEN OFF: {bench.error}"


def _table(cells: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *rest in cells:
        figures = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([f"{first:{widths[0]}}", *figures])


def _shown(number: Number) -> str:
    """Format a number with about three significant digits."""
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
