"""Stage 2: one group's summaries, set against each other, become at most three proposals. A group cannot merge."""

from functools import cache

from agentlearn.learn.lessons.curate import CheckContext
from agentlearn.learn.lessons.proposing import Proposed, ReplySource, propose
from agentlearn.learn.lessons.stage_agent import StageAgent, stage_agent
from agentlearn.learn.lessons.stage_context import StageContext, verdict_words
from agentlearn.learn.lessons.summarise import labels_of
from agentlearn.prompts import load_prompt
from agentlearn.types.experience import MAX_LESSON_WORDS
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId
from agentlearn.types.summary import Summary

PROMPT = ("compare", 1)


@cache
def _agent(max_proposals: int) -> StageAgent:
    values = {"max_proposals": str(max_proposals), "max_words": str(MAX_LESSON_WORDS)}
    return stage_agent(load_prompt(*PROMPT).fill(values), "proposals")


async def compare(
    group: Group, summaries: dict[RolloutId, Summary], stage_context: StageContext, context: CheckContext
) -> Proposed:
    """Proposals from a group whose rewards differ; summaries: by rollout, of its decided trajectories.

    Raises EndpointError.
    """
    source = ReplySource(
        stage="compare",
        key=group.task.id,
        labels=stage_context.shown.labels,
        supports={},
        task=group.task.id,
        evidence=tuple(t.id for t in group.decided if t.id in summaries),
    )
    question = _question(group, summaries, stage_context)
    return await propose(
        _agent(stage_context.max_proposals), question, source, stage_context, context, limit=stage_context.max_proposals
    )


def _question(group: Group, summaries: dict[RolloutId, Summary], stage_context: StageContext) -> str:
    task = group.task
    gold = f"<gold>\n{task.answer}\n</gold>\n" if stage_context.show_gold and task.answer is not None else ""
    attempts: list[str] = []
    for number, trajectory in enumerate((t for t in group.decided if t.id in summaries), start=1):
        word, reward = verdict_words(trajectory.reward, stage_context.threshold)
        steps = "\n".join(
            f"{at}. {step.text}{labels_of(step.used, stage_context)}"
            for at, step in enumerate(summaries[trajectory.id].steps, start=1)
        )
        attempts.append(f'<attempt n="{number}" verdict="{word}" reward="{reward}">\n{steps}\n</attempt>')
    library = f"\n{stage_context.shown.text}" if stage_context.shown.text else ""
    inner = "\n".join(attempts)
    return f"<problem>\n{task.problem}\n</problem>\n{gold}<attempts>\n{inner}\n</attempts>{library}"
