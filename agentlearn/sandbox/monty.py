"""The sandbox `monty`: pydantic-monty, a Python interpreter in Rust without access to files, programs or the network.

It needs no kernel features and supports only a part of Python: no sympy, numpy or fractions, no `yield`, no subclasses.
Each session has its own worker process. Calls to a worker block, so each runs in a thread; killing the worker ends
both. The worker also gets the time limit, so that it ends even if our process was killed first.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakSet

from agentlearn.errors import ConfigError, MissingExtra, ToolLost
from agentlearn.sandbox.final import final_statement
from agentlearn.sandbox.inside.cell import CellStatus, shorten_traceback
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.output import cut_middle
from agentlearn.sandbox.protocol import CodeSandbox, SandboxReport
from agentlearn.sandbox.session import STARTS_AT_ONCE, InterpreterSandbox, calls_at_once
from agentlearn.sandbox.zygote import INSTALL_MONTY, KILLED, CallReply, Exit, InterpreterGone, monty_installed

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyError, MontySession

_T = TypeVar("_T")

LAYERS = ("process", "interpreter", "limits")
MISSING = ("rlimits", "landlock", "seccomp", "namespaces")
MAX_CODE_BYTES = 1 << 17
MAX_WORKERS = 1_000
SPARE_S = 1.0
"""How much longer the worker's time limit is than ours."""
CANNOT = "this interpreter has only a part of Python: no sympy, numpy, fractions or heapq, no `yield`, no subclasses"
_OVER_TIME = "feed time limit exceeded"
_SHOW = "_show_final_value_"
_SHOW_CODE = f"def {_SHOW}(value):\n    if value is not None:\n        print(repr(value))"


@contextlib.asynccontextmanager
async def monty(
    limits: SandboxLimits | None = None, *, keep_state_on_timeout: bool = False
) -> AsyncGenerator[CodeSandbox]:
    """Open the sandbox on pydantic-monty, isolated by that interpreter and not by the kernel.

    It applies the limits of time, memory and output; there are no files to limit. No call may take longer than
    `timeout_s`, even if its caller allows more. Raises MissingExtra, or ConfigError with code `sandbox_unavailable`.
    """
    if not monty_installed():
        raise MissingExtra(f"the code sandbox 'monty' needs pydantic-monty: {INSTALL_MONTY}")
    from pydantic_monty import Monty, MontyError

    limits = limits or SandboxLimits()
    report = SandboxReport(name="monty", layers=LAYERS, missing=MISSING, isolated=True)
    pool = Monty(max_processes=MAX_WORKERS, max_checkouts_per_worker=1, feed_duration_limit_grace=SPARE_S)
    with ThreadPoolExecutor(calls_at_once() + 2 * STARTS_AT_ONCE, "agentlearn-monty") as threads:
        in_thread = partial(asyncio.get_running_loop().run_in_executor, threads)
        try:
            await in_thread(pool.__enter__)
        except (RuntimeError, MontyError, OSError) as error:
            raise ConfigError(
                f"the code sandbox 'monty' cannot start here: {error}; reinstall it: {INSTALL_MONTY}",
                code="sandbox_unavailable",
            ) from error
        workers = MontyWorkers(pool, threads, limits)
        try:
            yield InterpreterSandbox(workers.start_interpreter, report, limits, keep_state=keep_state_on_timeout)
        finally:
            await workers.kill()  # closing the pool does not end workers in the middle of a call
            await in_thread(pool.__exit__, None, None, None)


class MontyWorkers:
    """Starts and kills the interpreters of one pool."""

    def __init__(self, pool: "Monty", threads: Executor, limits: SandboxLimits) -> None:
        self._pool = pool
        self._threads = threads
        self._limits = limits
        self._live: WeakSet[MontyInterpreter] = WeakSet()

    async def start_interpreter(self, seed: int) -> "MontyInterpreter":
        """Start a new interpreter. Raises ToolError."""
        from pydantic_monty import MontyError

        limits = self._limits
        session = self._pool.checkout(
            limits={"max_feed_duration_secs": limits.timeout_s + SPARE_S, "max_memory": limits.memory_bytes},
            os_policy={"random_start": {"seed": seed}, "sleep": "zero"},
        )
        interpreter = MontyInterpreter(session, self._threads, limits)
        self._live.add(interpreter)
        try:
            await interpreter.start()
        except (RuntimeError, MontyError, OSError) as error:
            await interpreter.kill()
            raise ToolLost(f"a session of the code sandbox could not start: {error}", code="sandbox_session") from error
        except BaseException:
            await interpreter.kill()
            raise
        return interpreter

    async def kill(self) -> None:
        """Kill all interpreters and wait until they have ended."""
        for interpreter in list(self._live):
            await interpreter.kill()


