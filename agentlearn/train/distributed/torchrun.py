"""Several processes under `torchrun`: the first makes the rollouts and leads, the others take their part of updates.

Who follows hears of every update and checkpoint from the leader, in the leader's order, until it is told that the run
is over. Engines are accelerate's; nothing is exchanged here but what to do next.
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
from agentlearn.train.weights.run_checkpoints import Checkpoints

Word = Literal["step", "save", "restore", "publish", "over"]


def processes() -> int:
    """How many `torchrun` has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def accelerator_for(settings: TrainSettings) -> Any:
    """accelerate's engine for several processes; None for one. Raises ConfigError for shards with sampler `local`."""
    if processes() == 1:
        return None
    from accelerate import Accelerator, DistributedType

    accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=1)
    if accelerator.distributed_type == DistributedType.FSDP and settings.sampler == "local":
        raise ConfigError(
            "weights in shards over several processes cannot be drawn from by one of them; use --sampler vllm, or"
            " replicas (without FSDP)",
            code="sharded_weights",
        )
    return accelerator


def say(word: Word, *given: Any) -> None:
    """Tell the others what is done next; in a single process nobody listens."""
    if processes() > 1 and torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list([(word, given)], src=0)


@contextmanager
def leading() -> Generator[None]:
    """While the block runs the others wait for orders; at its end, however it comes, they are let go."""
    try:
        yield
    finally:
        say("over")
        _part()


def _part() -> None:
    """Give up what connects the processes, so that each can end by itself."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@dataclass(frozen=True, slots=True, eq=False)
class Follower:
    """What a process that follows holds."""

    updater: Updater
    checkpoints: Checkpoints

    def follow(self) -> None:
        """Do what the leader says until the run is over. Blocks."""
        while True:
            heard: list[Any] = [None]
            torch.distributed.broadcast_object_list(heard, src=0)
            word, given = heard[0]
            match word:
                case "step":
                    self.updater.step(*given)
                case "save":
                    self.checkpoints.save(self.updater, *given)
                case "restore":
                    self.checkpoints.restore(self.updater, Path(*given))
                case "publish":
                    self.checkpoints.publish(self.updater)
                case _:
                    self.updater.disband()
                    _part()
                    return
