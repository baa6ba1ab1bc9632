"""Stage 2: compare the summaries of one group and propose at most three changes. A group cannot merge lessons."""

from collections.abc import Sequence
from functools import cache

from agentlearn.learning.allocation import differ
from agentlearn.learning.lessons.proposing import Proposed, ReplySource, propose
from agentlearn.learning.lessons.shown_reason import reason_block
from agentlearn.learning.lessons.stage_agent import StageAgent, stage_agent
from agentlearn.learning.lessons.stage_context import StageContext, verdict_words
from agentlearn.learning.lessons.stage_prompts import StagePrompt
from agentlearn.learning.lessons.summarise import used_labels
from agentlearn.library.curate import CheckContext
from agentlearn.types.experience import MAX_LESSON_WORDS
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId
from agentlearn.types.summary import Summary
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


@cache
def _agent(prompt: StagePrompt, max_proposals: int) -> StageAgent:
    values = {"max_proposals": str(max_proposals), "max_words": str(MAX_LESSON_WORDS)}
    return stage_agent(prompt.load().fill(values), "proposals")


async def compare(
    group: Group, summaries: dict[RolloutId, Summary], stage_context: StageContext, context: CheckContext
) -> Proposed:
    """Return the proposals of a group whose rewards differ. Raises EndpointError.

    summaries: of the group's decided trajectories, by rollout.
    """
    prompt, limit = stage_context.prompts.compare, stage_context.options.max_proposals
    source = ReplySource(
        stage="compare",
        key=group.task.id,
        prompt=prompt.load().ref,
        labels=stage_context.shown.labels,
        supports={},
        task=group.task.id,
        evidence=tuple(t.id for t in group.decided if t.id in summaries),
    )
    question = question_of(group, summaries, stage_context)
    return await propose(_agent(prompt, limit), question, source, stage_context, context, limit=limit)


def question_of(group: Group, summaries: dict[RolloutId, Summary], stage_context: StageContext) -> str:
    """Return the user message of the stage."""
    attempts: list[str] = []
    compared = [t for t in group.decided if t.id in summaries]
    for number, trajectory in enumerate(compared, start=1):
        verdict, reward = _verdict(trajectory, compared, stage_context)
        steps = "\n".join(
            f"{place}. {step.text}{used_labels(step.used, stage_context)}"
            for place, step in enumerate(summaries[trajectory.id].steps, start=1)
        )
        reason = reason_block(stage_context.reason_of(trajectory))
        own = _problem(group.task_of(trajectory), stage_context) if group.others else ""
        attempts.append(
            f'<attempt n="{number}" verdict="{verdict}" reward="{reward}">\n{own}{reason}{steps}\n</attempt>'
        )
    library = f"\n{stage_context.shown.text}" if stage_context.shown.text else ""
    listed = "\n".join(attempts)
    # Of near neighbours each attempt names its own problem, and only there is an expected answer shown.
    head = f"<problem>\n{group.task.problem}\n</problem>\n" if group.others else _problem(group.task, stage_context)
    return f"{head}<attempts>\n{listed}\n</attempts>{library}"


def _verdict(trajectory: Trajectory, compared: Sequence[Trajectory], stage_context: StageContext) -> tuple[str, str]:
    """The verdict and the reward of an attempt as text.

    Attempts with partial rewards are better or worse: better are those whose reward lies within the margin of the best
    one.
    """
    words, reward = verdict_words(trajectory.reward, stage_context.threshold)
    rewards = [one.reward for one in compared if one.reward is not None]
    if set(rewards) <= {0.0, 1.0}:
        return words, reward
    below = differ((trajectory.reward or 0.0, max(rewards)), stage_context.margin)
    return ("worse" if below else "better"), reward


def _problem(task: Task, stage_context: StageContext) -> str:
    """Return a task's problem and its expected answer, where the stages may see it, between tags."""
    gold = f"<gold>\n{task.answer}\n</gold>\n" if stage_context.show_gold and task.answer is not None else ""
    return f"<problem>\n{task.problem}\n</problem>\n{gold}"
