"""`python -m agentlearn_demo.lab NAME`: serve a lab model until stdin closes, the parent dies, or SIGTERM arrives.

Prints one line of JSON when ready: {"url": "http://127.0.0.1:PORT/v1", "pid": …}.
"""

import argparse
import asyncio
import sys

from agentlearn.plugins import tolerate_unreadable_packages
from agentlearn.printing import guard_streams, print_line


def main() -> int:
    """Serve until told to stop; returns the exit status."""
    guard_streams()
    options = _options()
    tolerate_unreadable_packages()  # before pydantic is imported, which looks for plug-ins of its own
    from agentlearn.errors import AgentlearnError
    from agentlearn.serving.child_process import serve_as_child
    from agentlearn_demo.lab.service import serve_lab_model

    try:
        asyncio.run(serve_as_child(serve_lab_model(options.name, seed=options.seed, port=options.port)))
    except AgentlearnError as error:
        print_line(str(error), to_stderr=True)
        return error.exit_status
    except OSError as error:
        print_line(f"cannot serve on port {options.port}: {error.strerror}", to_stderr=True)
        return 2
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m agentlearn_demo.lab", description="Serve a lab model.")
    parser.add_argument("name", help="name of the lab model, such as 'novice'")
    parser.add_argument("--port", type=int, default=0, help="port; 0: a free one")
    parser.add_argument("--seed", type=int, default=0, help="seed for requests without one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