class MontyInterpreter:
    """One worker process of pydantic-monty."""

    def __init__(self, session: "MontySession", threads: Executor, limits: SandboxLimits) -> None:
        self._session = session
        self._threads = threads
        self._limits = limits
        self._worker: int | None = None
        self._running: asyncio.Future[Any] | None = None
        self._output_of_call = PrintedOutput(4 * limits.output_chars)
        self._calls = 0
        self._exit = Exit()
        self._ended = False

    async def start(self) -> None:
        """Start the worker process."""
        await self._in_thread(self._start_worker)

    @property
    def ended(self) -> bool:
        """Whether the worker is known to have ended."""
        return self._ended

    async def call(self, code: str, *, most_chars: int) -> CallReply:
        """Run one cell and return its result. Raises InterpreterGone; ValueError for code that is too long."""
        size = len(code.encode("utf-8", "surrogatepass"))
        if size > MAX_CODE_BYTES:
            raise ValueError(f"{size} bytes, where {MAX_CODE_BYTES} may be sent")
        self._calls += 1
        self._output_of_call = PrintedOutput(4 * self._limits.output_chars)
        status, error = await self._in_thread(partial(self._run, code))
        return CallReply(
            call=self._calls,
            status=status,
            stdout=self._output_of_call.text(self._limits.output_chars),
            stdout_bytes=self._output_of_call.total,
            error=error,
        )

    async def kill(self, *, grace_s: float = 0.0) -> Exit:
        """Kill the worker and return how it ended. `grace_s` is not used: an ended worker has already reported it."""
        self._ended = True
        if self._running is not None and not self._running.done():
            if self._worker is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._worker, signal.SIGKILL)
            await asyncio.wait((self._running,))
        if self._worker is not None:
            self._worker = None
            await self._in_thread(partial(self._session.__exit__, None, None, None))
        stdout, size = self._output_of_call.text(self._limits.output_chars), self._output_of_call.total
        return self._exit.model_copy(update={"stdout": stdout, "stdout_bytes": size})

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """Run `work` in a thread and return its result. If the caller is cancelled, `work` continues as `_running`."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._running = running
        running.add_done_callback(lambda done: done.cancelled() or done.exception())  # marks the exception as seen
        return await asyncio.shield(running)

    def _start_worker(self) -> None:
        self._session.__enter__()
        self._worker = self._session.worker_pid
        self._session.feed_run(_SHOW_CODE)

    def _run(self, code: str) -> tuple[CellStatus, str]:
        """Run one cell in this thread. The value of a final expression is printed inside and not returned."""
        from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

        try:
            self._feed(code)
        except MontyCrashedError as error:
            self._record_end("timeout" if error.timed_out else f"the interpreter died ({error})")
            if "SIGKILL" in str(error) and not error.timed_out and self._exit.error:
                # Neither the code nor the interpreter can send this signal; at its limits it raises an exception.
                self._exit = self._exit.model_copy(update={"lost": KILLED})
            raise InterpreterGone(invalid_reply=False) from error
        except (MontyRuntimeError, MontySyntaxError) as error:
            if str(error).startswith(f"TimeoutError: {_OVER_TIME}"):
                self._record_end("timeout")
                raise InterpreterGone(invalid_reply=False) from error
            return "oom" if isinstance(error.exception(), MemoryError) else "error", _explained(error)
        except RuntimeError as error:
            self._record_end(f"the interpreter ended ({error})")
            raise InterpreterGone(invalid_reply=False) from error
        return "ok", ""

    def _feed(self, code: str) -> None:
        from pydantic_monty import MontySyntaxError

        final = final_statement(code)
        if final is not None:
            try:
                shown = f"{code[: final.start]}{_SHOW}(({code[final]}\n))"
                self._session.feed_run(shown, print_callback=self._output_of_call.take)
            except MontySyntaxError:  # nothing ran: the last statement is not an expression, or the code is invalid
                pass
            else:
                return
        self._session.feed_run(f"{code}\nNone", print_callback=self._output_of_call.take)

    def _record_end(self, why: Literal["timeout"] | str) -> None:  # noqa: PYI051  "timeout" is special, other values are sentences
        if not self._ended:  # otherwise we ended it
            self._ended = True
            self._exit = Exit(status=-signal.SIGXCPU) if why == "timeout" else Exit(error=why)


class PrintedOutput:
    """Output of one call. Keeps the first and the last `kept_bytes`."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def take(self, stream: str, text: str) -> None:
        """Add printed text of either stream."""
        chunk = text.encode("utf-8", "backslashreplace")
        self.total += len(chunk)
        room = self._kept_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._kept_bytes:
            del self._tail[: -self._kept_bytes]

    def text(self, limit_chars: int) -> str:
        """The output, shortened in the middle to the limit."""
        return cut_middle(bytes(self._head), bytes(self._tail[-self._kept_bytes :]), self.total, limit_chars)


def _explained(error: "MontyError") -> str:
    """The traceback in Python's format, without our frames and shortened in the middle."""
    from pydantic_monty import MontyRuntimeError, MontySyntaxError

    lines: list[str] = []
    frames = error.traceback() if isinstance(error, MontyRuntimeError | MontySyntaxError) else []
    for frame in frames:
        if frame.function_name != _SHOW:
            where = f", in {frame.function_name}" if frame.function_name else ""
            source = (frame.source_line or "").strip().removeprefix(f"{_SHOW}((")
            lines += [f'  File "{frame.filename}", line {frame.line}{where}', *([f"    {source}"] if source else [])]
    head = ["Traceback (most recent call last):"] if lines else []
    kind = type(error.exception()).__name__
    told = str(error)
    last = [CANNOT] if isinstance(error.exception(), NotImplementedError | ModuleNotFoundError) else []
    return shorten_traceback(
        [*head, *lines, *(told if told.startswith(kind) else f"{kind}: {told}").splitlines(), *last]
    )
