"""Libraries as JSON lines, for git: one lesson per line, in the order in which they are shown. Pure.

    {"format": "agentlearn-lessons/1", "version": …, "parent": …}
    {"lesson": …, "tags": […], "id": …, "origin": {…}}
    {"lesson": …, "tags": […], "id": …, "origin": {…}, "status": "pending", "reason": …}

A change of one lesson changes its line and the first one. Lessons with a status are withheld.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from agentlearn.errors import LibraryError
from agentlearn.library.formats.our_json import check_format, json_value, ours, unchanged
from agentlearn.library.formats.source_files import Form, FoundLesson, ReadLessons, SourceFiles
from agentlearn.types.experience import Experience, Library

FORMAT = "agentlearn-lessons/1"
FILE = "lessons.jsonl"
"""The file of a folder that holds the library."""
_KEYS = ("lesson", "tags", "id", "origin")


class LessonLines:
    """One lesson per line; it keeps everything."""

    name: Form = "lines"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the first line names this format."""
        text = source.named(FILE) or ""
        first = text.lstrip().partition("\n")[0]
        return first.startswith("{") and f'"{FORMAT.partition("/")[0]}/' in first

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons, and the library itself when the file was not changed."""
        header, rows = _rows(source)
        lessons = tuple(
            FoundLesson(f"line {line}", row.get("lesson"), row.get("tags", ()), withheld="status" in row)
            for line, row in rows
        )
        library = unchanged(_document(header, [row for _, row in rows]), source.path)
        return ReadLessons(lessons, library, str(header.get("version") or ""))

    def library(self, source: SourceFiles) -> Library:
        """Return the library. Raises LibraryError when its lessons and its version differ."""
        header, rows = _rows(source)
        return ours(_document(header, [row for _, row in rows]), source.path)

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return the library as lines. They do not hold a name."""
        joined = {} if library.joined is None else {"joined": library.joined}
        header = {"format": FORMAT, "version": library.version, "parent": library.parent, **joined}
        shown = [_row(one) for one in library.experiences]
        held = [{**_row(one.experience), "status": one.status, "reason": one.reason} for one in library.withheld]
        return {"": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in (header, *shown, *held))}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Nothing."""
        return ()


def _row(one: Experience) -> dict[str, Any]:
    dumped = one.model_dump(mode="json")
    return {key: dumped[key] for key in _KEYS}


def _rows(source: SourceFiles) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]:
    """The header, and the other lines that are not empty with their numbers."""
    text = source.named(FILE)
    if text is None:
        raise LibraryError(f"the folder {source.path!r} has no file {FILE!r}; give the file of the library")
    objects: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        value = json_value(line, f"{source.path} line {number}")
        if not isinstance(value, dict):
            raise LibraryError(f"line {number} of {source.path!r} is not a JSON object; write one lesson per line")
        objects.append((number, cast("dict[str, Any]", value)))
    if not objects:
        raise LibraryError(f"{source.path!r} is empty; its first line must name the format {FORMAT!r}")
    header = objects[0][1]
    check_format(header.get("format"), FORMAT, source.path)
    return header, objects[1:]


def _document(header: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The same library as the object of our JSON."""
    shown = [row for row in rows if "status" not in row]
    held = [
        {
            "experience": {key: value for key, value in row.items() if key not in {"status", "reason"}},
            "status": row["status"],
            "reason": row.get("reason", ""),
        }
        for row in rows
        if "status" in row
    ]
    return {**header, "experiences": shown, "withheld": held}
