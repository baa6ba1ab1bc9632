"""Our side of a zygote: a process that imports the libraries once and then forks one process per session.

Linux only: it needs `fork`, parent-death signals and sequenced-packet sockets. The kernel ends a zygote together with
the thread that started it, so that thread must live as long as its event loop.

A session can use several interpreters in turn. An interpreter's replies may be written by the untrusted code that it
runs, so they are only data of limited size.
"""

import asyncio
import atexit
import contextlib
import importlib.util
import itertools
import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, TypeAdapter

from agentlearn.errors import FILES_NEEDED, ConfigError, ToolError, ToolLost, words_of_failed_start
from agentlearn.sandbox import SandboxReport
from agentlearn.sandbox.inside.config import Config, SandboxLimits, remove_tree
from agentlearn.text.log import get_log
from agentlearn.types.value import Value

_LOG = get_log()


class Exit(Value):
    """How an interpreter ended."""

    kind: Literal["exit"] = "exit"
    session: int = 0
    status: int | None = None
    """Exit status, negative for a signal; None if it never started or its sandbox ended."""
    ordered: bool = False
    """Whether we killed it."""
    error: str = ""
    """Why it did not start, how it ended if there is no exit status, or for which limit it was killed."""
    lost: str = ""
    """Why it ended, if neither its code nor we ended it; otherwise empty."""
    stdout: str = ""
    """Text printed by its unfinished call."""
    stdout_bytes: int = 0


INSTEAD = "pass --sandbox unsafe-local to run the model's code with your own rights"
"""What to do where the sandbox `zygote` does not work, to complete a sentence."""

_T = TypeVar("_T")

_PACKAGES = ("sympy", "numpy", "mpmath")
"""Packages that sessions may import besides the standard library."""
PRELOADED = (
    *_PACKAGES,
    *("numpy.random", "fractions", "decimal", "itertools", "math", "random", "hashlib"),
)
WARM_UP = (
    "from sympy import *",
    "x, y = symbols('x y'); solve(x**2 - 5*x + 6, x); solve([x + 2*y - 4, 3*x - y - 5], [x, y]); solve(x**3 - 8)",
    "solve(Eq(sqrt(x + 1), 3)); solve(Abs(Symbol('r', real=True) - 3) - 2); solveset(sin(x) - Rational(1, 2), x)",
    "solve_univariate_inequality(Symbol('r', real=True)**2 - 4 > 0, Symbol('r', real=True)); nsolve(cos(x) - x, 1)",
    "simplify((x**2 - 1)/(x - 1) + sin(x)**2 + cos(x)**2); factor(x**4 - 1); expand((x + y)**5); apart(1/(x**2 - x))",
    "str(sqrt(50) + pi/4); latex(x/2); N(pi, 20); sympify('2*x + 1'); nsimplify(0.75); trigsimp(2*sin(x)*cos(x))",
    "integrate(x**2*exp(x), x); integrate(x*cos(2*x), (x, 0, pi)); integrate(1/(x**2 + 1), (x, 0, 1))",
    "diff(sin(x)*log(x), x); limit(sin(x)/x, x, 0); series(cos(x), x, 0, 6); Sum(1/x**2, (x, 1, oo)).doit()",
    "n = symbols('n', integer=True, positive=True); summation(n**2, (n, 1, 10)); Poly(x**3 - 1).all_roots()",
    "m = Matrix([[2, 1], [1, 3]]); m.det(); m.inv(); m.eigenvals(); m.rref(); str(m)",
    "factorint(360360); isprime(10007); divisors(360); totient(36); gcd(84, 36); binomial(10, 3); primerange(99)",
    "import numpy as np; a = np.array([[2.0, 1.0], [1.0, 3.0]]); np.linalg.solve(a, a[0]); np.linalg.inv(a); str(a)",
    "np.linalg.eigh(a); np.linalg.svd(a); np.linalg.det(a); np.roots([1, -3, 2]); np.polyfit([0, 1, 2], [1, 2, 5], 2)",
    "import mpmath; mpmath.quad(mpmath.exp, [0, 1]); mpmath.findroot(mpmath.cos, 1.5); str(mpmath.zeta(3))",
)
"""Programs that are run once, before the first fork: the first use of a function of these packages takes many times as
long as the next. Their variables are dropped. What they leave is in the packages' own caches, and in the numbers of
sympy's unnamed symbols, which are the same for all sessions."""
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
_BOOT = Path(__file__).parent / "inside" / "boot.py"
_MAX_MESSAGE_BYTES = 1 << 20
_START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 10.0
CODE = "sandbox_ended"
"""Code of the errors of a zygote that has ended or does not answer."""


