"""Cutting a snapshot into pages of about equal size, at the boundaries of lines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentlearn_web.observation import ElementLine, line_text

_SHARE = 4
"""A page's context takes at most this part of it."""
_CONTEXT_WORDS = 60
"""Characters of an ancestor's name that a context repeats."""
_LEAST = 200
"""Characters that a page has at least, whatever its budget."""


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """One page of a snapshot."""

    context: tuple[ElementLine, ...]
    """Where the page begins: the elements around its first line, shortened, without refs, marked `continued`."""
    lines: tuple[ElementLine, ...]
    """Its own lines; each line of a snapshot is on exactly one page."""

    @property
    def shown(self) -> tuple[ElementLine, ...]:
        """What is shown of it."""
        return self.context + self.lines


def paged(lines: Sequence[ElementLine], budget: int) -> tuple[SnapshotPage, ...]:
    """Pages of at most `budget` characters as `line_text` writes them, one at least. At least 200 are taken.

    A line that is longer than a page is cut, and says how many characters were left out.
    """
    room = max(budget, _LEAST)
    pages: list[SnapshotPage] = []
    context: tuple[ElementLine, ...] = ()
    own: list[ElementLine] = []
    around: list[ElementLine] = []
    used = 0
    for line in lines:
        while around and around[-1].depth >= line.depth:
            around.pop()
        size = _size(line)
        if own and used + size > room:
            pages.append(SnapshotPage(context, tuple(own)))
            context, own = _context(around, room // _SHARE), []
            used = sum(map(_size, context))
        fitting = line if used + size <= room else cut(line, room - used - 1)
        own.append(fitting)
        used += _size(fitting)
        around.append(line)
    return (*pages, SnapshotPage(context, tuple(own)))


def cut(line: ElementLine, room: int) -> ElementLine:
    """The line in at most `room` characters where it has that many to spare in its name, text and address."""
    excess = len(line_text(line)) - room
    if excess <= 0:
        return line
    for name in sorted(("text", "name", "url"), key=lambda name: -len(getattr(line, name))):
        value: str = getattr(line, name)
        left_out = f"… ({len(value)} characters left out)"
        kept = max(len(value) - excess - len(left_out), 0)
        while kept and len(line_text(_with(line, name, value, kept))) > room:  # quotes and such take room of their own
            kept -= min(kept, len(line_text(_with(line, name, value, kept))) - room)
        line = _with(line, name, value, kept)
        excess = len(line_text(line)) - room
        if excess <= 0:
            break
    return line


def _with(line: ElementLine, name: str, value: str, kept: int) -> ElementLine:
    gone = len(value) - kept
    told = f"{value[:kept]}… ({gone} characters left out)" if name != "url" else f"{value[:kept]}…"
    return line.model_copy(update={name: told if gone else value})


def _size(line: ElementLine) -> int:
    return len(line_text(line)) + 1  # its line break


def _context(around: Iterable[ElementLine], room: int) -> tuple[ElementLine, ...]:
    """The innermost ancestors that say something, as many as fit."""
    chosen: list[ElementLine] = []
    for line in reversed(list(around)):
        if line.role == "generic" and not line.name:
            continue
        short = ElementLine(depth=line.depth, role=line.role, name=_short(line.name), marks=("continued",))
        if (room := room - _size(short)) < 0:
            break
        chosen.append(short)
    return tuple(reversed(chosen))


def _short(words: str) -> str:
    return words if len(words) <= _CONTEXT_WORDS else f"{words[:_CONTEXT_WORDS]}…"
