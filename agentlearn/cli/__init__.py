"""The command line: parse, call one function, print. A command holds no logic."""

import sys


def main() -> None:
    """Entry point of the console script. Exits 0 done, 1 failed, 2 the user can mend it, 3 budget, 130 interrupted."""
    from agentlearn.cli.app import run

    sys.exit(run(sys.argv[1:]))
