"""The demos of the domains: their generated tasks, and the sites that those are about."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from agentlearn.types.task import Split, Task


class MathDemo:
    """Implements `agentlearn.domain.demo.Demo`."""

    def tasks(self, split: Split, *, seed: int, limit: int | None) -> tuple[Task, ...]:
        """Return generated problems."""
        from agentlearn_demo.math.tasks import generated

        return generated(split, seed, limit)

    @asynccontextmanager
    async def serve_sites(self) -> AsyncGenerator[Mapping[str, tuple[str, int]]]:
        """Serve nothing."""
        yield {}


class WebDemo:
    """Implements `agentlearn.domain.demo.Demo`."""

    def tasks(self, split: Split, *, seed: int, limit: int | None) -> tuple[Task, ...]:
        """Return questions about generated sites."""
        from agentlearn_demo.web.tasks import generate_walk_tasks

        return generate_walk_tasks(split, seed, limit)

    @asynccontextmanager
    async def serve_sites(self) -> AsyncGenerator[Mapping[str, tuple[str, int]]]:
        """Serve every site."""
        from agentlearn_demo.web.sites.site_server import serve_sites

        async with serve_sites() as served:
            yield served


math = MathDemo()
web = WebDemo()
