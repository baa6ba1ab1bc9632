"""What the three stages share: whom they ask, under which run and seed, and how the library is shown to them."""

from dataclasses import dataclass

from agentlearn.library.render import Rendered, render
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.journal import Stage
from agentlearn.models.work_unit import WorkUnit
from agentlearn.types.experience import Library
from agentlearn.types.ids import derive_seed


@dataclass(frozen=True, slots=True)
class StageContext:
    """The reflecting model as one batch of one run uses it."""

    call_context: CallContext
    endpoint: Endpoint
    seed: int
    step: str
    """Where in the run, as `epoch-1/2`; part of every unit's name and seed."""
    library: Library
    shown: Rendered
    show_gold: bool = True
    """Whether stages may see the expected answer; False when learning without labels."""
    max_proposals: int = 3
    """Proposals that one group may make."""
    threshold: float = 1.0
    """A reward of at least this is right."""
    temperature: float | None = None

    def unit(self, stage: Stage, name: str) -> WorkUnit:
        """A unit of work whose seed depends on (run seed, stage, step, name) alone, never on the run's own id."""
        key = f"{self.step}/{name}"
        return WorkUnit(self.call_context, stage, key, derive_seed(self.seed, stage, key))


def shown(library: Library) -> Rendered:
    """The library as every agent and every stage sees it."""
    return render(library)


def verdict_words(reward: float | None, threshold: float) -> tuple[str, str]:
    """("right" | "wrong", "0.00") for a reward."""
    return ("right" if reward is not None and reward >= threshold else "wrong", f"{reward or 0.0:.2f}")
