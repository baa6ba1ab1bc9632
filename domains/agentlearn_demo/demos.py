"""The demos of the domains: their generated tasks, and the sites that those are about."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

from agentlearn.types.task import Split, Task


class _MathDemo:
    """Implements `agentlearn.domain.demo.Demo`."""

    def tasks(self, split: Split, *, seed: int, limit: int | None) -> tuple[Task, ...]:
        """Return generated problems."""
        from agentlearn_demo.math.tasks import math_tasks

        return math_tasks(split, seed, limit)

    def serve_sites(self) -> AbstractAsyncContextManager[Mapping[str, tuple[str, int]]]:
        """Serve nothing."""
        return nullcontext({})


class _WebDemo:
    """Implements `agentlearn.domain.demo.Demo`."""

    def tasks(self, split: Split, *, seed: int, limit: int | None) -> tuple[Task, ...]:
        """Return questions about generated sites."""
        from agentlearn_demo.web.tasks import walk_tasks

        return walk_tasks(split, seed, limit)

    def serve_sites(self) -> AbstractAsyncContextManager[Mapping[str, tuple[str, int]]]:
        """Serve every site."""
        from agentlearn_demo.web.site import serve_sites
        from agentlearn_demo.web.tasks import all_sites

        return serve_sites(all_sites())


math = _MathDemo()
web = _WebDemo()
