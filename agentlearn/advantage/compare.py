"""Stage 2: one group's summaries, set against each other, become at most three proposals. A group cannot merge."""

from functools import cache

from agentlearn.advantage.lens import Lens, verdict_words
from agentlearn.advantage.proposing import Proposed, Source, propose
from agentlearn.advantage.stage import StageAgent, stage_agent
from agentlearn.advantage.summarise import labels_of
from agentlearn.curate import CheckContext
from agentlearn.experience import MAX_LESSON_WORDS
from agentlearn.group import Group
from agentlearn.ids import RolloutId
from agentlearn.prompts import load_prompt
from agentlearn.summary import Summary

PROMPT = ("compare", 1)


@cache
def _agent(max_proposals: int) -> StageAgent:
    values = {"max_proposals": str(max_proposals), "max_words": str(MAX_LESSON_WORDS)}
    return stage_agent(load_prompt(*PROMPT).fill(values), "proposals")


async def compare(group: Group, summaries: dict[RolloutId, Summary], lens: Lens, context: CheckContext) -> Proposed:
    """Proposals from a group whose rewards differ; summaries: by rollout, of its decided trajectories.

    Raises EndpointError.
    """
    source = Source(
        stage="compare",
        key=group.task.id,
        labels=lens.shown.labels,
        supports={},
        task=group.task.id,
        evidence=tuple(t.id for t in group.decided if t.id in summaries),
    )
    question = _question(group, summaries, lens)
    return await propose(_agent(lens.max_proposals), question, source, lens, context, limit=lens.max_proposals)


def _question(group: Group, summaries: dict[RolloutId, Summary], lens: Lens) -> str:
    task = group.task
    gold = f"<gold>\n{task.answer}\n</gold>\n" if lens.show_gold and task.answer is not None else ""
    attempts: list[str] = []
    for number, trajectory in enumerate((t for t in group.decided if t.id in summaries), start=1):
        word, reward = verdict_words(trajectory.reward, lens.threshold)
        steps = "\n".join(
            f"{at}. {step.text}{labels_of(step.used, lens)}"
            for at, step in enumerate(summaries[trajectory.id].steps, start=1)
        )
        attempts.append(f'<attempt n="{number}" verdict="{word}" reward="{reward}">\n{steps}\n</attempt>')
    library = f"\n{lens.shown.text}" if lens.shown.text else ""
    inner = "\n".join(attempts)
    return f"<problem>\n{task.problem}\n</problem>\n{gold}<attempts>\n{inner}\n</attempts>{library}"
