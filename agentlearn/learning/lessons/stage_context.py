"""Values that the three stages share: the model, the run, the seed, the library and the limits."""

from dataclasses import dataclass, field

from agentlearn.config.options import LessonOptions
from agentlearn.learning.lessons.shown_reason import shown_reason
from agentlearn.learning.lessons.stage_prompts import STAGE_PROMPTS, StagePrompts
from agentlearn.library.render import Rendered
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.journal import Stage
from agentlearn.models.work_unit import WorkUnit
from agentlearn.types.experience import Library
from agentlearn.types.ids import derive_seed
from agentlearn.types.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class StageContext:
    """The model that writes the lessons, and one batch of one run."""

    call_context: CallContext
    endpoint: Endpoint
    """Model that writes the lessons."""
    seed: int
    """Seed of the run."""
    step: str
    """Position in the run, such as `epoch-1/2`; part of every work unit's name and seed."""
    library: Library
    shown: Rendered
    """The library as the stages read it."""
    options: LessonOptions = field(default_factory=LessonOptions)
    """Limits on proposals and on the library."""
    show_gold: bool = True
    """Whether stages see the expected answer; False when learning without labels."""
    show_reasons: bool = True
    """Whether stages see the reasons of verdicts; False without labels, and where they explain nothing."""
    threshold: float = 1.0
    """Reward from which an answer counts as right."""
    margin: float = 0.0
    """Rewards of a group that differ by no more than this count as equal."""
    prompts: StagePrompts = STAGE_PROMPTS

    def unit(self, stage: Stage, name: str) -> WorkUnit:
        """A work unit whose seed depends only on (run seed, stage, step, name), not on the run's id."""
        key = f"{self.step}/{name}"
        return WorkUnit(self.call_context, stage, key, derive_seed(self.seed, stage, key))

    def reason_of(self, trajectory: Trajectory) -> str:
        """The reason of its verdict as the stages see it; empty when there is none, or when they see none."""
        return shown_reason(trajectory) if self.show_reasons else ""


def verdict_words(reward: float | None, threshold: float) -> tuple[str, str]:
    """A reward as text: ("right" | "wrong", "0.00")."""
    return ("right" if reward is not None and reward >= threshold else "wrong", f"{reward or 0.0:.2f}")
