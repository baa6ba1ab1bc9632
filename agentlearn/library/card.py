"""Describing a library: its card in Markdown, and what a model says of its lessons."""

import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, Field

from agentlearn.errors import LibraryError
from agentlearn.library.audit import DEFAULT_THRESHOLD, AuditCode, AuditedLesson, Finding, LibraryAudit
from agentlearn.library.curate.hostile import screened
from agentlearn.library.formats.markdown import AgentSkill, escaped
from agentlearn.prompts import load_prompt
from agentlearn.text import visible_line
from agentlearn.types.experience import Library, counted_lessons, estimated_tokens
from agentlearn.types.rendering import TAG, headline

if TYPE_CHECKING:
    from pydantic_ai.models import KnownModelName, Model


_CARD_LESSONS = 500
"""Largest number of lessons that are listed."""


@dataclass(frozen=True, slots=True)
class CardRun:
    """A run that made versions of the library."""

    run: str
    domain: str
    model: str
    reflector: str
    """The model that wrote the lessons."""
    simulated: bool
    tasks: int
    """Tasks that it learned from."""
    rollouts: int
    at: datetime
    made_this: bool
    """Whether it made this very version, so that its result is about it."""
    gain: str = ""
    """The result on held-out tasks with its interval, as words; empty when it was not measured."""
    command: str = ""
    """The command that starts it again."""


@dataclass(frozen=True, slots=True)
class LibraryCard:
    """All that the card of a library says."""

    name: str
    library: Library
    audit: LibraryAudit
    runs: tuple[CardRun, ...] = ()
    compare: str = ""
    """The command that compares this version with no library."""

    def page(self) -> str:
        """Return the card as Markdown."""
        library, audit = self.library, self.audit
        held = f", and keeps {len(library.withheld)} that no agent sees" if library.withheld else ""
        made = next((run for run in self.runs if run.made_this and run.gain), None)
        gain = "The gain of this version is not measured."
        if made is not None:
            gain = f"{'Simulated: ' if made.simulated else ''}{_safe(made.gain)} (run `{_code(made.run)}`)."
        failing = audit.failing()
        found = [
            f"- `{_code(one.lesson.name[:12])}` {one.score}: {_safe('; '.join(x.sentence for x in one.findings))}"
            for one in failing[:10]
        ]
        more = [f"- and {len(failing) - 10} more"] if len(failing) > 10 else []
        again = next((run.command for run in self.runs if run.made_this and run.command), "")
        repeated = (
            "",
            "This repeats the run that made it, with its comparison:",
            "",
            "```",
            visible_line(again),
            "```",
        )
        lines = [
            f"# Library {_safe(self.name)}",
            "",
            f"Version `{library.version}` shows {counted_lessons(len(library))}{held}.",
            f"Each task costs about {library.tokens:,} tokens more with it.",
            *("", "## What it gains", "", gain),
            *("", "## What it was learned from", "", *self._origins()),
            *("", "## For which model", "", self._models()),
            *("", "## Audit", ""),
            f"Score {audit.score} of 100; {counted_lessons(len(failing))} below {DEFAULT_THRESHOLD}.",
            *(["", *found, *more] if failing else []),
            *("", "## Lessons", "", *self._lessons()),
            *("", "## Version", "", f"- version `{library.version}`"),
            f"- made from `{_code(library.parent)}`" if library.parent else "- made from no earlier version",
            *([f"- joined with `{_code(library.joined)}`"] if library.joined else []),
            *("", "## Compare it yourself", "", "This compares the version with no library:"),
            *("", "```", visible_line(self.compare), "```"),
            *(repeated if again else ()),
        ]
        return "\n".join(lines).rstrip("\n") + "\n"

    def _origins(self) -> Iterator[str]:
        kinds = Counter(one.origin.words for one in self.library.experiences if one.origin.kind in {"person", "import"})
        yield from (f"- {counted_lessons(number)} {words}" for words, number in sorted(kinds.items(), reverse=True))
        if learned := len(self.library) - kinds.total():
            unknown = "" if self.runs else "; this store does not hold the run"
            yield f"- {counted_lessons(learned)} learned from rollouts{unknown}"
        for run in self.runs:
            kind = "simulated run" if run.simulated else "run"
            yield (
                f"- {kind} `{_code(run.run)}` of {run.at:%Y-%m-%d}: {run.tasks:,} tasks of {_safe(run.domain)},"
                f" {run.rollouts:,} rollouts"
            )
        if not len(self.library) and not self.runs:
            yield "It holds no lesson that agents see."

    def _models(self) -> str:
        if not self.runs:
            return "Not known: this store does not hold the run that made it."
        pairs = dict.fromkeys((run.model, run.reflector, run.simulated) for run in self.runs)
        said = [
            f"{'simulated ' if simulated else ''}agents ran on `{_code(model)}`, and `{_code(reflector)}` wrote the"
            " lessons"
            for model, reflector, simulated in pairs
        ]
        words = "; ".join(said)
        return f"{words[0].upper()}{words[1:]}. For other models, measure it first."

    def _lessons(self) -> Iterator[str]:
        scores = {one.lesson.name: one.score for one in self.audit.lessons}
        if not self.library.experiences:
            yield "None."
            return
        for one in self.library.experiences[:_CARD_LESSONS]:
            tokens, score = f"{estimated_tokens(one.lesson)} tokens", f"audit {scores.get(one.id, '-')}"
            known = _safe(", ".join((*one.tags, one.origin.words, tokens, score)))
            yield f"- `{_code(one.id[:12])}` {_safe(headline(one.lesson))} ({known})"
        if (more := len(self.library) - _CARD_LESSONS) > 0:
            yield ""
            yield f"{more:,} more lessons are not on this page."


