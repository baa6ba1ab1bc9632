"""Faults planted in `agentlearn/train`, one at a time, and whether the tests notice them.

Each fault is planted in a copy of the project. First the tests that are most likely to notice it are run, then all
quick tests of the package. A fault survives when all of them pass. The exit status is 1 when a fault survives that is
not argued to be equivalent. A fault whose place in the source is gone is an error that lists all such faults.

    just bench mutants --only clip
"""

import argparse
import sys
import threading
from collections.abc import Sequence

from tests.bench.found import Found, Row, Target
from tests.bench.planted_faults.every_fault import FAULTS
from tests.bench.planted_faults.fault import Fault
from tests.bench.planted_faults.planting import Tried, remember, try_faults


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument(
        "--only", action="append", default=[], help="plant only faults with this text in name or file; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes that plant faults at the same time")
    parser.add_argument("--remember", action="store_true", help="keep which test noticed a fault, to run it first")
    parser.add_argument(
        "--quick", action="store_true", help="run only the tests that are most likely to notice a fault"
    )


def measure(chosen: argparse.Namespace) -> Found:
    """Plant the faults, and count those that were noticed."""
    faults = [one for one in FAULTS if _chosen(one, chosen.only)]
    if not faults:
        return Found(failures=(f"no fault has one of {chosen.only} in its name or file",))
    counted, writing = 0, threading.Lock()

    def done(one: Tried) -> None:
        nonlocal counted
        with writing:
            counted += 1
            if chosen.remember:
                remember([one], [fault.name for fault in FAULTS])
        print(f"{counted}/{len(faults)} {one.took_s:.1f} s {_line(one)}", file=sys.stderr, flush=True)

    tried = try_faults(faults, jobs=chosen.jobs, quick=chosen.quick, done=done)
    survived = [one for one in tried if one.state == "SURVIVED"]
    target = Target(what="faults that survive", figure=len(survived), bound="at_most", limit=0)
    return Found(
        rows=_rows(tried),
        targets=(target,),
        notes=tuple(_line(one) for one in tried),
        failures=tuple(f"{one.fault.file}: {one.fault.name}: no test notices it" for one in survived),
    )


def _chosen(fault: Fault, only: Sequence[str]) -> bool:
    return not only or any(text in fault.name or text in fault.file for text in only)


def _rows(tried: Sequence[Tried]) -> tuple[Row, ...]:
    packages = sorted({_package(one.fault) for one in tried})
    parts = [(name, [one for one in tried if _package(one.fault) == name]) for name in packages]
    return tuple(_row(name, part) for name, part in (*parts, ("all", list(tried))))


def _row(name: str, tried: Sequence[Tried]) -> Row:
    states = [one.state for one in tried]
    figures = {
        "planted": len(tried),
        "killed": states.count("killed"),
        "equivalent": states.count("equivalent"),
        "survived": states.count("SURVIVED"),
        "test_s": sum(one.took_s for one in tried),
    }
    return Row(name=name, figures=figures)


def _package(fault: Fault) -> str:
    return fault.file.partition("/")[0] if "/" in fault.file else "learner and settings"


def _line(one: Tried) -> str:
    how = ", which did not end" if one.hung else ""
    why = f"by {one.killed_by}{how}" if one.killed_by else one.fault.equivalent
    return f"{one.state:10}  {one.fault.file}: {one.fault.name}" + (f"  -- {why}" if why else "")
