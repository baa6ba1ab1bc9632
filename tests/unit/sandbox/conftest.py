"""One sandbox of each kind for all tests of a module, and a loop to talk to it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from agentlearn.sandbox import CodeResult, CodeSandbox, open_sandbox


@dataclass(frozen=True)
class Box:
    """A running sandbox and the loop it belongs to."""

    runner: asyncio.Runner
    sandbox: CodeSandbox

    def run(self, *cells: str, seed: int = 1, timeout_s: float | None = None) -> list[CodeResult]:
        """The results of cells run one after the other in a session of their own."""

        async def one_by_one() -> list[CodeResult]:
            async with self.sandbox.open(seed) as session:
                return [await session.run(cell, timeout_s=timeout_s) for cell in cells]

        return self.runner.run(one_by_one())

    def last(self, *cells: str, seed: int = 1, timeout_s: float | None = None) -> CodeResult:
        """The result of the last cell."""
        return self.run(*cells, seed=seed, timeout_s=timeout_s)[-1]


def started(name: str) -> Iterator[Box]:
    with asyncio.Runner() as runner:
        entered = open_sandbox(name)
        box = Box(runner, runner.run(entered.__aenter__()))
        yield box
        runner.run(entered.__aexit__(None, None, None))


@pytest.fixture(scope="module", params=["unsafe-local", "zygote"])
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """Each sandbox of forked processes in turn."""
    yield from started(request.param)