def _safe(text: str) -> str:
    """A text on one line that Markdown and HTML show as it is."""
    return escaped(visible_line(text))


def _code(text: str) -> str:
    """A text for a code span."""
    return visible_line(text).replace("`", "'").replace("|", "/")


_MOST_LESSONS = 200
"""Largest number of lessons that one question holds. A pair in two questions is not compared."""
_REASON_CHARACTERS = 300
_DESCRIPTION_WORDS = 100
_Reply = TypeVar("_Reply", bound=BaseModel)


class _LabelledPair(BaseModel, frozen=True):
    """Two lessons that an agent cannot both follow."""

    first: str = Field(description="Label of a lesson, such as L3.")
    second: str = Field(description="Label of another lesson.")
    reason: str = Field(description="The situation in which both hold, and what each demands there.")


class _QuotedLesson(BaseModel, frozen=True):
    """A lesson and the part of it that shows a fault."""

    lesson: str = Field(description="Label of a lesson, such as L3.")
    words: str = Field(description="Words of the lesson, exactly as they stand there.")


class _AuditReply(BaseModel, frozen=True):
    """What the model submits."""

    contradictions: list[_LabelledPair] = Field(default_factory=list[_LabelledPair])
    platitudes: list[_QuotedLesson] = Field(default_factory=list[_QuotedLesson])
    specific_numbers: list[_QuotedLesson] = Field(default_factory=list[_QuotedLesson])


class _SkillReply(BaseModel):
    """What the model submits."""

    description: str


