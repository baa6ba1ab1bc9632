"""Our side of a zygote: start it, order sessions from it, hear how each ended.

Linux only: it stands on `fork`, parent-death signals and sequenced-packet sockets. The kernel ends a zygote with the
thread that started it, so that thread must live as long as the event loop that it runs.
"""

import asyncio
import contextlib
import importlib.util
import itertools
import os
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, TypeAdapter

from agentlearn.errors import ConfigError, ToolError
from agentlearn.sandbox.inside.config import Config, SandboxLimits
from agentlearn.sandbox.inside.scratch import remove_tree
from agentlearn.sandbox.interpreter import Exit
from agentlearn.sandbox.refusal import ways_out
from agentlearn.types.value import Value

_T = TypeVar("_T")

WARMED = ("sympy", "numpy", "numpy.random", "mpmath", "fractions", "decimal", "itertools", "math", "random", "hashlib")
ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
_BOOT = Path(__file__).parent / "inside" / "boot.py"
MAX_MESSAGE_BYTES = 1 << 20
START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 10.0


class Hello(Value):
    """First word of a zygote, before it warms up: which layers sessions will have."""

    kind: Literal["hello"]
    layers: tuple[str, ...]
    missing: tuple[str, ...]
    refusal: str
    """Why it will not open sessions; empty when it will."""


class ZygoteReady(Value):
    """The zygote is warm."""

    kind: Literal["ready"]


class ZygoteFailed(Value):
    """The zygote could not warm up."""

    kind: Literal["failed"]
    reason: str


_MESSAGE: TypeAdapter[Hello | ZygoteReady | ZygoteFailed | Exit] = TypeAdapter(
    Annotated[Hello | ZygoteReady | ZygoteFailed | Exit, Field(discriminator="kind")]
)


class Zygote:
    """A running zygote process. Belongs to the event loop that started it."""

    def __init__(self, process: Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._hello: asyncio.Future[Hello] = self._loop.create_future()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._exits: dict[int, asyncio.Future[Exit]] = {}
        self._ended = ""
        self._loop.add_reader(control, self._hear)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, *, sealed: bool, limits: SandboxLimits) -> AsyncGenerator[Self]:
        """A zygote, warming up; on leaving, it and all its sessions and files are gone."""
        if sys.platform != "linux":
            raise ConfigError(
                f"the code sandbox 'zygote' needs Linux; this is {sys.platform!r}; {ways_out()}",
                code="sandbox_unavailable",
            )
        scratch = tempfile.mkdtemp(prefix="agentlearn-")
        try:
            zygote = await cls._spawn(Config(os.getpid(), scratch, _search_paths(), WARMED, sealed, limits))
            try:
                yield zygote
            finally:
                await zygote.end()
        finally:
            await asyncio.to_thread(remove_tree, Path(scratch))  # nothing is left to do unless the zygote was killed

    @classmethod
    async def _spawn(cls, config: Config) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-B", "-P", "-s", "-S", "-X", "utf8", str(_BOOT)),
                *(str(theirs.fileno()), config.to_json()),
                env=ENVIRONMENT,
                cwd="/",
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        return cls(process, ours)

    async def hello(self) -> Hello:
        """Which layers sessions have. Raises ToolError when the process ended first."""
        return await self._started(self._hello)

    async def open(self, seed: int) -> tuple[int, socket.socket]:
        """Order a session: its id and our end of its socket, on which it says when it is ready. Raises ToolError."""
        await self._started(self._ready)
        if self._ended:
            raise ToolError(f"{self._ended}; no session can be opened", code="sandbox_ended")
        session = next(self._ids)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            order = b'{"open":%d,"seed":%d}' % (session, seed)
            socket.send_fds(self._control, [order], [theirs.fileno()])
        self._exits[session] = self._loop.create_future()
        return session, ours

    async def kill(self, session: int, *, grace_s: float = 0.0) -> Exit:
        """Kill a session unless it ends by itself within `grace_s`; tells how it ended, once it has."""
        exit_ = self._exits.get(session)
        if exit_ is None:
            return Exit(session=session)
        if grace_s:
            await asyncio.wait((exit_,), timeout=grace_s)
        if not exit_.done():
            with contextlib.suppress(OSError):  # a zygote that ended took its sessions with it
                self._control.send(b'{"kill":%d}' % session)
            await asyncio.wait((exit_,), timeout=END_TIMEOUT_S)
        if not exit_.done():
            self._process.kill()  # a zygote that does not answer; its sessions end with it
        ended = await asyncio.shield(exit_)
        self._exits.pop(session, None)
        return ended

    def ended(self, session: int) -> bool:
        """Whether a session is known to have ended."""
        exit_ = self._exits.get(session)
        return exit_ is None or exit_.done()

    async def _started(self, word: "asyncio.Future[_T]") -> _T:
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                return await asyncio.shield(word)
        except TimeoutError:
            raise ToolError(
                f"the code sandbox did not start within {START_TIMEOUT_S:.0f} s; is this machine overloaded?",
                code="sandbox_ended",
            ) from None

    def _hear(self) -> None:
        """Take one message of the zygote."""
        try:
            message = self._control.recv(MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._over("the code sandbox's process ended unexpectedly")
            return
        match _MESSAGE.validate_json(message):
            case Hello() as hello:
                self._hello.set_result(hello)
            case ZygoteReady():
                self._ready.set_result(None)
            case ZygoteFailed(reason=reason):
                self._over(f"the code sandbox could not start: {reason}")
            case Exit(session=session) as ended:
                self._exits[session].set_result(ended)

    def _over(self, reason: str) -> None:
        """Wake everyone who waits for a zygote that will say no more."""
        self._loop.remove_reader(self._control)
        self._ended = self._ended or reason
        for waited in (self._hello, self._ready):
            if not waited.done():
                waited.set_exception(ToolError(reason, code="sandbox_ended"))
                waited.exception()  # perhaps nobody is waiting
        for session, exit_ in self._exits.items():
            if not exit_.done():
                exit_.set_result(Exit(session=session))

    async def end(self) -> None:
        """Tell the zygote to kill its sessions, clean up and end; wait until it has."""
        self._over("the code sandbox was closed")
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()  # or it would first finish warming up
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()


def _search_paths() -> tuple[str, ...]:
    """Directories in which the warmed modules lie that are not in the standard library."""
    found: dict[str, None] = {}
    for name in ("sympy", "numpy", "mpmath"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ConfigError(
                f"the code sandbox needs {name!r}, which is not installed: pip install {name}",
                code="sandbox_unavailable",
            )
        found[str(Path(spec.origin).resolve().parent.parent)] = None
    return tuple(found)
