"""What a program can observe while a comparison makes its rollouts."""

from collections.abc import Mapping

from agentlearn.models.call_context import CallContext
from agentlearn.types.trajectory import Trajectory


class CompareCallbacks:
    """Every method does nothing; override the ones you need. Methods must be quick: they run in the event loop."""

    def opened(self, call_context: CallContext, wanted: int, reused: Mapping[str, int]) -> None:
        """Called when all models are open. `call_context.stop` ends the comparison.

        wanted: rollouts per arm. reused: how many of them are already stored, by arm.
        """

    def service_changed(self, words: str, silent: bool) -> None:
        """Called when a model service has fallen silent and the run waits for it, and when it answers again."""

    def rollout_done(self, arm: str, trajectory: Trajectory) -> None:
        """Called after each new rollout has been stored."""
