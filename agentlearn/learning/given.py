"""Objects that a program gives to a run, in place of the names in its settings."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.config.environment import default_store
from agentlearn.domain.base import Domain
from agentlearn.learning.task_sets import GivenTasks
from agentlearn.store import Store
from agentlearn.types.experience import Library
from agentlearn.types.groups import Groups

if TYPE_CHECKING:
    from pydantic_ai.models import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Objects that a program gives to a run. What is None is found by its name in the settings."""

    domain: Domain | None = None
    """What is learned."""
    tasks: GivenTasks = field(default_factory=GivenTasks)
    """Tasks to learn from, and held-out tasks."""
    groups: Groups | None = None
    """Groups of recorded rollouts to learn from, with `from_store`."""
    model: "Model | None" = None
    """Model that solves the tasks."""
    reflector: "Model | None" = None
    """Model that writes the lessons; None: the one of that name, which may be `model`."""
    store: Store | None = None
    """An open store. It stays open when the run ends."""
    start: Library | None = None
    """Library to start from."""


NOTHING_GIVEN = Given()


def directory_of(store: Store | Path | str | None) -> Path:
    """Return the directory of the store that a program gave; None: AGENTLEARN_STORE, else `.agentlearn`."""
    match store:
        case None:
            return default_store()
        case Store():
            return store.directory
        case _:
            return Path(store)
