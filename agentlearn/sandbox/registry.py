"""The sandboxes by name."""

import pkgutil
from contextlib import AbstractAsyncContextManager
from typing import Protocol, cast

from agentlearn.errors import ConfigError
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.protocol import CodeSandbox

_OPENERS = {
    "zygote": "agentlearn.sandbox.backends:zygote",
    "monty": "agentlearn.sandbox.monty:monty",
    "unsafe-local": "agentlearn.sandbox.backends:unsafe_local",
}
"""The function that opens each sandbox; imported on first use."""


class _Opener(Protocol):
    def __call__(
        self, limits: SandboxLimits | None = None, *, keep_state_on_timeout: bool = False
    ) -> AbstractAsyncContextManager[CodeSandbox]: ...


def sandbox_names() -> tuple[str, ...]:
    """The names that `open_sandbox` accepts."""
    return tuple(_OPENERS)


def open_sandbox(
    name: str, *, limits: SandboxLimits | None = None, keep_state_on_timeout: bool = False
) -> AbstractAsyncContextManager[CodeSandbox]:
    """The sandbox of that name as a context manager: entering starts it, leaving kills every session.

    limits: limits of each session; None takes the defaults. keep_state_on_timeout: restore the variables of a session
    whose interpreter was lost by repeating its finished calls. Raises ConfigError for an unknown name, and on entering
    when the sandbox does not work here (code `sandbox_unavailable`) or is not installed (code `missing_extra`).
    """
    if name not in _OPENERS:
        known = ", ".join(repr(one) for one in _OPENERS)
        raise ConfigError(f"there is no sandbox {name!r} (known: {known})", code="unknown_sandbox")
    opener = cast("_Opener", pkgutil.resolve_name(_OPENERS[name]))
    return opener(limits, keep_state_on_timeout=keep_state_on_timeout)
