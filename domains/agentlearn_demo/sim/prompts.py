"""Parse the prompts of the three stages into the values that the simulated reflector works with; summarise attempts.

The forms that are parsed here are those of agentlearn's own prompts: `tests/unit/demo/test_stage_prompts.py` fails when
one of them changes.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from typing import Literal

from agentlearn_demo.sim.skills import ShownLesson, experiences_in, normalised_text
from agentlearn_demo.sim.vocabulary import Vocabulary

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
    r"(?:\n  task (\d+): [^\n]*$)?",
    re.MULTILINE | re.IGNORECASE,
)
_REFUSED = re.compile(r"\brefused\b", re.IGNORECASE)
_REFUSAL = re.compile(r"^[ \t]*- item (\d+):[ \t]*(\w+)", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)(?:#|//)\s*(.+?)\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_LABEL = re.compile(r"\b[A-Za-z]\w*\d\b")
_QUOTED = re.compile(r"^(  task \d+: [^\n“]*?); reason: “.*”$", re.MULTILINE)


MAX_QUOTES = 6
MAX_QUOTE_CHARACTERS = 110
PARAPHRASE_CHANCE = 0.4
"""Probability of paraphrasing a decision that shows a habit."""


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

    @classmethod
    def of_model(cls, body: str) -> "ShownStep":
        """Parse a step of the model: its text, then its calls with their arguments as JSON or as fenced code."""
        calls: list[tuple[str, str]] = []
        first = found = _CALL.search(body)
        while found is not None:
            end = found.end()
            if (fence := _FENCE.match(body, end)) is not None:
                arguments, end = fence[1], fence.end()
            else:
                try:
                    value, end = json.JSONDecoder().raw_decode(body, end)
                    parts = value.values() if isinstance(value, dict) else [value]
                    arguments = "\n".join(part if isinstance(part, str) else json.dumps(part) for part in parts)
                except ValueError:
                    arguments = body[end:].partition("\n")[0]
                    arguments, end = arguments.strip(), end + len(arguments)
            calls.append((found[1], arguments))
            found = _CALL.search(body, end)
        return cls("model", (body[: first.start()] if first else body).strip(), tuple(calls))

    def said(self, vocabulary: Vocabulary, rng: Random) -> str:
        """A model step: comments in programs and sentences of the message, quoted, or paraphrased where they show a
        habit.
        """
        comments = [comment for _, arguments in self.calls for comment in _COMMENT.findall(arguments)]
        sentences = [
            words for found in _SENTENCE.findall(self.text) if (words := found.strip()) and "\\boxed" not in words
        ]
        decisions: list[str] = []
        for words in (*comments, *sentences):
            habits = vocabulary.habits_in(words)
            if habits and rng.random() < PARAPHRASE_CHANCE:
                decisions.append("it chose this: " + rng.choice(vocabulary.other_words(habits[0])))
            elif habits and len(normalised_text(words)) > MAX_QUOTE_CHARACTERS:
                decisions.append(f"“{habits[0].phrase}”")
            else:
                decisions.append(f"“{_one_line(words)}”")
        decided = f" Decided: {'; '.join(decisions[:MAX_QUOTES])}." if decisions else ""
        if self.calls:
            return f"Called {', '.join(dict.fromkeys(tool for tool, _ in self.calls))}.{decided}"
        return f"Answered “{_one_line(self.text.splitlines()[-1] if self.text else '')}”.{decided}"

    def returned(self, *, goes_on: bool) -> str:
        last_line = _one_line(self.text.splitlines()[-1] if self.text else "nothing")
        if self.status == "ok":
            return f"{self.tool} returned “{last_line}”."
        detour = " A detour: the attempt had to try again." if goes_on else " The attempt did not recover from it."
        return f"{self.tool} failed ({self.status}): “{last_line}”.{detour}"


@dataclass(frozen=True, slots=True)
class SummarisePrompt:
    """The prompt of the stage summarise: one attempt."""

    right: bool
    experiences: tuple[ShownLesson, ...]
    steps: tuple[ShownStep, ...]

    @classmethod
    def read(cls, text: str) -> "SummarisePrompt":
        """Parse the prompt."""
        shown = _section(text, "trajectory", last=True)
        heads = list(_STEP.finditer(shown))
        steps: list[ShownStep] = []
        for head, following in zip_longest(heads, heads[1:]):
            body = shown[head.end() : len(shown) if following is None else following.start()].strip("\n")
            if head[2].lower() == "model":
                steps.append(ShownStep.of_model(body))
            elif head[2].lower() == "tool":
                tool, _, status = head[3].partition("·")
                steps.append(ShownStep("tool", body.strip(), tool=tool.strip(), status=status.strip() or "ok"))
        right = _section(text, "verdict").lstrip().lower().startswith("right")
        return cls(right, experiences_in(text), tuple(steps))


@dataclass(frozen=True, slots=True)
class ComparedAttempt:
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
    attempts: tuple[ComparedAttempt, ...]
    experiences: tuple[ShownLesson, ...]

    @classmethod
    def read(cls, text: str) -> "ComparePrompt":
        """Parse the prompt."""
        attempts = _ATTEMPT.findall(_section(text, "attempts", last=True))
        return cls(
            problem=_section(text, "problem"),
            gold=_section(text, "gold") or None,
            attempts=tuple(
                ComparedAttempt(
                    # Right, or better than others where rewards are partial.
                    right=dict(_ATTRIBUTE.findall(head)).get("verdict", "").lower().startswith(("right", "better")),
                    text=without_reasons(body).strip(),
                    reason=" ".join(_REASON.findall(body)),
                )
                for head, body in attempts
            ),
            experiences=experiences_in(text),
        )


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A proposal of the stage compare, as shown to the stage consolidate."""

    label: str
    op: str
    targets: tuple[str, ...] = ()
    lesson: str = ""
    task: int = 0
    """Number of the task among those of the prompt; 0 for a proposal of a group that the prompt says nothing of."""


