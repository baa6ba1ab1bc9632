"""Asking a model which lessons contradict each other. What the model writes is checked before it counts."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from agentlearn.errors import LibraryError
from agentlearn.library.audit.audit_library import contradiction
from agentlearn.library.audit.audit_result import AuditedLesson, Finding
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.text import visible_line

if TYPE_CHECKING:
    from pydantic_ai.models import KnownModelName, Model

MOST_LESSONS = 200
"""Largest number of lessons that one question holds. A pair in two questions is not compared."""
_SHOWN = 300


class LabelledPair(BaseModel):
    """Two lessons that an agent cannot both follow."""

    model_config = ConfigDict(frozen=True)

    first: str = Field(description="Label of a lesson, such as L3.")
    second: str = Field(description="Label of another lesson.")
    reason: str = Field(description="The situation in which both hold, and what each demands there.")


class ContradictionsReply(BaseModel):
    """What the model submits."""

    model_config = ConfigDict(frozen=True)

    contradictions: list[LabelledPair] = Field(default_factory=list[LabelledPair])


@dataclass(frozen=True, slots=True)
class _FoundPair:
    """Two lessons, by number, that a model says contradict each other, and why."""

    first: int
    second: int
    reason: str


def _contradictions_prompt() -> Prompt:
    """The prompt of the check."""
    return load_prompt("contradictions", 1)


async def audit_contradictions(
    lessons: Sequence[AuditedLesson], model: "Model | KnownModelName | str"
) -> tuple[_FoundPair, ...]:
    """Return the pairs of lessons that the model says contradict each other, sorted, each once.

    One call per 200 lessons. Labels that name no lesson, and pairs of a lesson with itself, are left out. Raises
    LibraryError when the model gives no usable reply.
    """
    found: dict[tuple[int, int], str] = {}
    for start in range(0, len(lessons), MOST_LESSONS):
        part = lessons[start : start + MOST_LESSONS]
        if len(part) < 2:
            continue
        for one in await _ask(part, model):
            pair = sorted(_number(label, len(part)) for label in (one.first, one.second))
            if pair[0] >= 0 and pair[0] != pair[1]:
                found.setdefault((start + pair[0], start + pair[1]), visible_line(one.reason, _SHOWN))
    return tuple(_FoundPair(first, second, reason) for (first, second), reason in sorted(found.items()))


def contradiction_findings(
    lessons: Sequence[AuditedLesson], pairs: Sequence[_FoundPair]
) -> Iterator[tuple[int, Finding]]:
    """The findings for both lessons of each pair."""
    for pair in pairs:
        yield pair.first, contradiction(lessons[pair.second], f"the model says: {pair.reason}")
        yield pair.second, contradiction(lessons[pair.first], f"the model says: {pair.reason}")


async def _ask(lessons: Sequence[AuditedLesson], model: "Model | KnownModelName | str") -> list[LabelledPair]:
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    output = ToolOutput(ContradictionsReply, name="submit", description="Hand in your result.")
    agent = Agent(model, output_type=output, instructions=_contradictions_prompt().text, retries=2)
    try:
        result = await agent.run(_question(lessons))
    except UnexpectedModelBehavior as error:
        raise LibraryError(
            f"the model gave no usable list of contradictions: {error}; name another --model, or leave it out",
            code="no_reply",
        ) from error
    return result.output.contradictions


def _question(lessons: Sequence[AuditedLesson]) -> str:
    listed = "\n".join(f"L{number}: {visible_line(one.text)}" for number, one in enumerate(lessons, 1))
    code = secrets.token_hex(6)
    while code in listed:
        code = secrets.token_hex(6)
    return f"The code is {code}.\n<lessons {code}>\n{listed}\n</lessons {code}>"


def _number(label: str, count: int) -> int:
    """The place of a label in the list; -1 for a label that names no lesson."""
    digits = label.strip().removeprefix("L").removeprefix("l")
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else 0
    return number - 1 if 1 <= number <= count else -1
