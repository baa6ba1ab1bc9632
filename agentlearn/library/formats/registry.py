"""The library formats by name, finding the format of a text, and the formats that keep everything."""

from typing import Any, cast, get_args

from agentlearn.errors import LibraryError
from agentlearn.library.formats.ace_playbook import AcePlaybook
from agentlearn.library.formats.agent_skill import AgentSkill
from agentlearn.library.formats.checked_json import json_value
from agentlearn.library.formats.lesson_lines import LessonLines
from agentlearn.library.formats.library_format import Form, LibraryFormat
from agentlearn.library.formats.markdown_list import MarkdownList
from agentlearn.library.formats.original_json import OriginalJson, experiences_of, one_line
from agentlearn.library.formats.our_json import FORMAT, AgentlearnJson, check_format, new_library, ours
from agentlearn.library.formats.source_files import SourceFiles
from agentlearn.library.formats.youtu_yaml import YoutuYaml
from agentlearn.types.experience import Library

_ORDER: tuple[LibraryFormat, ...] = (
    AgentSkill(),
    LessonLines(),
    AgentlearnJson(),
    OriginalJson(),
    AcePlaybook(),
    YoutuYaml(),
    MarkdownList(),
)
FORMATS: dict[str, LibraryFormat] = {name: one for name in get_args(Form) for one in _ORDER if one.name == name}
"""Every format by its name."""


def library_format(form: str) -> LibraryFormat:
    """Return the format of that name. Raises LibraryError for an unknown one."""
    if form not in FORMATS:
        known = ", ".join(map(repr, FORMATS))
        raise LibraryError(f"unknown library format {form!r} (known: {known})", code="unknown_format")
    return FORMATS[form]


def format_of(source: SourceFiles) -> LibraryFormat:
    """Return the format that the source is in. Raises LibraryError when it is in none."""
    found = next((one for one in _ORDER if one.sniff(source)), None)
    if found is None:
        known = ", ".join(map(repr, FORMATS))
        raise LibraryError(
            f"{source.path!r} is in no format that is known here; name one with --format ({known})",
            code="unknown_format",
        )
    return found


def format_library(library: Library, form: str) -> str:
    """Return the library as one text in that format. Raises LibraryError for an unknown format, and for `skill`."""
    texts = library_format(form).write(library, "library")
    if "" not in texts:
        raise LibraryError(f"the format {form!r} is a folder and not one text; write it with library export --out")
    return texts[""]


def parse_library(text: str, source: str) -> Library:
    """Return the library in a text of ours, or of the original. source: the file's name, for messages.

    Files of other formats are imported, because their lessons have to be checked. Raises LibraryError.
    """
    lines, given = LessonLines(), SourceFiles.of_text(text, source)
    if lines.sniff(given):
        return lines.library(given)
    document = json_value(text, source)
    match document:
        case {"format": str(form)}:
            check_format(form, FORMAT, source)
            return ours(cast("dict[str, Any]", document), source)
        case _ if (lessons := experiences_of(document)) is not None:
            return new_library([(name, one_line(lesson), ()) for name, lesson in lessons.items()], "import", source)
        case _:
            raise LibraryError(
                f'{source!r} is not a library file: expected an object with "format": {FORMAT!r}, or the original\'s'
                ' {"experiences": {"G0": "…"}, "next_id": 1}'
            )
