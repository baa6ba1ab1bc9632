"""Where the rollouts of a run are made: in this process, in several processes, or on the machines of a Ray cluster.

All of them give the same results: what a rollout does depends only on its run, its task and its place in the run.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from agentlearn.config import RolloutOptions, WorkerOptions
from agentlearn.domain.base import Domain
from agentlearn.errors import ConfigError
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.rollout.runner import Rollouts, open_rollouts


class _Executor(Protocol):
    """Opens the rollouts of a run."""

    def open(
        self, domain: Domain, endpoint: Endpoint, *, judge: Endpoint | None = None, user: Endpoint | None = None
    ) -> AbstractAsyncContextManager[Rollouts]:
        """Open rollouts of a domain on an endpoint. Raises as `open_rollouts` does.

        judge: endpoint of a verifier that asks a model; None: the same endpoint. user: endpoint that plays the users of
        tasks; None: the judge's.
        """
        ...


@dataclass(frozen=True, slots=True)
class _ThisProcess:
    options: RolloutOptions
    call_context: CallContext

    def open(
        self, domain: Domain, endpoint: Endpoint, *, judge: Endpoint | None = None, user: Endpoint | None = None
    ) -> AbstractAsyncContextManager[Rollouts]:
        return open_rollouts(domain, endpoint, self.options, call_context=self.call_context, judge=judge, user=user)


@asynccontextmanager
async def open_executor(
    options: WorkerOptions, domains: Sequence[Domain], call_context: CallContext, *, otel: bool = False
) -> AsyncGenerator[_Executor]:
    """Open what `--workers` and `--ray` name; without them, rollouts are made in this process.

    domains: all whose rollouts it will open. otel: whether workers export OpenTelemetry spans of their own.

    Raises ConfigError when the workers cannot be started: the extra `ray` is missing, the cluster cannot be reached, or
    it has no room for them.
    """
    if options.ray is None and not options.workers:
        yield _ThisProcess(options, call_context)
        return
    if not options.workers:
        raise ConfigError(f"--ray {options.ray} needs --workers N, the number of workers to start there")
    from agentlearn.rollout.workers import open_workers

    if options.ray is None:
        from agentlearn.rollout.processes import open_processes as open_cluster
    else:
        from agentlearn.rollout.ray_cluster import open_ray_cluster

        open_cluster = partial(open_ray_cluster, options.ray)
    async with open_workers(open_cluster(), options, domains, call_context, otel=otel) as workers:
        yield workers


def lost_workers_note(causes: Sequence[str]) -> tuple[str, ...]:
    """Return how many workers were lost, and why. causes: one text for each."""
    if not causes:
        return ()
    counted = Counter(causes)
    listed = "; ".join(f"{cause} ({count})" if count > 1 else cause for cause, count in counted.most_common())
    number = "one worker was" if len(causes) == 1 else f"{len(causes)} workers were"
    return (f"{number} lost, and what was begun there was made again by another: {listed}",)
