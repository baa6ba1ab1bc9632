"""Stage 1 of the simulated reflector: summarise one attempt step by step, with the decisions it stated."""

import re
from collections.abc import Iterator

from agentlearn_demo.sim.malformed import Item
from agentlearn_demo.sim.polarity import normalised_text
from agentlearn_demo.sim.reflector_state import ReflectorState
from agentlearn_demo.sim.stage_text import ShownStep, SummarisePrompt

MAX_QUOTES = 6
MAX_QUOTE_CHARACTERS = 110
PARAPHRASE_CHANCE = 0.4
"""Probability of paraphrasing a decision that shows a habit."""

_COMMENT = re.compile(r"(?:^|\s)(?:#|//)\s*(.+?)\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_LABEL = re.compile(r"\b[A-Za-z]\w*\d\b")


def reflector_summarise(prompt: SummarisePrompt, reflector_state: ReflectorState) -> list[Item]:
    """Return one item per step."""
    known = frozenset(shown.label for shown in prompt.experiences)
    items: list[Item] = []
    last = len(prompt.steps) - 1
    for at, step in enumerate(prompt.steps):
        text = _model_step(step, reflector_state) if step.kind == "model" else _tool_step(step, goes_on=at < last)
        items.append({"text": text, "used": sorted(known.intersection(_labels_in(step)))})
    return items or [{"text": "The record holds no step.", "used": []}]


def _model_step(step: ShownStep, reflector_state: ReflectorState) -> str:
    decisions = [_decision_text(words, reflector_state) for words in _decisions(step)][:MAX_QUOTES]
    decided = f" Decided: {'; '.join(decisions)}." if decisions else ""
    if step.calls:
        tools = ", ".join(dict.fromkeys(tool for tool, _ in step.calls))
        return f"Called {tools}.{decided}"
    return f"Answered “{_one_line(step.text.splitlines()[-1] if step.text else '')}”.{decided}"


def _tool_step(step: ShownStep, *, goes_on: bool) -> str:
    last_line = _one_line(step.text.splitlines()[-1] if step.text else "nothing")
    if step.status == "ok":
        return f"{step.tool} returned “{last_line}”."
    detour = " A detour: the attempt had to try again." if goes_on else " The attempt did not recover from it."
    return f"{step.tool} failed ({step.status}): “{last_line}”.{detour}"


def _decisions(step: ShownStep) -> Iterator[str]:
    """Comments in programs, and sentences of the message."""
    for _, arguments in step.calls:
        yield from _COMMENT.findall(arguments)
    for found in _SENTENCE.findall(step.text):
        if (words := found.strip()) and "\\boxed" not in words:
            yield words


def _decision_text(words: str, reflector_state: ReflectorState) -> str:
    """A decision as a quotation, or paraphrased if it shows a habit and by chance."""
    habits = reflector_state.vocabulary.habits_in(words)
    if habits and reflector_state.rng.random() < PARAPHRASE_CHANCE:
        return "it chose this: " + reflector_state.rng.choice(reflector_state.vocabulary.other_words(habits[0]))
    if habits and len(normalised_text(words)) > MAX_QUOTE_CHARACTERS:
        return f"“{habits[0].phrase}”"
    return f"“{_one_line(words)}”"


def _labels_in(step: ShownStep) -> frozenset[str]:
    text = "\n".join([step.text, *(arguments for _, arguments in step.calls)]) if step.kind == "model" else ""
    return frozenset(_LABEL.findall(text))


def _one_line(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= MAX_QUOTE_CHARACTERS else f"{one_line[: MAX_QUOTE_CHARACTERS - 1]}…"
