"""The command line: each command parses its options, calls one function and prints the result."""

import signal
import sys


def main() -> None:
    """Run the console script and end the process. Status: 0 done, 1 failed, 2 user error, 3 budget, 128+n signal n."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the handlers are there, Ctrl-C ends without a traceback
    from agentlearn.cli.stop_signals import run_command

    run_command(sys.argv[1:])
