"""`just bench` runs every benchmark; `just bench store --total 1000` runs one, with options of its own."""

import runpy
import sys
from pathlib import Path

FOUND = {path.stem.removeprefix("bench_"): path for path in sorted(Path(__file__).parent.glob("bench_*.py"))}


def main(arguments: list[str]) -> int:
    """Run the benchmark named first, or all; the exit status."""
    wanted, options = (arguments[:1], arguments[1:]) if arguments else (list(FOUND), [])
    for name in wanted:
        if name not in FOUND:
            print(f"there is no benchmark {name!r} (found: {', '.join(FOUND)})", file=sys.stderr)
            return 2
        print(f"== {name}", flush=True)
        sys.argv = [str(FOUND[name]), *options]
        runpy.run_path(str(FOUND[name]), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
