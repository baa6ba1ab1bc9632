"""Parse the prompts of the three stages into the values that the simulated reflector works with."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from agentlearn_demo.sim.lessons import ShownLesson, experiences_in

ReflectorStage = Literal["summarise", "compare", "consolidate"]

_TAGS: dict[str, ReflectorStage] = {"trajectory": "summarise", "attempts": "compare", "proposals": "consolidate"}
_STAGE = re.compile(r"^[ \t]*<(trajectory|attempts|proposals)\b[^>]*>", re.MULTILINE)
_STEP = re.compile(r"^step (\d+)\s*[·:|-]\s*(model|tool|user)\b[ \t]*(.*)$", re.MULTILINE | re.IGNORECASE)
_CALL = re.compile(r"^call[ \t]+(\S+)[ \t]*", re.MULTILINE)
_FENCE = re.compile(r"\s*```\w*\n(.*?)\n?```", re.DOTALL)
_ATTEMPT = re.compile(r"<attempt\b([^>]*)>(.*?)</attempt\s*>", re.DOTALL)
_REASON = re.compile(r"^<reason>\n(.*)\n</reason>\n", re.MULTILINE)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_PROPOSAL = re.compile(
    r"^[ \t]*\[(P\d+)\][ \t]*(add|modify|merge|delete)\b[ \t]*([\w, ]*?)[ \t]*(?::[ \t]*(.*?))?[ \t]*$"
    r"(?:\n  task (\d+): ([^\n“]*?)(?:; reason: “(.*)”)?$)?",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTED = re.compile(r"^(  task \d+: [^\n“]*?); reason: “.*”$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One numbered step of a trajectory in a prompt."""

    kind: Literal["model", "tool"]
    text: str
    """The model's text, or the tool's result."""
    calls: tuple[tuple[str, str], ...] = ()
    """Tool calls of a model step: name and arguments as text, code without its fence."""
    tool: str = ""
    """Name of the tool of a tool step."""
    status: str = ""
    """Status of a tool step: `ok` or the kind of failure."""


