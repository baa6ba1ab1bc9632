"""What makes one world differ from another, as plain numbers."""

from dataclasses import dataclass, field

from agentlearn_demo.sim.reflector_state import FLAWLESS, ReflectorParameters

LEARNING_ENDED = -1
"""A world's `drift_after` that stands for the end of learning and selection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningWorld:
    """One kind of world. With a seed it becomes a world of its own: `Law`."""

    name: str
    about: str
    """What is hard in it, in one sentence."""
    tasks: int = 60
    """Tasks to learn from."""
    validation: int = 40
    """Validation tasks."""
    skew: float = 0.0
    """How unequal families are: the share of the n-th largest is proportional to n ** -skew."""
    base: float = 0.0
    """Added to the probability of every habit without lessons."""
    deaf: int = 0
    """Habits on which no lesson acts. No lesson can raise the score of tasks that have only these."""
    wordless: int = 0
    """Habits for which the reflector has no words: it neither sees them in attempts nor writes about them."""
    reflector: ReflectorParameters = field(default=FLAWLESS)
    """How often the reflector errs, and whether its consolidation can tell which way a lesson should point."""
    poisoned: float = 0.0
    """Share of a comparison's proposals that are replaced by one that attacks the agent."""
    partial: bool = False
    """Whether a reward is the share of the habits that were avoided, and not 0 or 1."""
    reward_noise: float = 0.0
    """Standard deviation of the noise on partial rewards."""
    verdict_noise: float = 0.0
    """Share of verdicts that are turned round."""
    reasons: float = 0.0
    """Share of the verdicts on wrong attempts that name the habit that was to blame."""
    drifting: int = 0
    """Habits on which lessons turn harmful later."""
    drift_after: int = 0
    """Rollouts of a run after which that happens, or `LEARNING_ENDED`. What a run publishes is judged after it."""
