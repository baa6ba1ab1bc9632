"""What tests start more cheaply than users: the simulated world in this process, and sandboxes that import little."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import agentlearn_demo.endpoints
from agentlearn.sandbox import zygote
from agentlearn.serving.child_process import ChildService, running_child
from agentlearn_demo.sim.server import World
from agentlearn_demo.sim.skills import installed_skills

PRELOADED, _WARM_UP = zygote.PRELOADED, zygote.WARM_UP


@asynccontextmanager
async def served_here(child: ChildService) -> AsyncGenerator[Any]:
    """Serve a simulated world in this event loop, and anything else in a child process."""
    match child.arguments:
        case ("sim", "--seed", seed):
            async with World(installed_skills(), seed=int(seed)).serve() as url:
                yield SimpleNamespace(base_url=url, pid=os.getpid())
        case _:
            async with running_child(child) as running:
                yield running


def serve_worlds_here(here: bool) -> None:
    """Choose where `sim:` models of runs in this process are served."""
    agentlearn_demo.endpoints.running_child = served_here if here else running_child  # type: ignore[assignment]


def sandboxes_preload(everything: bool) -> None:
    """Choose whether sandboxes import and use sympy and numpy before the first session, which takes most of a second.

    Without it, a session imports what its code names.
    """
    zygote.PRELOADED, zygote.WARM_UP = (PRELOADED, _WARM_UP) if everything else ((), ())
