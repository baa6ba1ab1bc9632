"""What an onlooker of a comparison is told while its rollouts are made."""

from collections.abc import Mapping

from agentlearn.models.call_context import CallContext
from agentlearn.types.trajectory import Trajectory


class CompareCallbacks:
    """Does nothing with anything; override what you want to see."""

    def opened(self, call_context: CallContext, wanted: int, reused: Mapping[str, int]) -> None:
        """Everything is open. wanted: rollouts of each arm; reused: by arm, how many of them are stored already."""

    def rollout_done(self, arm: str, trajectory: Trajectory) -> None:
        """One rollout is stored."""
