"""A zygote that is started again when it has ended."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Self

from agentlearn.errors import ConfigError, ToolError, ToolLost
from agentlearn.log import get_log
from agentlearn.sandbox.forked import ForkedInterpreter
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.refusal import suggest_other_sandbox
from agentlearn.sandbox.restart_limit import RestartLimit
from agentlearn.sandbox.zygote import CODE, Hello, Zygote

_LOG = get_log()

MOST_RESTARTS = 5
WITHIN_S = 60.0
BACK_OFF_S = (0.1, 0.5, 2.0)
"""Seconds to wait before the second, third and fourth try to start an interpreter."""


class SupervisedZygote:
    """The zygote of a sandbox. When it has ended, the next interpreter is started by a new one.

    The interpreters of a zygote end with it, so this restores no session.
    """

    def __init__(self, name: str, *, sealed: bool, limits: SandboxLimits) -> None:
        self._name = name
        self._sealed = sealed
        self._limits = limits
        self._restarting = asyncio.Lock()
        self._limit = RestartLimit(MOST_RESTARTS, WITHIN_S)
        self._zygote: Zygote | None = None
        self._hello: Hello | None = None
        self._closed = False

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
            supervised._closed = True
            async with supervised._restarting:
                if supervised._zygote is not None:
                    await supervised._zygote.end()

    @property
    def hello(self) -> Hello:
        """How interpreters are isolated."""
        assert self._hello is not None
        return self._hello

    async def start_interpreter(self, seed: int) -> ForkedInterpreter:
        """Start a new interpreter, with several tries. Raises ToolError."""
        for wait_s in BACK_OFF_S:
            try:
                return await ForkedInterpreter.start(await self._running(), seed)
            except ToolLost as error:
                _LOG.info("sandbox.retried", reason=error.message)
                await asyncio.sleep(wait_s)
        return await ForkedInterpreter.start(await self._running(), seed)

    async def _running(self) -> Zygote:
        """Return the zygote; start another if it has ended. Raises ToolError."""
        async with self._restarting:
            assert self._zygote is not None
            if (error := self._zygote.end_error) is not None:
                if self._closed:
                    raise error
                if not self._limit.take():
                    raise ToolError(
                        f"the code sandbox {self._name!r} was started again {MOST_RESTARTS} times within"
                        f" {WITHIN_S:g} s, and its process ended each time ({error.message}); see whether this machine"
                        " has too little memory, or what else ends processes here",
                        code=CODE,
                    )
                _LOG.warning("sandbox.restarted", sandbox=self._name, reason=error.message)
                await self._zygote.end()
                await self._restart()
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
        if self.hello.refusal:
            raise ConfigError(
                f"the code sandbox {self._name!r} cannot isolate code here: {self.hello.refusal};"
                f" {suggest_other_sandbox()}",
                code="sandbox_unavailable",
            )

    async def _restart(self) -> None:
        """Start another zygote. Raises ToolError, also when it isolates code in another way than the first."""
        self._zygote = await Zygote.start(sealed=self._sealed, limits=self._limits)
        hello = await self._zygote.hello()
        if hello != self._hello:
            layers = ", ".join(hello.layers)
            raise self._zygote.abandon(
                f"the code sandbox {self._name!r} was started again and isolates code in another way than before"
                f" (layers: {layers}; {hello.refusal or 'all of them work'})"
            )
