"""Sandboxes that run code in forked processes: `zygote` (isolated by the kernel) and `unsafe-local` (not isolated)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from agentlearn.errors import ConfigError
from agentlearn.sandbox.forked import ForkedInterpreter
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.protocol import CodeSandbox, SandboxReport
from agentlearn.sandbox.refusal import suggest_other_sandbox
from agentlearn.sandbox.session import InterpreterSandbox
from agentlearn.sandbox.zygote import Zygote


@asynccontextmanager
async def zygote(
    limits: SandboxLimits | None = None, *, keep_state_on_timeout: bool = False
) -> AsyncGenerator[CodeSandbox]:
    """Open the sandbox `zygote`: processes isolated by Landlock, seccomp, resource limits and, if allowed, namespaces.

    keep_state_on_timeout: after a call that ended its interpreter, repeat the earlier calls to restore their variables;
    this takes their time again. Raises ConfigError with the code `sandbox_unavailable` when the machine lacks Landlock
    or seccomp, or an attack of the self-test succeeds.
    """
    async with _forked("zygote", limits or SandboxLimits(), sealed=True, keep_state=keep_state_on_timeout) as sandbox:
        yield sandbox


@asynccontextmanager
async def unsafe_local(
    limits: SandboxLimits | None = None, *, keep_state_on_timeout: bool = False
) -> AsyncGenerator[CodeSandbox]:
    """Open the sandbox without isolation, only resource limits: the code can read your files and use your network."""
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
                f"the code sandbox {name!r} cannot isolate code here: {hello.refusal}; {suggest_other_sandbox()}",
                code="sandbox_unavailable",
            )
        report = SandboxReport(name=name, layers=hello.layers, missing=hello.missing, isolated=sealed)
        start_interpreter = partial(ForkedInterpreter.start, running)
        yield InterpreterSandbox(start_interpreter, report, limits, keep_state=keep_state)
