"""Every error agentlearn raises on purpose.

    AgentlearnError
      ConfigError            the user can mend it: a bad file, option, number
        UnknownDomain        no installed domain has that name
        MissingExtra         a feature needs an optional dependency (also an ImportError)
        DataError            a task file or a row in it cannot be used
        LibraryError         a library file or name cannot be used
      StoreError             the trajectory store cannot be used
        StoreMissing         there is none in that directory
        StoreLocked          another process holds it
        SchemaTooNew         a newer agentlearn wrote it
        StoreDamaged         acknowledged rows are missing or unreadable
      RolloutError           something a rollout or a stage stands on broke
        EndpointError        the model's service: unreachable, refusing, or answering nonsense
        ToolError            a tool could not be run at all (a tool that ran and failed is a result)
        VerifierError        the verifier could not decide
        BudgetExceeded       the run reached a limit that its user set
        EndpointGone         the model's service answers nobody any more
      WeightsDiffer          a served model answers with other weights than those that are trained
      Interrupted            the user stopped the run

A class names the boundary that broke, because that is what a caller can act on. Each instance carries a stable
`code` (lower_snake) for programs and one sentence for people: what happened, the value, the next step.
"""

from typing import ClassVar


class AgentlearnError(Exception):
    """Root of the tree. `exit_status` is what the command line returns when it ends a command."""

    code: str = "error"
    exit_status: ClassVar[int] = 1
    resumable: ClassVar[bool] = False
    """Whether it only stops a run, with which nothing is wrong: `agentlearn learn --resume` goes on."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.code))


def only_stops(error: BaseException | None) -> bool:
    """Whether a run that ends with this can be resumed as it is: its user, its budget or its endpoint stopped it."""
    import asyncio  # here, so that `--help` does not pay for it

    by_user = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
    return by_user or (isinstance(error, AgentlearnError) and error.resumable)


def _rebuild(kind: type[AgentlearnError], message: str, code: str) -> AgentlearnError:
    return kind(message, code=code)


class ConfigError(AgentlearnError):
    """Raised when what the user asked for cannot be done as asked, and the user can mend it."""

    code = "bad_config"
    exit_status = 2


class UnknownDomain(ConfigError):
    """Raised when no installed package announces a domain of that name."""

    code = "unknown_domain"


class MissingExtra(ConfigError, ImportError):
    """Raised where a feature is chosen whose optional dependency is not installed."""

    code = "missing_extra"


class DataError(ConfigError):
    """Raised when a task file or one of its rows cannot be used; names the file and the line."""

    code = "bad_data"


class LibraryError(ConfigError):
    """Raised when a library name or file cannot be used."""

    code = "bad_library"


class StoreError(AgentlearnError):
    """Raised when the trajectory store cannot be opened, read or written."""

    code = "store"


class StoreMissing(StoreError):
    """Raised when a store is to be read where there is none."""

    code = "no_store"
    exit_status = 2


class StoreLocked(StoreError):
    """Raised when another process holds the store; names its pid."""

    code = "store_locked"
    exit_status = 2


class SchemaTooNew(StoreError):
    """Raised when a newer agentlearn wrote the store."""

    code = "schema_too_new"
    exit_status = 2


class StoreDamaged(StoreError):
    """Raised when rows that were acknowledged are missing or cannot be read."""

    code = "store_damaged"


class RolloutError(AgentlearnError):
    """Raised when something a rollout or a stage stands on breaks; becomes a stored failure, not a crash."""

    code = "rollout"


class EndpointError(RolloutError):
    """Raised when the model's service is unreachable, refuses, or answers what is no answer."""

    code = "endpoint"


class ToolError(RolloutError):
    """Raised when a tool cannot be run at all."""

    code = "tool"


class ToolLost(ToolError):
    """What a rollout's tools worked with is gone, through nothing that the rollout did: it begins anew."""

    code = "tool_lost"


class VerifierError(RolloutError):
    """Raised when a verifier breaks."""

    code = "verifier"


class BudgetExceeded(RolloutError):
    """Raised when the run reached a limit that its user set; the run can be resumed."""

    code = "budget"
    exit_status = 3
    resumable = True


class EndpointGone(RolloutError):
    """Raised when a model's service answers no call any more; the run can be resumed."""

    code = "endpoint_gone"
    resumable = True


class WeightsDiffer(AgentlearnError):
    """Raised when a served model's log-probabilities show other weights than the trained ones; training stops."""

    code = "weights_differ"


class Interrupted(AgentlearnError):
    """Raised when the user stopped the run; it can be resumed."""

    code = "interrupted"
    exit_status = 130
    resumable = True
