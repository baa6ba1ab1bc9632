"""What time it is: asked here for everything that is recorded, decided, or waited for."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

_told: ContextVar[Callable[[], datetime] | None] = ContextVar("clock", default=None)


def now() -> datetime:
    """The time of this machine, in UTC; in a `clock` block the time that it tells."""
    told = _told.get()
    return datetime.now(UTC) if told is None else told().astimezone(UTC)


@contextmanager
def clock(tells: Callable[[], datetime]) -> Generator[None]:
    """Let another clock tell the time in the block, and in the tasks that it begins: for simulations and tests.

    tells: returns a time with a time zone. Durations are still those of the machine.
    """
    before = _told.set(tells)
    try:
        yield
    finally:
        _told.reset(before)
