"""The zygote: imports what sessions need once, then forks one child per session and tells how each ended.

It runs no stranger's code itself. It talks over one SOCK_SEQPACKET socket, one JSON object per message:
in: `{"open": id, "seed": n}` with the session's end of a socket; `{"kill": id}`
out: `{"kind": "hello", …}`, then `{"kind": "ready"}` or `{"kind": "failed", …}`; `{"kind": "exit", …}` per session
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from agentlearn.sandbox.inside.config import Config, config_from_json
from agentlearn.sandbox.inside.isolation import isolate, warmed_packages
from agentlearn.sandbox.inside.nursery import Nursery
from agentlearn.sandbox.inside.process import adopt_orphans, die_with
from agentlearn.sandbox.inside.scratch import remove_tree
from agentlearn.sandbox.inside.session import Order

MAX_MESSAGE_BYTES = 1 << 12


def serve(control_fd: int, config_json: str) -> None:
    """Be the zygote until our side closes the control socket or ends; leaves no child and no file."""
    config = config_from_json(config_json)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(remove_tree, Path(config.scratch))
        try:
            signal.signal(signal.SIGTERM, _leave)
            die_with(config.parent, signal.SIGTERM)
            adopt_orphans()
            _raise_open_files()
            ZygoteServer(socket.socket(fileno=control_fd), config).run(cleanup)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it comes when our side is killed; cleaning up goes on


class ZygoteServer:
    """One control socket, and what is done on its orders."""

    def __init__(self, control: socket.socket, config: Config) -> None:
        self._control = control
        self._config = config

    def run(self, cleanup: contextlib.ExitStack) -> None:
        """Say what holds, warm up, serve."""
        isolation = isolate(self._config)
        layers, missing, refusal = isolation.layers, isolation.missing, isolation.refusal
        self._say({"kind": "hello", "layers": layers, "missing": missing, "refusal": refusal})
        if refusal:
            return
        try:
            _warm_up(self._config)
        except ImportError as error:
            self._say({"kind": "failed", "reason": f"{type(error).__name__}: {error}"})
            return
        walls = None if isolation.walls is None else (*isolation.walls, *warmed_packages(self._config))
        nursery = Nursery(
            Path(self._config.scratch),
            self._config.limits,
            self._say,
            walls=walls,
            quota="namespaces" in layers,
        )
        cleanup.callback(nursery.clear)
        self._say({"kind": "ready"})
        self._serve(nursery)

    def _serve(self, nursery: Nursery) -> None:
        """Take orders and collect children until the control socket closes."""
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake_up)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        listening = True
        while listening:
            ready = {fd for fd, _ in poll.poll()}
            if woken.fileno() in ready:
                _drain(woken)
                nursery.reap()
            if self._control.fileno() in ready:
                listening = self._take_order(nursery)

    def _take_order(self, nursery: Nursery) -> bool:
        """Do what the next message says; False at the end of the messages."""
        message, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, 1)
        if not message:
            return False
        order: dict[str, Any] = json.loads(message)
        if "kill" in order:
            nursery.kill(order["kill"])
            return True
        try:
            nursery.open(Order(id=order["open"], seed=order["seed"]), fds[0])
        finally:
            os.close(fds[0])
        return True

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except (BrokenPipeError, ConnectionResetError):
            sys.exit(0)  # nobody listens any more


def _warm_up(config: Config) -> None:
    """Import what sessions need, in such a way that forks share its memory. Raises ImportError."""
    gc.disable()
    sys.path.extend(config.search_paths)
    for name in config.modules:
        importlib.import_module(name)
    gc.freeze()


def _raise_open_files() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _wake_up(_number: int, _frame: FrameType | None) -> None:
    """Nothing: that the handler is Python's makes the signal wake the loop."""


def _drain(wakeups: socket.socket) -> None:
    try:
        while wakeups.recv(4096):
            continue
    except BlockingIOError:
        return
