"""Stops library code that evaluates a model's text as Python, at the moment it does so. A filter, not isolation."""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache


class EvaluationRefused(BaseException):
    """Raised where a text was to be evaluated as Python. Scorers catch Exception, so it is none."""


@dataclass(frozen=True, slots=True, eq=False)
class _Guard:
    """Stops code that a scorer starts: in its own thread, and in threads that are newer than the guard."""

    own: int = field(default_factory=threading.get_ident)
    others: frozenset[int | None] = field(default_factory=lambda: frozenset(one.ident for one in threading.enumerate()))
    refused: list[str] = field(default_factory=list[str])

    def concerns(self, thread: int) -> bool:
        return thread == self.own or thread not in self.others


_guards: set[_Guard] = set()


@contextmanager
def nothing_evaluated() -> Generator[None]:
    """Let the block evaluate no text as Python. Raises EvaluationRefused, also when the block caught the first one."""
    _install_hook()
    guard = _Guard()
    _guards.add(guard)
    try:
        yield
    finally:
        _guards.remove(guard)
    if guard.refused:
        raise EvaluationRefused(guard.refused[0])


@cache
def _install_hook() -> None:
    """Python offers no way to remove such a hook; it does nothing without a guard."""
    sys.addaudithook(_refuse_evaluation)


def _refuse_evaluation(event: str, arguments: tuple[object, ...]) -> None:
    if not _guards or event not in _STARTS_CODE:
        return
    if event == "exec" and not getattr(arguments[0], "co_filename", "<").startswith("<"):
        return  # a module that is imported: its code names a file, that of an evaluated text does not
    here = threading.get_ident()
    for guard in tuple(_guards):
        if guard.concerns(here):
            guard.refused.append(event)
            raise EvaluationRefused(event)


_STARTS_CODE = frozenset(
    {"exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec", "subprocess.Popen"}
)
"""Audit events of Python: code that runs here, or in a process, where this cannot watch it."""
