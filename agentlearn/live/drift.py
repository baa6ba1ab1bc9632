"""Drift: lessons whose label is no longer what it was when somebody last looked.

The labels of the last look are kept in a file of the library, so whoever looks first is told.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agentlearn.learning.evidence import EvidenceLabel, LibraryEvidence
from agentlearn.library import LibraryStore
from agentlearn.text.files import own, write_whole
from agentlearn.types.ids import ExperienceId
from agentlearn.types.value import Value

LABELS_FILE = "labels"
"""File in a library's folder with the labels of the last look: JSON, by lesson and model."""
_ID = 12


class LabelChange(Value):
    """A lesson that agents see, and whose label is another one than at the last look."""

    library: str
    lesson: ExperienceId
    model: str
    before: EvidenceLabel
    after: EvidenceLabel
    sentence: str
    """All of it in words, with the evidence of now."""


def label_changes(libraries: LibraryStore, found: LibraryEvidence, *, remember: bool = True) -> tuple[LabelChange, ...]:
    """Return the labels of shown lessons that got worse, or were lost, since the last look.

    found: the evidence on a library. remember: make this the last look. A lesson that is proven now, and was not, is no
    alarm. Raises OSError where the labels cannot be written.
    """
    file, changed = libraries.head(found.name).with_name(LABELS_FILE), list[LabelChange]()
    last, now = _read(libraries, found.name), dict[str, EvidenceLabel]()
    for one in found.evidence:
        now[key := f"{one.lesson} {one.model}"] = one.label
        before = last.get(key, "unknown")
        if one.lesson in found.library.by_id and one.label not in {before, "proven"}:
            why = f"; {one.withheld}" if one.withheld else ""
            sentence = f"lesson {one.lesson[:_ID]} of {found.name} was {before} and is {one.words()}{why}"
            known = {"library": found.name, "lesson": one.lesson, "model": one.model, "after": one.label}
            changed.append(LabelChange.model_validate({**known, "before": before, "sentence": sentence}))
    if remember and now != last:
        write_whole(file, json.dumps(now, sort_keys=True).encode(), private=True)
    return tuple(changed)


def _read(libraries: LibraryStore, name: str) -> Mapping[str, EvidenceLabel]:
    """The labels of the last look; none where there was none or its file is damaged."""
    with suppress(OSError, ValueError):
        file = own(libraries.head(name).with_name(LABELS_FILE), libraries.directory.parent)
        found: Any = json.loads(file.read_bytes())
        if isinstance(found, dict):
            return {str(key): label for key, label in found.items() if label in {"proven", "harmful", "unknown"}}
    return {}
