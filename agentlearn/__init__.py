"""agentlearn: agents that get better from their own rollouts.

Two ways over one loop: lessons in a library that a frozen model reads (training-free GRPO), or a local model's weights.
Names are loaded when they are first used, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentlearn.capability import Experiences
    from agentlearn.config import LearnSettings
    from agentlearn.domain import Answer, Domain, RolloutContext, load_domain
    from agentlearn.errors import AgentlearnError
    from agentlearn.experience import Experience, Library, library_of
    from agentlearn.group import Group
    from agentlearn.learn.loop import run_learning, run_learning_sync
    from agentlearn.learn.report import LearnReport
    from agentlearn.library import Shelf
    from agentlearn.store import open_store, read_store
    from agentlearn.task import Task
    from agentlearn.trajectory import Trajectory, Verdict
    from agentlearn.treatment import Treatment

_HOMES = {
    "AgentlearnError": "agentlearn.errors",
    "Answer": "agentlearn.domain",
    "Domain": "agentlearn.domain",
    "Experience": "agentlearn.experience",
    "Experiences": "agentlearn.capability",
    "Group": "agentlearn.group",
    "LearnReport": "agentlearn.learn.report",
    "LearnSettings": "agentlearn.config",
    "Library": "agentlearn.experience",
    "RolloutContext": "agentlearn.domain",
    "Shelf": "agentlearn.library",
    "Task": "agentlearn.task",
    "Trajectory": "agentlearn.trajectory",
    "Treatment": "agentlearn.treatment",
    "Verdict": "agentlearn.trajectory",
    "library_of": "agentlearn.experience",
    "load_domain": "agentlearn.domain",
    "open_store": "agentlearn.store",
    "read_store": "agentlearn.store",
    "run_learning": "agentlearn.learn.loop",
    "run_learning_sync": "agentlearn.learn.loop",
}

__all__ = [
    "AgentlearnError",
    "Answer",
    "Domain",
    "Experience",
    "Experiences",
    "Group",
    "LearnReport",
    "LearnSettings",
    "Library",
    "RolloutContext",
    "Shelf",
    "Task",
    "Trajectory",
    "Treatment",
    "Verdict",
    "library_of",
    "load_domain",
    "open_store",
    "read_store",
    "run_learning",
    "run_learning_sync",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
