"""Stage 1 of the simulated reflector: what one attempt did, decision by decision, as its record shows it."""

import re
from collections.abc import Iterator

from agentlearn.sim.malformed import Item
from agentlearn.sim.polarity import plain
from agentlearn.sim.reflector_state import ReflectorState
from agentlearn.sim.stage_text import ShownStep, SummarisePrompt

MAX_QUOTES = 6
MAX_QUOTE_CHARACTERS = 110
PARAPHRASED = 0.4
"""Share of decisions told in other words than the record's own."""

_COMMENT = re.compile(r"(?:^|\s)(?:#|//)\s*(.+?)\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_LABEL = re.compile(r"\b[A-Za-z]\w*\d\b")


def summarise(prompt: SummarisePrompt, reflector_state: ReflectorState) -> list[Item]:
    """One item per step that can be told of."""
    known = frozenset(shown.label for shown in prompt.experiences)
    items: list[Item] = []
    last = len(prompt.steps) - 1
    for at, step in enumerate(prompt.steps):
        told = _model_step(step, reflector_state) if step.kind == "model" else _tool_step(step, goes_on=at < last)
        items.append({"text": told, "used": sorted(known.intersection(_labels_in(step)))})
    return items or [{"text": "The record holds no step.", "used": []}]


def _model_step(step: ShownStep, reflector_state: ReflectorState) -> str:
    decisions = [_told(words, reflector_state) for words in _decisions(step)][:MAX_QUOTES]
    decided = f" Decided: {'; '.join(decisions)}." if decisions else ""
    if step.calls:
        tools = ", ".join(dict.fromkeys(tool for tool, _ in step.calls))
        return f"Called {tools}.{decided}"
    return f"Answered “{_shortened(step.text.splitlines()[-1] if step.text else '')}”.{decided}"


def _tool_step(step: ShownStep, *, goes_on: bool) -> str:
    last_line = _shortened(step.text.splitlines()[-1] if step.text else "nothing")
    if step.status == "ok":
        return f"{step.tool} returned “{last_line}”."
    detour = " A detour: the attempt had to try again." if goes_on else " The attempt did not recover from it."
    return f"{step.tool} failed ({step.status}): “{last_line}”.{detour}"


def _decisions(step: ShownStep) -> Iterator[str]:
    """Comments in programs, and the sentences said beside them."""
    for _, arguments in step.calls:
        yield from _COMMENT.findall(arguments)
    for found in _SENTENCE.findall(step.text):
        if (words := found.strip()) and "\\boxed" not in words:
            yield words


def _told(words: str, reflector_state: ReflectorState) -> str:
    """A decision quoted, or, where it shows a habit, sometimes told in other words."""
    habits = reflector_state.vocabulary.habits_in(words)
    if habits and reflector_state.rng.random() < PARAPHRASED:
        return "it chose this: " + reflector_state.rng.choice(reflector_state.vocabulary.other_words(habits[0]))
    if habits and len(plain(words)) > MAX_QUOTE_CHARACTERS:
        return f"“{habits[0].phrase}”"
    return f"“{_shortened(words)}”"


def _labels_in(step: ShownStep) -> frozenset[str]:
    text = "\n".join([step.text, *(arguments for _, arguments in step.calls)]) if step.kind == "model" else ""
    return frozenset(_LABEL.findall(text))


def _shortened(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= MAX_QUOTE_CHARACTERS else f"{one_line[: MAX_QUOTE_CHARACTERS - 1]}…"