async def model_findings(
    lessons: Sequence[AuditedLesson], model: "Model | KnownModelName | str"
) -> tuple[tuple[int, Finding], ...]:
    """Return what the model says is wrong with lessons, each finding with the number of its lesson.

    It is asked for contradictions, platitudes and numbers of one problem, in one call per 200 lessons. Labels that name
    no lesson, pairs of a lesson with itself and words that the lesson does not hold are left out. Raises LibraryError
    when the model gives no usable reply.
    """
    found: dict[tuple[AuditCode, int, int], Finding] = {}
    for start in range(0, len(lessons), _MOST_LESSONS):
        part = lessons[start : start + _MOST_LESSONS]
        failed = "the model gave no usable list of findings: {}; name another --model, or leave it out"
        question, instructions = _question([one.text for one in part]), load_prompt("audit", 1).text
        reply = await _submitted(model, _AuditReply, instructions, question, failed)
        places = {f"L{number}": start + number - 1 for number in range(1, len(part) + 1)}
        for pair in reply.contradictions:
            both, why = (pair.first, pair.second), visible_line(pair.reason, _REASON_CHARACTERS)
            for one, other in itertools.permutations([places.get(label.strip().upper()) for label in both]):
                if one is not None and other is not None and one != other:
                    sentence = f"it contradicts {lessons[other]}, says the model: {why}"
                    found.setdefault((AuditCode.CONTRADICTS, one, other), Finding(AuditCode.CONTRADICTS, sentence))
        for code, quotes, what in (
            (AuditCode.PLATITUDE, reply.platitudes, "holds for any task"),
            (AuditCode.SPECIFIC_NUMBERS, reply.specific_numbers, "is of one problem"),
        ):
            for quote in quotes:
                one = places.get(quote.lesson.strip().upper())
                if one is not None and quote.words.strip() and quote.words in visible_line(lessons[one].text):
                    said = f"{visible_line(quote.words, _REASON_CHARACTERS)!r} {what}, says the model"
                    found.setdefault((code, one, one), Finding(code, said))
    return tuple((number, finding) for (_, number, _), finding in sorted(found.items()))


async def written_description(library: Library, model: "Model | KnownModelName | str") -> str:
    """Return a description of the library as a skill, in the model's words: what it is for and when to load it.

    The model reads the first 200 lessons and the tags. What is too long, or would be refused as a lesson for what it
    looks like, is asked for again, twice. Raises LibraryError when no reply can be used.
    """
    from pydantic_ai import ModelRetry

    def checked(reply: _SkillReply) -> _SkillReply:
        text = " ".join(reply.description.split())
        end = None if AgentSkill.description_fault(text) else screened(text)
        if fault := AgentSkill.description_fault(text) or (end.reason if end else ""):
            raise ModelRetry(f"this cannot describe a skill: {fault}")
        return _SkillReply(description=text)

    tags = ", ".join(dict.fromkeys(tag for one in library.experiences for tag in one.tags if TAG.fullmatch(tag)))
    question = f"{_question([one.lesson for one in library.experiences])}\nTags of the lessons: {tags or 'none'}."
    instructions = load_prompt("skill", 1).fill({"max_words": str(_DESCRIPTION_WORDS)})
    failed = "the model gave no usable description: {}; give --description, or leave --model out"
    return (await _submitted(model, _SkillReply, instructions, question, failed, checked)).description


async def _submitted(
    model: "Model | KnownModelName | str",
    kind: type[_Reply],
    instructions: str,
    question: str,
    failed: str,
    check: Callable[[_Reply], _Reply] | None = None,
) -> _Reply:
    """What the model hands in. Raises LibraryError with the words of `failed` when it gives nothing usable."""
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    output = ToolOutput(kind, name="submit", description="Hand in your result.")
    agent = Agent(model, output_type=output, instructions=instructions, retries=2)
    if check is not None:
        agent.output_validator(check)
    try:
        return (await agent.run(question)).output
    except UnexpectedModelBehavior as error:
        raise LibraryError(failed.format(error), code="no_reply") from error


def _question(lessons: Sequence[str]) -> str:
    """The first lessons with their labels, between two marks that none of them can contain."""
    numbered = enumerate(lessons[:_MOST_LESSONS], 1)
    listed = "\n".join(f"L{number}: {visible_line(lesson)}" for number, lesson in numbered)
    code = secrets.token_hex(6)
    while code in listed:
        code = secrets.token_hex(6)
    return f"The code is {code}.\n<lessons {code}>\n{listed}\n</lessons {code}>"
