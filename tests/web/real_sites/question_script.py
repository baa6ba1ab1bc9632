"""Questions about the real sites, each with a script of public acts that reaches its answer."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from agentlearn.types.value import Value
from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import ElementLine, PageObservation

_CONTEXT = "context"
"""Mark of a line of search results that is only near a match."""
QUESTIONS_FILE = Path(__file__).with_name("questions.jsonl")

Kind = Literal[
    "version", "number", "flag", "name", "date", "ordered_list", "table_cell", "spanned_cell", "deep_text",
    "preformatted", "search", "keystrokes", "todo", "several_options", "dialog", "virtual_list", "late_text", "hover",
    "widget",
]  # fmt: skip


class ScriptError(AssertionError):
    """Raised when a step cannot be done: the view does not show the element, or the search found nothing."""


class RealQuestion(Value):
    """A question with its known answer, and the acts that lead to it."""

    id: str
    site: str
    """Host name of the site."""
    kind: Kind
    question: str
    gold: str
    script: tuple[Mapping[str, Any], ...] = Field(min_length=1)
    """The acts: for each its name as `act`, and its arguments.

    An argument `{"role": ..., "name": ...}` stands for the ref of that element in the last view, or of the `nth` such
    element, from 1. The text of an element without a name counts as its name; `name` may be
    left out. `{"found": 2}` stands for the page of the second matching line of the last search.
    """
    read: str
    """Pattern with one group. The answer is the text of the group in what was shown last, several joined by commas.

    What was shown last are the last view and, if it is one of `more`, those of `more` directly before it.
    """


def read_questions() -> tuple[RealQuestion, ...]:
    """Return all questions, in the order of the file."""
    lines = QUESTIONS_FILE.read_text(encoding="utf-8").splitlines()
    return tuple(RealQuestion.model_validate_json(line) for line in lines)


class ScriptResult(NamedTuple):
    """What a script came to."""

    answer: str
    statuses: tuple[str, ...]
    """The status of each act."""
    words: str
    """What the answer was read from: names and texts, each on a line of its own."""


async def run_script(walk: Walk, question: RealQuestion) -> ScriptResult:
    """Do the acts and read the answer from the last view. Raises ScriptError."""
    seen: PageObservation | None = None
    statuses: list[str] = []
    shown: list[str] = []
    before = ""
    for step in question.script:
        given = {name: _resolved(value, seen) for name, value in step.items() if name != "act"}
        view: PageObservation = await getattr(walk, step["act"])(**given)
        seen = view
        statuses.append(view.status)
        shown = [*shown, _words(view)] if step["act"] == "more" == before else [_words(view)]
        before = step["act"]
    words = "\n".join(shown)
    return ScriptResult(", ".join(re.findall(question.read, words)), tuple(statuses), words)


def _words(seen: PageObservation) -> str:
    return "\n".join(filter(None, (_plain(f"{one.name}\n{one.text}") for one in seen.lines)))


def _resolved(value: Any, seen: PageObservation | None) -> Any:
    if not isinstance(value, dict) or seen is None:
        return value
    if "found" in value:
        pairs = zip(seen.lines, seen.found or (), strict=False)
        pages = [page for line, page in pairs if _CONTEXT not in line.marks]
        return _nth(pages, value["found"], f"pages in the search results {seen.lines}")
    refs = [one.ref for one in seen.lines if one.ref and _is_meant(one, value)]
    return _nth(refs, value.get("nth", 1), f"elements {value} in {[(one.role, one.name) for one in seen.lines]}")


def _nth(choices: Sequence[Any], number: int, what: str) -> Any:
    if len(choices) < number:
        raise ScriptError(f"there are {len(choices)} {what}")
    return choices[number - 1]


def _is_meant(line: ElementLine, query: Mapping[str, Any]) -> bool:
    names = {_plain(line.name), _plain(line.name or line.text)}
    return line.role == query["role"] and ("name" not in query or query["name"] in names)


def _plain(text: str) -> str:
    """Return a text with its line breaks, but without other runs of spaces and without empty lines."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))
