"""One rollout as text: what its agent was sent, what it did, how that was judged, and what was learned from it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, assert_never

from agentlearn.errors import ConfigError
from agentlearn.pages.figure import price_words
from agentlearn.pages.records import followers, group_address, proposal_json, proposal_lines
from agentlearn.pages.terminal import indented, labelled, one_line, shortened
from agentlearn.store import ProposalRow, StoreReader
from agentlearn.types.experience import Library
from agentlearn.types.group import Summary
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId
from agentlearn.types.operation import Feedback
from agentlearn.types.rendering import Rendered, headline
from agentlearn.types.task import Task
from agentlearn.types.trajectory import (
    MAIN_ARM,
    TOOLS,
    ModelTurn,
    Step,
    ToolCall,
    ToolResult,
    Trajectory,
    Treatment,
    UserTurn,
    prompt_labels,
)

_KNOWN = frozenset({"model", "library", "masked", "arm", "temperature", "weights_step"})


_STATUS = {"correct": "right", "incorrect": "wrong", "partial": "partly right", "no_answer": "no answer"}
"""What people read for the status of a verdict, also in the legend of the cells of attempts."""


def reward_words(reward: float | None) -> str:
    """A reward, or that there is none."""
    return "no reward" if reward is None else f"reward {reward:g}"


def verdict_words(trajectory: Trajectory) -> str:
    """The verdict with its reward and its reason; or why there is none."""
    if trajectory.failure is not None:
        failure = trajectory.failure
        return f"{trajectory.outcome}, {failure.boundary}: {failure.code}: {failure.message}"
    if trajectory.verdict is None:
        return f"{trajectory.outcome}, there is no verdict"
    verdict = trajectory.verdict
    reason = f": {verdict.reason}" if verdict.reason else ""
    return f"{_STATUS.get(verdict.status, verdict.status)}, {reward_words(verdict.reward)}{reason}"


def feedback_words(one: Feedback, text: Callable[[str], str]) -> str:
    """What was said about a rollout or its episode, when and by whom. text: shortens what a person wrote."""
    about = "the episode: " if one.rollout is None else ""
    given = f" ({one.given})" if one.given else ""
    who = f" by {one.by}" if one.by else ""
    words = f"; {text(one.reason)}" if one.reason else ""
    answer = f"; right answer: {text(one.demonstration)}" if one.demonstration else ""
    return f"{about}{reward_words(one.reward)}{given}{words}{answer}   ({one.at:%Y-%m-%d %H:%M}{who})"


def treatment_words(treatment: Treatment, lessons: int | None) -> str:
    """The conditions of a rollout. lessons: number of lessons in its library; None when the store does not have it."""
    temperature = "the service's own" if treatment.temperature is None else f"{treatment.temperature:g}"
    parts = [treatment.model, f"temperature {temperature}"]
    if lessons == 0:
        parts.append("no lessons")
    else:
        count = "an unknown number of" if lessons is None else f"{lessons}"
        withheld = f", {len(treatment.masked)} of them withheld" if treatment.masked else ""
        parts.append(f"{count} lessons (library version {treatment.library[:8]}){withheld}")
    if treatment.arm != MAIN_ARM:
        parts.append(f"arm {treatment.arm}")
    if treatment.weights_step is not None:
        parts.append(f"weights after {treatment.weights_step} optimiser steps")
    others = treatment.model_dump(exclude=set(_KNOWN), exclude_none=True)
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in others.items()]
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class _SentTexts:
    """Texts of a rollout's requests, each once, in order of first use."""

    instructions: tuple[str, ...]
    """Instructions as sent: the agent's own text and the lessons. Several when they changed during the rollout."""
    system: tuple[str, ...]
    """Other system messages."""
    user: tuple[str, ...]
    """User messages: the problem as the agent was asked it."""

    @classmethod
    def of(cls, messages: bytes) -> "_SentTexts":
        """Read pydantic-ai's JSON of the messages. What has another form is left out."""
        try:
            loaded = json.loads(messages)
        except ValueError:
            loaded = []
        requests = [one for one in _objects(loaded) if one.get("kind") == "request"]
        parts = [part for request in requests for part in _objects(request.get("parts"))]
        kinds = {"system-prompt": dict[str, None](), "user-prompt": dict[str, None]()}
        for part in parts:
            if (found := kinds.get(str(part.get("part_kind")))) is not None:
                found[_content(part)] = None
        instructions = dict.fromkeys(str(one["instructions"]) for one in requests if one.get("instructions"))
        return cls(tuple(instructions), tuple(kinds["system-prompt"]), tuple(kinds["user-prompt"]))

    def hold(self, text: str) -> bool:
        """Whether the text is part of any instructions or system message."""
        return any(text in one for one in (*self.instructions, *self.system))


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def _content(part: dict[str, Any]) -> str:
    """The text of a part; what is not text, such as an image, is named by its kind."""
    content = part.get("content")
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list) else [content]
    kinds = [one.get("kind", "object") if isinstance(one, dict) else type(one).__name__ for one in pieces]
    return "\n".join(one if isinstance(one, str) else f"[{kind}]" for one, kind in zip(pieces, kinds, strict=True))


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """A rollout with what its agent was sent, and what was learned from it."""

    trajectory: Trajectory
    task: Task
    sent: _SentTexts
    tools: tuple[dict[str, Any], ...] | None
    """The tools that the model was offered, with their schemas; None when they were not recorded."""
    library: Library | None
    """The library of its treatment; None when the store does not have that version."""
    summaries: tuple[Summary, ...]
    """Summaries of it, made by this run or by runs that learned from it later."""
    proposals: tuple[ProposalRow, ...]
    """Proposals that were made from it, with their ends."""
    episode: str = ""
    """The episode that it was recorded in; empty for none."""
    feedback: tuple[Feedback, ...] = ()
    """All that was said about it or its episode, in order."""

    @classmethod
    def read(cls, reader: StoreReader, rollout: RolloutId) -> "RolloutRecord":
        """Read a rollout by its complete id."""
        (whole,) = reader.whole([rollout])
        trajectory = whole.trajectory
        return cls(
            trajectory=trajectory,
            task=reader.task(trajectory.task),
            sent=_SentTexts.of(whole.messages),
            tools=_tools(reader, trajectory),
            library=stored_library(reader, trajectory.treatment.library),
            summaries=tuple(reader.summaries_of(rollout)),
            proposals=tuple(reader.proposals_from(rollout)),
            episode=reader.episode(rollout) or "",
            feedback=tuple(reader.feedback(rollout)),
        )

    @property
    def shown(self) -> Rendered:
        """The lessons as the agent was shown them."""
        if self.library is None:
            return Rendered(text="", labels={})
        return self.library.render(masked=self.trajectory.treatment.masked)

    def as_json(self) -> dict[str, Any]:
        """The record for JSON output."""
        withheld = self.trajectory.treatment.masked
        known = self.library.experiences if self.library is not None else ()
        return {
            "trajectory": self.trajectory.model_dump(mode="json"),
            "task": self.task.model_dump(mode="json"),
            "sent": asdict(self.sent),
            "tools": None if self.tools is None else list(self.tools),
            "lessons": [one.lesson for one in known if one.id not in withheld],
            "lessons_block": self.shown.text,
            "lessons_sent": bool(self.shown.text) and self.sent.hold(self.shown.text),
            "withheld": [one.lesson for one in known if one.id in withheld],
            "library_known": self.library is not None,
            "summaries": [one.model_dump(mode="json") for one in self.summaries],
            "proposals": [proposal_json(one) for one in self.proposals],
            "episode": self.episode,
            "feedback": [one.model_dump(mode="json") for one in self.feedback],
        }

    def lines(self, *, full: bool) -> Iterator[str]:
        """The record as text, one part after the other. full: every text to its end, and the schemas of the tools."""
        trajectory = self.trajectory
        place = f"{trajectory.phase}, rollout {trajectory.g}"
        again = f", attempt {trajectory.attempt + 1}" if trajectory.attempt else ""
        yield labelled("rollout", f"{trajectory.id} of run {trajectory.run}, {place}{again}")
        yield labelled("group", group_address(trajectory.run, trajectory.task, trajectory.phase))
        lessons = None if self.library is None else len(self.library)
        yield labelled("treatment", treatment_words(trajectory.treatment, lessons))
        yield from task_lines(self.task, full=full)
        yield from self._sent_lines(full=full)
        yield from _tool_lines(self.tools, full=full)
        yield from self._lesson_lines()
        yield ""
        for number, step in enumerate(trajectory.steps, start=1):
            yield from step_lines(number, step, full=full)
        if not trajectory.steps:
            yield "no steps: no model call was answered"
        yield ""
        yield from self._result_lines(full=full)
        yield from self._feedback_lines(full=full)
        labels = {identity: label for label, identity in self.shown.labels.items()}
        for summary in self.summaries:
            yield labelled("summary", f"made in run {summary.run}, asked with {prompt_labels(summary.prompts)}")
            yield from summary_lines(summary, labels)
        made = [one for one in self.proposals if one.ended.proposal.stage == "compare"]
        for row in made:
            yield from proposal_lines("proposal", [row], labels)
            yield from proposal_lines("", followers(self.proposals, row), labels, prompts=False)
        if not made:
            yield labelled("proposal", "no proposal was made from this rollout")

    def _sent_lines(self, *, full: bool) -> Iterator[str]:
        """The instructions, system messages and user messages as sent."""
        sent, block = self.sent, self.shown.text
        if not sent.instructions and not sent.system:
            yield labelled("system", "none was sent")
        for number, text in enumerate((*sent.instructions, *sent.system), start=1):
            words = text if full or not block else text.replace(block, _BLOCK)
            yield labelled("system" if number == 1 else f"system {number}", shortened(words, full=full))
        for number, text in enumerate(sent.user, start=1):
            words = "the task, as above" if text == self.task.problem and not full else shortened(text, full=full)
            yield labelled("user" if number == 1 else f"user {number}", words)

    def _lesson_lines(self) -> Iterator[str]:
        """The lessons as the agent was shown them, and those that it was not shown."""
        library, shown = self.library, self.shown
        if library is None:
            yield labelled("lessons", "the store does not have this library version")
            return
        if not shown.text:
            yield labelled("lessons", "none was shown")
        elif not self.sent.hold(shown.text):
            yield labelled("lessons", "the messages do not have this text: it was not sent, or no request was made")
        label = "lessons"
        for line in (line for line in shown.text.splitlines() if line.startswith("[")):
            yield labelled(label if self.sent.hold(shown.text) else "", line)
            label = ""
        for one in library.experiences:
            if one.id in self.trajectory.treatment.masked:
                yield labelled("withheld", headline(one.lesson))

    def _result_lines(self, *, full: bool) -> Iterator[str]:
        trajectory, usage = self.trajectory, self.trajectory.usage
        if trajectory.verdict is not None or trajectory.failure is None:
            yield labelled("answer", "none" if trajectory.answer is None else shortened(trajectory.answer, full=full))
        yield labelled("verdict" if trajectory.failure is None else "failed", verdict_words(trajectory))
        cost = f"for {price_words(trajectory.cost_usd)}"
        cached = f" ({usage.tokens_cached} cached)" if usage.tokens_cached else ""
        tokens = f"{usage.tokens_in} tokens in{cached}, {usage.tokens_out} out"
        yield labelled("used", f"{usage.requests} calls, {tokens}, {trajectory.seconds:.2f} s, {cost}")
        yield labelled("prompts", prompt_labels(tuple(one for one in trajectory.prompts if one.name != TOOLS)))

    def _feedback_lines(self, *, full: bool) -> Iterator[str]:
        """What was said about a recorded rollout."""
        if self.episode:
            yield labelled("episode", self.episode)
        for one in self.feedback:
            yield labelled("feedback", feedback_words(one, partial(shortened, full=full)))


