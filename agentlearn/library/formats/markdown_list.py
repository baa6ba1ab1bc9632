"""Libraries as Markdown lists: each item is a lesson, and the heading above it names its tags. Pure.

    # math

    ## counting, grids

    - When counting cells of a grid, count each once.

The text is read as CommonMark. Code, quotations, comments and struck text are not lessons. Tables and paragraphs
outside of lists are lessons only in skills that others wrote. Characters that Markdown would obey are escaped with
`\\`. An Agent Skill is a folder with `SKILL.md`, whose front matter names the skill; a long library continues in
`references/`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from agentlearn.errors import LibraryError, MissingExtra
from agentlearn.library.formats.source_files import SKILL, FoundLesson, LibraryFormat, ReadLessons, SourceFiles
from agentlearn.text import estimated_tokens
from agentlearn.types.experience import Experience, Library
from agentlearn.types.rendering import in_sections

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

UNTAGGED = "Lessons"
"""The heading above lessons without tags."""
_NO_TAG = frozenset({"lessons", "general", "other", "others"})
_LISTED = re.compile(r"\s{0,12}(?:[-*+]|\d{1,9}[.)]|#{1,6})[ \t]+\S.*")
"""A line that begins as items of lists and headings do."""
_CHECK_BOX = re.compile(r"\[[ xX]\]\s+")
_FRONT_MATTER = re.compile(r"---[ \t]*\n[ \t]*(?:[\w-]+[ \t]*:|#|\n)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TAG = re.compile(r"<(/?)(\w+)(?:\s[^>]*)?/?>")
_STRUCK = frozenset({"del", "s", "strike"})
_EMPHASIS = frozenset({"b", "big", "em", "font", "i", "ins", "mark", "small", "span", "strong", "u"})
"""Tags that change how words look and nothing else."""
_LONGEST_PARAGRAPH = 10_000
"""Largest number of characters of a paragraph whose marks are read."""
_DEEPEST = 100
"""Largest depth of lists in lists, counting lists and items."""
_LOUD = re.compile(r"[`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|\\(?=[!-/:-@\[-`{-~]|$)")
_START = re.compile(r"(?=[-+#=])|(\d+)(?=[.)])")
_LONGEST_TAG = 24


def _sniff_markdown(source: SourceFiles) -> bool:
    """Whether the file is named as Markdown, or has a list item or a heading."""
    if source.is_folder:
        return False
    named = next(iter(source.texts)).lower().endswith((".md", ".markdown"))
    return named or any(_LISTED.fullmatch(line) for line in source.only.split("\n")[:200])


def _write_markdown(library: Library, name: str) -> Mapping[str, str]:
    return {"": "\n".join([f"# {escaped(name)}", "", *written_items(library.experiences)]) + "\n"}


def read_items(text: str, place: str = "", *, prose: bool = False) -> list[FoundLesson]:
    """Return the list items of a Markdown text, in order. place: put before the line numbers.

    An item is its own text, without that of the lists in it. prose: also return each paragraph that does not lead up to
    something else with a colon, and each row of a table below its head. Raises MissingExtra without markdown-it-py.
    """
    markdown, references = _reader(), dict[str, Any]()
    heading = ""
    items: list[_Item] = []
    open_items: list[_Item] = []
    aside, level = 0, 0
    for token in markdown.disable("inline").parse(_without_front_matter(text), references):
        match token.type:
            case "blockquote_open" | "thead_open":
                aside += 1
            case "blockquote_close" | "thead_close":
                aside -= 1
            case "table_open" if open_items or not prose:
                aside += 1
            case "table_close" if open_items or not prose:
                aside -= 1
            case _ if aside:
                continue
            case "heading_open":
                level = int(token.tag[1:])
            case "heading_close":
                level = 0
            case "list_item_open" | "paragraph_open" | "tr_open" as opened if opened == "list_item_open" or (
                prose and not open_items and not level
            ):
                items.append(_Item(token.map[0] + 1 if token.map else 0, heading, opened.replace("open", "close")))
                open_items.append(items[-1])
            case closed if open_items and closed == open_items[-1].end:
                open_items.pop()
            case "inline" if open_items:
                open_items[-1].paragraphs.append(token.content)
            case "inline" if level:
                heading = token.content if level > 1 else ""
            case _:
                continue
    markdown.enable("inline")

    @cache
    def tags_of(heading: str) -> tuple[str, ...]:
        return tags_of_heading(_words(markdown.parseInline(heading, references)))

    return [
        FoundLesson(f"{place}line {one.line}", words, tags_of(one.heading))
        for one in items
        if (words := one.words(markdown, references)) and not (one.end == "paragraph_close" and words.endswith(":"))
    ]


MARKDOWN_LIST = LibraryFormat(
    "markdown",
    _sniff_markdown,
    lambda source: ReadLessons(tuple(read_items(source.only))),
    _write_markdown,
    keeps="lessons and tags",
)
"""A Markdown list of lessons, in order."""


@dataclass
class _Item:
    """A list item that is being read, or a paragraph or a row of a table."""

    line: int
    heading: str
    """The source of the heading above it; empty below the title."""
    end: str
    """The type of the token that ends it."""
    paragraphs: list[str] = field(default_factory=list[str])
    """The source of its own paragraphs; the first one may begin with a check box."""

    def words(self, markdown: "MarkdownIt", references: dict[str, Any]) -> str:
        found: list[str] = []
        for number, one in enumerate(self.paragraphs):
            text = one if number else _CHECK_BOX.sub("", one, count=1)
            # A longer one is no lesson: it is refused as it is, before it costs time.
            found.append(_words(markdown.parseInline(text, references)) if len(text) <= _LONGEST_PARAGRAPH else text)
        return (" | " if self.end == "tr_close" else " ").join(filter(None, found))


def _reader() -> "MarkdownIt":
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra("reading Markdown needs markdown-it-py: pip install 'agentlearn-lib[learn]'") from error
    return MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["strikethrough", "table"])


def _is_name(tokens: "Sequence[Token]", mark: int) -> bool:
    """Whether the mark `__` belongs to a name such as `__init__`."""
    step = 1 if tokens[mark].type == "strong_open" else -1
    return tokens[mark + step].content.isidentifier() and tokens[mark + 2 * step].markup == "__"


def _words(paragraph: "Sequence[Token]") -> str:
    """Return the words of a paragraph: without emphasis, addresses of links, comments and struck text."""
    found: list[str] = []
    tokens = paragraph[0].children or []
    struck = 0
    for number, token in enumerate(tokens):
        html = _TAG.fullmatch(token.content) if token.type == "html_inline" else None
        name = html[2].lower() if html else ""
        if token.type == "s_open" or name in _STRUCK:
            struck = max(struck + (-1 if html and html[1] else 1), 0)
        elif token.type == "s_close":
            struck -= 1
        elif struck or name in _EMPHASIS or (token.type == "html_inline" and token.content.startswith("<!--")):
            continue
        elif token.type in {"softbreak", "hardbreak"} or name == "br":
            found.append(" ")
        elif token.type == "code_inline":
            found.append(f"{token.markup}{token.content}{token.markup}")
        elif token.markup == "__" and _is_name(tokens, number):
            found.append("__")
        else:
            gap = found and found[-1].endswith(" ") and tokens[number - 1].type not in {"text", "code_inline"}
            found.append(token.content.removeprefix(" ") if gap else token.content)
    return "".join(found).strip()


def _without_front_matter(text: str) -> str:
    """Return the text with an empty line for each line of the front matter, so that line numbers stay true."""
    found = _FRONT_MATTER.match(text)
    return "\n" * found[0].count("\n") + text[found.end() :] if found else text


def written_items(experiences: Iterable[Experience], level: int = 2) -> Iterator[str]:
    """Yield the lines of a list: one section for each first tag, with a heading below it for each change of tags."""
    first = True
    for section in in_sections(experiences, _tags).values():
        for number, (tags, lessons) in enumerate(groupby(section, key=lambda one: one.tags)):
            if not first:
                yield ""
            first = False
            yield f"{'#' * (level + (number > 0))} {escaped(', '.join(tags)) if tags else UNTAGGED}"
            yield ""
            for one in lessons:
                yield f"- {escaped(one.lesson)}"


def escaped(text: str) -> str:
    """A text on one line with a `\\` before each character that Markdown or HTML would obey."""
    line = _LOUD.sub(lambda found: f"\\{found[0]}", " ".join(text.split("\n")))
    return _START.sub(lambda found: f"{found[1] or ''}\\", line, count=1) if _START.match(line) else line


def tags_of_heading(heading: str) -> tuple[str, ...]:
    """The tags that a heading names: its parts between commas, in lower case, with `-` for what tags cannot hold."""
    found = [tag for part in heading.split(",") if (tag := _slug(part))]
    return () if found and found[0] in _NO_TAG else tuple(dict.fromkeys(found))


def _slug(text: str) -> str:
    """The words of a text as a tag of at most 24 characters; it ends with a whole word where that is possible."""
    words = re.findall(r"[a-z0-9]+", text.casefold())
    tag = ""
    for word in words:
        longer = f"{tag}-{word}" if tag else word
        if len(longer) > _LONGEST_TAG:
            break
        tag = longer
    return tag or (words[0][:_LONGEST_TAG] if words else "")


SKILL_FORMAT = "agentlearn-skill/1"
"""The value of `metadata.agentlearn-format` in skills that we write."""
REFERENCE = re.compile(r"references/lessons-(\d{1,4})\.md")
"""Names of the files that we write next to `SKILL.md`."""
_VERSION = re.compile(r'agentlearn-version: "?([0-9a-f]{8,64})"?')
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_IN_SKILL, _IN_REFERENCE = (100, 5_000), (200, 10_000)
"""Largest number of lessons, and of their tokens, in `SKILL.md` and in each further file."""
_LONGEST_DESCRIPTION = 1024
_TAGS_NAMED = 12
_LESSONS_NAMED = 3


def _read_skill(source: SourceFiles) -> ReadLessons:
    """Return the lessons of `SKILL.md`, or of the one file that is given, and of the Markdown files in `references/`.

    In a skill of ours they are the list items; in others also the paragraphs and the rows of tables.
    """
    name = next((one for one in (SKILL if source.is_folder else source.texts) if one in source.texts), None)
    if name is None:
        raise LibraryError(f"{source.path!r} has no SKILL.md; give the folder of a skill")

    def number(path: str) -> tuple[int, str]:
        found = REFERENCE.fullmatch(path)
        return (int(found[1]) if found else 0, path)

    others = [one for one in source.texts if one.startswith("references/") and one.endswith(".md")]
    lines = source.texts[name].split("\n")
    front = takewhile(lambda line: line.rstrip() != "---", lines[1:] if lines[0].rstrip() == "---" else ())
    exported = next((found[1] for line in front if (found := _VERSION.fullmatch(line.strip()))), "")
    lessons = (
        lesson
        for one in (name, *sorted(others, key=number))
        for lesson in read_items(source.texts[one], f"{one} ", prose=not exported)
    )
    return ReadLessons(tuple(lessons), exported=exported)


def write_skill(library: Library, name: str, description: str = "") -> Mapping[str, str]:
    """Return the files of the skill.

    description: what it is for and when to load it; made from tags and lessons when it is empty. Raises LibraryError
    when the standard does not allow the name or the description.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise LibraryError(
            f"{name!r} cannot name a skill; give a name of up to 64 lower-case letters, digits and single hyphens,"
            f" such as {skill_name(name)!r}",
            code="bad_skill_name",
        )
    description = " ".join(description.split()) or skill_description(library, name)
    if fault := description_fault(description):
        raise LibraryError(f"{description[:60]!r} cannot describe a skill: {fault}", code="bad_skill_description")
    first, *others = _parts(library)
    files = {
        f"references/lessons-{part}.md": "\n".join([f"# {name}, part {part}", "", *written_items(lessons)]) + "\n"
        for part, lessons in enumerate(others, 2)
    }
    lines = [
        "---",
        f"name: {name}",
        f"description: {json.dumps(description, ensure_ascii=False)}",
        "metadata:",
        f'  agentlearn-format: "{SKILL_FORMAT}"',
        f'  agentlearn-version: "{library.version}"',
        f'  agentlearn-lessons: "{len(library)}"',
        "---",
        "",
        f"# {name}",
        "",
        "Follow those of these lessons that fit the task at hand.",
    ]
    if files:
        lines += ["", "More lessons, to be read when none of these fits:"]
        for one, lessons in zip(files, others, strict=True):
            topics = ", ".join(filter(None, in_sections(lessons, _tags))) or UNTAGGED
            lines += ["", f"[{one.rpartition('/')[2]}]({one}): {escaped(topics)}"]
    lines += ["", *written_items(first)]
    return {"SKILL.md": "\n".join(lines).rstrip("\n") + "\n", **files}


