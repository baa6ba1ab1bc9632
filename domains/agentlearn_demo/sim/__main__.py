"""`python -m agentlearn_demo.sim`: serve the simulated world until stdin closes, the parent process ends, or SIGTERM.

Prints one line of JSON when ready: {"url": "http://127.0.0.1:PORT/v1", "pid": …}.
"""

import argparse
import asyncio
import sys

from agentlearn.plugins import tolerate_unreadable_packages
from agentlearn.printing import guard_streams, print_line

FLAGS = (
    *("latency-s", "latency-spread", "rate-limited", "retry-after-s", "server-error"),
    *("reset", "stall", "stall-s", "garbled", "malformed"),
)


def main() -> int:
    """Serve the simulated world; returns the exit status."""
    guard_streams()
    options = _options()
    tolerate_unreadable_packages()  # before pydantic is imported, which looks for plug-ins of its own
    from agentlearn.errors import AgentlearnError
    from agentlearn.serving.child_process import serve_as_child
    from agentlearn_demo.sim.faults import faults_of
    from agentlearn_demo.sim.installed import installed_skills
    from agentlearn_demo.sim.server import World

    try:
        parameters = {name: value for name, value in vars(options).items() if name not in {"port", "seed"}}
        world = World(installed_skills(), seed=options.seed, faults=faults_of(parameters))
        asyncio.run(serve_as_child(world.serve(options.port)))
    except AgentlearnError as error:
        print_line(str(error), to_stderr=True)
        return error.exit_status
    except OSError as error:
        print_line(f"cannot serve on port {options.port}: {error.strerror}", to_stderr=True)
        return 2
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m agentlearn_demo.sim", description="Serve the simulated world.")
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
    parser.add_argument("--seed", type=int, default=0, help="seed of the world; each has a slightly different novice")
    for name in FLAGS:
        parser.add_argument(f"--{name}", type=float, help="see `agentlearn sim serve --help`")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
