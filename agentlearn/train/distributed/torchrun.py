"""Several processes under `torchrun`: the first leads, and the others take part in sampling and in updates.

The leader tells the others what to do next, and every process then does the same. Gradients and shards of weights are
exchanged by torch, commands and sampling requests over connections of their own.

A connection closes when the process at its other end ends, however it ends. So a lost process is noticed at once, also
while nothing is exchanged, and waiting for a command needs no time limit: a batch may take hours to sample.
"""

import os
import pickle
import queue
import secrets
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from agentlearn.errors import ConfigError, ProcessLost
from agentlearn.train.distributed.sharding import ShardingAccelerator, gather_model, is_sharded
from agentlearn.train.settings import TrainSettings
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.train.weights.model import weights_hash

END_S = 30.0
"""Seconds that a process has for an orderly end after another one was lost. Then it ends in the middle of its work,
because it may wait for the lost process for ever."""
_NOTICE_S = 5.0
"""Seconds to wait for notice of a lost process after an exchange of tensors has failed."""

ProcessCommand = tuple[str, tuple[Any, ...]]
"""A command and its arguments."""


class LeaderLinks:
    """The first process's connections to the others."""

    def __init__(self, commands: Sequence[Connection], requests: Sequence[Connection]) -> None:
        self.requests = requests
        """One connection to each other process for sampling requests."""
        self.loss = LossNotice()
        self._commands = commands
        self._closing = False
        threading.Thread(target=self._watch, name="agentlearn-links", daemon=True).start()

    def send(self, command: str, *arguments: Any) -> None:
        """Send every other process a command. Raises ProcessLost."""
        for connection in self._commands:
            try:
                _send(connection, (command, arguments))
            except OSError as error:
                raise self.loss.error_soon() or ProcessLost(_ended_words(None)) from error

    def close(self) -> None:
        """Tell the others that the run is over. From now on they may end."""
        self._closing = True
        for connection in self._commands:
            with suppress(OSError):
                _send(connection, ("stop", ()))

    def _watch(self) -> None:
        """Wait until one of the others ends: they send nothing on these connections."""
        with suppress(OSError):
            ended = wait(self._commands)
            if not self._closing:
                self.loss.notice(_ended_words(1 + self._commands.index(ended[0])))  # pyright: ignore[reportArgumentType]


class FollowerLinks:
    """The connection of another process to the first one."""

    def __init__(self, commands: Connection, requests: Connection) -> None:
        self.requests = requests
        """Connection for sampling requests."""
        self.loss = LossNotice()
        self.over = threading.Event()
        """Set when the first process has said that the run is over, or has ended."""
        self._commands = commands
        self._received: queue.SimpleQueue[ProcessCommand | None] = queue.SimpleQueue()
        threading.Thread(target=self._receive, name="agentlearn-links", daemon=True).start()

    def next_command(self) -> ProcessCommand:
        """Wait for the next command. Raises ProcessLost when the first process has ended."""
        message = self._received.get()
        if message is None:
            raise self.loss.error() or ProcessLost(_ended_words(0))
        return message

    def _receive(self) -> None:
        while True:
            try:
                message = _received(self._commands)
            except (EOFError, OSError):
                self.loss.notice(_ended_words(0) + self.loss.how_to_go_on)
                self.over.set()
                self._received.put(None)
                return
            if message[0] == "begin":
                self.loss.run = str(message[1][0])
                continue
            self._received.put(message)
            if message[0] == "stop":
                self.over.set()
                return


