"""Worlds in which selection is hard: most attempts are right at first, or most lessons do harm or come to do harm."""

from agentlearn_demo.sim.reflector_state import ReflectorParameters
from agentlearn_demo.sim.worlds import LEARNING_ENDED, LearningWorld, world_named


def _usual(harmful: float, *, mistaken: float = 0.0) -> ReflectorParameters:
    """The reflector that ships, with other shares, and blind to which way a lesson should point."""
    return ReflectorParameters(harmful=harmful, mistaken=mistaken, leaking=0.03, blind=True)


HARD_SEEDS = tuple(range(90_900, 90_930))
"""Seeds of the hard worlds."""
HARD = (
    LearningWorld(name="bad-80", about="80 % of the lessons are inverted", reflector=_usual(0.8), deaf=2),
    LearningWorld(name="bad-90", about="90 % of the lessons are inverted", reflector=_usual(0.9), deaf=2),
    LearningWorld(name="dense-30", about="dense, and 30 % are inverted", reflector=_usual(0.3), deaf=1, base=-0.2),
    LearningWorld(name="dense-60", about="dense, and 60 % are inverted", reflector=_usual(0.6), deaf=1, base=-0.2),
    LearningWorld(name="dense-90", about="dense, and 90 % are inverted", reflector=_usual(0.9), deaf=1, base=-0.2),
    LearningWorld(name="very-dense", about="hardly an attempt is wrong", reflector=_usual(0.5), deaf=1, base=-0.3),
    LearningWorld(
        name="dense-noisy",
        about="dense, half of the lessons are inverted, 10 % of the verdicts are wrong",
        reflector=_usual(0.5),
        deaf=1,
        base=-0.2,
        verdict_noise=0.1,
    ),
    LearningWorld(
        name="dense-blame",
        about="dense, 60 % of what is blamed is blamed at random, 30 % of the lessons are inverted",
        reflector=_usual(0.3, mistaken=0.6),
        deaf=2,
        base=-0.2,
    ),
    LearningWorld(
        name="dense-partial",
        about="dense partial credit with noise of 0.08, half of the lessons are inverted",
        reflector=_usual(0.5),
        deaf=1,
        base=-0.2,
        partial=True,
        reward_noise=0.08,
    ),
)
"""Worlds in which most attempts are right at first ("dense"), or most lessons are inverted."""
TURNING = (
    LearningWorld(
        name="turns-before-test",
        about="lessons on three habits turn harmful between learning and the held-out test",
        reflector=_usual(0.1),
        deaf=1,
        drifting=3,
        drift_after=LEARNING_ENDED,
    ),
    LearningWorld(
        name="turns-after-run",
        about="lessons on three habits turn harmful when the run is over",
        reflector=_usual(0.1),
        deaf=1,
        drifting=3,
        drift_after=1_000_000,
    ),
)
"""Worlds in which lessons turn harmful after they were learned and selected."""


def named(name: str) -> LearningWorld:
    """Return the world of that name, one of these or of the catalogue. Raises ConfigError for an unknown name."""
    return next((world for world in (*HARD, *TURNING) if world.name == name), None) or world_named(name)
