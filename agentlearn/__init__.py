"""agentlearn: agents that get better from their own rollouts.

Two ways over one loop: lessons in a library that a frozen model reads (training-free GRPO), or a local model's weights.
Names are loaded when they are first used, so that importing this package costs next to nothing.
"""

TYPE_CHECKING = False  # as in `typing`, whose import would take most of the time
if TYPE_CHECKING:
    from agentlearn.config import LearnSettings
    from agentlearn.domain.base import Answer, Domain, RolloutContext, Work, Worked, load_domain
    from agentlearn.domain.custom.judge import Rubric
    from agentlearn.errors import AgentlearnError
    from agentlearn.learning.lessons.run_learning import learn, learn_sync, run_learning, run_learning_sync
    from agentlearn.learning.report import LearnReport
    from agentlearn.learning.solve import solve, solve_sync
    from agentlearn.library import LibraryStore
    from agentlearn.library.capability import Experiences
    from agentlearn.library.lessons import lessons
    from agentlearn.library.retrieval import Retrieval
    from agentlearn.library.shown import Shown, shown_in
    from agentlearn.live.recorder import Recorder
    from agentlearn.store import open_store, read_store
    from agentlearn.types.experience import Experience, Library, library_of
    from agentlearn.types.group import Group, Groups
    from agentlearn.types.task import Task, User
    from agentlearn.types.trajectory import Trajectory, Treatment, Verdict
    from agentlearn_evals.compare_objects import compare, compare_sync

    __version__: str

_NAMES = {
    "agentlearn.errors": ("AgentlearnError",),
    "agentlearn.domain.base": ("Answer", "Domain", "RolloutContext", "Work", "Worked", "load_domain"),
    "agentlearn.domain.custom.judge": ("Rubric",),
    "agentlearn.types.experience": ("Experience", "Library", "library_of"),
    "agentlearn.library.capability": ("Experiences",),
    "agentlearn.types.group": ("Group", "Groups"),
    "agentlearn.learning.report": ("LearnReport",),
    "agentlearn.config": ("LearnSettings",),
    "agentlearn.library": ("LibraryStore",),
    "agentlearn.live.recorder": ("Recorder",),
    "agentlearn.library.retrieval": ("Retrieval",),
    "agentlearn.library.shown": ("Shown", "shown_in"),
    "agentlearn.types.task": ("Task", "User"),
    "agentlearn.types.trajectory": ("Trajectory", "Treatment", "Verdict"),
    "agentlearn_evals.compare_objects": ("compare", "compare_sync"),
    "agentlearn.library.lessons": ("lessons",),
    "agentlearn.store": ("open_store", "read_store"),
    "agentlearn.learning.lessons.run_learning": ("learn", "learn_sync", "run_learning", "run_learning_sync"),
    "agentlearn.learning.solve": ("solve", "solve_sync"),
}
"""The public names, by the module that each is loaded from when it is first used."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "AgentlearnError",
    "Answer",
    "Domain",
    "Experience",
    "Experiences",
    "Group",
    "Groups",
    "LearnReport",
    "LearnSettings",
    "Library",
    "LibraryStore",
    "Recorder",
    "Retrieval",
    "RolloutContext",
    "Rubric",
    "Shown",
    "Task",
    "Trajectory",
    "Treatment",
    "User",
    "Verdict",
    "Work",
    "Worked",
    "compare",
    "compare_sync",
    "learn",
    "learn_sync",
    "lessons",
    "library_of",
    "load_domain",
    "open_store",
    "read_store",
    "run_learning",
    "run_learning_sync",
    "shown_in",
    "solve",
    "solve_sync",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from agentlearn.plugins import version

        return version()
    if name in _HOMES:
        from importlib import import_module  # imported here, so that Ctrl-C finds a handler early

        try:
            return getattr(import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            from agentlearn.plugins import missing_learn_of

            if (missing := missing_learn_of(f"agentlearn.{name}", error)) is None:
                raise
            raise missing from None  # where the import failed is of no use to a user
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
