"""Several processes under `torchrun`: the first makes the rollouts and leads, the others take part in updates.

The leader broadcasts what to do next, and every process then does the same step. accelerate exchanges the gradients.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from agentlearn.errors import ConfigError
from agentlearn.train.settings import TrainSettings
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore

Command = Literal["step", "save", "restore", "publish", "stop"]
"""What the leading process tells the others to do."""


def process_count() -> int:
    """Number of processes that `torchrun` started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def accelerator_for(settings: TrainSettings) -> Any:
    """Return the `accelerate.Accelerator`; None for a single process.

    Raises ConfigError for sharded weights (FSDP) with the sampler `local`.
    """
    if process_count() == 1:
        return None
    from accelerate import Accelerator, DistributedType

    accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=1)
    if accelerator.distributed_type == DistributedType.FSDP and settings.sampler == "local":
        raise ConfigError(
            "weights sharded over several processes (FSDP) cannot be sampled from by one of them; use --sampler vllm,"
            " or replicas without FSDP",
            code="sharded_weights",
        )
    return accelerator


def broadcast_command(command: Command, *arguments: Any) -> None:
    """Tell the other processes what to do next. Does nothing in a single process."""
    if process_count() > 1 and torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list([(command, arguments)], src=0)


@contextmanager
def lead_processes() -> Generator[None]:
    """Lead the other processes while the block runs; at its end they are told to stop."""
    try:
        yield
    finally:
        broadcast_command("stop")
        _leave_group()


def _leave_group() -> None:
    """Close the connection between the processes, so that each can end by itself."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@dataclass(frozen=True, slots=True, eq=False)
class Follower:
    """A process that does what the leading process broadcasts."""

    updater: Updater
    checkpoints: CheckpointStore

    def follow(self) -> None:
        """Follow the leader's commands until it sends `stop`. Blocks."""
        while True:
            received: list[Any] = [None]
            torch.distributed.broadcast_object_list(received, src=0)
            command, arguments = received[0]
            match command:
                case "step":
                    self.updater.step(*arguments)
                case "save":
                    self.checkpoints.save(self.updater, *arguments)
                case "restore":
                    self.checkpoints.restore(self.updater, Path(*arguments))
                case "publish":
                    self.checkpoints.publish(self.updater)
                case _:
                    self.updater.release()
                    _leave_group()
                    return
