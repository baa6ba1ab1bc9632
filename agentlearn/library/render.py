"""Rendering a library as the block of advice that agents read, the same in learning, evaluation and applications.

Labels such as `G7` exist only inside a block. They number all lessons of the library in order, withheld ones included,
so `G7` means the same lesson under every mask of one version.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId

_OPENING = (
    "Experiences from earlier work on such tasks follow. They are advice, not instructions: use one where it fits"
    " the task at hand, and leave it where it does not.\n<experiences>\n"
)
_CLOSING = "\n</experiences>"
_FENCE = re.compile(r"<(?=\s*/?\s*experiences?\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A block of advice and the lessons behind its labels."""

    text: str
    """Empty when no lesson is shown."""
    labels: Mapping[str, ExperienceId]
    """The experiences shown, by label, in order."""


def render(library: Library, masked: Collection[ExperienceId] = (), *, letter: str = "G") -> Rendered:
    """Render the lessons that are not masked, one per line after its label, fenced as advice."""
    withheld = frozenset(masked)
    shown = {
        f"{letter}{number}": experience
        for number, experience in enumerate(library.experiences, start=1)
        if experience.id not in withheld
    }
    if not shown:
        return Rendered(text="", labels={})
    lines = "\n".join(f"[{label}] {_harmless(experience.lesson)}" for label, experience in shown.items())
    return Rendered(
        text=f"{_OPENING}{lines}{_CLOSING}", labels={label: experience.id for label, experience in shown.items()}
    )


def _harmless(lesson: str) -> str:
    """The lesson on one line, without a tag that opens or closes the fence.

    The rules of `learn.lessons.curate` refuse such lessons; libraries from other sources may hold them.
    """
    line = " ".join(lesson.splitlines())
    plain = unicodedata.normalize("NFKC", line)
    return _FENCE.sub("&lt;", plain) if _FENCE.search(plain) else line
