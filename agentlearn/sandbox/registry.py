"""Which sandboxes there are, by name."""

from contextlib import AbstractAsyncContextManager

from agentlearn.errors import ConfigError
from agentlearn.sandbox.inside.config import Limits
from agentlearn.sandbox.protocol import CodeSandbox

_NAMES = ("zygote", "unsafe-local")


def sandbox_names() -> tuple[str, ...]:
    """Names that `open_sandbox` knows."""
    return _NAMES


def open_sandbox(
    name: str, *, limits: Limits | None = None, keep_state_on_timeout: bool = False
) -> AbstractAsyncContextManager[CodeSandbox]:
    """The sandbox of that name, started on entering. Raises ConfigError for an unknown name, and on entering where the
    sandbox cannot hold (code `sandbox_unavailable`).

    limits: of each session; None takes the usual ones. keep_state_on_timeout: a session whose interpreter was lost
    gets its variables back, by repeating the calls that ran to their end.
    """
    from agentlearn.sandbox import backends

    match name:
        case "zygote":
            return backends.zygote(limits, keep_state_on_timeout=keep_state_on_timeout)
        case "unsafe-local":
            return backends.unsafe_local(limits, keep_state_on_timeout=keep_state_on_timeout)
        case _:
            known = ", ".join(repr(one) for one in _NAMES)
            raise ConfigError(f"there is no sandbox {name!r} (known: {known})", code="unknown_sandbox")