@dataclass(frozen=True, slots=True)
class SummarisePrompt:
    """The prompt of the stage summarise: one attempt."""

    right: bool
    experiences: tuple[ShownLesson, ...]
    steps: tuple[ShownStep, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """The summary of one attempt."""

    right: bool
    text: str
    reason: str = ""
    """What the verdict said in words; empty if nothing."""


@dataclass(frozen=True, slots=True)
class ComparePrompt:
    """The prompt of the stage compare: several attempts at one problem."""

    problem: str
    gold: str | None
    attempts: tuple[Attempt, ...]
    experiences: tuple[ShownLesson, ...]


@dataclass(frozen=True, slots=True)
class SuggestionEvidence:
    """Where a proposal of the stage compare comes from, as the stage consolidate is shown it."""

    task: int
    """Number of the task among those of the prompt."""
    outcomes: str = ""
    """How the task's attempts ended, in words."""
    reason: str = ""
    """What was said about a wrong attempt; empty if nothing."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A proposal of the stage compare, as shown to the stage consolidate."""

    label: str
    op: str
    targets: tuple[str, ...] = ()
    lesson: str = ""
    evidence: SuggestionEvidence | None = None
    """None for a proposal of a group that the prompt says nothing of."""


@dataclass(frozen=True, slots=True)
class ConsolidatePrompt:
    """The prompt of the stage consolidate: the proposals of a batch."""

    experiences: tuple[ShownLesson, ...]
    suggestions: tuple[Suggestion, ...]

    @property
    def shows_evidence(self) -> bool:
        """Whether the prompt says which tasks the proposals come from."""
        return any(one.evidence is not None for one in self.suggestions)


def stage_of(text: str) -> ReflectorStage | None:
    """The stage that a user message belongs to; None for other messages."""
    found = _STAGE.search(text)
    return _TAGS[found[1]] if found and f"</{found[1]}" in text else None


def summarise_prompt(text: str) -> SummarisePrompt:
    """Parse a prompt of the stage summarise."""
    return SummarisePrompt(
        right=_section(text, "verdict").lstrip().lower().startswith("right"),
        experiences=experiences_in(text),
        steps=tuple(_steps(_section(text, "trajectory", last=True))),
    )


def compare_prompt(text: str) -> ComparePrompt:
    """Parse a prompt of the stage compare."""
    attempts = _ATTEMPT.findall(_section(text, "attempts", last=True))
    return ComparePrompt(
        problem=_section(text, "problem"),
        gold=_section(text, "gold") or None,
        attempts=tuple(_attempt(head, body) for head, body in attempts),
        experiences=experiences_in(text),
    )


def consolidate_prompt(text: str) -> ConsolidatePrompt:
    """Parse a prompt of the stage consolidate. Other detail lines under a proposal are ignored."""
    return ConsolidatePrompt(
        experiences=experiences_in(text),
        suggestions=tuple(map(_suggestion, _PROPOSAL.finditer(_section(text, "proposals", last=True)))),
    )


def _suggestion(line: re.Match[str]) -> Suggestion:
    label, op, targets, lesson, task, outcomes, reason = line.groups(default="")
    evidence = SuggestionEvidence(int(task), outcomes, reason) if task else None
    return Suggestion(label, op.lower(), tuple(re.findall(r"\w+", targets)), lesson, evidence)


def _section(text: str, tag: str, *, last: bool = False) -> str:
    """The text between a tag and its end tag. last: use the last end tag, for text that may itself contain end tags."""
    start = re.search(rf"<{tag}\b[^>]*>", text)
    if start is None:
        return ""
    end = text.rfind(f"</{tag}") if last else text.find(f"</{tag}", start.end())
    return text[start.end() : end if end >= 0 else len(text)].strip()


def without_reasons(text: str) -> str:
    """The prompt without the reasons of verdicts."""
    return _QUOTED.sub(r"\1", _REASON.sub("", text))


def _attempt(head: str, body: str) -> Attempt:
    return Attempt(
        right=_is_right(dict(_ATTRIBUTE.findall(head))),
        text=without_reasons(body).strip(),
        reason=" ".join(_REASON.findall(body)),
    )


def _is_right(attributes: dict[str, str]) -> bool:
    """Whether the attempt was right, or better than others where rewards are partial."""
    return attributes.get("verdict", "").lower().startswith(("right", "better"))


def _steps(text: str) -> Iterator[ShownStep]:
    heads = list(_STEP.finditer(text))
    for head, following in zip_longest(heads, heads[1:]):
        end = len(text) if following is None else following.start()
        body = text[head.end() : end].strip("\n")
        if head[2].lower() == "model":
            yield _model_step(body)
        elif head[2].lower() == "tool":
            tool, _, status = head[3].partition("·")
            yield ShownStep("tool", body.strip(), tool=tool.strip(), status=status.strip() or "ok")


def _model_step(body: str) -> ShownStep:
    calls: list[tuple[str, str]] = []
    first = _CALL.search(body)
    found = first
    while found is not None:
        arguments, end = _arguments(body, found.end())
        calls.append((found[1], arguments))
        found = _CALL.search(body, end)
    return ShownStep("model", body[: first.start()].strip() if first else body.strip(), tuple(calls))


def _arguments(body: str, at: int) -> tuple[str, int]:
    """The text of a call's arguments, given as JSON or as fenced code, and the position where they end."""
    fence = _FENCE.match(body, at)
    if fence is not None:
        return fence[1], fence.end()
    try:
        value, end = json.JSONDecoder().raw_decode(body, at)
    except ValueError:
        line_end = body.find("\n", at)
        end = len(body) if line_end < 0 else line_end
        return body[at:end].strip(), end
    parts = value.values() if isinstance(value, dict) else [value]
    return "\n".join(part if isinstance(part, str) else json.dumps(part) for part in parts), end
