"""No session has a descriptor, or a lock, in common with another."""

from collections.abc import Iterator

import pytest

from agentlearn.sandbox import CodeResult, Session
from tests.unit.sandbox.conftest import Box, started

MARK = """
import fcntl, os
for fd in (0, 1, 2, 3):
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_APPEND)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB) if fd != 3 else None
os.set_blocking(3, True)
held = os.open(os.devnull, os.O_RDWR)
"""
LOOK = """
import fcntl, os
flags = [fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK for fd in (0, 1, 2, 3)]
for fd in (0, 1, 2):
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(fd, fcntl.LOCK_UN)
flags, os.get_blocking(0), fcntl.fcntl(0, fcntl.F_GETFL) & os.O_APPEND
"""
UNMARKED = "([0, 0, 0, 0], True, 0)\n"


@pytest.fixture(scope="module")
def zygote() -> Iterator[Box]:
    yield from started("zygote")


def test_flags_and_locks_of_one_session_are_not_seen_by_another(box: Box) -> None:
    async def scenario() -> None:
        async with box.sandbox.open(1) as first, box.sandbox.open(2) as second:
            assert (await first.run(MARK)).error == ""
            assert await shown(second, LOOK) == UNMARKED
            async with box.sandbox.open(3) as third:
                assert await shown(third, LOOK) == UNMARKED
        async with box.sandbox.open(4) as later:
            assert await shown(later, LOOK) == UNMARKED

    box.runner.run(scenario())


async def shown(session: Session, cell: str) -> str:
    result: CodeResult = await session.run(cell)
    assert result.error == ""
    return result.stdout
