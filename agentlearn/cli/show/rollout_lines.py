"""One rollout as text: what its agent was sent, what it did, how that was judged, and what was learned from it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from agentlearn.cli.show.addresses import group_address
from agentlearn.cli.show.labelled import indented, labelled, one_line, shortened
from agentlearn.cli.show.outcome_words import treatment_words, verdict_words
from agentlearn.cli.show.proposal_words import proposal_lines
from agentlearn.cli.show.rollout_record import RolloutRecord
from agentlearn.cli.stages import cost_words
from agentlearn.types.ids import ExperienceId
from agentlearn.types.summary import Summary
from agentlearn.types.trajectory import TOOLS, ModelTurn, Step, ToolCall, ToolResult, UserTurn, prompt_labels

_BLOCK = "[… the lessons, as listed below …]"


def rollout_lines(record: RolloutRecord, *, full: bool) -> Iterator[str]:
    """The record as text, one part after the other. full: every text to its end, and the schemas of the tools."""
    trajectory, task = record.trajectory, record.task
    place = f"{trajectory.phase}, rollout {trajectory.g}"
    again = f", attempt {trajectory.attempt + 1}" if trajectory.attempt else ""
    yield labelled("rollout", f"{trajectory.id} of run {trajectory.run}, {place}{again}")
    yield labelled("group", group_address(trajectory.run, trajectory.task, trajectory.phase))
    lessons = None if record.library is None else len(record.library)
    yield labelled("treatment", treatment_words(trajectory.treatment, lessons))
    yield labelled("task", shortened(task.problem, full=full))
    expected = "unknown" if task.answer is None else task.answer
    yield labelled("expected", f"{shortened(expected, full=full)}   ({task.family or 'no family'}, {task.source})")
    yield from _sent_lines(record, full=full)
    yield from _tool_lines(record.tools, full=full)
    yield from _lesson_lines(record)
    yield ""
    for number, step in enumerate(trajectory.steps, start=1):
        yield from step_lines(number, step, full=full)
    if not trajectory.steps:
        yield "no steps: no model call was answered"
    yield ""
    yield from _result_lines(record, full=full)
    yield from _feedback_lines(record, full=full)
    for summary in record.summaries:
        yield from summary_lines(summary, record.shown.labels)
    yield from _proposal_lines(record)


def _feedback_lines(record: RolloutRecord, *, full: bool) -> Iterator[str]:
    """What was said about a recorded rollout."""
    if record.episode:
        yield labelled("episode", record.episode)
    for one in record.feedback:
        about = "the episode: " if one.rollout is None else ""
        reward = "no reward" if one.reward is None else f"reward {one.reward:g}"
        who = f" by {one.by}" if one.by else ""
        words = f"; {shortened(one.reason, full=full)}" if one.reason else ""
        answer = f"; right answer: {shortened(one.demonstration, full=full)}" if one.demonstration else ""
        yield labelled("feedback", f"{about}{reward}{words}{answer}   ({one.at:%Y-%m-%d %H:%M}{who})")


def _sent_lines(record: RolloutRecord, *, full: bool) -> Iterator[str]:
    """The instructions, system messages and user messages as sent."""
    sent, block = record.sent, record.shown.text
    if not sent.instructions and not sent.system:
        yield labelled("system", "none was sent")
    for number, text in enumerate((*sent.instructions, *sent.system), start=1):
        words = text if full or not block else text.replace(block, _BLOCK)
        yield labelled("system" if number == 1 else f"system {number}", shortened(words, full=full))
    for number, text in enumerate(sent.user, start=1):
        words = "the task, as above" if text == record.task.problem and not full else shortened(text, full=full)
        yield labelled("user" if number == 1 else f"user {number}", words)


def _tool_lines(tools: tuple[dict[str, Any], ...] | None, *, full: bool) -> Iterator[str]:
    """The tools: name, parameters and the first line of the description; or all, with their schemas."""
    if not tools:
        yield labelled("tools", "not recorded" if tools is None else "none")
        return
    for number, tool in enumerate(tools):
        label, description = "" if number else "tools", str(tool.get("description", ""))
        parameters = tool.get("parameters") or {}
        words = f"{tool.get('name')}({', '.join(parameters.get('properties', {}))})"
        if full:
            schema = json.dumps(parameters, ensure_ascii=False, indent=2)
            yield labelled(label, f"{words}\n{description}\n{schema}")
        else:
            yield labelled(label, f"{words}  {one_line(description)}")


def _lesson_lines(record: RolloutRecord) -> Iterator[str]:
    """The lessons as the agent was shown them, and those that it was not shown."""
    library, shown = record.library, record.shown
    if library is None:
        yield labelled("lessons", "the store does not have this library version")
        return
    if not shown.text:
        yield labelled("lessons", "none was shown")
    elif not record.sent.hold(shown.text):
        yield labelled("lessons", "the messages do not have this text: it was not sent, or no request was made")
    label = "lessons"
    for line in (line for line in shown.text.splitlines() if line.startswith("[")):
        yield labelled(label if record.sent.hold(shown.text) else "", line)
        label = ""
    for one in library.experiences:
        if one.id in record.trajectory.treatment.masked:
            yield labelled("withheld", one.lesson)


def step_lines(number: int, step: Step, *, full: bool) -> Iterator[str]:
    """A step: what it is, and indented below it what the model, the tool or the user wrote."""
    match step:
        case ModelTurn():
            finish = f" · {step.finish}" if step.finish not in {"", "stop", "tool_call"} else ""
            yield f"step {number} · model{finish}"
            if step.thinking:
                yield indented(f"(reasoning) {shortened(step.thinking, full=full)}")
            if step.text:
                yield indented(shortened(step.text, full=full))
            for call in step.tool_calls:
                yield indented(f"call {call.tool} {_arguments(call, full=full)}")
        case ToolResult():
            status = "ok" if step.ok else step.error
            diverged = " · repeated with another result" if step.diverged else ""
            yield f"step {number} · tool {one_line(step.tool)} · {one_line(status)}{diverged}"
            yield indented(shortened(step.content, full=full))
        case UserTurn():
            yield f"step {number} · user"
            yield indented(shortened(step.text, full=full))
        case _:
            assert_never(step)


def _arguments(call: ToolCall, *, full: bool) -> str:
    """The arguments of a call; a program as lines of its own."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return shortened(call.arguments, full=full)
    if isinstance(arguments, dict) and set(arguments) == {"code"} and isinstance(arguments["code"], str):
        return f"\n{indented(shortened(arguments['code'], full=full))}"
    return shortened(call.arguments, full=full)


