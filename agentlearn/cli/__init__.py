"""The command line: each command parses its options, calls one function and prints the result."""

import sys


def main() -> None:
    """Run the console script. Exit status: 0 done, 1 failed, 2 user error, 3 budget reached, 130 interrupted."""
    from agentlearn.cli.app import run
    from agentlearn.printing import guard_streams

    guard_streams()
    sys.exit(run(sys.argv[1:]))
