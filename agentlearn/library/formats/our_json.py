"""Libraries as one JSON object in our format. Pure.

The text is sorted and indented, with the experiences in the order in which they are shown:

    {"experiences": [{"id": …, "lesson": …, "origin": {…}, "tags": […]}, …],
     "format": "agentlearn-library/1", "parent": …, "version": …}

`version` is a hash of the lessons and shows whether the file was changed. A library written by hand has
`"version": "hand-written"`; it needs only `format` and each experience's `lesson`, and may have `tags`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from agentlearn.errors import LibraryError
from agentlearn.library.formats.source_files import Form, FoundLesson, ReadLessons, SourceFiles
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Origin, OriginKind, experience_id

_SHOWN = 60


def json_value(text: str, source: str) -> object:
    """Return the value of a JSON text. source: the file's name, for messages. Raises LibraryError."""

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise LibraryError(f"{source!r} has the key {twice!r} twice in one object; keep one of them")
        return found

    try:
        return json.loads(text, object_pairs_hook=checked)
    except ValueError as error:
        raise LibraryError(f"{source!r} is not JSON: {error}") from error
    except RecursionError as error:
        raise LibraryError(f"{source!r} is not a library file: its lists and objects are nested too deep") from error


def shown_value(value: object) -> str:
    """A value for a message, at most 60 characters of it."""
    if isinstance(value, str):
        return repr(value if len(value) < _SHOWN else value[:_SHOWN] + "…")
    text = repr(value)
    return text if len(text) < _SHOWN else text[:_SHOWN] + "…"


FORMAT = "agentlearn-library/1"
HAND_WRITTEN = "hand-written"
"""The version of a file that a person wrote."""

_ID = re.compile(r"[0-9A-Za-z._:-]{1,64}")

Entry = tuple[str, Any, Any]
"""A lesson in a file: its name there, its text, its tags."""


class AgentlearnJson:
    """Our JSON, which keeps everything."""

    name: Form = "agentlearn"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the text is a JSON object that names our format."""
        return (
            not source.is_folder and f'"{FORMAT.partition("/")[0]}/' in source.only and source.only.lstrip()[:1] == "{"
        )

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons, and the library itself when the file was not changed."""
        document = json_value(source.only, source.path)
        if not isinstance(document, dict):
            raise LibraryError(
                f'{source.path!r} is not an agentlearn library; give an object with "format": {FORMAT!r}'
            )
        found = cast("dict[str, Any]", document)
        check_format(found.get("format"), FORMAT, source.path)
        entries = _entries(found, source.path)
        whole = unchanged(found, source.path)
        kept = [FoundLesson(f"#{n}", one.get("lesson"), one.get("tags", ())) for n, one in enumerate(entries, 1)]
        exported = found.get("parent" if found.get("version") == HAND_WRITTEN else "version")
        return ReadLessons((*kept, *_withheld(found)), whole, str(exported or ""))

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return the library as text. It does not hold a name."""
        document = {"format": FORMAT, "version": library.version, **library.model_dump(mode="json")}
        return {"": json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n"}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Nothing."""
        return ()


def check_format(found: object, expected: str, source: str) -> None:
    """Raise LibraryError when a file names another version of our format."""
    if found != expected:
        raise LibraryError(
            f"{source!r} has the library format {found!r}; this agentlearn reads {expected!r}:"
            " pip install --upgrade agentlearn-lib"
        )


def unchanged(document: dict[str, Any], source: str) -> Library | None:
    """Return the library of a document of ours; None when a person wrote or changed it."""
    if document.get("version") == HAND_WRITTEN:
        return None
    try:
        return ours(document, source)
    except LibraryError:
        return None


def ours(document: dict[str, Any], source: str) -> Library:
    """Return the library of a document of ours. Raises LibraryError when its lessons and its version differ."""
    entries = _entries(document, source)
    if document.get("version") == HAND_WRITTEN:
        written = [(f"#{place}", entry.get("lesson"), entry.get("tags", ())) for place, entry in enumerate(entries, 1)]
        return new_library(written, "person", source)
    try:
        experiences = tuple(Experience.model_validate(entry) for entry in entries)
        library = Library(
            parent=document.get("parent"),
            joined=document.get("joined"),
            experiences=experiences,
            withheld=document.get("withheld", ()),
        )
    except ValidationError as error:
        raise LibraryError(f"{source!r} was changed and cannot be read: {_reason(error)}; {_how_to_fix()}") from error
    if library.version != document.get("version"):
        raise LibraryError(
            f"{source!r} was changed: its lessons make version {library.version[:8]!r}, but it says"
            f" {str(document.get('version'))[:8]!r}; {_how_to_fix()}"
        )
    if (odd := next((one for one in _ids(library) if not _ID.fullmatch(one)), None)) is not None:
        raise LibraryError(f"{source!r} has the id {shown_value(odd)}, which agentlearn never makes; {_how_to_fix()}")
    return library


def _ids(library: Library) -> Iterator[str]:
    """All ids in a library, of lessons and of versions."""
    yield from (one for one in (library.parent, library.joined) if one is not None)
    for one in (*library.experiences, *(held.experience for held in library.withheld)):
        yield from (one.id, *one.origin.parents)
        if one.origin.library is not None:
            yield one.origin.library


def new_library(entries: Sequence[Entry], kind: OriginKind, source: str) -> Library:
    """Return the library of lessons that a person or another program wrote. Raises LibraryError, which names one."""
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
            raise LibraryError(
                f"experience {name} of {source!r} cannot be used: {_reason(error)}; correct it in the file:"
                f" {shown_value(lesson)}"
            ) from error
        experiences.append(experience)
    return Library(experiences=tuple(experiences))


def _entries(document: dict[str, Any], source: str) -> list[dict[str, Any]]:
    entries = document.get("experiences")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise LibraryError(f'{source!r} needs "experiences", a list of objects')
    return cast("list[dict[str, Any]]", entries)


def _withheld(document: dict[str, Any]) -> list[FoundLesson]:
    found = document.get("withheld")
    held = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    inner = [one.get("experience") for one in cast("list[dict[str, Any]]", held)]
    lessons = [cast("dict[str, Any]", one) for one in inner if isinstance(one, dict)]
    return [
        FoundLesson(f"withheld #{n}", one.get("lesson"), one.get("tags", ()), withheld=True)
        for n, one in enumerate(lessons, 1)
    ]


def _reason(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"


def _how_to_fix() -> str:
    return f'set "version": "{HAND_WRITTEN}" to read it as a new library, or export the library again'
