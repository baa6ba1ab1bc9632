"""Learning from live traffic: the domain that stands for a recorder, and the tasks that can be held out."""

from collections.abc import Mapping

from agentlearn.config import LearnSettings
from agentlearn.domain.base import Domain, installed_domains
from agentlearn.domain.custom import custom_tasks
from agentlearn.errors import ConfigError
from agentlearn.learning.open_run import domain_of
from agentlearn.store import StoreReader
from agentlearn.types.ids import RolloutId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import DEMONSTRATION

_REWARD = "exact"
"""How answers to held-out tasks of a recorder are judged where `--reward` says nothing else."""
_HELD_OUT = 4
"""One in this many tasks with a right answer is held out."""

NOT_MEASURED = (
    "the lessons were not measured: recorded tasks seldom have a right answer; --eval holds out those that have one,"
    " and --test-data takes tasks of yours"
)


def is_recorded(settings: LearnSettings, reader: StoreReader) -> bool:
    """Whether the settings name a recorder, and not a domain that is installed."""
    return settings.domain not in installed_domains() and reader.is_live(settings.domain)


def stored_domain(
    settings: LearnSettings, reader: StoreReader, given: Domain | None = None, *, measured: bool = False
) -> tuple[LearnSettings, Domain]:
    """Return the domain of stored rollouts, which a program may have given. Raises ConfigError when there is none.

    A recorder needs none that is installed. Its tasks are held out only when `evaluate` is set by name: most of them
    have no right answer, and the application's own agent is not here to be measured. measured: whether a program gave
    tasks to measure on.
    """
    if not is_recorded(settings, reader):
        return settings, given or domain_of(settings)
    domain = given or (custom_tasks(settings.domain, _REWARD) if settings.reward is None else domain_of(settings))
    asked = "evaluate" in settings.model_fields_set or bool(settings.test_data) or measured
    return settings if asked else settings.model_copy(update={"evaluate": False}), domain


def held_out_tasks(rollouts: Mapping[TaskId, tuple[RolloutId, ...]], reader: StoreReader) -> list[Task]:
    """Return the tasks to measure on: a quarter of those with a right answer, chosen by their ids. Raises ConfigError.

    rollouts: the groups, by task. The right answer is the task's own, or the one that a person wrote.
    """
    chosen = [task for task in rollouts if int(task[:8], 16) % _HELD_OUT == 0]
    found = [held for task in chosen if (held := _with_answer(task, rollouts[task], reader)) is not None]
    if not found:
        raise ConfigError(
            "none of the recorded tasks that would be held out has a right answer; leave out --eval, give test tasks"
            " with --test-data, or record demonstrations with feedback",
            code="no_test_tasks",
        )
    return found


def _with_answer(task_id: TaskId, rollouts: tuple[RolloutId, ...], reader: StoreReader) -> Task | None:
    task = reader.task(task_id)
    if task.answer is not None:
        return task
    written = [one.trajectory for one in reader.whole(rollouts) if one.trajectory.phase == DEMONSTRATION]
    answer = next((one.answer for one in written if one.task == task_id and one.answer), None)
    return None if answer is None else task.model_copy(update={"answer": answer, "split": "test"})
