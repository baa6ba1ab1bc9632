"""`python -m agentlearn_demo sim` or `lab NAME`: serve until stdin closes, the parent process ends, or SIGTERM.

Prints one line of JSON when ready: {"url": "http://127.0.0.1:PORT/v1", "pid": …}.
"""

import argparse
import asyncio
import sys
from typing import Any

from agentlearn.plugins import tolerate_unreadable_packages
from agentlearn.text.printing import guard_streams, print_line


def main() -> int:
    """Serve until told to stop; returns the exit status."""
    guard_streams()
    tolerate_unreadable_packages()  # before pydantic is imported, which looks for plug-ins of its own
    from agentlearn.errors import AgentlearnError
    from agentlearn.serving.child_process import serve_as_child

    options = _options()
    port, seed, name = (options.pop(one) for one in ("port", "seed", "name"))
    try:
        if name:
            from agentlearn_demo.lab.engine import serve_lab_model

            service = serve_lab_model(name, seed=seed, port=port)
        else:
            from agentlearn_demo.sim.server import Faults, World
            from agentlearn_demo.sim.skills import installed_skills

            service = World(installed_skills(), seed=seed, faults=Faults.of(options)).serve(port)
        asyncio.run(serve_as_child(service))
    except AgentlearnError as error:
        print_line(str(error), to_stderr=True)
        return error.exit_status
    except OSError as error:
        print_line(f"cannot serve on port {port}: {error.strerror}", to_stderr=True)
        return 2
    return 0


def _options() -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m agentlearn_demo", description="Serve the models of the demo.")
    models = parser.add_subparsers(required=True)
    sim, lab = models.add_parser("sim", help="the simulated models"), models.add_parser("lab", help="a lab model")
    for one in (sim, lab):
        one.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
        one.add_argument("--seed", type=int, default=0, help="seed of the world, or for requests without one")
    sim.set_defaults(name="")
    lab.add_argument("name", help="name of the lab model, such as 'novice'")
    from agentlearn_demo.sim.server import PARAMETERS

    for name in PARAMETERS:
        sim.add_argument(f"--{name.replace('_', '-')}", type=float, help="see `agentlearn sim serve --help`")
    return vars(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