def stored_library(reader: StoreReader, version: LibraryVersion) -> Library | None:
    """The library with that version; None when the store does not have it."""
    try:
        return reader.library(version)
    except ConfigError:
        return None


def _tools(reader: StoreReader, trajectory: Trajectory) -> tuple[dict[str, Any], ...] | None:
    """The tools under the reference of that name; None for a rollout without one."""
    hashes = [one.sha256 for one in trajectory.prompts if one.name == TOOLS]
    try:
        return tuple(tool for sha256 in hashes for tool in json.loads(reader.prompt(sha256))) if hashes else None
    except ConfigError:
        return None


_BLOCK = "[… the lessons, as listed below …]"


def task_lines(task: Task, *, full: bool) -> Iterator[str]:
    """The problem and the expected answer."""
    yield labelled("task", shortened(task.problem, full=full))
    expected = "unknown" if task.answer is None else task.answer
    yield labelled("expected", f"{shortened(expected, full=full)}   ({task.family or 'no family'}, {task.source})")


def summary_lines(summary: Summary, labels: Mapping[ExperienceId, str]) -> Iterator[str]:
    """A summary, step by step, with the lessons that each step used. labels: of the lessons."""
    for number, step in enumerate(summary.steps, start=1):
        used = f" (used {', '.join(labels.get(one, one[:8]) for one in step.used)})" if step.used else ""
        yield labelled("", f"{number}. {step.text}{used}")


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
