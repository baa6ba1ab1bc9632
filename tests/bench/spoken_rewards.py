"""The rewards of `bench reasons`: each judges the boxed answer alike, and differs in what it says in words.

A good reason names one slip of a wrong attempt, in other words than the attempt. It reads the attempt as an author of a
reward would, and knows nothing about the library or the other attempts.
"""

import re

from agentlearn.sim.draws import random_stream
from agentlearn.sim.habits import Vocabulary
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory
from agentlearn_math.novice import skills

_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_VOCABULARY = Vocabulary(skills)
EMPTY_WORDS = "This is not the expected result. Please look at it again."


def none(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return the reward alone."""
    return float(_given(answer, trajectory) == task.answer)


def empty(task: Task, answer: str | None, trajectory: Trajectory) -> tuple[float, str]:
    """Return a reason that says nothing."""
    reward = none(task, answer, trajectory)
    return reward, "" if reward else EMPTY_WORDS


def words(task: Task, answer: str | None, trajectory: Trajectory) -> tuple[float, str]:
    """Return a reason that names a slip of the attempt."""
    reward = none(task, answer, trajectory)
    return reward, "" if reward else _because(_slips(trajectory), trajectory)


def misleading(task: Task, answer: str | None, trajectory: Trajectory) -> tuple[float, str]:
    """Return a reason that names a slip that the attempt did not make."""
    reward, made = none(task, answer, trajectory), _slips(trajectory)
    return reward, "" if reward else _because([one for one in _all_traps() if one not in made], trajectory)


def _given(answer: str | None, trajectory: Trajectory) -> str:
    last = trajectory.steps[-1] if trajectory.steps else None
    boxed = _BOXED.findall(last.text if isinstance(last, ModelTurn) else "")
    return boxed[-1] if boxed else (answer or "")


def _slips(trajectory: Trajectory) -> list[str]:
    said = "\n".join(
        f"{turn.text}\n" + "\n".join(call.arguments.replace("\\n", "\n") for call in turn.tool_calls)
        for turn in trajectory.steps
        if isinstance(turn, ModelTurn)
    )
    return list(dict.fromkeys(habit.trap for habit in _VOCABULARY.habits_in(said) if habit.careless))


def _all_traps() -> list[str]:
    return [trap.name for trap in _VOCABULARY.traps]


def _because(slips: list[str], trajectory: Trajectory) -> str:
    if not slips:
        return ""
    draw = random_stream("reason", trajectory.seed)
    trap = _VOCABULARY.reader.traps[draw.choice(slips)]
    return f"The result is wrong, because {draw.choice(trap.careless)}."
