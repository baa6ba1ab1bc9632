"""Checks whether a site that this run serves itself still answers, when a walk could not reach it."""

import asyncio
from collections.abc import Iterable, Mapping

from agentlearn.errors import ToolLost
from agentlearn_web.boundary.access_policy import HostPort, RefusedConnection

_CONNECT_S = 5.0


class SiteLost(ToolLost):
    """Raised when a site that this run serves no longer answers. The walk itself did nothing wrong."""

    code = "site_lost"


async def require_sites(refusals: Iterable[RefusedConnection], served: Mapping[str, HostPort]) -> None:
    """Raise SiteLost if one of the served sites was unreachable and still accepts no connection."""
    for host in {one.host for one in refusals if one.code == "unreachable"} & served.keys():
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, writer = await asyncio.open_connection(*served[host])
        except (OSError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            raise SiteLost(f"the site {host!r}, which this run serves, no longer answers: {why}") from error
        writer.close()
