"""Library formats: ours as JSON and as lines for git, and those of other programs. Reading, importing and writing."""

from agentlearn.library.formats.registry import FORMATS, format_library, format_of, library_format, parse_library
from agentlearn.library.formats.source_files import (
    Form,
    FoundLesson,
    ImportLimits,
    LibraryFormat,
    ReadLessons,
    SourceFiles,
    read_source,
)

__all__ = [
    "FORMATS",
    "Form",
    "FoundLesson",
    "ImportLimits",
    "LibraryFormat",
    "ReadLessons",
    "SourceFiles",
    "format_library",
    "format_of",
    "library_format",
    "parse_library",
    "read_source",
]