def _result_lines(record: RolloutRecord, *, full: bool) -> Iterator[str]:
    trajectory, usage = record.trajectory, record.trajectory.usage
    if trajectory.verdict is not None or trajectory.failure is None:
        yield labelled("answer", "none" if trajectory.answer is None else shortened(trajectory.answer, full=full))
    yield labelled("verdict" if trajectory.failure is None else "failed", verdict_words(trajectory))
    cost = "at an unknown price" if trajectory.cost_usd is None else f"for {cost_words(trajectory.cost_usd)}"
    cached = f" ({usage.tokens_cached} cached)" if usage.tokens_cached else ""
    tokens = f"{usage.tokens_in} tokens in{cached}, {usage.tokens_out} out"
    yield labelled("used", f"{usage.requests} calls, {tokens}, {trajectory.seconds:.2f} s, {cost}")
    yield labelled("prompts", prompt_labels(tuple(one for one in trajectory.prompts if one.name != TOOLS)))


def summary_lines(summary: Summary, labels: Mapping[str, ExperienceId]) -> Iterator[str]:
    """A summary, step by step, with the lessons that each step used."""
    by_id = {identity: label for label, identity in labels.items()}
    yield labelled("summary", f"made in run {summary.run}, asked with {prompt_labels(summary.prompts)}")
    for number, step in enumerate(summary.steps, start=1):
        used = f" (used {', '.join(by_id.get(one, one[:8]) for one in step.used)})" if step.used else ""
        yield labelled("", f"{number}. {step.text}{used}")


def _proposal_lines(record: RolloutRecord) -> Iterator[str]:
    labels = {identity: label for label, identity in record.shown.labels.items()}
    for row in record.made:
        asked, ended = proposal_lines(row.ended, labels)
        yield labelled("proposal", f"{asked}\n{ended}; asked with {prompt_labels(row.ended.proposal.prompts)}")
        for follower in record.consolidated(row):
            asked, ended = proposal_lines(follower.ended, labels)
            yield labelled("", f"→ {asked}\n  {ended}")
    if not record.made:
        yield labelled("proposal", "no proposal was made from this rollout")
