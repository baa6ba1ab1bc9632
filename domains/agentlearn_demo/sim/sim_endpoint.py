"""The endpoint `sim:…`: the simulated world in a child process while it is used."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentlearn.errors import ConfigError
from agentlearn.serving.child_process import ChildService, running_child
from agentlearn_demo.sim import MODELS


@dataclass(frozen=True, slots=True)
class SimService:
    """A running simulated world."""

    base_url: str
    model: str
    pid: int
    simulated: bool = True


@asynccontextmanager
async def sim_endpoint(
    name: str, *, seed: int = 0, options: Mapping[str, float] | None = None
) -> AsyncGenerator[SimService]:
    """Serve the simulated model of that name (`novice`, `reflector`, `echo`) while the block runs.

    seed: seed of the world. options: options of `python -m agentlearn_demo.sim`, such as {"latency-s": 0.2}.
    Raises ConfigError for an unknown name, EndpointError when the service does not start within a minute.
    """
    if name not in MODELS:
        known = ", ".join(f"'sim:{model}'" for model in MODELS)
        raise ConfigError(f"the simulated world has no model {name!r} (it has {known})", code="unknown_model")
    parameters = [word for name, number in (options or {}).items() for word in (f"--{name}", f"{number:g}")]
    child = ChildService(
        module="agentlearn_demo.sim",
        arguments=("--seed", str(seed), *parameters),
        called="the simulated world",
        code="sim_not_started",
        # Skills of other packages may iterate over sets: a fixed hash seed makes equal worlds behave equally.
        environment={"PYTHONHASHSEED": "0"},
    )
    async with running_child(child) as service:
        yield SimService(base_url=service.base_url, model=name, pid=service.pid)