@dataclass(frozen=True, slots=True)
class RefusedItem:
    """A refused item: its number (from 1) and the code of the refusal."""

    item: int
    code: str


@dataclass(frozen=True, slots=True)
class ConsolidatePrompt:
    """The prompt of the stage consolidate: the proposals of a batch."""

    experiences: tuple[ShownLesson, ...]
    suggestions: tuple[Suggestion, ...]

    @classmethod
    def read(cls, text: str) -> "ConsolidatePrompt":
        """Parse the prompt. Other detail lines under a proposal are ignored."""
        found = (line.groups(default="") for line in _PROPOSAL.finditer(_section(text, "proposals", last=True)))
        suggestions = tuple(
            Suggestion(label, op.lower(), tuple(re.findall(r"\w+", targets)), lesson, int(task or 0))
            for label, op, targets, lesson, task in found
        )
        return cls(experiences_in(text), suggestions)


def stage_of(text: str) -> ReflectorStage | None:
    """The stage that a user message belongs to; None for other messages."""
    found = _STAGE.search(text)
    return _TAGS[found[1]] if found and f"</{found[1]}" in text else None


def refusals_in(text: str) -> tuple[RefusedItem, ...]:
    """The refusals that a message lists; empty for other messages."""
    found = _REFUSAL.findall(text) if _REFUSED.search(text) else []
    return tuple(RefusedItem(int(number), code.lower()) for number, code in found)


def summarise(prompt: SummarisePrompt, vocabulary: Vocabulary, rng: Random) -> list[Mapping[str, object]]:
    """Return one item per step of an attempt, with the decisions that it stated."""
    known = frozenset(shown.label for shown in prompt.experiences)
    items: list[Mapping[str, object]] = []
    for at, step in enumerate(prompt.steps, start=1):
        spoken = step.kind == "model"
        text = step.said(vocabulary, rng) if spoken else step.returned(goes_on=at < len(prompt.steps))
        words = "\n".join([step.text, *(arguments for _, arguments in step.calls)]) if spoken else ""
        items.append({"text": text, "used": sorted(known.intersection(_LABEL.findall(words)))})
    return items or [{"text": "The record holds no step.", "used": []}]


def _one_line(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= MAX_QUOTE_CHARACTERS else f"{one_line[: MAX_QUOTE_CHARACTERS - 1]}…"
