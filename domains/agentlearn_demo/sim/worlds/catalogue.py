"""The worlds: some to tune learning rules in, others to judge them in. Fixed before any rule was tuned.

Judge a rule in the sealed worlds once, when its tuning is over. To look at them earlier is to tune on them.
"""

from agentlearn.errors import ConfigError
from agentlearn_demo.sim.reflector_state import ReflectorParameters
from agentlearn_demo.sim.worlds.learning_world import LearningWorld

TUNING_SEEDS = tuple(range(10_100, 10_150))
"""Seeds of the worlds for tuning."""
SEALED_SEEDS = tuple(range(80_800, 80_850))
"""Seeds of the worlds for judging."""


def _usual(harmful: float, *, mistaken: float = 0.0, leaking: float = 0.03) -> ReflectorParameters:
    """The reflector that ships, with other shares, and blind to which way a lesson should point."""
    return ReflectorParameters(harmful=harmful, mistaken=mistaken, leaking=leaking, blind=True)


TUNING = (
    LearningWorld(
        name="tuning-clean",
        about="the default world, without inverted lessons",
        reflector=ReflectorParameters(harmful=0),
    ),
    LearningWorld(name="tuning-bad-30", about="30 % of the lessons are inverted", reflector=_usual(0.3), deaf=1),
    LearningWorld(name="tuning-bad-60", about="60 % of the lessons are inverted", reflector=_usual(0.6), deaf=1),
    LearningWorld(
        name="tuning-mixed",
        about="deaf and wordless habits, wrong blame, noisy verdicts",
        reflector=_usual(0.15, mistaken=0.2),
        deaf=2,
        wordless=1,
        verdict_noise=0.05,
    ),
    LearningWorld(
        name="tuning-dense",
        about="most attempts are right at first",
        reflector=_usual(0.1),
        deaf=1,
        base=-0.15,
    ),
    LearningWorld(
        name="tuning-partial",
        about="noisy partial credit",
        reflector=_usual(0.1),
        deaf=1,
        partial=True,
        reward_noise=0.05,
    ),
)
"""Worlds for tuning."""

SEALED = (
    LearningWorld(
        name="clean", about="no inverted lessons, one deaf habit", reflector=ReflectorParameters(harmful=0), deaf=1
    ),
    LearningWorld(
        name="bad-30",
        about="30 % of the lessons are inverted, two deaf habits",
        reflector=_usual(0.3),
        deaf=2,
    ),
    LearningWorld(
        name="bad-60",
        about="60 % of the lessons are inverted, two deaf habits",
        reflector=_usual(0.6),
        deaf=2,
    ),
    LearningWorld(
        name="bad-100",
        about="every lesson is inverted",
        reflector=ReflectorParameters(
            useless=0, over_specific=0, over_long=0, duplicate=0, harmful=1, leaking=0, malformed=0, blind=True
        ),
        deaf=1,
    ),
    LearningWorld(name="deaf", about="lessons act on five of eleven habits only", reflector=_usual(0.1), deaf=6),
    LearningWorld(
        name="wordless",
        about="the reflector has no words for four habits",
        reflector=_usual(0.1),
        deaf=1,
        wordless=4,
    ),
    LearningWorld(
        name="wrong-blame",
        about="40 % of what comparisons blame is blamed at random",
        reflector=_usual(0.1, mistaken=0.4),
        deaf=2,
    ),
    LearningWorld(
        name="narrow-empty",
        about="35 % of the lessons are narrow and 35 % are empty",
        reflector=ReflectorParameters(useless=0.35, over_specific=0.35, harmful=0.05, over_long=0.05, blind=True),
        deaf=1,
    ),
    LearningWorld(
        name="poisoned",
        about="a quarter of the proposals attack, 15 % leak answers, 10 % are inverted",
        reflector=_usual(0.1, leaking=0.15),
        deaf=1,
        poisoned=0.25,
    ),
    LearningWorld(
        name="drift",
        about="after 150 rollouts the lessons on three habits turn harmful",
        reflector=_usual(0.1),
        deaf=1,
        drifting=3,
        drift_after=150,
    ),
    LearningWorld(
        name="noisy-10",
        about="10 % of the verdicts are wrong",
        reflector=_usual(0.15),
        deaf=1,
        verdict_noise=0.1,
    ),
    LearningWorld(
        name="noisy-20",
        about="20 % of the verdicts are wrong",
        reflector=_usual(0.15),
        deaf=1,
        verdict_noise=0.2,
    ),
    LearningWorld(
        name="partial",
        about="partial credit with noise of 0.08",
        reflector=_usual(0.2),
        deaf=1,
        partial=True,
        reward_noise=0.08,
    ),
    LearningWorld(
        name="reasons",
        about="half of the wrong attempts come with a true reason; 30 % are blamed at random without one",
        reflector=_usual(0.15, mistaken=0.3),
        deaf=1,
        reasons=0.5,
    ),
    LearningWorld(
        name="sparse",
        about="few attempts are right at first",
        reflector=_usual(0.15),
        deaf=1,
        base=0.25,
    ),
    LearningWorld(
        name="dense",
        about="most attempts are right at first",
        reflector=_usual(0.15),
        deaf=1,
        base=-0.2,
    ),
    LearningWorld(
        name="many-unequal",
        about="240 tasks in families of very unequal size",
        reflector=_usual(0.2, mistaken=0.1),
        deaf=2,
        tasks=240,
        skew=1.2,
    ),
)
"""Worlds for judging."""


def world_named(name: str) -> LearningWorld:
    """Return the world of that name. Raises ConfigError for an unknown name."""
    for world in (*TUNING, *SEALED):
        if world.name == name:
            return world
    known = ", ".join(world.name for world in (*TUNING, *SEALED))
    raise ConfigError(f"there is no world {name!r} (known: {known})", code="unknown_world")
