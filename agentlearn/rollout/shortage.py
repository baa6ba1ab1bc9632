"""What a rollout does when this machine runs short of something that its tools need."""

import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agentlearn.errors import ToolLost

SHORTAGES = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.EIO, errno.EROFS)
)
"""No space or no quota on the disk, too many open files, no new process, no memory, a broken or read-only disk."""


@asynccontextmanager
async def shortage_is_lost() -> AsyncGenerator[None]:
    """Raise ToolLost where the block raises an OSError for such a shortage: it says nothing about the agent."""
    try:
        yield
    except OSError as error:
        if error.errno not in SHORTAGES:
            raise
        raise ToolLost(f"a tool could not work on this machine: {error}", code="tool_system") from error
