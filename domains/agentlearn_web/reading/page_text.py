"""The text of a page in reading order, read from the document itself and not from the accessibility tree.

The tree leaves out words (behind a label) and line breaks, and does not tell what a person can see. Text is compared
in two forms: words with single spaces, for searching; and without any space, for finding text again in the tree.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Self

_HIDDEN, _STRUCK, _LABEL, _RAISED, _COUNTED = 1, 2, 4, 8, 16
_CELL_CHARS = 100
_NO_SPACE = re.compile("[\\s\u200b\u00ad\ufeff]+")
_FOCUS = "focus"
BORDER = "separator"
"""Role of a line between two parts. If it has a value, a person can move it."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TextRun:
    """A piece of a block whose characters look alike."""

    text: str
    hidden: bool = False
    """Whether a person cannot see it."""
    struck: bool = False
    """Whether it is struck out."""
    label: bool = False
    """Whether it stands in a button or link that a person can see, for example behind its picture."""
    raised: bool = False
    """Whether it begins with a space in place of which a person sees a number raised over the one before it."""

    counted: bool = False
    """Whether it has a number that the page's style counts, which Playwright's snapshot leaves out."""

    @property
    def written(self) -> str:
        """The text, with `^` before a raised number: `10^6`."""
        return self.text.replace(" ", "^", 1) if self.raised else self.text


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A paragraph, heading, table row or other block of text."""

    runs: tuple[TextRun, ...]
    heading: bool = False
    pre: int = 0
    """Number of the preformatted text that it is a part of; 0 if its line breaks mean nothing."""
    joined: bool = False
    """Whether it follows the block before it after a line break (`<br>`) in the same element."""

    @property
    def text(self) -> str:
        """The text as the document writes it."""
        return "".join(run.text for run in self.runs)

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join("".join(run.written for run in self.runs).split())

    @property
    def hidden(self) -> bool:
        """Whether a person can see none of it."""
        return all(run.hidden for run in self.runs if run.text.strip())


@dataclass(frozen=True, slots=True)
class SpanningCell:
    """A table cell, and how many rows and columns it covers."""

    rows: int
    columns: int
    dense: str
    """Its text without spaces, at most 100 characters of it."""


@dataclass(frozen=True, slots=True)
class ShownValue:
    """What a person sees of an element that has no text for it."""

    role: str
    """`progressbar`, `meter`, `slider` or another role with a value; `listitem` for an item's number."""
    about: str
    """Its label, or the text of the item, without spaces, at most 100 characters of it."""
    value: str
    """Such as `150 of 200`, or the number of an item such as `5`; empty when it shows none."""


