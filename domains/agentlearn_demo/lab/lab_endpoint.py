"""`lab:…` as an endpoint: a lab model in a child process that runs as long as it is used."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentlearn.serving.child_process import ChildService, running_child
from agentlearn_demo.lab.checkpoint import WEIGHTS, check_present
from agentlearn_demo.lab.contract import announced_lab


@dataclass(frozen=True, slots=True)
class LabService:
    """A running lab model."""

    base_url: str
    model: str
    pid: int
    folder: Path
    simulated: bool = False

    def weights_sha256(self) -> str:
        """Hash of its weights file. Blocks."""
        return hashlib.sha256((self.folder / WEIGHTS).read_bytes()).hexdigest()


@asynccontextmanager
async def lab_endpoint(name: str, *, seed: int = 0) -> AsyncGenerator[LabService]:
    """Serve a lab model while the block runs.

    seed: for requests without a seed. Raises ConfigError for an unknown name and for a package without weights,
    EndpointError when the service does not start within a minute.
    """
    folder = announced_lab(name).folder
    check_present(folder, name)
    child = ChildService(
        module="agentlearn_demo.lab",
        arguments=(name, "--seed", str(seed)),
        called=f"the lab model {name!r}",
        code="lab_not_started",
        # Its matrices are small: several threads would only wait for each other.
        environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    async with running_child(child) as service:
        yield LabService(service.base_url, name, service.pid, folder)
