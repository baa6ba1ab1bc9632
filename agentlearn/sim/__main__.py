"""`python -m agentlearn.sim`: serve the simulated world until stdin closes, the parent dies, or SIGTERM comes.

Prints one line of JSON when ready: {"url": "http://127.0.0.1:PORT/v1", "pid": …}.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import threading

from agentlearn.errors import AgentlearnError
from agentlearn.sim.faults import faults_of
from agentlearn.sim.installed import installed_skills
from agentlearn.sim.server import World

PARENT_CHECK_S = 1.0
DIALS = (
    *("latency-s", "latency-spread", "rate-limited", "retry-after-s", "server-error"),
    *("reset", "stall", "stall-s", "garbled", "malformed"),
)


def main() -> int:
    """Serve; returns the exit status."""
    options = _options()
    try:
        dials = {name: value for name, value in vars(options).items() if name not in {"port", "seed"}}
        world = World(installed_skills(), seed=options.seed, faults=faults_of(dials))
        asyncio.run(_serve(world, options.port))
    except AgentlearnError as error:
        print(error, file=sys.stderr)  # noqa: T201  the command's own output
        return error.exit_status
    except OSError as error:
        print(f"cannot serve on port {options.port}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m agentlearn.sim", description="Serve the simulated world.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--seed", type=int, default=0, help="which world: another seed is another novice")
    for dial in DIALS:
        parser.add_argument(f"--{dial}", type=float, help="see `agentlearn sim serve --help`")
    return parser.parse_args()


async def _serve(world: World, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    threading.Thread(target=_wait_for_end_of_stdin, args=(loop, stop), daemon=True).start()
    async with world.serve(port) as url:
        print(json.dumps({"url": url, "pid": os.getpid()}), flush=True)  # noqa: T201  the parent waits for this line
        # Nobody reads on: whatever a domain prints must not fill the pipe and stop us.
        os.dup2(2, 1)
        parent = os.getppid()
        # A second net: a fork of the parent may hold the other end of stdin open for longer than the parent lives.
        while not stop.is_set() and os.getppid() == parent:
            try:
                async with asyncio.timeout(PARENT_CHECK_S):
                    await stop.wait()
            except TimeoutError:
                continue


def _wait_for_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # os.read, not sys.stdin: a buffered reader's lock, held by a daemon thread, is fatal when the interpreter ends.
    try:
        while os.read(0, 4_096):
            pass
    except OSError:
        pass
    if not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)


if __name__ == "__main__":
    sys.exit(main())
