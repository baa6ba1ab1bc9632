"""Libraries as Markdown lists: each item is a lesson, and the heading above it names its tags. Pure.

    # math

    ## counting, grids
    - When counting cells of a grid, count each once.

Code blocks, tables and plain paragraphs are not read. Characters that Markdown would obey are escaped with `\\`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from agentlearn.library.formats.library_format import Form, FoundLesson, ReadLessons, usual_losses
from agentlearn.library.formats.source_files import SourceFiles
from agentlearn.types.experience import Experience, Library

UNTAGGED = "Lessons"
"""The heading above lessons without tags."""
_NO_TAG = frozenset({"lessons", "general", "other", "others"})
_ITEM = re.compile(r"(\s{0,12})(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r"\s{0,12}(```|~~~)")
_LOUD = re.compile(r"[`*\[\]<>|~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|\\(?=[!-/:-@\[-`{-~]|$)")
_START = re.compile(r"(?=[-+#=])|(\d+)(?=[.)])")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_LONGEST_TAG = 24


class MarkdownList:
    """A Markdown list of lessons. It keeps the lessons, their order and their tags."""

    name: Form = "markdown"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the file is named as Markdown, or has a list item or a heading."""
        if source.is_folder:
            return False
        if next(iter(source.texts)).lower().endswith((".md", ".markdown")):
            return True
        return any(_ITEM.fullmatch(line) or _HEADING.fullmatch(line) for line in source.only.split("\n")[:200])

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the items of all lists."""
        return ReadLessons(tuple(read_items(source.only)))

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return the library as one text."""
        return {"": "\n".join([f"# {escaped(name)}", "", *written_items(library.experiences)]) + "\n"}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Ids, origins, and what is withheld."""
        return usual_losses(library, tags=False)


def read_items(text: str, place: str = "") -> Iterator[FoundLesson]:
    """Yield the list items of a Markdown text. place: put before the line numbers."""
    tags, item, start, in_code = (), list[str](), 0, False

    def finished() -> Iterator[FoundLesson]:
        if item:
            yield FoundLesson(f"{place}line {start}", _plain(" ".join(item)), tags)
            item.clear()

    for number, line in enumerate(text.split("\n"), 1):
        if _FENCE.match(line):
            yield from finished()
            in_code = not in_code
        elif in_code:
            continue
        elif found := _HEADING.fullmatch(line):
            yield from finished()
            tags = tags_of_heading(_plain(found[2].rstrip(" \t#"))) if len(found[1]) > 1 else ()
        elif found := _ITEM.fullmatch(line):
            yield from finished()
            item.append(found[2].strip())
            start = number
        elif item and line.strip() and line.startswith((" ", "\t")):
            item.append(line.strip())
        else:
            yield from finished()
    yield from finished()


def written_items(experiences: Iterable[Experience], level: int = 2) -> Iterator[str]:
    """Yield the lines of a list: a heading for each change of tags, and the lessons in order."""
    first = True
    for tags, lessons in groupby(experiences, key=lambda one: one.tags):
        if not first:
            yield ""
        first = False
        yield f"{'#' * level} {escaped(', '.join(tags)) if tags else UNTAGGED}"
        yield ""
        for one in lessons:
            yield f"- {escaped(one.lesson)}"


def escaped(text: str) -> str:
    """A text on one line with a `\\` before each character that Markdown or HTML would obey."""
    line = _LOUD.sub(lambda found: f"\\{found[0]}", " ".join(text.split("\n")))
    return _START.sub(lambda found: f"{found[1] or ''}\\", line, count=1) if _START.match(line) else line


def tags_of_heading(heading: str) -> tuple[str, ...]:
    """The tags that a heading names: its parts between commas, in lower case, with `-` for what tags cannot hold."""
    found = [tag for part in heading.split(",") if (tag := slug(part))]
    return () if found and found[0] in _NO_TAG else tuple(dict.fromkeys(found))


def slug(text: str) -> str:
    """The words of a text as a tag of at most 24 characters; it ends with a whole word where that is possible."""
    words = re.findall(r"[a-z0-9]+", text.casefold())
    tag = ""
    for word in words:
        longer = f"{tag}-{word}" if tag else word
        if len(longer) > _LONGEST_TAG:
            break
        tag = longer
    return tag or (words[0][:_LONGEST_TAG] if words else "")


def _plain(text: str) -> str:
    return _ESCAPE.sub(r"\1", text)
