"""Every error agentlearn raises on purpose.

    AgentlearnError
      ConfigError            the user can correct it: a bad file, option or number
        UnknownDomain        no installed domain has that name
        MissingExtra         a feature needs an optional dependency (also an ImportError)
        DataError            a task file or a row of it cannot be used
        LibraryError         a library file or name cannot be used
      StoreError             the trajectory store cannot be used
        StoreMissing         the directory holds no store
        StoreLocked          another process uses the store
        UnknownSchema        another version of agentlearn wrote the store
        StoreDamaged         acknowledged rows are missing or unreadable
      RolloutError           something that a rollout or a stage needs failed
        EndpointError        the model service is unreachable, refuses, or sends an invalid answer
        ToolError            a tool could not be run (a tool that ran and failed is a result, not an error)
          ToolLost           what a tool works with is gone; the rollout is repeated
        VerifierError        the verifier failed
        BudgetExceeded       the run reached a limit that its user set
        EndpointGone         the model service has stopped answering
        NeverAnswered        the model service has answered no call of the run
      SharingError           a shared library, vote or proof is not what it claims to be
      WeightsDiffer          a served model has other weights than the trained ones
      AllFailed              the first rollouts of a run all failed for one reason
      Interrupted            the user stopped the run
      ProcessLost            one of the processes that train together has ended

StopSignal is not one of them: it is the KeyboardInterrupt of Ctrl-C, SIGTERM and SIGHUP.

A class names what failed, so that a caller can react to it. Each error has a stable `code` (lower_snake) for programs
and one sentence for people: what happened, the value, the next step. Known secrets, and what looks like a key, are left
out of the sentence.
"""

import errno
import os
from typing import ClassVar

from agentlearn.text.secret_values import without_keys


class AgentlearnError(Exception):
    """Base of all errors. `exit_status` is the status of a command that the error ends."""

    code: str = "error"
    exit_status: ClassVar[int] = 1
    resumable: ClassVar[bool] = False
    """Whether the run is intact and can be continued with `--resume`."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        message = without_keys(message)
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message,), {"code": self.code})


FILES_NEEDED = 1024
"""Files that a process of ours may have to open: each module of the standard library is one."""


def words_of_failed_start(error: OSError) -> str:
    """Return why a process could not be started and what to do about it, as the end of a sentence."""
    if error.errno not in errno.errorcode:  # uvloop reports -1 where it ran out of open files
        try:
            for end in os.pipe():
                os.close(end)
        except OSError as refusal:  # why the machine opens no pipe now
            error = refusal
    match error.errno:
        case errno.EMFILE:
            return f"{error}; raise the limit on open files (ulimit -n) to {FILES_NEEDED:,} or more"
        case errno.EAGAIN:
            return f"{error}; raise the limit on processes (ulimit -u) or close other programs"
        case _:
            return str(error)


def only_stops(error: BaseException | None) -> bool:
    """Whether a run that ended with this error can be resumed: its user, its budget or its endpoint stopped it."""
    import asyncio  # imported here to keep `--help` fast

    by_user = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
    return by_user or (isinstance(error, AgentlearnError) and error.resumable)


def may_go_on(error: BaseException | None) -> bool:
    """Whether a run that ended with this error can go on with `--resume`, perhaps after something was put right.

    So it is for every stop, where the disk, the store or another part of the machine failed, and after an error in a
    program, which may be corrected.
    """
    if error is None or not isinstance(error, AgentlearnError):
        return error is not None
    return error.resumable or isinstance(error, StoreError | ToolLost) or isinstance(error.__cause__, OSError)


def root_cause(error: BaseException) -> BaseException:
    """The error that matters in nested exception groups: the first AgentlearnError, else the first error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [root_cause(one) for one in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, AgentlearnError)), leaves[0])


class ConfigError(AgentlearnError):
    """Raised when the user asks for something impossible and can correct it."""

    code = "bad_config"
    exit_status = 2


class UnknownDomain(ConfigError):
    """Raised when no installed package provides a domain of that name."""

    code = "unknown_domain"


class MissingExtra(ConfigError, ImportError):
    """Raised when a feature is chosen whose optional dependency is not installed."""

    code = "missing_extra"


class DataError(ConfigError):
    """Raised when a task file or one of its rows cannot be used; the message names the file and the line."""

    code = "bad_data"


class LibraryError(ConfigError):
    """Raised when a library name or file cannot be used."""

    code = "bad_library"


class StoreError(AgentlearnError):
    """Raised when the trajectory store cannot be opened, read or written."""

    code = "store"


class StoreMissing(StoreError):
    """Raised when a directory to read from holds no store."""

    code = "no_store"
    exit_status = 2


class StoreLocked(StoreError):
    """Raised when another process uses the store; the message names its process id."""

    code = "store_locked"
    exit_status = 2


class UnknownSchema(StoreError):
    """Raised when another version of agentlearn wrote the store, in a form that this one does not read."""

    code = "unknown_schema"
    exit_status = 2


class StoreDamaged(StoreError):
    """Raised when acknowledged rows are missing or cannot be read."""

    code = "store_damaged"


class RolloutError(AgentlearnError):
    """Raised when something that a rollout or a stage needs fails; it is stored as a failure of the rollout."""

    code = "rollout"


class EndpointError(RolloutError):
    """Raised when the model service is unreachable, refuses, or sends an invalid answer."""

    code = "endpoint"
    refused: tuple[str, ...] = ()
    """Settings and parts of the request that the service refuses, where its answer names them."""


class ToolError(RolloutError):
    """Raised when a tool cannot be run."""

    code = "tool"


class ToolLost(ToolError):
    """Raised when what a tool works with is gone through no fault of the rollout; the rollout is repeated."""

    code = "tool_lost"


class VerifierError(RolloutError):
    """Raised when a verifier fails."""

    code = "verifier"


class BudgetExceeded(RolloutError):
    """Raised when the run reached a limit that its user set; the run can be resumed."""

    code = "budget"
    exit_status = 3
    resumable = True


class EndpointGone(RolloutError):
    """Raised when a model service has stopped answering; the run can be resumed."""

    code = "endpoint_gone"
    resumable = True


class NeverAnswered(RolloutError):
    """Raised when a model service has answered no call, so that there is no run to resume."""

    code = "never_answered"


class SharingError(AgentlearnError):
    """Raised when a shared library, signature, vote, proof or anchor is not what it claims to be."""

    code = "not_verified"


class WeightsDiffer(AgentlearnError):
    """Raised when log-probabilities show that a served model has other weights than the trained ones."""

    code = "weights_differ"


class AllFailed(AgentlearnError):
    """Raised when the first rollouts of a run are all undecided for one reason; the run can be resumed."""

    code = "all_failed"
    resumable = True


class Interrupted(AgentlearnError):
    """Raised when the user stopped the run; it can be resumed."""

    code = "interrupted"
    exit_status = 130
    resumable = True


class ProcessLost(AgentlearnError):
    """Raised when one of the processes that train together has ended; the run can be resumed."""

    code = "process_lost"
    exit_status = 3
    resumable = True


class StopSignal(KeyboardInterrupt):
    """Raised in the main thread when the process gets Ctrl-C, SIGTERM or SIGHUP."""

    def __init__(self, number: int = 2) -> None:
        super().__init__(number)
        self.number = number
        """Number of the signal."""
