"""Several processes under `torchrun`: the first leads, and the others take part in sampling and in updates.

The leader tells the others what to do next, and every process then does the same. Gradients and shards of weights are
exchanged by torch, commands and sampling requests over connections of their own (see `links`).
"""

import os
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import nn

from agentlearn.errors import ConfigError, ProcessLost
from agentlearn.train.distributed.links import FollowerLinks, LeaderLinks, connect
from agentlearn.train.distributed.sharding import ShardingAccelerator, gather_model, is_sharded, layout_of
from agentlearn.train.settings import TrainSettings
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.train.weights.loading import LoadedModel
from agentlearn.train.weights.model import weights_hash

EXCHANGE_TIMEOUT = timedelta(hours=2)
"""Longest wait for another process in one exchange of tensors: for one that still loads a model, for example. A process
that has ended is noticed at once by its connection, so this may be long."""


@dataclass(slots=True)
class _Connected:
    """The connections of this process; all None in a single process."""

    accelerator: Any = None
    leader: LeaderLinks | None = None
    follower: FollowerLinks | None = None


_CONNECTED = _Connected()
_EXCHANGING = threading.Lock()
"""Held by the leader while all processes do something together."""


def process_count() -> int:
    """Number of processes that `torchrun` started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def connected_accelerator() -> Any:
    """The `accelerate.Accelerator` of this process, or what shards weights; None in a single process."""
    return _CONNECTED.accelerator


def leader_links() -> LeaderLinks | None:
    """The leader's connections; None in a single process."""
    return _CONNECTED.leader


def follower_links() -> FollowerLinks:
    """This process's connection to the leader. `follow_processes` made it."""
    assert _CONNECTED.follower is not None
    return _CONNECTED.follower


@contextmanager
def lead_processes(settings: TrainSettings) -> Generator[None]:
    """Connect and lead the other processes while the block runs; at its end they are told to stop.

    Raises ConfigError when weights are to be sharded over one process.
    """
    _check_processes(settings)
    try:
        if process_count() > 1:
            accelerator, links = _connect()
            assert isinstance(links, LeaderLinks)
            _CONNECTED.leader = links
            links.send("settings", settings)
            _CONNECTED.accelerator = _sharding_or(accelerator, settings)
        yield
    finally:
        _end_leading()


def follow_processes() -> TrainSettings | None:
    """Connect to the leader; returns the settings of the run, or None when the leader has given up already.

    Raises ProcessLost when the leader has ended.
    """
    accelerator, links = _connect()
    assert isinstance(links, FollowerLinks)
    _CONNECTED.follower = links
    command, arguments = links.next_command()
    if command != "settings":
        return None
    (settings,) = arguments
    _CONNECTED.accelerator = _sharding_or(accelerator, settings)
    return settings


def _check_processes(settings: TrainSettings) -> None:
    if settings.processes == "shard" and process_count() == 1:
        raise ConfigError(
            "processes is 'shard', but there is one process; start it with torchrun --nproc-per-node 2 -m agentlearn"
            " train …, or leave out --processes",
            code="one_process",
        )
    if process_count() > 1 and os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        raise ConfigError(
            "ACCELERATE_USE_FSDP is set, but agentlearn shards weights by itself; unset it, and give --processes shard",
            code="sharded_weights",
        )


def _connect() -> tuple[Any, LeaderLinks | FollowerLinks]:
    from accelerate import Accelerator, InitProcessGroupKwargs

    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        gradient_accumulation_steps=1,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=EXCHANGE_TIMEOUT)],
    )
    return accelerator, connect(accelerator.process_index, accelerator.num_processes)


def _sharding_or(accelerator: Any, settings: TrainSettings) -> Any:
    if settings.processes == "replicate":
        return accelerator
    return ShardingAccelerator(accelerator.device, bf16=settings.gradient.dtype == "bf16")


@contextmanager
def all_processes(command: str, *arguments: Any) -> Generator[None]:
    """Tell the other processes to do the same as this block. Raises ProcessLost when one of them has ended."""
    links = _CONNECTED.leader
    if links is None:
        yield
        return
    with _EXCHANGING, _losses_named(links):
        links.send(command, *arguments)
        yield


