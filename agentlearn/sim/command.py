"""`agentlearn sim serve`: the simulated world for other programs to talk to."""

import asyncio
import sys
from typing import Annotated

from cyclopts import App, Parameter

from agentlearn.errors import ConfigError

app = App(name="sim", help="The simulated world.")


@app.command
def serve(
    *,
    port: Annotated[int, Parameter(help="Loopback port; 0 takes a free one.")] = 0,
    seed: Annotated[int, Parameter(help="Which world: another seed is another novice.")] = 0,
    latency_s: Annotated[float, Parameter(help="Seconds that each answer takes.")] = 0.0,
    rate_limited: Annotated[float, Parameter(help="Share of requests answered with status 429.")] = 0.0,
    server_error: Annotated[float, Parameter(help="Share of requests answered with status 5xx.")] = 0.0,
    malformed: Annotated[float | None, Parameter(help="Share of malformed replies of the reflector.")] = None,
) -> None:
    """Serve the simulated models on loopback, OpenAI-compatible, until interrupted."""
    from agentlearn.sim.faults import Faults, Fixed
    from agentlearn.sim.installed import installed_skills
    from agentlearn.sim.server import World

    shares = {"rate-limited": rate_limited, "server-error": server_error, "malformed": malformed or 0.0}
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ConfigError(f"--{name} is {share!r}; give a share from 0 to 1", code="out_of_range")
    if not 0 <= port <= 65_535 or latency_s < 0:
        raise ConfigError(
            f"--port is {port!r} and --latency-s is {latency_s!r}; give 0 to 65535, and no negative time",
            code="out_of_range",
        )
    faults = Faults(latency=Fixed(latency_s), rate_limited=rate_limited, server_error=server_error, malformed=malformed)
    world = World(installed_skills(), seed=seed, faults=faults)

    async def run() -> None:
        try:
            async with world.serve(port) as url:
                print(f"simulated models at {url}: novice, reflector, echo; stop with Ctrl-C", flush=True)  # noqa: T201
                print(f"try: agentlearn learn math --model {url}#novice", file=sys.stderr)  # noqa: T201
                await asyncio.Event().wait()
        except OSError as error:
            raise ConfigError(f"cannot serve on port {port}: {error.strerror}; choose another", code="port") from error

    asyncio.run(run())
