"""Libraries in our own formats, which keep everything: one JSON object, and JSON lines for git. Pure.

The object is sorted and indented, with the experiences in the order in which they are shown:

    {"experiences": [{"id": …, "lesson": …, "origin": {…}, "tags": […]}, …],
     "format": "agentlearn-library/1", "parent": …, "version": …}

`version` is a hash of the lessons and shows whether the file was changed. A library written by hand has
`"version": "hand-written"`; it needs only `format` and each experience's `lesson`, and may have `tags`. As lines, a
change of one lesson changes its line and the first one; lessons with a status are withheld:

    {"format": "agentlearn-lessons/1", "version": …, "parent": …}
    {"lesson": …, "tags": […], "id": …, "origin": {…}}
    {"lesson": …, "tags": […], "id": …, "origin": {…}, "status": "pending", "reason": …}
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from agentlearn.errors import LibraryError
from agentlearn.library.formats.source_files import FoundLesson, LibraryFormat, ReadLessons, SourceFiles
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Origin, OriginKind, experience_id

FORMAT = "agentlearn-library/1"
_LINES_FORMAT = "agentlearn-lessons/1"
LINES_FILE = "lessons.jsonl"
"""The file of a folder that holds the library."""
_HAND_WRITTEN = "hand-written"
"""The version of a file that a person wrote."""
_HOW_TO_FIX = f'set "version": "{_HAND_WRITTEN}" to read it as a new library, or export the library again'
_ID = re.compile(r"[0-9A-Za-z._:-]{1,64}")
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
    text = value if isinstance(value, str) else repr(value)
    cut = text if len(text) < _SHOWN else text[:_SHOWN] + "…"
    return repr(cut) if isinstance(value, str) else cut


class LibraryJson(LibraryFormat):
    """Our JSON."""

    name = "agentlearn"
    keeps = "everything"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the text is a JSON object that names our format."""
        is_ours = not source.is_folder and f'"{FORMAT.partition("/")[0]}/' in source.only
        return is_ours and source.only.lstrip()[:1] == "{"

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons, and the library itself when the file was not changed."""
        document = json_value(source.only, source.path)
        if not isinstance(document, dict):
            raise LibraryError(
                f'{source.path!r} is not an agentlearn library; give an object with "format": {FORMAT!r}'
            )
        found = cast("dict[str, Any]", document)
        check_format(found.get("format"), FORMAT, source.path)
        entries, held = _entries(found, source.path), found.get("withheld")
        inner = [one.get("experience") for one in _objects(held if isinstance(held, list) else [])]
        lessons = [FoundLesson(f"#{n}", one.get("lesson"), one.get("tags", ())) for n, one in enumerate(entries, 1)]
        for n, one in enumerate(_objects(inner), 1):
            lessons.append(FoundLesson(f"withheld #{n}", one.get("lesson"), one.get("tags", ()), withheld=True))
        exported = found.get("parent" if found.get("version") == _HAND_WRITTEN else "version")
        return ReadLessons(tuple(lessons), _unchanged(found, source.path), str(exported or ""))

    def write(self, library: Library, name: str = "", description: str = "") -> Mapping[str, str]:
        """Return the object, sorted and indented."""
        document = {"format": FORMAT, "version": library.version, **library.model_dump(mode="json")}
        return {"": json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n"}


class LessonLines(LibraryFormat):
    """One lesson per line."""

    name = "lines"
    keeps = "everything"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the first line names this format."""
        first = (source.named(LINES_FILE) or "").lstrip().partition("\n")[0]
        return first.startswith("{") and f'"{_LINES_FORMAT.partition("/")[0]}/' in first

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons, and the library itself when the file was not changed."""
        rows, document = self._document(source)
        lessons = tuple(
            FoundLesson(f"line {line}", row.get("lesson"), row.get("tags", ()), withheld="status" in row)
            for line, row in rows
        )
        return ReadLessons(lessons, _unchanged(document, source.path), str(document.get("version") or ""))

    def library(self, source: SourceFiles) -> Library:
        """Return the library. Raises LibraryError when its lessons and its version differ."""
        return library_of(self._document(source)[1], source.path)

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the header and a line for each lesson."""

        def row(one: Experience) -> dict[str, Any]:
            dumped = one.model_dump(mode="json")
            return {key: dumped[key] for key in ("lesson", "tags", "id", "origin")}

        joined = {} if library.joined is None else {"joined": library.joined}
        header = {"format": _LINES_FORMAT, "version": library.version, "parent": library.parent, **joined}
        shown = map(row, library.experiences)
        held = ({**row(one.experience), "status": one.status, "reason": one.reason} for one in library.withheld)
        return {"": "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in (header, *shown, *held))}

    def _document(self, source: SourceFiles) -> tuple[list[tuple[int, dict[str, Any]]], dict[str, Any]]:
        """The rows below the header with the numbers of their lines, and the library as the object of our JSON."""
        text = source.named(LINES_FILE)
        if text is None:
            raise LibraryError(f"the folder {source.path!r} has no file {LINES_FILE!r}; give the file of the library")
        objects: list[tuple[int, dict[str, Any]]] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                value = json_value(line, f"{source.path} line {number}")
                if not isinstance(value, dict):
                    raise LibraryError(
                        f"line {number} of {source.path!r} is not a JSON object; write one lesson per line"
                    )
                objects.append((number, cast("dict[str, Any]", value)))
        if not objects:
            raise LibraryError(f"{source.path!r} is empty; its first line must name the format {_LINES_FORMAT!r}")
        (_, header), *rows = objects
        check_format(header.get("format"), _LINES_FORMAT, source.path)
        document: dict[str, Any] = {**header, "experiences": [], "withheld": []}
        for _, row in rows:
            if "status" in row:
                experience = {key: value for key, value in row.items() if key not in {"status", "reason"}}
                held = {"experience": experience, "status": row["status"], "reason": row.get("reason", "")}
                document["withheld"].append(held)
            else:
                document["experiences"].append(row)
        return rows, document


def check_format(found: object, expected: str, source: str) -> None:
    """Raise LibraryError when a file names another version of our format."""
    if found != expected:
        raise LibraryError(
            f"{source!r} has the library format {found!r}; this agentlearn reads {expected!r}:"
            " pip install --upgrade agentlearn-lib"
        )


def _unchanged(document: dict[str, Any], source: str) -> Library | None:
    """Return the library of a document of ours; None when a person wrote or changed it."""
    try:
        return None if document.get("version") == _HAND_WRITTEN else library_of(document, source)
    except LibraryError:
        return None


def library_of(document: dict[str, Any], source: str) -> Library:
    """Return the library of a document of ours. Raises LibraryError when its lessons and its version differ."""
    entries = _entries(document, source)
    if document.get("version") == _HAND_WRITTEN:
        written = [(f"#{place}", entry.get("lesson"), entry.get("tags", ())) for place, entry in enumerate(entries, 1)]
        return new_library(written, "person", source)
    try:
        library = Library(
            parent=document.get("parent"),
            joined=document.get("joined"),
            experiences=tuple(Experience.model_validate(entry) for entry in entries),
            withheld=document.get("withheld", ()),
        )
    except ValidationError as error:
        raise LibraryError(f"{source!r} was changed and cannot be read: {_reason(error)}; {_HOW_TO_FIX}") from error
    if library.version != document.get("version"):
        raise LibraryError(
            f"{source!r} was changed: its lessons make version {library.version[:8]!r}, but it says"
            f" {str(document.get('version'))[:8]!r}; {_HOW_TO_FIX}"
        )
    held = (*library.experiences, *(one.experience for one in library.withheld))
    ids = {library.parent, library.joined, *(one.id for one in held), *(one.origin.library for one in held)}
    ids |= {parent for one in held for parent in one.origin.parents}
    if odd := sorted(one for one in ids if one is not None and not _ID.fullmatch(one)):
        raise LibraryError(f"{source!r} has the id {shown_value(odd[0])}, which agentlearn never makes; {_HOW_TO_FIX}")
    return library


def new_library(entries: Sequence[tuple[str, Any, Any]], kind: OriginKind, source: str) -> Library:
    """Return the library of lessons that a person or another program wrote. Raises LibraryError, which names one.

    entries: name in the file, text and tags of each lesson.
    """
    experiences: list[Experience] = []
    for ordinal, (name, lesson, tags) in enumerate(entries):
        try:
            experience = Experience(
                # Agents see the first tag as a heading, so other tags make another lesson.
                id=experience_id(EMPTY_LIBRARY.version, [kind, lesson, *([tags] if tags else ())], ordinal),
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


def _objects(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", one) for one in values if isinstance(one, dict)]


def _reason(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"