class LossNotice:
    """Whether another process was lost, and who wants to know."""

    def __init__(self) -> None:
        self.run = ""
        """Id of the run, when it has begun."""
        self._words = ""
        self._noticed = threading.Event()
        self._listener: Callable[[ProcessLost], object] | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    @property
    def how_to_go_on(self) -> str:
        """The end of a sentence: the command that continues the run."""
        return f"; continue it with agentlearn train --resume {self.run}" if self.run else ""

    def error(self) -> ProcessLost | None:
        """The error that says which process was lost; None when none was."""
        return ProcessLost(self._words) if self._noticed.is_set() else None

    def error_soon(self) -> ProcessLost | None:
        """The same after an exchange failed, which may be known before its cause is."""
        self._noticed.wait(_NOTICE_S)
        return self.error()

    def tell(self, listener: Callable[[ProcessLost], object]) -> None:
        """Call this once, in another thread, when a process is lost."""
        with self._lock:
            self._listener = listener
        if (error := self.error()) is not None:
            listener(error)

    def notice(self, words: str) -> None:
        """Say that a process was lost."""
        with self._lock:
            self._words = words
            self._timer = threading.Timer(END_S, self._end_now)
            self._timer.daemon = True
            self._timer.start()
            listener = self._listener
            self._noticed.set()
        if listener is not None:
            with suppress(RuntimeError):  # the event loop may have closed
                listener(ProcessLost(words))

    def cancel(self) -> None:
        """Do not end the process any more: it is ending by itself."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    def _end_now(self) -> None:
        with suppress(OSError):
            rest = "" if self.how_to_go_on in self._words else self.how_to_go_on
            os.write(2, f"agentlearn: {self._words}{rest}\n".encode())
        os._exit(ProcessLost.exit_status)


def connect(rank: int, count: int) -> LeaderLinks | FollowerLinks:
    """Connect the processes of the default process group. Every process must call it. Blocks."""
    if rank == 0:
        alone = os.environ.get("LOCAL_WORLD_SIZE", "1") == os.environ.get("WORLD_SIZE", "1")  # all on this machine
        host = "127.0.0.1" if alone else os.environ.get("MASTER_ADDR", "127.0.0.1")
        with Listener((host, 0), backlog=2 * count, authkey=(key := secrets.token_bytes(32))) as listener:
            torch.distributed.broadcast_object_list([(listener.address, key)], src=0)
            found: dict[tuple[str, int], Connection] = {}
            while len(found) < 2 * (count - 1):
                connection = cast("Connection", listener.accept())
                found[connection.recv()] = connection
        ranks = range(1, count)
        return LeaderLinks(*([found[kind, one] for one in ranks] for kind in ("commands", "requests")))
    received: list[Any] = [None]
    torch.distributed.broadcast_object_list(received, src=0)
    address, key = received[0]
    made: list[Connection] = []
    for kind in ("commands", "requests"):
        made.append(cast("Connection", Client(address, authkey=key)))
        made[-1].send((kind, rank))
    return FollowerLinks(*made)


def _send(connection: Connection, message: ProcessCommand) -> None:
    connection.send_bytes(pickle.dumps(message))  # `send` would put tensors into memory that both processes share


def _received(connection: Connection) -> ProcessCommand:
    return pickle.loads(connection.recv_bytes())  # noqa: S301  from our own processes: the connection has a secret key


def _ended_words(rank: int | None) -> str:
    which = "the first process" if rank == 0 else "a process" if rank is None else f"process {rank}"
    return f"{which} of this training ended before the run was over; the messages of that process say why"


_EXCHANGE_TIMEOUT = timedelta(hours=2)
"""Longest wait for another process in one exchange of tensors: for one that still loads a model, for example. A process
that has ended is noticed at once by its connection, so this may be long."""
_EXCHANGING = threading.Lock()
"""Held by the leader while all processes do something together."""


@dataclass(slots=True)
class _ConnectedProcess:
    """This process and its connections; all None in a single process."""

    accelerator: Any = None
    """The `accelerate.Accelerator`, or what shards weights."""
    leader: LeaderLinks | None = None
    """The first process's connections to the others."""
    follower: FollowerLinks | None = None
    """Another process's connection to the first one."""

    def tell(self, command: str, *arguments: Any) -> None:
        """Send the other processes a command, if there are any. Raises ProcessLost."""
        if self.leader is not None:
            self.leader.send(command, *arguments)

    def told(self, wanted: str) -> tuple[Any, ...] | None:
        """Wait for this command; returns its arguments, or None when the leader has given up. Raises ProcessLost."""
        assert self.follower is not None
        command, arguments = self.follower.next_command()
        return arguments if command == wanted else None

    def begin_run(self, run: str, stop: Callable[[ProcessLost], object]) -> None:
        """Tell the others which run has begun. stop: called in another thread when one of them ends."""
        if self.leader is not None:
            self.leader.loss.run = run
            self.tell("begin", run)
            self.leader.loss.tell(stop)

    def release_when_idle(self, updater: Updater) -> None:
        """Release the updater when an exchange that an interruption has left running is over."""
        lost = self.leader is not None and self.leader.loss.error() is not None
        if _EXCHANGING.acquire(timeout=0 if lost else -1):  # else an exchange waits for the lost process
            _EXCHANGING.release()
            updater.release()


