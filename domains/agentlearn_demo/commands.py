"""`agentlearn sim serve`: serve the simulated world to other programs. `agentlearn lab`: build and check lab models."""

import asyncio
from typing import Annotated

from cyclopts import App, Parameter

from agentlearn.errors import ConfigError
from agentlearn.text.printing import print_line

app = App(name="sim", help="The simulated world.")
lab_app = App(name="lab", help="Build and check lab models: tiny transformers trained from scratch.", help_epilogue="")
for _name, _words in {
    "build": "Train a lab model from random weights.",
    "check": "Measure a lab model with and without lessons.",
    "export": "Write a lab model as a Hugging Face checkpoint.",
}.items():
    lab_app.command(f"agentlearn_demo.lab_command:lab_{_name}", name=_name, help=_words, help_epilogue="")


@app.command(name="serve")
def serve_world(
    *,
    port: Annotated[int, Parameter(help="Loopback port; 0 takes a free one.")] = 0,
    seed: Annotated[int, Parameter(help="Seed of the world; each has a slightly different novice.")] = 0,
    latency_s: Annotated[float, Parameter(help="Median seconds until an answer.")] = 0.0,
    latency_spread: Annotated[float, Parameter(help="Standard deviation of the logarithm of that time.")] = 0.0,
    rate_limited: Annotated[float, Parameter(help="Share of requests answered with status 429.")] = 0.0,
    retry_after_s: Annotated[float, Parameter(help="Seconds in the Retry-After header of a 429.")] = 1.0,
    server_error: Annotated[float, Parameter(help="Share of requests answered with status 5xx.")] = 0.0,
    reset: Annotated[float, Parameter(help="Share of requests whose connection is reset.")] = 0.0,
    stall: Annotated[float, Parameter(help="Share of requests without an answer.")] = 0.0,
    stall_s: Annotated[float, Parameter(help="Seconds until the connection of such a request is reset.")] = 600.0,
    garbled: Annotated[float, Parameter(help="Share of answers that are not a chat completion.")] = 0.0,
    malformed: Annotated[float | None, Parameter(help="Share of the reflector's replies that are malformed.")] = None,
) -> None:
    """Serve the simulated models on loopback, OpenAI-compatible, until interrupted."""
    given = dict(locals())
    from agentlearn_demo.sim.server import Faults, World
    from agentlearn_demo.sim.skills import installed_skills

    if not 0 <= port <= 65_535:
        raise ConfigError(f"--port is {port!r}; give 0 to 65535")
    faults = Faults.of({name: value for name, value in given.items() if name not in {"port", "seed"}})
    world = World(installed_skills(), seed=seed, faults=faults)

    async def run() -> None:
        try:
            async with world.serve(port) as url:
                print_line(f"simulated models at {url}: novice, reflector, echo; stop with Ctrl-C")
                print_line(f"try: agentlearn learn math --model {url}#novice", to_stderr=True)
                await asyncio.Event().wait()
        except OSError as error:
            raise ConfigError(f"cannot serve on port {port}: {error.strerror}; choose another") from error

    asyncio.run(run())