def _parts(library: Library) -> list[list[Experience]]:
    """The lessons of each file of a skill, section by section."""
    parts, tokens = [list[Experience]()], 0
    for one in (lesson for section in in_sections(library.experiences, _tags).values() for lesson in section):
        cost, (most, largest) = estimated_tokens(one.lesson), _IN_REFERENCE if parts[1:] else _IN_SKILL
        if parts[-1] and (len(parts[-1]) == most or tokens + cost > largest):
            parts.append([])
            tokens = 0
        parts[-1].append(one)
        tokens += cost
    return parts


def _tags(one: Experience) -> tuple[str, ...]:
    return one.tags


def description_fault(description: str) -> str:
    """Why a text cannot describe a skill, as a program that loads skills demands it; empty when it can."""
    if 0 < len(description) <= _LONGEST_DESCRIPTION and not re.search("[<>]", description):
        return ""
    return f"give 1 to {_LONGEST_DESCRIPTION} characters without < and >"


AGENT_SKILL = LibraryFormat(
    "skill",
    lambda source: any(name in source.texts for name in SKILL),
    _read_skill,
    write_skill,
    keeps="lessons and tags",
)
"""A folder with `SKILL.md`, or that file."""


def skill_name(name: str) -> str:
    """The name as a skill may be called."""
    letters = normalize("NFKD", name).encode("ascii", "ignore").decode().casefold()
    return "-".join(re.findall(r"[a-z0-9]+", letters))[:_LONGEST_NAME].strip("-") or "lessons"


def skill_description(library: Library, name: str, about: str = "") -> str:
    """What the skill is for and when to load it, for programs that choose among skills.

    about: what its lessons were learned from, in words that follow `Lessons for`; empty when it is not known.
    """
    tags = dict.fromkeys(tag for one in library.experiences for tag in one.tags if re.fullmatch(r"[\w-]{1,24}", tag))
    topics = f" Topics: {', '.join(list(tags)[:_TAGS_NAMED])}." if tags else ""
    start = f"Lessons for {about}." if about else f"Lessons of the library {name}."
    words = f"{start}{topics} Load it before and while you work on such a task."
    named = [one.lesson for one in library.experiences if not re.search("[<>]", one.lesson)][:_LESSONS_NAMED]
    for number, lesson in enumerate(named):
        longer = f"{words}{' For example:' if number == 0 else ''} {lesson}"
        if len(longer) <= _LONGEST_DESCRIPTION:
            words = longer
    return words