@dataclass(frozen=True)
class PageText:
    """All text of a page, in reading order."""

    blocks: tuple[TextBlock, ...] = ()
    cells: tuple[SpanningCell, ...] = ()
    """All table cells in reading order, if one of them covers several rows or columns."""
    unseen_values: frozenset[str] = frozenset()
    """Values and placeholders of fields that a person cannot see, without spaces."""
    scrollers: tuple[tuple[int, int], ...] = ()
    """First and last block, the last not included, of each part that scrolls by itself."""
    shown_values: tuple["ShownValue", ...] = ()
    """What widgets and list items show besides text, in reading order."""
    editors: frozenset[str] = frozenset()
    """Boxes of the elements that a person can write in and that are no fields, as snapshots write them: `8,81,120,54`.
    In frames, with an `f` before."""
    gone: tuple[str, ...] = ()
    """Role and box of each control that a person cannot see, such as `combobox,8,81,1,1`."""
    secrets: frozenset[str] | None = frozenset()
    """What stands in the password fields, without spaces; None when the page could not be read."""
    notes: tuple[tuple[str, int, int, str], ...] = ()
    """What is at a place of the text besides the text: its kind, the block, the characters of it before the place
    without spaces, and words. Kinds: `canvas`, `drawn` (words in the order in which a person sees them), `files`,
    `title` of the text before the place, `focus` where an element begins that can have the focus, with the state of
    what it is the label of, or `-`, `tip`, the title of an element without text, and `editor`: the ref of an empty one,
    which is `w` with its number among the elements with `contenteditable`."""
    cut: bool = False
    """Whether text beyond the limit was left out."""
    partial: bool = False
    """Whether the page has frames or shadow trees, whose changes are not observed."""

    @property
    def needs_every_ref(self) -> bool:
        """Whether the page has parts that scroll by themselves, or borders between two parts that can be moved."""
        noted = bool(self.scrollers) or bool(self.focusable)
        return noted or any(one.role == BORDER and one.value for one in self.shown_values)

    @cached_property
    def dense(self) -> str:
        """All text without spaces."""
        return "".join(dense(block.text) for block in self.blocks)

    @cached_property
    def dense_starts(self) -> Sequence[int]:
        """Where each block starts in `dense`, and where the last one ends."""
        return tuple(accumulate((len(dense(block.text)) for block in self.blocks), initial=0))

    @cached_property
    def gaps(self) -> Sequence[int]:
        """Positions in `dense` before which a space or a line break stands, in order."""
        sizes = (len(dense(word)) for block in self.blocks for word in block.text.split())
        return tuple(accumulate(sizes, initial=0))

    @cached_property
    def _placed_runs(self) -> Sequence[tuple[int, TextRun]]:
        runs = [run for block in self.blocks for run in block.runs]
        return tuple(zip(accumulate((len(dense(run.text)) for run in runs), initial=0), runs, strict=False))

    @cached_property
    def raised(self) -> frozenset[int]:
        """Positions in `dense` at which a number is raised over the one before it."""
        return frozenset(start for start, run in self._placed_runs if run.raised)

    @cached_property
    def counted(self) -> Mapping[int, str]:
        """Numbers that the page's style counts, by the position in `dense` at which they end."""
        return {
            start + len(dense(run.text)): run.text for start, run in self._placed_runs if run.counted and not run.hidden
        }

    @cached_property
    def placed_notes(self) -> Sequence[tuple[int, str, str]]:
        """The notes in reading order: position in `dense`, kind and words."""
        placed = ((self.dense_starts[block] + before, kind, words) for kind, block, before, words in self.notes)
        return sorted(one for one in placed if one[1] != _FOCUS)

    @cached_property
    def focusable(self) -> Sequence[tuple[int, tuple[str, ...]]]:
        """Positions in `dense` at which an element begins that can have the focus, each with the marks of it."""
        return [
            (self.dense_starts[block] + before, () if words == "-" else (words,))
            for kind, block, before, words in self.notes
            if kind == _FOCUS
        ]

    @cached_property
    def seen(self) -> str:
        """The text that a person can see, without spaces; a zero character stands where other text is."""
        return "".join("\0" if run.hidden else dense(run.text) for block in self.blocks for run in block.runs)

    @cached_property
    def is_plain(self) -> bool:
        """Whether all text can be seen and none is struck out."""
        return not any(run.hidden or run.struck for block in self.blocks for run in block.runs)

    @cached_property
    def _runs(self) -> tuple[Sequence[int], Sequence[TextRun]]:
        filled = [(start, run) for start, run in self._placed_runs if dense(run.text)]
        return tuple(start for start, _ in filled), [run for _, run in filled]

    def runs_between(self, begin: int, end: int) -> Sequence[TextRun]:
        """Return the runs that have characters between two positions in `dense`."""
        starts, runs = self._runs
        first, last = bisect_right(starts, begin) - 1, bisect_right(starts, max(end - 1, begin)) - 1
        return runs[first : last + 1]

    def plain_lines(self) -> Iterable[tuple[str, TextBlock]]:
        """Yield each line of text with its block. Preformatted text keeps its line breaks and spaces."""
        for block in self.blocks:
            if block.pre:
                yield from ((line, block) for line in block.text.strip("\n").split("\n"))
            else:
                yield block.words, block

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Return the text that the script found."""
        return cls(
            blocks=tuple(
                TextBlock(
                    tuple(
                        TextRun(
                            _storable(text),
                            *(bool(flags & one) for one in (_HIDDEN, _STRUCK, _LABEL, _RAISED, _COUNTED)),
                        )
                        for flags, text in one["runs"]
                    ),
                    bool(one["heading"]),
                    int(one["pre"]),
                    bool(one.get("joined")),
                )
                for one in found["blocks"]
            ),
            cells=tuple(
                SpanningCell(int(rows), int(columns), dense(_storable(text))[:_CELL_CHARS])
                for rows, columns, text in found["cells"]
            ),
            unseen_values=frozenset(dense(_storable(value)) for value in found.get("unseen", ())),
            scrollers=tuple((int(first), int(last)) for first, last in found.get("scrollers", ())),
            shown_values=tuple(
                ShownValue(role, dense(_storable(about))[:_CELL_CHARS], _storable(value))
                for role, about, value in found.get("shown", ())
            ),
            editors=frozenset(map(str, found.get("editors", ()))),
            gone=tuple(map(str, found.get("gone", ()))),
            secrets=frozenset(dense(_storable(value)) for value in found.get("secrets", ())),
            notes=tuple(
                (kind, block, before, _storable(words)) for kind, block, before, words in found.get("notes", ())
            ),
            cut=bool(found["cut"]),
            partial=bool(found["partial"]),
        )


def dense(text: str) -> str:
    """Return the text without spaces, line breaks and characters that take no room."""
    return _NO_SPACE.sub("", text)


def joined_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which cannot be encoded. Surrogate pairs are joined."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _storable(text: str) -> str:
    """Return the text without lone surrogates, and without zero characters."""
    return joined_surrogates(text.replace("\0", "\ufffd"))
