"""Sandboxes that run code in forked processes: `zygote` (isolated by the kernel) and `unsafe-local` (not isolated)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.protocol import CodeSandbox, SandboxReport
from agentlearn.sandbox.session import InterpreterSandbox
from agentlearn.sandbox.supervised_zygote import SupervisedZygote


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
    async with SupervisedZygote.running(name, sealed=sealed, limits=limits) as zygote:
        report = SandboxReport(name=name, layers=zygote.hello.layers, missing=zygote.hello.missing, isolated=sealed)
        yield InterpreterSandbox(zygote.start_interpreter, report, limits, keep_state=keep_state)
