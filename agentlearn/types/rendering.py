"""The block of advice that agents read, the same in learning, evaluation and applications.

Labels such as `G7` exist only inside a block. They number all lessons of the library in order, withheld ones included,
so `G7` means the same lesson under every mask and for every task of one version. Lessons with one tag stand together
under one heading; a lesson with several tags belongs to the first.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentlearn.types.ids import ExperienceId

MAX_LESSON_WORDS = 80
MAX_LESSON_CHARACTERS = 800
"""The limits of every lesson: a lesson of a person or a file has at most as many words and characters."""
ASKED_LESSON_WORDS = 32
"""The limit that a reflector is given for its own lessons, where the settings do not name another one."""
_OPENING = (
    "Experiences from earlier work on such tasks follow. They are advice, not instructions: use one where it fits"
    " the task at hand, and leave it where it does not.\n"
)
_CLOSING = "\n</experiences>"
_FENCE = re.compile(r"<(?=\s*/?\s*experiences?\b)", re.IGNORECASE)
_LABEL = re.compile(r"^([ \t]*)\[(?=(?:[\w-]+\.)?[GP]\d)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")

BLOCK_NAME_RULE = "a letter, then at most 31 letters, digits, '_' or '-'"
"""What the name of a block looks like, for messages."""


_T = TypeVar("_T")

TAG = re.compile(r"[a-z0-9-]{1,24}")
"""What a tag looks like. Agents never see one of another form, which only a changed file can hold."""


def in_sections(items: Iterable[_T], tags_of: Callable[[_T], Sequence[str]]) -> dict[str, list[_T]]:
    """The items by their first tag, in order of its first appearance; those without a tag under an empty text."""
    sections: dict[str, list[_T]] = {}
    for one in items:
        sections.setdefault(next(iter(tags_of(one)), ""), []).append(one)
    return sections


class Labelled(Protocol):
    """What a line of the block is made of."""

    @property
    def id(self) -> ExperienceId:
        """The permanent id."""
        ...

    @property
    def lesson(self) -> str:
        """The lesson in words."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        ...

    @property
    def by_person(self) -> bool:
        """Whether a person wrote it, and no run changes it."""
        ...


@dataclass(frozen=True, slots=True)
class Rendered:
    """A block of advice and the lessons behind its labels. `str(rendered)` is the block."""

    text: str
    """Empty when no lesson is shown."""
    labels: Mapping[str, ExperienceId]
    """The experiences shown, by label, in order."""

    def __str__(self) -> str:
        return self.text


def is_section(text: str) -> bool:
    """Whether a text is a section of Markdown and not a lesson of one line."""
    return "\n" in text


def headline(text: str) -> str:
    """A lesson of one line as it is; of a section, the first line with words, and `…`."""
    return f"{text.strip().partition(chr(10))[0]} …" if is_section(text) else text


def is_block_name(name: str) -> bool:
    """Whether a block of advice may have this name."""
    return _NAME.fullmatch(name) is not None


def render_lines(
    experiences: Iterable[Labelled],
    masked: Collection[ExperienceId] = (),
    *,
    letter: str = "G",
    name: str = "",
    chosen: Collection[ExperienceId] | None = None,
) -> Rendered:
    """Render the lessons that are not masked, one per line after its label, fenced as advice.

    Lessons without a tag come first, then each first tag as a heading above its lessons.

    letter: what labels start with. name: the name of the block where an agent reads several, so that no label is in
    two blocks; a lesson of the block `style` has the label `style.G1`. chosen: the lessons to show; None: all.
    """
    withheld = frozenset(masked)
    wanted = None if chosen is None else frozenset(chosen)
    start = f"{name}.{letter}" if name else letter
    shown = {
        f"{start}{number}": experience
        for number, experience in enumerate(experiences, start=1)
        if experience.id not in withheld and (wanted is None or experience.id in wanted)
    }
    if not shown:
        return Rendered(text="", labels={})
    fence = f'<experiences name="{name}">\n' if name else "<experiences>\n"
    sections = in_sections(shown.items(), lambda one: one[1].tags if all(map(TAG.fullmatch, one[1].tags[:1])) else ())
    blocks = [("", sections.pop("", [])), *sections.items()]
    lines = "\n".join(
        line
        for tag, listed in blocks
        for line in (
            *([f"## {tag}"] if tag else ()),
            *(f"[{label}] {_harmless(one.lesson)}" for label, one in listed),
        )
    )
    return Rendered(
        text=f"{_OPENING}{fence}{lines}{_CLOSING}",
        labels={label: experience.id for label, experience in shown.items()},
    )


def document_text(sections: Iterable[str]) -> str:
    """The sections as one text, byte for byte; each ends with a line break."""
    return "".join(one if one.endswith("\n") else f"{one}\n" for one in sections)


def render_document(
    sections: Iterable[Labelled], masked: Collection[ExperienceId] = (), *, labelled: bool = False
) -> Rendered:
    """Return the sections that are not masked, one after the other, as they are.

    labelled: in a block, each after a line with its label, and with what a person keeps marked.
    """
    numbered = {f"G{number}": one for number, one in enumerate(sections, start=1)}
    shown = {label: one for label, one in numbered.items() if one.id not in masked}
    labels = {label: one.id for label, one in shown.items()}
    if not labelled:
        return Rendered(document_text(one.lesson for one in shown.values()).strip("\n"), labels)
    kept = {label: " (a person keeps this section as it is)" if one.by_person else "" for label, one in shown.items()}
    parts = (f"[{label}]{kept[label]}\n{one.lesson.strip(chr(10))}\n" for label, one in shown.items())
    return Rendered(f"<document>\n{''.join(parts)}</document>" if shown else "", labels)


def _harmless(lesson: str) -> str:
    """The lesson on one line, or the section, without a tag that opens or closes the fence.

    The rules of `library.curate` refuse such lessons; libraries from other sources may hold them.
    """
    line = _LABEL.sub(r"\1(", lesson.strip("\n")) if is_section(lesson) else " ".join(lesson.splitlines())
    plain = unicodedata.normalize("NFKC", line)
    return _FENCE.sub("&lt;", plain) if _FENCE.search(plain) else line
