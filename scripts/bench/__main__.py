"""`just bench` runs every benchmark with small sizes. `just bench store --total 1000` runs one with its options.

A benchmark that is named has the sizes of RESULTS.md, unless its options say otherwise. The results are printed as
tables, with one table of all targets at the end, and written to one JSON file, which is rewritten after each benchmark.
"""

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentlearn.config import DEFAULT_STORE
from scripts.bench.found import Bench, Found, Report, as_json, as_text, load_1min, targets_as_text, this_machine

_PACKAGES = ("thirty_days",)
"""Benchmarks of several modules. The other packages have commands of their own."""
_MODULES = (one.stem.removeprefix("bench_") for one in Path(__file__).parent.glob("bench_*.py"))
NAMES = tuple(sorted((*_MODULES, *_PACKAGES)))
OUT = DEFAULT_STORE / "bench.json"
_SIZES = {
    "canary": "--runs 10",
    "coverage": "--simulations 200",
    "drift": "--simulations 40",
    "evidence_limits": "--libraries 6",
    "feedback": "--lives 5 --lessons 3",
    "export": "--rollouts 30000 --small 3000",
    "false_verdicts": "--simulations 50",
    "gateway": "--calls 100",
    "guard": "--pages 50",
    "learn": "--rounds 1",
    "learning": "--seeds 5",
    "library": "--versions 100 200",
    "live": "--records 3000 --new 30 --wrong 300",
    "million": "--trajectories 100000 --rounds 5",
    "resume": "--kills 4 --limit 4",
    "retrieval": "--sizes 100 1000 --queries 100 --worlds 2 --problems 30",
    "riders": "--runs 5",
    "sandbox": "--sessions 40 --growth 200",
    "segments": "--total 10000 --processes 4",
    "sizing": "--rollouts 3000 30000",
    "startup": "--rounds 5",
    "store": "--total 10000 --single 100 --appends 500",
    "storm": "--limit 10",
    "thirty_days": "--first 1 --seeds 1 --per-day 6 --tenants 2 --kills 2 --twins 1",
    "update": "--steps 4",
    "view": "--rounds 1",
    "walk": "--steps 10 --rounds 2 --walks 20",
    "wall_time": "--only 1",
    "workers": "--rounds 1",
}
"""Options of each benchmark when all are run, which take hours with the sizes of RESULTS.md."""


def main(arguments: Sequence[str]) -> int:
    """Run the named benchmark, or all. The exit status is 1 if one failed or found a failure, never for slowness."""
    parser = argparse.ArgumentParser(prog="just bench", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help=f"the JSON file (default {OUT})")
    named = parser.add_subparsers(dest="name", metavar="NAME", title="benchmarks")
    for name in NAMES:
        module = _module(name)
        one = named.add_parser(name, help=_about(module), description=module.__doc__)
        one.formatter_class = argparse.RawDescriptionHelpFormatter
        one.add_argument("--out", type=Path, default=argparse.SUPPRESS, help="the JSON file")
        module.options(one)
    chosen = parser.parse_args(arguments)
    out: Path = chosen.out
    out.parent.mkdir(parents=True, exist_ok=True)
    report = Report(command=("just", "bench", *arguments), began_at=datetime.now(UTC), machine=this_machine())
    for name in (chosen.name,) if chosen.name else NAMES:
        bench = _run(name, chosen if chosen.name else parser.parse_args([name, *_SIZES.get(name, "").split()]))
        print(as_text(bench) + "\n", flush=True)
        report = report.model_copy(update={"benches": (*report.benches, bench)})
        out.write_text(as_json(report), encoding="utf-8")
    if not chosen.name:
        print(targets_as_text(report) + "\n")
        print("The sizes are small: what is counted over a few simulations misses or meets its target by chance, too.")
        print("`just bench NAME` measures one thing with its full size.\n")
    print(f"all of it as JSON: {out}")
    return 1 if any(bench.error or bench.found.failures for bench in report.benches) else 0


def _run(name: str, chosen: argparse.Namespace) -> Bench:
    module, load, began = _module(name), load_1min(), time.perf_counter()
    found, error = Found(), ""
    try:
        found = module.measure(chosen)
    except Exception as broken:  # continue with the other benchmarks
        traceback.print_exc()
        error = f"{type(broken).__name__}: {broken}"
    given = {option: value for option, value in vars(chosen).items() if option not in {"name", "out"}}
    took_s = time.perf_counter() - began
    return Bench(
        bench=name, about=_about(module), options=given, load_1min=load, took_s=took_s, found=found, error=error
    )


def _module(name: str) -> Any:
    """Import a benchmark. `options(parser)` adds its options and `measure(chosen)` returns its results."""
    return importlib.import_module(f"scripts.bench.{'' if name in _PACKAGES else 'bench_'}{name}")


def _about(module: Any) -> str:
    return str(module.__doc__).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
