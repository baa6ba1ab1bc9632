"""The card of a library: one page of Markdown about what it gains and holds, and where it comes from."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from agentlearn.library.audit import DEFAULT_THRESHOLD, LibraryAudit
from agentlearn.library.formats.markdown import escaped
from agentlearn.text import visible_line
from agentlearn.types.experience import Library, counted_lessons, estimated_tokens
from agentlearn.types.rendering import headline

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
