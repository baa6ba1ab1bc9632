"""The endpoints `sim:…` and `lab:…`: a child process that serves the model as long as it is used."""

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentlearn.domain.demo import lab_model
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


@dataclass(frozen=True, slots=True)
class _LabService:
    """A running lab model."""

    base_url: str
    model: str
    pid: int
    weights: Path
    simulated: bool = False

    def weights_sha256(self) -> str:
        """Hash of its weights file. Blocks."""
        return hashlib.sha256(self.weights.read_bytes()).hexdigest()


@asynccontextmanager
async def sim_endpoint(
    name: str, *, seed: int = 0, options: Mapping[str, float] | None = None
) -> AsyncGenerator[SimService]:
    """Serve the simulated model of that name (`novice`, `reflector`, `echo`) while the block runs.

    seed: seed of the world. options: options of `python -m agentlearn_demo sim`, such as {"latency-s": 0.2}.
    Raises ConfigError for an unknown name, EndpointError when the service does not start within a minute.
    """
    if name not in MODELS:
        known = ", ".join(f"'sim:{model}'" for model in MODELS)
        raise ConfigError(f"the simulated world has no model {name!r} (it has {known})", code="unknown_model")
    parameters = [word for name, number in (options or {}).items() for word in (f"--{name}", f"{number:g}")]
    child = ChildService(
        module="agentlearn_demo",
        arguments=("sim", "--seed", str(seed), *parameters),
        called="the simulated world",
        code="sim_not_started",
        # Skills of other packages may iterate over sets: a fixed hash seed makes equal worlds behave equally.
        environment={"PYTHONHASHSEED": "0"},
    )
    async with running_child(child) as service:
        yield SimService(service.base_url, name, service.pid)


@asynccontextmanager
async def lab_endpoint(name: str, *, seed: int = 0) -> AsyncGenerator[_LabService]:
    """Serve a lab model while the block runs.

    seed: for requests without a seed. Raises ConfigError for an unknown name and for a package without weights,
    EndpointError when the service does not start within a minute.
    """
    from agentlearn_demo.lab.transformer import WEIGHTS, check_present

    folder = lab_model(name).folder
    check_present(folder, name)
    child = ChildService(
        module="agentlearn_demo",
        arguments=("lab", name, "--seed", str(seed)),
        called=f"the lab model {name!r}",
        code="lab_not_started",
        # Its matrices are small: several threads would only wait for each other.
        environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    async with running_child(child) as service:
        yield _LabService(service.base_url, name, service.pid, folder / WEIGHTS)
