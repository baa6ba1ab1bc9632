"""`lab:…` as an endpoint: a lab model in a child process, for as long as somebody uses it."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentlearn.lab.checkpoint import WEIGHTS, check_present
from agentlearn.lab.contract import announced_lab
from agentlearn.serving.child_process import Child, running


@dataclass(frozen=True, slots=True)
class LabService:
    """A running lab model."""

    base_url: str
    model: str
    pid: int
    folder: Path
    simulated: bool = False

    def weights_sha256(self) -> str:
        """Of the file that it loaded. Blocks."""
        return hashlib.sha256((self.folder / WEIGHTS).read_bytes()).hexdigest()


@asynccontextmanager
async def lab_endpoint(name: str, *, seed: int = 0) -> AsyncGenerator[LabService]:
    """The lab model of that name, served while the block runs.

    seed: of requests that send none. Raises ConfigError for an unknown name and for a package without weights,
    EndpointError when the service does not start within a minute.
    """
    folder = announced_lab(name).folder
    check_present(folder, name)
    child = Child(
        module="agentlearn.lab",
        arguments=(name, "--seed", str(seed)),
        called=f"the lab model {name!r}",
        code="lab_not_started",
        # Its matrices are small: more threads than one would only wait for each other.
        environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    async with running(child) as service:
        yield LabService(service.base_url, name, service.pid, folder)