@contextmanager
def joining_processes() -> Generator[None]:
    """The first exchange of tensors, with which the model is prepared. Raises ProcessLost."""
    links = _CONNECTED.leader
    with nullcontext() if links is None else _losses_named(links):
        yield


@contextmanager
def _losses_named(links: LeaderLinks | FollowerLinks) -> Generator[None]:
    """Raise ProcessLost for the error of an exchange that failed because a process has ended."""
    try:
        yield
    except RuntimeError as error:
        if (lost := links.loss.error_soon()) is not None:
            raise lost from error
        raise


def begin_run(run: str, stop: Callable[[ProcessLost], object]) -> None:
    """Tell the others which run has begun. stop: called in another thread when one of them ends."""
    if (links := _CONNECTED.leader) is not None:
        links.loss.run = run
        links.send("begin", run)
        links.loss.tell(stop)


def share_source(source: str) -> None:
    """Tell the others where the model is."""
    if (links := _CONNECTED.leader) is not None:
        links.send("source", source)


def share_layout(loaded: LoadedModel) -> None:
    """Send the others the model without its weights, which they get when it is sharded."""
    if (links := _CONNECTED.leader) is not None:
        links.send("model", layout_of(loaded.model), loaded.tokenizer, loaded.name)


def shared_by_leader(wanted: Literal["source", "model"]) -> tuple[Any, ...] | None:
    """What `share_source` or `share_layout` sent; None when the leader has given up. Raises ProcessLost."""
    command, arguments = follower_links().next_command()
    return arguments if command == wanted else None


def whole_model(model: nn.Module) -> nn.Module:
    """The model itself; of a sharded model, a copy on the CPU with all weights. Called by the leader. Blocks."""
    if not is_sharded(model):
        return model
    with all_processes("gather"):
        return cast("nn.Module", gather_model(model))


def whole_hash(model: nn.Module) -> str:
    """Hash of a model's weights, which may be sharded. Called by the leader. Blocks."""
    with all_processes("hash") if is_sharded(model) else nullcontext():
        return weights_hash(model)


def _end_leading() -> None:
    links, _CONNECTED.leader, _CONNECTED.accelerator = _CONNECTED.leader, None, None
    lost = links is not None and links.loss.error() is not None
    if links is not None:
        if _EXCHANGING.acquire(timeout=0 if lost else -1):  # else an exchange waits for the lost process
            _EXCHANGING.release()
            links.loss.cancel()
        links.close()
    if not lost:
        _leave_group()


def release_when_idle(updater: Updater) -> None:
    """Release the updater when an exchange that an interruption has left running is over."""
    links = _CONNECTED.leader
    lost = links is not None and links.loss.error() is not None
    if _EXCHANGING.acquire(timeout=0 if lost else -1):
        _EXCHANGING.release()
        updater.release()


def _leave_group() -> None:
    """Close the connection between the processes, so that each can end by itself."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@dataclass(frozen=True, slots=True, eq=False)
class Follower:
    """A process that does what the leading process says."""

    updater: Updater
    checkpoints: CheckpointStore
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    """Context in which this process samples nothing, so that weights may change."""

    def follow(self) -> None:
        """Follow the leader's commands until it sends `stop`. Blocks. Raises ProcessLost when the leader has ended."""
        links = follower_links()
        with leaving(links):
            while self._followed(*links.next_command()):
                pass
        self.updater.release()
        _leave_group()

    def _followed(self, command: str, arguments: tuple[Any, ...]) -> bool:
        """Do one command; returns False at the end."""
        match command:
            case "step":
                with self.paused():
                    self.updater.step(*arguments)
            case "save":
                self.checkpoints.save(self.updater, *arguments)
            case "restore":
                with self.paused():
                    self.checkpoints.restore(self.updater, Path(*arguments))
            case "publish":
                self.checkpoints.publish(self.updater)
            case "gather":
                gather_model(self.updater.model)
            case "hash":
                weights_hash(self.updater.model)
            case _:
                return False
        return True


@contextmanager
def leaving(links: FollowerLinks) -> Generator[None]:
    """End the block without an error where an exchange failed because the leader has ended the run.

    Raises ProcessLost where the leader itself has ended.
    """
    try:
        with _losses_named(links):
            yield
    except RuntimeError:
        if not links.over.is_set():
            raise
