"""The sandboxes that stand on forked processes: behind walls (`zygote`), and without (`unsafe-local`)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from agentlearn.errors import ConfigError
from agentlearn.sandbox.forked import ForkedInterpreter
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.protocol import CodeSandbox, SandboxReport
from agentlearn.sandbox.refusal import ways_out
from agentlearn.sandbox.session import InterpreterSandbox
from agentlearn.sandbox.zygote import Zygote


@asynccontextmanager
async def zygote(
    limits: SandboxLimits | None = None, *, keep_state_on_timeout: bool = False
) -> AsyncGenerator[CodeSandbox]:
    """Forked processes behind every wall that the kernel has; refuses where one that must be there is missing.

    Needs Landlock and seccomp; takes namespaces where they are allowed. keep_state_on_timeout: after a call that ended
    its interpreter, repeat the earlier calls, so that their variables are there again; costs their time once more.
    Raises ConfigError with the code `sandbox_unavailable` where it cannot hold.
    """
    async with _forked("zygote", limits or SandboxLimits(), sealed=True, keep_state=keep_state_on_timeout) as sandbox:
        yield sandbox


@asynccontextmanager
async def unsafe_local(
    limits: SandboxLimits | None = None, *, keep_state_on_timeout: bool = False
) -> AsyncGenerator[CodeSandbox]:
    """Processes with resource limits and nothing more: the code can read your files and reach your network."""
    async with _forked(
        "unsafe-local", limits or SandboxLimits(), sealed=False, keep_state=keep_state_on_timeout
    ) as sandbox:
        yield sandbox


@asynccontextmanager
async def _forked(name: str, limits: SandboxLimits, *, sealed: bool, keep_state: bool) -> AsyncGenerator[CodeSandbox]:
    async with Zygote.running(sealed=sealed, limits=limits) as running:
        hello = await running.hello()
        if hello.refusal:
            raise ConfigError(
                f"the code sandbox {name!r} cannot hold here: {hello.refusal}; {ways_out()}",
                code="sandbox_unavailable",
            )
        report = SandboxReport(name=name, layers=hello.layers, missing=hello.missing, isolated=sealed)
        begin = partial(ForkedInterpreter.start, running)
        yield InterpreterSandbox(begin, report, limits, keep_state=keep_state)
