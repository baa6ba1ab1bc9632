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


FORMAT = "agentlearn-library/1"
HAND_WRITTEN = "hand-written"
"""The version of a file that a person wrote."""

_ID = re.compile(r"[0-9A-Za-z._:-]{1,64}")


def _sniff_json(source: SourceFiles) -> bool:
    """Whether the text is a JSON object that names our format."""
    return not source.is_folder and f'"{FORMAT.partition("/")[0]}/' in source.only and source.only.lstrip()[:1] == "{"


def _read_json(source: SourceFiles) -> ReadLessons:
    """Return the lessons, and the library itself when the file was not changed."""
    document = json_value(source.only, source.path)
    if not isinstance(document, dict):
        raise LibraryError(f'{source.path!r} is not an agentlearn library; give an object with "format": {FORMAT!r}')
    found = cast("dict[str, Any]", document)
    check_format(found.get("format"), FORMAT, source.path)
    entries, held = _entries(found, source.path), found.get("withheld")
    inner = [one.get("experience") for one in _objects(held if isinstance(held, list) else [])]
    lessons = [FoundLesson(f"#{n}", one.get("lesson"), one.get("tags", ())) for n, one in enumerate(entries, 1)]
    for n, one in enumerate(_objects(inner), 1):
        lessons.append(FoundLesson(f"withheld #{n}", one.get("lesson"), one.get("tags", ()), withheld=True))
    exported = found.get("parent" if found.get("version") == HAND_WRITTEN else "version")
    return ReadLessons(tuple(lessons), _unchanged(found, source.path), str(exported or ""))


def _write_json(library: Library, _: str) -> Mapping[str, str]:
    document = {"format": FORMAT, "version": library.version, **library.model_dump(mode="json")}
    return {"": json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n"}


AGENTLEARN_JSON = LibraryFormat("agentlearn", _sniff_json, _read_json, _write_json, keeps="everything")
"""Our JSON."""


def check_format(found: object, expected: str, source: str) -> None:
    """Raise LibraryError when a file names another version of our format."""
    if found != expected:
        raise LibraryError(
            f"{source!r} has the library format {found!r}; this agentlearn reads {expected!r}:"
            " pip install --upgrade agentlearn-lib"
        )


def _unchanged(document: dict[str, Any], source: str) -> Library | None:
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
    held = (*library.experiences, *(one.experience for one in library.withheld))
    ids = {library.parent, library.joined, *(one.id for one in held), *(one.origin.library for one in held)}
    ids |= {parent for one in held for parent in one.origin.parents}
    if odd := sorted(one for one in ids - {None} if one is not None and not _ID.fullmatch(one)):
        raise LibraryError(
            f"{source!r} has the id {shown_value(odd[0])}, which agentlearn never makes; {_how_to_fix()}"
        )
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


def _how_to_fix() -> str:
    return f'set "version": "{HAND_WRITTEN}" to read it as a new library, or export the library again'


LINES_FORMAT = "agentlearn-lessons/1"
LINES_FILE = "lessons.jsonl"
"""The file of a folder that holds the library."""
_KEYS = ("lesson", "tags", "id", "origin")


def _sniff_lines(source: SourceFiles) -> bool:
    """Whether the first line names this format."""
    first = (source.named(LINES_FILE) or "").lstrip().partition("\n")[0]
    return first.startswith("{") and f'"{LINES_FORMAT.partition("/")[0]}/' in first


def _read_lines(source: SourceFiles) -> ReadLessons:
    """Return the lessons, and the library itself when the file was not changed."""
    header, rows = _rows(source)
    lessons = tuple(
        FoundLesson(f"line {line}", row.get("lesson"), row.get("tags", ()), withheld="status" in row)
        for line, row in rows
    )
    library = _unchanged(_document(header, [row for _, row in rows]), source.path)
    return ReadLessons(lessons, library, str(header.get("version") or ""))


def library_of_lines(source: SourceFiles) -> Library:
    """Return the library in lines. Raises LibraryError when its lessons and its version differ."""
    header, rows = _rows(source)
    return ours(_document(header, [row for _, row in rows]), source.path)


def _write_lines(library: Library, _: str) -> Mapping[str, str]:
    joined = {} if library.joined is None else {"joined": library.joined}
    header = {"format": LINES_FORMAT, "version": library.version, "parent": library.parent, **joined}
    shown = [_row(one) for one in library.experiences]
    held = [{**_row(one.experience), "status": one.status, "reason": one.reason} for one in library.withheld]
    return {"": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in (header, *shown, *held))}


LESSON_LINES = LibraryFormat("lines", _sniff_lines, _read_lines, _write_lines, keeps="everything")
"""One lesson per line."""


def _row(one: Experience) -> dict[str, Any]:
    dumped = one.model_dump(mode="json")
    return {key: dumped[key] for key in _KEYS}


def _rows(source: SourceFiles) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]:
    """The header, and the other lines that are not empty with their numbers."""
    text = source.named(LINES_FILE)
    if text is None:
        raise LibraryError(f"the folder {source.path!r} has no file {LINES_FILE!r}; give the file of the library")
    objects: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        value = json_value(line, f"{source.path} line {number}")
        if not isinstance(value, dict):
            raise LibraryError(f"line {number} of {source.path!r} is not a JSON object; write one lesson per line")
        objects.append((number, cast("dict[str, Any]", value)))
    if not objects:
        raise LibraryError(f"{source.path!r} is empty; its first line must name the format {LINES_FORMAT!r}")
    header = objects[0][1]
    check_format(header.get("format"), LINES_FORMAT, source.path)
    return header, objects[1:]


def _document(header: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The same library as the object of our JSON."""
    document: dict[str, Any] = {**header, "experiences": [], "withheld": []}
    for row in rows:
        if "status" in row:
            experience = {key: value for key, value in row.items() if key not in {"status", "reason"}}
            held = {"experience": experience, "status": row["status"], "reason": row.get("reason", "")}
            document["withheld"].append(held)
        else:
            document["experiences"].append(row)
    return document
