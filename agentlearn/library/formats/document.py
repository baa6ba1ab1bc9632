"""Documents of Markdown as sections: a heading with all that follows it, byte for byte, until the next heading.

The sections of a document, one after the other, are the document. A section is at most as long as a section may be: a
longer one is parted between its blocks, so that code, tables and steps stay whole where they fit. The front matter, and
a section with the comment `<!-- agentlearn: keep -->`, are a person's: no run changes them.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from agentlearn.errors import MissingExtra
from agentlearn.library.formats.source_files import FoundLesson, LibraryFormat, ReadLessons, SourceFiles
from agentlearn.types.experience import (
    EMPTY_LIBRARY,
    MAX_SECTION_CHARACTERS,
    MAX_SECTION_WORDS,
    Experience,
    Library,
    Origin,
    experience_id,
    word_count,
)
from agentlearn.types.rendering import document_text

FRONT_MATTER = re.compile(r"---[ \t]*\n[ \t]*(?:[\w-]+[ \t]*:|#|\n)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_KEPT = re.compile(r"<!--\s*agentlearn:\s*keep\s*-->")
_DEEPEST = 100


def sections_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield each section of a document with the number of its first line, from 1.

    Joined, they are the text, which ends with a line break. Raises MissingExtra without markdown-it-py.
    """
    text = text if text.endswith("\n") or not text else f"{text}\n"
    lines, front = text.splitlines(keepends=True), FRONT_MATTER.match(text)
    first = front[0].count("\n") if front else 0
    blocks = [first, *(first + at for at, _ in _blocks("".join(lines[first:]))), len(lines)]
    headings = {first + at for at, heading in _blocks("".join(lines[first:])) if heading}
    if first:
        yield 1, "".join(lines[:first])
    start, has_body = first, False
    for at, end in pairwise(sorted(set(blocks))):
        if at in headings and has_body:
            yield from _parted(lines, start, at, blocks)
            start, has_body = at, False
        has_body = has_body or (at not in headings and bool("".join(lines[at:end]).strip()))
    yield from _parted(lines, start, len(lines), blocks)


def _blocks(text: str) -> list[tuple[int, bool]]:
    """The line, from 0, of each block of a text, and whether it is a heading. An item of a list is a block too."""
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra("reading Markdown needs markdown-it-py: pip install 'agentlearn-lib[learn]'") from error
    markdown = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable("table").disable("inline")
    return [
        (one.map[0], one.type == "heading_open")
        for one in markdown.parse(text)
        if one.map and (one.level == 0 or (one.type == "list_item_open" and one.level == 1)) and one.nesting >= 0
    ]


def _parted(lines: list[str], start: int, end: int, blocks: list[int]) -> Iterator[tuple[int, str]]:
    """Yield a section in as many parts as its length needs, parted between blocks, and inside of a block too long."""
    places = sorted({start, end, *(one for one in blocks if start < one < end)})
    begun = start
    for at, until in pairwise(places):
        if begun < at and not _fits(lines[begun:until]):
            yield begun + 1, "".join(lines[begun:at])
            begun = at
        for line in range(at + 1, until) if not _fits(lines[at:until]) else ():
            if begun < line and not _fits(lines[begun : line + 1]):
                yield begun + 1, "".join(lines[begun:line])
                begun = line
    if "".join(lines[begun:end]):
        yield begun + 1, "".join(lines[begun:end])


def _fits(lines: list[str]) -> bool:
    text = "".join(lines)
    return word_count(text) <= MAX_SECTION_WORDS and len(text) <= MAX_SECTION_CHARACTERS


def document_of(text: str, name: str, before: Library = EMPTY_LIBRARY) -> Library:
    """Return a document of a person as a library, in which sections that were there before keep their ids.

    name: of the document; see `Library.document`. Raises pydantic.ValidationError for a section that cannot be one.
    """
    had = {one.lesson: one for one in before.experiences}
    sections: list[Experience] = []
    for number, (line, section) in enumerate(sections_of(text)):
        kept = bool(_KEPT.search(section)) or (line == 1 and FRONT_MATTER.fullmatch(section) is not None)
        kind = "person" if kept else "import"
        known = had.pop(section, None)
        identity = experience_id(before.version, [name, kind, section], number)
        sections.append(known or Experience(id=identity, lesson=section, origin=Origin(kind=kind)))
    if before.document == name and tuple(sections) == before.experiences:
        return before
    parent = before.version if len(before) else None
    return Library(parent=parent, experiences=tuple(sections), document=name, files=before.files)


class MarkdownDocument(LibraryFormat):
    """A document of Markdown: each section whole, as it is."""

    name = "document"
    keeps = "lessons"

    def sniff(self, source: SourceFiles) -> bool:
        """Always False: a Markdown file is read as a list of lessons, unless this format is named."""
        return False

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the sections of the text."""
        return ReadLessons(tuple(FoundLesson(f"line {line}", text) for line, text in sections_of(source.only)))

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the document; lessons of one line are items of a list."""
        return {"": document_text(one.lesson for one in library.experiences)}
