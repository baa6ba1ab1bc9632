"""Simulated worlds that can judge learning rules: harder than the default world, and each knows its oracle.

A world says how the solver reacts to lessons, how the reflector errs, and how verdicts err. It has no tasks of its own:
a domain gives the families of problems and their habits. Code that learns never imports it.
"""

from agentlearn_demo.sim.worlds.catalogue import SEALED, SEALED_SEEDS, TUNING, TUNING_SEEDS, world_named
from agentlearn_demo.sim.worlds.law import ATTACK_SUCCEEDS, ATTACKS, Law, Oracle
from agentlearn_demo.sim.worlds.learning_world import LEARNING_ENDED, LearningWorld

__all__ = [
    "ATTACKS",
    "ATTACK_SUCCEEDS",
    "LEARNING_ENDED",
    "SEALED",
    "SEALED_SEEDS",
    "TUNING",
    "TUNING_SEEDS",
    "Law",
    "LearningWorld",
    "Oracle",
    "world_named",
]
