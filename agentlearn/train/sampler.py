"""What a service of local weights also is: a sampler that is given the weights after each update."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Sampler(Protocol):
    """Draws rollouts with weights that are trained elsewhere in this process."""

    def weights_sha256(self) -> str:
        """Hash of the weights that it draws with."""
        ...

    def together(self, rollouts: int, *, at_once: int) -> AbstractContextManager[Callable[[], None]] | None:
        """Around the rollouts of one batch, where what is drawn depends on them alone, bit by bit; else None.

        What the context gives is to be called as each of them is over.
        """
        ...

    def held(self) -> AbstractAsyncContextManager[None]:
        """While the block runs, nothing is drawn: weights may change."""
        ...

    async def synchronise(self, model: Any) -> None:
        """Draw with the weights of this model from now on, and prove it. Raises EndpointError (`sync_failed`)."""
        ...
