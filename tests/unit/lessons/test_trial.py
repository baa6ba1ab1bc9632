"""Changes that do no better on the tasks that they were made from are left out of the next version."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from agentlearn.learning.lessons.candidates import UpdateTrial
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import LibraryVersion, ProposalId, RolloutId, TaskId
from agentlearn.types.operation import Add, Proposal, Rejected
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment, Verdict

LESSONS = {name: f"Weigh the {name} before you count any of them." for name in ("pears", "stones", "nuts", "salt")}


def rollout(task: str, g: int, reward: float | None, version: LibraryVersion | None = None) -> Trajectory:
    verdict = Verdict(status="undecided") if reward is None else Verdict.of(reward)
    treatment = Treatment(model="m", library=version or Library().version, temperature=0.7)
    return Trajectory.model_construct(
        id=RolloutId(f"{task} {g} {version}"),
        task=TaskId(task),
        g=g,
        verdict=verdict,
        treatment=treatment,
        failure=None,
    )


def group(task: str, *rewards: float) -> Group:
    made = tuple(rollout(task, g, reward) for g, reward in enumerate(rewards))
    return Group(task=Task(id=TaskId(task), domain="x", problem=f"What is {task}?", answer=task), trajectories=made)


def tried(groups: Sequence[Group], of: Mapping[str, Sequence[str]], rewards: Mapping[str, float | None]) -> list[str]:
    """The lessons that stood, by their word.

    of: the tasks that each was made from. rewards: of a task's rollouts, by the task and, where the word of a lesson
    stands before it, only with this lesson.
    """

    async def make(library: Library, work: Sequence[tuple[Task, int]]) -> Sequence[Trajectory]:
        shown = [name for name, lesson in LESSONS.items() if lesson in {one.lesson for one in library.experiences}]
        found = list[Trajectory]()
        for task, g in work:
            known = [rewards[f"{name} {task.id}"] for name in shown if f"{name} {task.id}" in rewards]
            found.append(rollout(task.id, g, known[0] if known else rewards.get(task.id, 0.0), library.version))
        return found

    evidence = {task.task.id: tuple(one.id for one in task.trajectories) for task in groups}
    proposals = [
        Proposal(
            id=ProposalId(name),
            stage="consolidate",
            ordinal=at,
            operation=Add(lesson=LESSONS[name]),
            evidence=tuple(one for task in tasks for one in evidence[TaskId(task)]),
        )
        for at, (name, tasks) in enumerate(of.items())
    ]
    before, context = Library(), CheckContext()
    trial = UpdateTrial(make, groups, threshold=1.0)
    made, ended = asyncio.run(trial.stood(next_version(proposals, before, context), before, context))
    assert len(ended) == len(proposals), "each change ends once"
    stood = [name for name, lesson in LESSONS.items() if lesson in {one.lesson for one in made.experiences}]
    refused = [one.proposal.id for one in ended if isinstance(one.end, Rejected) and one.end.code == "no_better"]
    assert {*stood} | {*refused} == {*of}
    return stood


ALL_WRONG, MIXED = (0.0, 0.0, 0.0), (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("groups", "of", "rewards", "stood"),
    [
        pytest.param(
            [group("a", *ALL_WRONG), group("b", *ALL_WRONG)],
            {"pears": ["a"], "stones": ["b"]},
            {"pears a": 1.0},
            ["pears"],
            id="one that helps, and one that does not",
        ),
        pytest.param(
            [group("a", *ALL_WRONG), group("b", *MIXED)],
            {"pears": ["a"], "stones": ["b"]},
            {"pears a": 1.0, "b": 0.0},
            ["pears"],
            id="one that harms its own task",
        ),
        pytest.param([group("a", *MIXED)], {"pears": ["a"]}, {"a": None}, ["pears"], id="nothing that could be judged"),
        pytest.param(
            [group("a", *ALL_WRONG), group("b", 1.0, 1.0)],
            {"pears": ["a"], "stones": ["a"]},
            {"pears a": 1.0, "stones b": 0.0, "b": 1.0},
            ["pears"],
            id="one beside another that helps, which breaks a task that was all right",
        ),
        pytest.param(
            [group("a", *ALL_WRONG), group("b", *ALL_WRONG)],
            {"pears": ["a", "b"], "stones": ["a"]},
            {"pears a": 0.0, "pears b": 1.0},
            ["pears"],
            id="one that helps one of its two tasks",
        ),
    ],
)
def test_a_change_stays_where_its_tasks_do_better(
    groups: Sequence[Group], of: Mapping[str, Sequence[str]], rewards: Mapping[str, float | None], stood: list[str]
) -> None:
    assert tried(groups, of, rewards) == stood
