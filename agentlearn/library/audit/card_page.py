"""The card of a library: one page of Markdown that says what it was learned from and what it is worth. Pure.

Figures from a simulated model are called simulated in the sentence that has them. Texts from outside are escaped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from agentlearn.library.audit.audit_result import DEFAULT_THRESHOLD, LibraryAudit
from agentlearn.library.formats.markdown_list import escaped
from agentlearn.text import visible_line
from agentlearn.types.experience import Library, counted_lessons, estimated_tokens

_SHOWN = 500
"""Largest number of lessons in the table."""


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
class CardFacts:
    """All that a card says."""

    name: str
    library: Library
    audit: LibraryAudit
    runs: tuple[CardRun, ...] = ()
    compare: str = ""
    """The command that compares this version with no library."""


def card_page(facts: CardFacts) -> str:
    """Return the card as Markdown."""
    return "\n".join(_lines(facts)).rstrip("\n") + "\n"


def _lines(facts: CardFacts) -> Iterator[str]:
    library = facts.library
    yield f"# Library {_safe(facts.name)}"
    yield ""
    held = f", and keeps {len(library.withheld)} that no agent sees" if library.withheld else ""
    yield f"Version `{library.version}` shows {counted_lessons(len(library))}{held}."
    yield f"Each task costs about {library.tokens:,} tokens more with it."
    yield from ("", "## What it gains", "", _gain(facts))
    yield from ("", "## What it was learned from", "", *_origins(facts))
    yield from ("", "## For which model", "", _models(facts))
    yield from ("", "## Audit", "", *_audit(facts.audit))
    yield from ("", "## Lessons", "", *_lessons(facts))
    yield from ("", "## Version", "", *_versions(library))
    yield from ("", "## Compare it yourself", "", *_commands(facts))


def _gain(facts: CardFacts) -> str:
    """The result of the run that made this version; every other run says nothing about it."""
    made = next((run for run in facts.runs if run.made_this and run.gain), None)
    if made is None:
        return "The gain of this version is not measured."
    kind = "Simulated: " if made.simulated else ""
    return f"{kind}{_safe(made.gain)} (run `{_code(made.run)}`)."


def _origins(facts: CardFacts) -> Iterator[str]:
    kinds: dict[str, int] = {}
    for one in facts.library.experiences:
        kinds[one.origin.kind] = kinds.get(one.origin.kind, 0) + 1
    words = {"person": "written by a person", "import": "imported from another program"}
    for kind in ("person", "import"):
        if count := kinds.get(kind):
            yield f"- {counted_lessons(count)} {words[kind]}"
    if learned := sum(count for kind, count in kinds.items() if kind not in words):
        unknown = "" if facts.runs else "; this store does not hold the run"
        yield f"- {counted_lessons(learned)} learned from rollouts{unknown}"
    for run in facts.runs:
        kind = "simulated run" if run.simulated else "run"
        yield (
            f"- {kind} `{_code(run.run)}` of {run.at:%Y-%m-%d}: {run.tasks:,} tasks of {_safe(run.domain)},"
            f" {run.rollouts:,} rollouts"
        )
    if not kinds and not facts.runs:
        yield "It holds no lesson that agents see."


def _models(facts: CardFacts) -> str:
    if not facts.runs:
        return "Not known: this store does not hold the run that made it."
    pairs = dict.fromkeys((run.model, run.reflector, run.simulated) for run in facts.runs)
    said = [
        f"{'simulated ' if simulated else ''}agents ran on `{_code(model)}`, and `{_code(reflector)}` wrote the lessons"
        for model, reflector, simulated in pairs
    ]
    words = "; ".join(said)
    return f"{words[0].upper()}{words[1:]}. For other models, measure it first."


def _audit(audit: LibraryAudit) -> Iterator[str]:
    failing = audit.failing()
    yield f"Score {audit.score} of 100; {counted_lessons(len(failing))} below {DEFAULT_THRESHOLD}."
    if failing:
        yield ""
    for one in failing[:10]:
        yield f"- `{_code(one.lesson.name[:12])}` {one.score}: {_safe('; '.join(x.sentence for x in one.findings))}"
    if len(failing) > 10:
        yield f"- and {len(failing) - 10} more"


def _lessons(facts: CardFacts) -> Iterator[str]:
    scores = {one.lesson.name: one.score for one in facts.audit.lessons}
    if not facts.library.experiences:
        yield "None."
        return
    yield "| id | lesson | tags | origin | tokens | audit |"
    yield "|---|---|---|---|---|---|"
    for one in facts.library.experiences[:_SHOWN]:
        cells = [
            f"`{_code(one.id[:12])}`",
            _safe(one.lesson),
            _safe(", ".join(one.tags)),
            one.origin.kind,
            str(estimated_tokens(one.lesson)),
            str(scores.get(one.id, "-")),
        ]
        yield f"| {' | '.join(cells)} |"
    if (more := len(facts.library) - _SHOWN) > 0:
        yield ""
        yield f"{more:,} more lessons are not on this page."


def _versions(library: Library) -> Iterator[str]:
    yield f"- version `{library.version}`"
    yield f"- made from `{_code(library.parent)}`" if library.parent else "- made from no earlier version"
    if library.joined:
        yield f"- joined with `{_code(library.joined)}`"


def _commands(facts: CardFacts) -> Iterator[str]:
    yield from ("This compares the version with no library:", "", "```", visible_line(facts.compare), "```")
    again = next((run.command for run in facts.runs if run.made_this and run.command), "")
    if again:
        yield from (
            "",
            "This repeats the run that made it, with its comparison:",
            "",
            "```",
            visible_line(again),
            "```",
        )


def _safe(text: str) -> str:
    """A text on one line that Markdown and HTML show as it is."""
    return escaped(visible_line(text))


def _code(text: str) -> str:
    """A text for a code span."""
    return visible_line(text).replace("`", "'").replace("|", "/")
