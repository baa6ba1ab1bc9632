"""The interface of samplers: services of local weights that get new weights after each update."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from agentlearn.train.engine.round_barrier import RoundBarrier


@runtime_checkable
class Sampler(Protocol):
    """Samples rollouts with weights that are trained in this process."""

    def weights_sha256(self) -> str:
        """Hash of the weights that it samples with."""
        ...

    def rounds(self, rollouts: int, *, at_once: int) -> AbstractContextManager[RoundBarrier] | None:
        """Context for the rollouts of one batch in which results do not depend on timing, bit by bit.

        Each rollout must leave the context's barrier when it ends. None when the sampler cannot do this.
        """
        ...

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Context in which nothing is sampled, so that weights may change."""
        ...

    async def synchronise(self, model: Any) -> None:
        """Sample with the weights of this model from now on. Raises EndpointError when that cannot be verified."""
        ...
