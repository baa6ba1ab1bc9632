"""Libraries as JSON text, in our format and in the format of the original training-free GRPO. Pure.

Our format is sorted and indented, with the experiences in the order in which they are shown:

    {"experiences": [{"id": …, "lesson": …, "origin": {…}, "tags": […]}, …],
     "format": "agentlearn-library/1", "parent": …, "version": …}

`version` is a hash of the lessons and shows whether the file was changed. A library written by hand has
`"version": "hand-written"`; it needs only `format` and each experience's `lesson`, and may have `tags`.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal, get_args

from pydantic import ValidationError

from agentlearn.errors import LibraryError
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Origin, OriginKind, experience_id

Form = Literal["agentlearn", "training-free-grpo"]
"""Name of a library format."""

_FORMAT = "agentlearn-library/1"
_HAND_WRITTEN = "hand-written"


def format_library(library: Library, form: Form) -> str:
    """Return the library as text in that format. Raises LibraryError for an unknown format."""
    if form not in get_args(Form):
        known = ", ".join(repr(one) for one in get_args(Form))
        raise LibraryError(f"unknown library format {form!r} (known: {known})")
    if form == "agentlearn":
        document = {"format": _FORMAT, "version": library.version, **library.model_dump(mode="json")}
        return json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    lessons = {f"G{place}": experience.lesson for place, experience in enumerate(library.experiences)}
    return json.dumps({"experiences": lessons, "next_id": len(lessons)}, ensure_ascii=False, indent=2) + "\n"


def parse_library(text: str, source: str) -> Library:
    """Return the library in a text of either format. source: the file's name, for messages. Raises LibraryError."""
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise LibraryError(f"{source!r} is not JSON: {error}") from error
    except RecursionError as error:
        raise LibraryError(f"{source!r} is no library file: its lists and objects are nested too deep") from error
    match document:
        case {"format": str(form)}:
            if form != _FORMAT:
                raise LibraryError(
                    f"{source!r} has the library format {form!r}; this agentlearn reads {_FORMAT!r}:"
                    " pip install --upgrade agentlearn-lib"
                )
            return _ours(document, source)
        case {"experiences": dict(lessons)}:
            return _imported(_original(lessons), "import", source)
        case _:
            raise LibraryError(
                f'{source!r} is not a library file: expected an object with "format": {_FORMAT!r}, or the original\'s'
                ' {"experiences": {"G0": "…"}, "next_id": 1}'
            )


def _ours(document: dict[str, Any], source: str) -> Library:
    entries = document.get("experiences")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise LibraryError(f'{source!r} needs "experiences", a list of objects')
    if document.get("version") == _HAND_WRITTEN:
        written = [(f"#{place}", entry.get("lesson"), entry.get("tags", ())) for place, entry in enumerate(entries, 1)]
        return _imported(written, "person", source)
    try:
        experiences = tuple(Experience.model_validate(entry) for entry in entries)
        library = Library(parent=document.get("parent"), experiences=experiences)
    except ValidationError as error:
        raise LibraryError(f"{source!r} was changed and cannot be read: {_reason(error)}; {_how_to_fix()}") from error
    if library.version != document.get("version"):
        raise LibraryError(
            f"{source!r} was changed: its lessons make version {library.version[:8]!r}, but it says"
            f" {str(document.get('version'))[:8]!r}; {_how_to_fix()}"
        )
    return library


def _original(lessons: dict[str, Any]) -> list[tuple[str, Any, Sequence[str]]]:
    # The original format allows line breaks in a lesson; ours does not.
    return [(name, " ".join(text.split()) if isinstance(text, str) else text, ()) for name, text in lessons.items()]


def _imported(entries: Sequence[tuple[str, Any, Any]], kind: OriginKind, source: str) -> Library:
    """Return the library of entries (name in the file, lesson, tags) that a person or another program wrote."""
    experiences: list[Experience] = []
    for ordinal, (name, lesson, tags) in enumerate(entries):
        try:
            experience = Experience(
                id=experience_id(EMPTY_LIBRARY.version, [kind, lesson], ordinal),
                lesson=lesson,
                tags=tags,
                origin=Origin(kind=kind),
            )
        except ValidationError as error:
            shown = repr(lesson if not isinstance(lesson, str) or len(lesson) < 60 else lesson[:60] + "…")
            raise LibraryError(
                f"experience {name} of {source!r} cannot be used: {_reason(error)}; correct it in the file: {shown}"
            ) from error
        experiences.append(experience)
    return Library(experiences=tuple(experiences))


def _reason(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"


def _how_to_fix() -> str:
    return f'set "version": "{_HAND_WRITTEN}" to read it as a new library, or export the library again'
