"""Connections between the first process of a training run and the others: commands, and notice of a process that ends.

A connection closes when the process at its other end ends, however it ends. So a lost process is noticed at once, also
while nothing is exchanged, and waiting for a command needs no time limit: a batch may take hours to sample.
"""

import os
import pickle
import queue
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener, wait
from typing import Any, cast

import torch

from agentlearn.errors import ProcessLost

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
        with Listener((_host(), 0), backlog=2 * count, authkey=(key := secrets.token_bytes(32))) as listener:
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


def _host() -> str:
    """Address on which the first process listens: loopback when all processes are on this machine."""
    alone = os.environ.get("LOCAL_WORLD_SIZE", "1") == os.environ.get("WORLD_SIZE", "1")
    return "127.0.0.1" if alone else os.environ.get("MASTER_ADDR", "127.0.0.1")


def _send(connection: Connection, message: ProcessCommand) -> None:
    connection.send_bytes(pickle.dumps(message))  # `send` would put tensors into memory that both processes share


def _received(connection: Connection) -> ProcessCommand:
    return pickle.loads(connection.recv_bytes())  # noqa: S301  from our own processes: the connection has a secret key


def _ended_words(rank: int | None) -> str:
    which = "the first process" if rank == 0 else "a process" if rank is None else f"process {rank}"
    return f"{which} of this training ended before the run was over; the messages of that process say why"
