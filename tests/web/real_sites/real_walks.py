"""Walks over the real sites in one browser, for the tests of a module."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from typing import TypeVar

from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.browser.pool import BrowserOptions, Browsers, open_browsers
from agentlearn_web.browser.walk import Walk
from tests.web.real_sites.file_server import serve_real_sites

WALKERS = 16
"""The default of a machine with two cores."""
Result = TypeVar("Result")


class RealWalks:
    """A browser with the default settings, and the served sites."""

    def __init__(self, runner: asyncio.Runner, browsers: Browsers, policy: AccessPolicy) -> None:
        self._runner = runner
        self._browsers = browsers
        self._policy = policy

    def run(self, steps: Callable[[Walk], Awaitable[Result]]) -> Result:
        """Do the steps in a fresh walk."""
        return self.run_at_once([steps])[0]

    def run_at_once(self, all_steps: list[Callable[[Walk], Awaitable[Result]]]) -> list[Result]:
        """Do each of these in a fresh walk, at most `WALKERS` at once. Returns their results in order."""

        async def one(steps: Callable[[Walk], Awaitable[Result]]) -> Result:
            async with self._browsers.walk(self._policy) as walk:
                return await steps(walk)

        async def together() -> list[Result]:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(one(steps)) for steps in all_steps]
            return [task.result() for task in running]

        return self._runner.run(together())


@contextmanager
def real_walks() -> Generator[RealWalks]:
    """Serve the sites and start the browser while the block runs."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        policy = runner.run(stack.enter_async_context(serve_real_sites()))
        try:
            browsers = runner.run(stack.enter_async_context(open_browsers(BrowserOptions(walkers=WALKERS))))
            yield RealWalks(runner, browsers, policy)
        finally:
            runner.run(stack.aclose())
