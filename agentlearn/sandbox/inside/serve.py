"""The zygote: imports the modules of sessions once, then forks one child per session and reports how each ended.

It runs no untrusted code itself. It communicates over one SOCK_SEQPACKET socket, one JSON object per message:
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
import site
import socket
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from agentlearn.sandbox.inside.child_sessions import ChildSessions
from agentlearn.sandbox.inside.config import Config, config_from_json
from agentlearn.sandbox.inside.isolation import isolate, preloaded_packages
from agentlearn.sandbox.inside.packages import link_packages, load_system_libraries
from agentlearn.sandbox.inside.process import adopt_orphans, die_with, ignore_stops_of_children, use_one_heap
from agentlearn.sandbox.inside.scratch import remove_tree
from agentlearn.sandbox.inside.session import Order

MAX_MESSAGE_BYTES = 1 << 12


def run_zygote(control_fd: int, config_json: str) -> None:
    """Run the zygote until our side closes the control socket or ends. Leaves no process and no file behind."""
    config = config_from_json(config_json)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(remove_tree, Path(config.scratch))
        try:
            signal.signal(signal.SIGTERM, _leave)
            die_with(config.parent, signal.SIGTERM)
            adopt_orphans()
            _raise_open_files()
            _ZygoteServer(socket.socket(fileno=control_fd), config).run(cleanup)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent when our side is killed; finish cleaning up


class _ZygoteServer:
    """Carries out the requests that arrive on the control socket."""

    def __init__(self, control: socket.socket, config: Config) -> None:
        self._control = control
        self._config = config

    def run(self, cleanup: contextlib.ExitStack) -> None:
        """Report the isolation, import the modules, then handle requests."""
        isolation = isolate(self._config)
        layers, missing, refusal = isolation.layers, isolation.missing, isolation.refusal
        self._send({"kind": "hello", "layers": layers, "missing": missing, "refusal": refusal})
        if refusal:
            return
        try:
            _preload(self._config)
        except ImportError as error:
            self._send({"kind": "failed", "reason": f"{type(error).__name__}: {error}"})
            return
        walls = None if isolation.walls is None else (*isolation.walls, *preloaded_packages(self._config))
        child_sessions = ChildSessions(
            Path(self._config.scratch),
            self._config.limits,
            self._send,
            walls=walls,
            quota="namespaces" in layers,
        )
        cleanup.callback(child_sessions.clear)
        self._send({"kind": "ready"})
        self._serve(child_sessions)

    def _serve(self, child_sessions: ChildSessions) -> None:
        """Handle requests and reap children until the control socket closes."""
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake_up)
        ignore_stops_of_children()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        listening, watched_at = True, time.monotonic()
        while listening:
            wait_s = child_sessions.watch_every_s
            ready = {fd for fd, _ in poll.poll(1000 * wait_s if child_sessions.are_open else None)}
            if woken.fileno() in ready:
                _drain(woken)
                child_sessions.reap()
            if (now := time.monotonic()) - watched_at >= wait_s:
                child_sessions.watch()
                watched_at = now
            if self._control.fileno() in ready:
                listening = self._handle_message(child_sessions)

    def _handle_message(self, child_sessions: ChildSessions) -> bool:
        """Handle the next message. Returns False at the end of the messages."""
        message, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, 1)
        if not message:
            return False
        order: dict[str, Any] = json.loads(message)
        if "kill" in order:
            child_sessions.kill(order["kill"])
            return True
        if not fds:  # the kernel drops a descriptor when this process has too many open files
            self._send({"kind": "exit", "session": order["open"], "error": "too many open files"})
            return True
        try:
            child_sessions.open(Order(id=order["open"], seed=order["seed"]), fds[0])
        finally:
            os.close(fds[0])
        return True

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except (BrokenPipeError, ConnectionResetError):
            sys.exit(0)  # our side has ended


def _preload(config: Config) -> None:
    """Import the modules of sessions so that forks share their memory. Raises ImportError."""
    gc.disable()
    link_packages(Path(config.package_folder), config.packages)
    sys.path.append(config.package_folder)
    load_system_libraries()
    use_one_heap()
    site.setquit()
    site.sethelper()
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
    """Do nothing. A Python handler is needed for the signal to wake the loop."""


def _drain(wakeups: socket.socket) -> None:
    try:
        while wakeups.recv(4096):
            continue
    except BlockingIOError:
        return