class _Hello(Value):
    """First message of a zygote, before it imports the libraries: how sessions will be isolated."""

    kind: Literal["hello"]
    layers: tuple[str, ...]
    missing: tuple[str, ...]
    refusal: str
    """Why it cannot open sessions; empty if it can."""


class _Ready(Value):
    """The zygote has imported the libraries."""

    kind: Literal["ready"]


class _Failed(Value):
    """The zygote could not import the libraries."""

    kind: Literal["failed"]
    reason: str


_MESSAGE: TypeAdapter[_Hello | _Ready | _Failed | Exit] = TypeAdapter(
    Annotated[_Hello | _Ready | _Failed | Exit, Field(discriminator="kind")]
)


class Zygote:
    """A running zygote process, used by the event loop that started it."""

    def __init__(self, process: Process, control: socket.socket, config: Config) -> None:
        self._process = process
        self._control = control
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._hello: asyncio.Future[_Hello] = self._loop.create_future()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._exits: dict[int, asyncio.Future[Exit]] = {}
        self._end_error: ToolError | None = None
        self._exiting = False
        """Whether its end of the socket has closed, which happens only when it ends."""
        self._loop.add_reader(control, self._receive_message)

    @classmethod
    async def start(cls, *, sealed: bool, limits: SandboxLimits) -> Self:
        """Start a zygote. The caller must `end` it. Raises ConfigError; ToolError when no process can be started."""
        if sys.platform != "linux":
            raise ConfigError(f"the code sandbox 'zygote' needs Linux; this is {sys.platform!r}; {INSTEAD}")
        packages = _packages()
        try:
            scratch = tempfile.mkdtemp(prefix="agentlearn-")
            _SCRATCH[scratch] = os.getpid()
            try:
                return await cls._spawn(Config(os.getpid(), scratch, packages, PRELOADED, WARM_UP, sealed, limits))
            except BaseException:
                _remove(scratch)
                raise
        except OSError as error:
            raise ToolLost(
                f"the code sandbox's process could not be started: {words_of_failed_start(error)}", code=CODE
            ) from error

    @classmethod
    async def _spawn(cls, config: Config) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-B", "-P", "-s", "-S", "-X", "utf8", str(_BOOT)),
                    *(str(theirs.fileno()), config.to_json()),
                    env=_ENVIRONMENT,
                    cwd="/",
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    stderr=DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        return cls(process, ours, config)

    @property
    def end_error(self) -> ToolError | None:
        """Why it cannot open sessions any more; None while it can."""
        return self._end_error

    async def hello(self) -> _Hello:
        """How sessions are isolated. Raises ToolError when the process ended first."""
        return await self._started(self._hello)

    async def open(self, seed: int) -> tuple[int, socket.socket]:
        """Open a session: its id and our end of its socket, on which it first reports ready. Raises ToolError."""
        await self._started(self._ready)
        if self._end_error is not None:
            raise self._end_error
        session = next(self._ids)
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise ToolLost(f"a session of the code sandbox could not start: {error}", code="sandbox_session") from error
        ours.setblocking(False)
        try:
            with theirs:
                order = b'{"open":%d,"seed":%d}' % (session, seed)
                socket.send_fds(self._control, [order], [theirs.fileno()])
        except OSError as error:  # it has ended, or has not read its messages for long
            ours.close()
            raise self.abandon(f"the code sandbox's process takes no orders ({error})") from error
        self._exits[session] = self._loop.create_future()
        return session, ours

    def abandon(self, reason: str) -> ToolError:
        """Kill the zygote, which does not answer, with its sessions. Returns the error to raise."""
        error = self._mark_ended(ToolLost(reason, code=CODE))
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return error

    async def kill(self, session: int, *, grace_s: float = 0.0) -> Exit:
        """Kill a session unless it ends within `grace_s`; return how it ended."""
        exit_ = self._exits.get(session)
        if exit_ is None:
            return Exit(session=session)
        if grace_s:
            await asyncio.wait((exit_,), timeout=grace_s)
        if not exit_.done():
            with contextlib.suppress(OSError):  # if the zygote has ended, so have its sessions
                self._control.send(b'{"kill":%d}' % session)
            await asyncio.wait((exit_,), timeout=END_TIMEOUT_S)
        if not exit_.done():
            self.abandon(f"the code sandbox's process did not answer for {END_TIMEOUT_S:g} s")
        ended = await asyncio.shield(exit_)
        self._exits.pop(session, None)
        return ended

    def ended(self, session: int) -> bool:
        """Whether a session is known to have ended."""
        exit_ = self._exits.get(session)
        return exit_ is None or exit_.done()

    async def _started(self, message: "asyncio.Future[_T]") -> _T:
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                return await asyncio.shield(message)
        except TimeoutError:
            raise self.abandon(
                f"the code sandbox did not start within {_START_TIMEOUT_S:.0f} s; is this machine overloaded?"
            ) from None

    def _cause(self) -> str:
        """Return what probably ended a process that has not said hello, as the end of a sentence; or nothing."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if self._hello.done() or not 0 <= most < FILES_NEEDED:
            return ""
        return f": it may open only {most:,} files; raise the limit (ulimit -n) to {FILES_NEEDED:,} or more"

    def _receive_message(self) -> None:
        """Handle one message of the zygote."""
        try:
            message = self._control.recv(_MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._exiting = True
            self._mark_ended(ToolLost(f"the code sandbox's process ended unexpectedly{self._cause()}", code=CODE))
            return
        match _MESSAGE.validate_json(message):
            case _Hello() as hello:
                self._hello.set_result(hello)
            case _Ready():
                self._ready.set_result(None)
            case _Failed(reason=reason):
                self._mark_ended(ToolError(f"the code sandbox could not start: {reason}", code=CODE))
            case Exit(session=session) as ended:
                self._exits[session].set_result(ended)

    def _mark_ended(self, error: ToolError) -> ToolError:
        """Stop listening to the zygote and fail everything that waits for it. Returns the first error of its end."""
        if self._end_error is not None:
            return self._end_error
        self._end_error = error
        self._loop.remove_reader(self._control)
        for waited in (self._hello, self._ready):
            if not waited.done():
                waited.set_exception(error)
                waited.exception()  # marks the exception as seen
        lost = error.message if isinstance(error, ToolLost) else ""
        for session, exit_ in self._exits.items():
            if not exit_.done():
                exit_.set_result(Exit(session=session, lost=lost))
        return error

    async def disk_is_full(self, session: int) -> bool:
        """Whether other files than those of this session fill the disk that its files are on."""
        home = Path(self._config.scratch)
        if self._end_error is not None or "namespaces" in (await self.hello()).layers:
            return False  # with namespaces, each session has a file system of its own
        own = await asyncio.to_thread(_size_bytes, home / str(session))
        free = (await asyncio.to_thread(shutil.disk_usage, home)).free
        return free < self._config.limits.file_bytes and own < self._config.limits.scratch_bytes

    async def end(self) -> None:
        """Have the zygote kill its sessions, clean up and end; return when it has ended and its files are removed."""
        self._mark_ended(ToolError("the code sandbox was closed", code=CODE))
        self._control.close()
        if not self._exiting:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()  # otherwise it would first finish its imports
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
            # The zygote removes its files itself unless it was killed.
            await asyncio.to_thread(_remove, self._config.scratch)


_SCRATCH: dict[str, int] = {}
"""Directories of zygotes that have not ended, with the process that started each."""


def _remove(scratch: str) -> None:
    remove_tree(Path(scratch))
    _SCRATCH.pop(scratch, None)


@atexit.register
def _remove_all() -> None:
    """Remove what is left when the process ends while a zygote runs, as `doctor` does after a signal."""
    for scratch, process in list(_SCRATCH.items()):
        if process == os.getpid():  # not in a forked child
            with contextlib.suppress(OSError):
                _remove(scratch)


def _size_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def _packages() -> tuple[str, ...]:
    """Folders of the packages that sessions may import, of their shared libraries, and of their metadata."""
    found: list[Path] = []
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ConfigError(f"the code sandbox needs {name!r}, which is not installed: pip install {name}")
        package = Path(spec.origin).resolve().parent
        metadata = (entry for kind in ("dist", "egg") for entry in package.parent.glob(f"{name}-*.{kind}-info"))
        found += [package, package.with_name(f"{name}.libs"), *metadata]
    return tuple(str(path) for path in found if path.exists())


BACK_OFF_S = (0.1, 0.5, 2.0)
"""Seconds to wait before the second, third and fourth try to start an interpreter or the first zygote."""
MOST_RESTARTS = 5
_WITHIN_S = 60.0


class SupervisedZygote:
    """The zygote of a sandbox. When it has ended, the next interpreter is started by a new one.

    The interpreters of a zygote end with it, so this restores no session.
    """

    def __init__(self, name: str, *, sealed: bool, limits: SandboxLimits) -> None:
        self._name = name
        self._sealed = sealed
        self._limits = limits
        self._restarting = asyncio.Lock()
        self._restarts: deque[float] = deque(maxlen=MOST_RESTARTS)
        """Times of the last restarts, on a clock that never goes back."""
        self._zygote: Zygote | None = None
        self._hello: _Hello | None = None
        self.closed = False
        """Whether it ends, or has ended, because its sandbox was left."""

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, name: str, *, sealed: bool, limits: SandboxLimits) -> AsyncGenerator[Self]:
        """Start the zygote; on leaving, it has ended with all its interpreters, and its files are removed.

        name: the sandbox's name, for messages. Raises ConfigError when it cannot isolate code here; ToolError.
        """
        supervised = cls(name, sealed=sealed, limits=limits)
        try:
            await supervised._start()
            yield supervised
        finally:
            supervised.closed = True
            async with supervised._restarting:
                if supervised._zygote is not None:
                    await supervised._zygote.end()

    @property
    def report(self) -> SandboxReport:
        """How interpreters are isolated."""
        assert self._hello is not None
        return SandboxReport(
            name=self._name, layers=self._hello.layers, missing=self._hello.missing, isolated=self._sealed
        )

    async def zygote(self) -> Zygote:
        """Return the running zygote; start another if it has ended. Raises ToolError.

        Another one that isolates code in another way than the first is not used.
        """
        async with self._restarting:
            assert self._zygote is not None
            if (error := self._zygote.end_error) is None:
                return self._zygote
            if self.closed:
                raise error
            now = time.monotonic()
            if len(self._restarts) == MOST_RESTARTS and now - self._restarts[0] < _WITHIN_S:
                raise ToolError(
                    f"the code sandbox {self._name!r} was started again {MOST_RESTARTS} times within {_WITHIN_S:g} s,"
                    f" and its process ended each time ({error.message}); see whether this machine has too little"
                    " memory, or what else ends processes here",
                    code=CODE,
                )
            self._restarts.append(now)
            _LOG.warning("sandbox.restarted", sandbox=self._name, reason=error.message)
            await self._zygote.end()
            self._zygote = await Zygote.start(sealed=self._sealed, limits=self._limits)
            hello = await self._zygote.hello()
            if hello != self._hello:
                layers = ", ".join(hello.layers)
                raise self._zygote.abandon(
                    f"the code sandbox {self._name!r} was started again and isolates code in another way than before"
                    f" (layers: {layers}; {hello.refusal or 'all of them work'})"
                )
            return self._zygote

    async def _start(self) -> None:
        """Start the first zygote, with several tries. Raises ConfigError, ToolError."""
        for wait_s in (*BACK_OFF_S, None):
            try:
                self._zygote = await Zygote.start(sealed=self._sealed, limits=self._limits)
                self._hello = await self._zygote.hello()
                break
            except ToolLost as error:
                if self._zygote is not None:
                    await self._zygote.end()
                if wait_s is None:
                    raise
                _LOG.warning("sandbox.restarted", sandbox=self._name, reason=error.message)
                await asyncio.sleep(wait_s)
        assert self._hello is not None
        if self._hello.refusal:
            raise ConfigError(
                f"the code sandbox {self._name!r} cannot isolate code here: {self._hello.refusal}; {INSTEAD}"
            )
