"""`just bench` runs every benchmark. `just bench store --total 1000` runs one benchmark with its options.

The results are printed as tables and written to one JSON file. The file is rewritten after each benchmark.
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
from scripts.bench.found import Bench, Found, Report, as_json, as_text, load_1min, this_machine

NAMES = tuple(path.stem.removeprefix("bench_") for path in sorted(Path(__file__).parent.glob("bench_*.py")))
OUT = DEFAULT_STORE / "bench.json"


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
        bench = _run(name, chosen if chosen.name else parser.parse_args([name]))
        print(as_text(bench) + "\n", flush=True)
        report = report.model_copy(update={"benches": (*report.benches, bench)})
        out.write_text(as_json(report), encoding="utf-8")
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
    return importlib.import_module(f"scripts.bench.bench_{name}")


def _about(module: Any) -> str:
    return str(module.__doc__).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
