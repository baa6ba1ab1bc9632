"""Libraries in the JSON of the original training-free GRPO: `{"experiences": {"G0": "…"}, "next_id": 1}`. Pure."""

import json
from collections.abc import Mapping
from typing import Any, cast

from agentlearn.errors import LibraryError
from agentlearn.library.formats.checked_json import json_value
from agentlearn.library.formats.library_format import Form, FoundLesson, ReadLessons, usual_losses
from agentlearn.library.formats.source_files import SourceFiles
from agentlearn.types.experience import Library


class OriginalJson:
    """The JSON of the original implementation. It keeps the lessons and their order."""

    name: Form = "training-free-grpo"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the text is a JSON object with experiences in an object."""
        if source.is_folder or source.only.lstrip()[:1] != "{":
            return False
        try:
            return experiences_of(json_value(source.only, source.path)) is not None
        except LibraryError:
            return False

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons in order."""
        found = experiences_of(json_value(source.only, source.path))
        if found is None:
            raise LibraryError(f'{source.path!r} needs "experiences", an object of lessons such as {{"G0": "…"}}')
        return ReadLessons(tuple(FoundLesson(label, one_line(text)) for label, text in found.items()))

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return the library as text. It does not hold a name."""
        lessons = {f"G{place}": experience.lesson for place, experience in enumerate(library.experiences)}
        document = {"experiences": lessons, "next_id": len(lessons)}
        return {"": json.dumps(document, ensure_ascii=False, indent=2) + "\n"}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Everything but the lessons."""
        return usual_losses(library, tags=True)


def experiences_of(document: object) -> dict[str, Any] | None:
    """The lessons by label of a document of the original; None when it is none."""
    match document:
        case {"format": str()}:
            return None
        case {"experiences": dict(lessons)}:
            return cast("dict[str, Any]", lessons)
        case _:
            return None


def one_line(text: object) -> object:
    """A text with its line breaks as spaces: other formats allow them in a lesson, ours does not."""
    return " ".join(text.split()) if isinstance(text, str) else text
