"""Stage 1: summarise one trajectory in numbered steps that name the decisions and the experiences used."""

from collections import Counter
from dataclasses import dataclass
from functools import cache

from agentlearn.errors import EndpointError
from agentlearn.learning.lessons.shown_reason import reason_block
from agentlearn.learning.lessons.stage_agent import StageAgent, stage_agent
from agentlearn.learning.lessons.stage_context import StageContext, verdict_words
from agentlearn.learning.lessons.stage_prompts import StagePrompt
from agentlearn.rollout.transcript import transcript
from agentlearn.types.ids import ExperienceId, content_hash
from agentlearn.types.summary import Summary, SummaryStep
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

MAX_STEP_CHARACTERS = 800
MAX_STEPS = 40


@dataclass(frozen=True, slots=True)
class Summarised:
    """The result of summarising one trajectory."""

    summary: Summary | None
    """None when no reply was usable."""
    faults: Counter[str]
    """Number of malformed replies, items and labels, and of failed calls, by code."""


@cache
def _agent(prompt: StagePrompt) -> StageAgent:
    return stage_agent(prompt.load().text, "steps")


async def summarise(trajectory: Trajectory, task: Task, stage_context: StageContext) -> Summarised:
    """Ask for a summary, and once more after a malformed reply. Prose is then used as a summary of one step."""
    faults: Counter[str] = Counter()
    raw = ""
    unit = stage_context.unit("summarise", f"{task.id}/{trajectory.g}")
    question, agent = _question(trajectory, task, stage_context), _agent(stage_context.prompts.summarise)
    for _ in range(2):
        try:
            reply = await agent.ask(question, stage_context.endpoint, unit)
        except EndpointError as error:
            faults[error.code] += 1
            return Summarised(None, faults)
        steps = tuple(step for item in reply.salvaged.items if (step := _step(item, stage_context, faults)) is not None)
        faults.update(reply.salvaged.faults)
        if steps:
            return Summarised(_summary(trajectory, stage_context, steps[:MAX_STEPS], reply.raw), faults)
        if "prose" in reply.salvaged.faults:
            raw = reply.raw
    # Prose still says what happened; it only does not name the experiences used.
    if text := _one_line(raw):
        return Summarised(_summary(trajectory, stage_context, (SummaryStep(text=text),), raw), faults)
    faults["no_summary"] += 1
    return Summarised(None, faults)


def _question(trajectory: Trajectory, task: Task, stage_context: StageContext) -> str:
    verdict, reward = verdict_words(trajectory.reward, stage_context.threshold)
    gold = f"<gold>\n{task.answer}\n</gold>\n" if stage_context.show_gold and task.answer is not None else ""
    reason = reason_block(stage_context.reason_of(trajectory))
    library = f"{stage_context.shown.text}\n" if stage_context.shown.text else ""
    return (
        f"<problem>\n{task.problem}\n</problem>\n<verdict>{verdict} (reward {reward})</verdict>\n"
        f"{reason}{gold}{library}<trajectory>\n{transcript(trajectory.steps)}\n</trajectory>"
    )


def _step(item: object, stage_context: StageContext, faults: Counter[str]) -> SummaryStep | None:
    if isinstance(item, str) and _one_line(item):
        faults["string_item"] += 1
        return SummaryStep(text=_one_line(item))
    text = item.get("text") if isinstance(item, dict) else None
    if not isinstance(text, str) or not _one_line(text):
        faults["bad_item"] += 1
        return None
    assert isinstance(item, dict)
    used: object = item.get("used")
    named = tuple(str(label).strip("[] ").upper() for label in used) if isinstance(used, list) else ()
    known = tuple(stage_context.shown.labels[label] for label in named if label in stage_context.shown.labels)
    faults["unknown_id"] += len(named) - len(known)
    return SummaryStep(text=_one_line(text), used=tuple(dict.fromkeys(known)))


def _one_line(text: str) -> str:
    """The text as one line, at most 800 characters, without control characters, lone surrogates and angle brackets."""
    words = "".join(c if c.isprintable() else " " for c in text).replace("<", "‹").replace(">", "›").split()
    return " ".join(words)[:MAX_STEP_CHARACTERS]


def _summary(trajectory: Trajectory, stage_context: StageContext, steps: tuple[SummaryStep, ...], raw: str) -> Summary:
    return Summary(
        id=content_hash("summary", trajectory.id, stage_context.step),
        run=stage_context.call_context.run,
        rollout=trajectory.id,
        steps=steps,
        raw=raw,
        library=stage_context.library.version,
        prompts=(stage_context.prompts.summarise.load().ref,),
    )


def used_labels(used: tuple[ExperienceId, ...], stage_context: StageContext) -> str:
    """Labels of the experiences that a step used, such as ` (used G1, G4)`; empty for none."""
    by_id = {identity: label for label, identity in stage_context.shown.labels.items()}
    return f" (used {', '.join(by_id[one] for one in used if one in by_id)})" if used else ""
