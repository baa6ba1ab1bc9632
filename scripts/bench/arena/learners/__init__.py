"""The learners of the arena. Each has one module that asks it with its own defaults, through the same proxy."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from scripts.bench.arena.proxy import Proxy

Run = Callable[[Proxy], str]
"""Learns through a proxy and returns the text that it would have a person use."""


@dataclass(frozen=True, slots=True)
class Learner:
    """One learner. `reading`: its loop as its paper and code describe it, written here."""

    name: str
    function: str
    """Module of this package and function."""
    package: str = ""
    """What has to be installed."""
    reading: bool = False

    @property
    def missing(self) -> bool:
        """Whether its package is not installed."""
        return bool(self.package) and not all(find_spec(one) for one in self.package.split())

    @property
    def run(self) -> Run:
        """Its adapter."""
        module, _, function = self.function.partition(".")
        found: Run = getattr(import_module(f"{__name__}.{module}"), function)
        return found

    @property
    def label(self) -> str:
        """Its name in the table."""
        return f"our reading of {self.name}" if self.reading else self.name


LEARNERS = (
    Learner("no learning", "given.nothing"),
    Learner("`learn`, lessons", "ours.lessons"),
    Learner("`learn --on SKILL.md`", "ours.document"),
    Learner("training-free GRPO, published settings", "ours.published"),
    Learner("GEPA", "gepa_optimize.gepa", "gepa"),
    Learner("DSPy MIPROv2", "dspy_optimisers.mipro", "dspy optuna"),
    Learner("DSPy BootstrapFewShot, random search", "dspy_optimisers.few_shot", "dspy"),
    Learner("SkillOpt", "skillopt.skillopt", reading=True),
    Learner("ACE", "ace.ace", reading=True),
    Learner("a person", "given.person"),
)
"""In the order in which they run: ours set the number of calls of the others."""
OURS = ("`learn`, lessons", "`learn --on SKILL.md`")
