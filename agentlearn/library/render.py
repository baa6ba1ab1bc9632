"""The block of advice that an agent reads: the same text in learning, in evaluation and in an application.

Labels such as `G7` exist only inside such a block. They number the library's lessons in order, also where some are
withheld, so that `G7` means the same lesson under every mask of one version.
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
    """A block of advice and what its labels mean."""

    text: str
    """Empty when no lesson is shown."""
    labels: Mapping[str, ExperienceId]
    """The lessons shown, by label, in order."""


def render(library: Library, masked: Collection[ExperienceId] = (), *, letter: str = "G") -> Rendered:
    """The library's lessons but the masked ones, one per line behind its label, fenced as advice."""
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
    """The lesson on one line and unable to open or close the fence.

    `curate.check` refuses such lessons; this is for libraries that did not come through it.
    """
    line = " ".join(lesson.splitlines())
    plain = unicodedata.normalize("NFKC", line)
    return _FENCE.sub("&lt;", plain) if _FENCE.search(plain) else line