CONNECTED = _ConnectedProcess()
"""This process."""


@contextmanager
def lead_processes(settings: TrainSettings) -> Generator[None]:
    """Connect and lead the other processes while the block runs; at its end they are told to stop.

    Raises ConfigError when weights are to be sharded over one process.
    """
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if settings.processes == "shard" and not several:
        raise ConfigError(
            "processes is 'shard', but there is one process; start it with torchrun --nproc-per-node 2 -m agentlearn"
            " train …, or leave out --processes"
        )
    if several and os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        raise ConfigError(
            "ACCELERATE_USE_FSDP is set, but agentlearn shards weights by itself; unset it, and give --processes shard"
        )
    try:
        if several:
            accelerator, links = connect_processes()
            assert isinstance(links, LeaderLinks)
            CONNECTED.leader = links
            links.send("settings", settings)
            CONNECTED.accelerator = _sharding_or(accelerator, settings)
        yield
    finally:
        links, CONNECTED.leader, CONNECTED.accelerator = CONNECTED.leader, None, None
        lost = links is not None and links.loss.error() is not None
        if links is not None:
            if _EXCHANGING.acquire(timeout=0 if lost else -1):  # else an exchange waits for the lost process
                _EXCHANGING.release()
                links.loss.cancel()
            links.close()
        if not lost:
            _leave_group()


def follow_processes() -> TrainSettings | None:
    """Connect to the leader; returns the settings of the run, or None when the leader has given up already.

    Raises ProcessLost when the leader has ended.
    """
    accelerator, links = connect_processes()
    assert isinstance(links, FollowerLinks)
    CONNECTED.follower = links
    if (told := CONNECTED.told("settings")) is None:
        return None
    CONNECTED.accelerator = _sharding_or(accelerator, told[0])
    return told[0]


def connect_processes() -> tuple[Any, LeaderLinks | FollowerLinks]:
    from accelerate import Accelerator, InitProcessGroupKwargs

    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        gradient_accumulation_steps=1,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=_EXCHANGE_TIMEOUT)],
    )
    return accelerator, connect(accelerator.process_index, accelerator.num_processes)


def _sharding_or(accelerator: Any, settings: TrainSettings) -> Any:
    if settings.processes == "replicate":
        return accelerator
    return ShardingAccelerator(accelerator.device, bf16=settings.gradient.dtype == "bf16")


@contextmanager
def all_processes(command: str | None, *arguments: Any) -> Generator[None]:
    """Tell the other processes to do the same as this block; None: they do it without being told.

    Raises ProcessLost when one of them has ended.
    """
    links = CONNECTED.leader
    if links is None:
        yield
        return
    with _EXCHANGING, _losses_named(links):
        if command is not None:
            links.send(command, *arguments)
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


def whole_hash(model: nn.Module) -> str:
    """Hash of a model's weights, which may be sharded. Called by the leader. Blocks."""
    with all_processes("hash") if is_sharded(model) else nullcontext():
        return weights_hash(model)


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
        links = CONNECTED.follower
        assert links is not None
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
