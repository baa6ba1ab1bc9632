"""Changes that do no better on the tasks that they were made from are left out of the next version."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from agentlearn.config import LearnSettings
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.types.experience import Library
from agentlearn.types.ids import ProposalId, RolloutId, TaskId
from agentlearn.types.operation import Add, Proposal, Rejected
from agentlearn.types.task import Task


def test_a_lesson_whose_task_does_no_better_is_left_out_and_the_other_stays() -> None:
    def group(name: str) -> Any:
        rollout = SimpleNamespace(id=RolloutId(f"rollout {name}"))
        task = Task(id=TaskId(name), problem=f"What is {name}?", answer=name)
        return SimpleNamespace(task=task, trajectories=(rollout,), rewards_G=(0.0,))

    async def trial(library: Library, tasks: Sequence[Task], step: str) -> Any:
        def reward(task: Task) -> float:
            return float(task.id == "pears" and any("pears" in one.lesson for one in library.experiences))

        return [SimpleNamespace(task=one.id, reward=reward(one), phase="validation", g=0) for one in tasks]

    given: Any = {"call_context": None, "reflector": None, "store": None}
    learner = LessonLearner(library=Library(), settings=LearnSettings(domain="x"), trial=trial, **given)
    proposals = [
        Proposal(
            id=ProposalId(name),
            stage="consolidate",
            ordinal=at,
            operation=Add(lesson=f"Weigh the {name} before you count any of them."),
            evidence=(RolloutId(f"rollout {name}"),),
        )
        for at, name in enumerate(("pears", "stones"))
    ]
    context = CheckContext()
    version = next_version(proposals, learner.library, context)
    taught = [group("pears"), group("stones")]
    (made, ended), kept = asyncio.run(learner._stood_trial(version, learner.library, taught, context))
    assert kept
    assert [one.lesson for one in made.experiences] == ["Weigh the pears before you count any of them."]
    assert [one.end.code for one in ended if isinstance(one.end, Rejected)] == ["no_better"]
