"""Libraries as Markdown: a list where each item is a lesson and the heading above it names its tags.

    # math

    ## counting, grids

    - When counting cells of a grid, count each once.

The text is read as CommonMark. Code, tables, quotations and paragraphs outside of lists are no lessons, and are named;
comments, footnotes, pictures and struck text are left out. Characters that Markdown would obey are escaped with `\\`. A
section stands behind the list as it is, between two comments. An Agent Skill is a folder with `SKILL.md`, whose front
matter names the skill; a long library continues in `references/`. The skill of somebody else is read as sections, and
its files are kept as they are.

A file such as `AGENTS.md` or `CLAUDE.md`, which coding agents read before they start to work, has the lessons in a
block between two marks, which are comments of Markdown. All other bytes of the file belong to the person and are never
changed. The first mark names the library and holds a hash of the block, so that a block that somebody changed by hand
is not replaced either.
"""

import hashlib
import json
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby, takewhile
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from agentlearn.errors import LibraryError, MissingExtra
from agentlearn.library.formats.document import FRONT_MATTER, sections_of
from agentlearn.library.formats.source_files import (
    REFERENCE,
    SKILL,
    FoundLesson,
    LibraryFormat,
    ReadLessons,
    SourceFiles,
    Unread,
)
from agentlearn.text import estimated_tokens
from agentlearn.text.files import readable, write_whole
from agentlearn.types.experience import Experience, KeptFile, Library
from agentlearn.types.rendering import in_sections, is_section

if TYPE_CHECKING:
    from markdown_it.token import Token

_UNTAGGED = "Lessons"
"""The heading above lessons without tags."""
_NO_TAG = frozenset({"lessons", "general", "other", "others"})
_LISTED = re.compile(r"\s{0,12}(?:[-*+]|\d{1,9}[.)]|#{1,6})[ \t]+\S.*")
"""A line that begins as items of lists and headings do."""
_CHECK_BOX = re.compile(r"\[[ xX]\]\s+")
_TAG = re.compile(r"<(/?)(\w+|!--)(?:[\s/-].*)?>", re.DOTALL)
_STRUCK = frozenset({"del", "s", "strike"})
_WITHOUT_WORDS = frozenset(
    (
        *("b", "big", "em", "font", "i", "ins", "mark", "small", "span", "strong", "u"),
        *("a", "audio", "img", "picture", "source", "svg", "video", "wbr", "!--"),
    )
)
"""Tags that change how words look, link them or show a picture, and comments: they say nothing themselves."""
_NOTE = re.compile(
    r"^[ \t]*\[\^([^\]\s]+)\]:.*(?:\n(?![ \t]*(?:\n|\Z|[-*+>#]|\d{1,9}[.)]|`{3}|~{3}|\[\^)).*"
    r"|\n[ \t]*(?=\n(?: {4}|\t))|\n(?: {4}|\t).*)*",
    re.MULTILINE,
)
"""A footnote with the lines that belong to it."""
_NOTE_IN_TEXT = re.compile(r"[ \t]*\^\[[^\[\]\n]* [^\[\]\n]*\]")
_COMMENT_BEFORE_TEXT = re.compile(
    r"^([ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)<!--(?:(?!-->).)*-->[ \t]*(?=\S)", re.MULTILINE
)
_COLONS = (":", "：")
_LEADS = re.compile(r"[:：][*_~]*\s*\Z")
_LONGEST_PARAGRAPH = 10_000
"""Largest number of characters of a paragraph whose marks are read."""
_LONGEST_LEAD = 1_000
"""Largest number of characters that a lesson gets from the items around it."""
_DEEPEST = 100
"""Largest depth of lists in lists, counting lists and items."""
_LOUD = re.compile(r"[`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|\\(?=[!-/:-@\[-`{-~]|$)")
_START = re.compile(r"(?=[-+#=])|(\d+)(?=[.)])")
_LONGEST_TAG = 24
_TAGS = attrgetter("tags")
_FOLLOW = "Follow those of these lessons that fit the task at hand."
_MORE = "More lessons, to be read when none of these fits:"
_OURS = re.compile(rf"{re.escape(_FOLLOW)}|{_MORE}|\[lessons-\d+\.md\]\(references/.*")
"""The paragraphs that we write."""
_UNREAD = {"blockquote_open": "quotation", "table_open": "table", "fence": "code block", "code_block": "code block"}
"""What is named where it is no lesson, by token."""
_SECTION = re.compile(
    r"^<!-- agentlearn: section(?: ([^\n>]*))? -->\n((?:.*\n)*?)(?=<!-- agentlearn: (?:section|end)\b|\Z)", re.MULTILINE
)
"""A section in a list, and its tags."""

_SKILL_FORMAT = "agentlearn-skill/1"
"""The value of `metadata.agentlearn-format` in skills that we write."""
_SKILL_VERSION = re.compile(r'agentlearn-version: "?([0-9a-f]{8,64})"?')
_SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_NAME_LINE = re.compile(r"^name:[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_IN_SKILL, _IN__REFERENCE = (100, 5_000), (200, 10_000)
"""Largest number of lessons, and of their tokens, in `SKILL.md` and in each further file."""
_LONGEST_DESCRIPTION = 1024
_TAGS_NAMED = 12
_LESSONS_NAMED = 3

_AGENTS_FILE = "AGENTS.md"
"""The file that is written where `--out` is a folder."""
_MARK = re.compile(rb"^<!-- agentlearn:(begin|end) ([\w.-]+)(?: ([0-9a-f]{16}))? -->[ \t]*\r?$", re.MULTILINE)
_LIKE_A_MARK = re.compile(rb"(?<!\\)<!--[ \t]*agentlearn:(?:begin|end)\b")
_BLOCK_NAME = re.compile(r"(?!.*--)[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def _read_items(text: str, place: str = "") -> ReadLessons:
    """Return the list items of a Markdown text, in order, and the sections behind them. place: put before the lines.

    An item is its own text, without that of the lists in it. One that ends with a colon only leads up to the items in
    it, and they begin with its words. Raises MissingExtra without markdown-it-py.
    """
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra("reading Markdown needs markdown-it-py: pip install 'agentlearn-lib[learn]'") from error
    markdown = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["strikethrough", "table"])
    references, heading = dict[str, Any](), ""
    if front := FRONT_MATTER.match(text):  # an empty line for each of its lines, so that line numbers stay true
        text = "\n" * front[0].count("\n") + text[front.end() :]
    text, sections = _without_sections(text, place)
    text = _COMMENT_BEFORE_TEXT.sub(r"\1", _without_notes(text))
    items, unread = list[_Item](), list[Unread]()
    open_items: list[_Item] = []
    aside, level = 0, 0
    for token in markdown.disable("inline").parse(text, references):
        line = token.map[0] + 1 if token.map else 0
        match token.type:
            case "blockquote_open" | "table_open" | "fence" | "code_block" as what:
                unread += [] if aside else [Unread(_UNREAD[what], f"{place}line {line}")]
                aside += token.nesting
            case "blockquote_close" | "table_close":
                aside -= 1
            case _ if aside:
                continue
            case "heading_open":
                level = int(token.tag[1:])
            case "heading_close":
                level = 0
            case "list_item_open":
                before = list[str]()
                for one in open_items:
                    if one.paragraphs and _LEADS.search(one.paragraphs[-1]) and len(one.paragraphs[-1]) < _LONGEST_LEAD:
                        one.leads, before = True, [*before, *one.paragraphs]
                items.append(_Item(line, heading, before=before))
                open_items.append(items[-1])
            case "list_item_close":
                open_items.pop()
            case "inline" if open_items:
                open_items[-1].paragraphs.append(token.content)
            case "inline" if level:
                heading = token.content if level > 1 else ""
            case "inline" if not _OURS.fullmatch(token.content):
                unread.append(Unread("paragraph", f"{place}line {line}"))
            case _:
                continue
    markdown.enable("inline")

    @cache
    def words_of(source: str) -> str:
        """The words of a paragraph. A very long one is no lesson: it is refused as it is, before it costs time."""
        return _words(markdown.parseInline(source, references)) if len(source) <= _LONGEST_PARAGRAPH else source

    @cache
    def tags_of(heading: str) -> tuple[str, ...]:
        return tags_of_heading(words_of(heading))

    listed = (
        FoundLesson(f"{place}line {one.line}", words, tags_of(one.heading))
        for one in items
        if (words := one.words(words_of)) and not (one.leads and words.endswith(_COLONS))
    )
    return ReadLessons((*listed, *sections), unread=tuple(unread))


def _without_sections(text: str, place: str) -> tuple[str, list[FoundLesson]]:
    """The text without the sections that we wrote, in which lines keep their numbers, and these sections."""
    sections = list[FoundLesson]()

    def take(found: re.Match[str]) -> str:
        line = text.count("\n", 0, found.start()) + 2
        sections.append(FoundLesson(f"{place}line {line}", found[2], tags_of_heading(found[1] or "")))
        return "\n" * found[0].count("\n")

    return _SECTION.sub(take, text), sections


def _without_notes(text: str) -> str:
    """The text without footnotes and their marks; its lines keep their numbers."""
    notes = {found[1] for found in _NOTE.finditer(text)}
    if notes:
        text = _NOTE.sub(lambda found: "\n" * found[0].count("\n"), text)
        text = re.sub(rf"[ \t]*\[\^(?:{'|'.join(map(re.escape, notes))})\]", "", text)
    return _NOTE_IN_TEXT.sub("", text)


@dataclass
class _Item:
    """A list item that is being read."""

    line: int
    heading: str
    """The source of the heading above it; empty below the title."""
    paragraphs: list[str] = field(default_factory=list[str])
    """The source of its own paragraphs; the first one may begin with a check box."""
    before: list[str] = field(default_factory=list[str])
    """The source of the paragraphs of the items around it that lead up to it."""
    leads: bool = False
    """Whether it leads up to something else if it ends with a colon."""

    def words(self, words_of: Callable[[str], str]) -> str:
        """Its words, behind those of the items that lead up to it."""
        found = (words_of(_CHECK_BOX.sub("", one, count=1)) for one in (*self.before, *self.paragraphs))
        return " ".join(filter(None, found))


def _words(paragraph: "Sequence[Token]") -> str:
    """Return the words of a paragraph: without emphasis, addresses of links, comments and struck text."""
    found: list[str] = []
    tokens = paragraph[0].children or []
    struck = 0

    def is_name(mark: int) -> bool:
        """Whether the mark `__` belongs to a name such as `__init__`."""
        step = 1 if tokens[mark].type == "strong_open" else -1
        return tokens[mark + step].content.isidentifier() and tokens[mark + 2 * step].markup == "__"

    for number, token in enumerate(tokens):
        html = _TAG.fullmatch(token.content) if token.type == "html_inline" else None
        name = html[2].lower() if html else ""
        if token.type == "s_open" or name in _STRUCK:
            struck = max(struck + (-1 if html and html[1] else 1), 0)
        elif token.type == "s_close":
            struck -= 1
        elif struck or name in _WITHOUT_WORDS or token.type == "image":
            continue
        elif token.type in {"softbreak", "hardbreak"} or name == "br":
            found.append(" ")
        elif token.type == "code_inline":
            found.append(f"{token.markup}{token.content}{token.markup}")
        elif token.markup == "__" and is_name(number):
            found.append("__")
        else:
            gap = found and found[-1].endswith(" ") and tokens[number - 1].type not in {"text", "code_inline"}
            found.append(token.content.removeprefix(" ") if gap else token.content)
    return "".join(found).strip()


def _written_items(experiences: Sequence[Experience], level: int = 2) -> Iterator[str]:
    """Yield the lines of a list: one section for each first tag, with a heading below it for each change of tags.

    Sections of Markdown follow as they are.
    """
    first = True
    for section in in_sections((one for one in experiences if not is_section(one.lesson)), _TAGS).values():
        for number, (tags, lessons) in enumerate(groupby(section, key=_TAGS)):
            if not first:
                yield ""
            first = False
            yield f"{'#' * (level + (number > 0))} {escaped(', '.join(tags)) if tags else _UNTAGGED}"
            yield ""
            for one in lessons:
                yield f"- {escaped(one.lesson)}"
    for one in (one for one in experiences if is_section(one.lesson)):
        yield from ("", f"<!-- agentlearn: section {escaped(', '.join(one.tags))}".rstrip() + " -->")
        yield from (one.lesson.removesuffix("\n"), "<!-- agentlearn: end -->")


def _joined(experiences: Iterable[Experience]) -> str:
    """The sections as they are, and lessons of one line as items of a list between empty lines."""
    text, item = "", False
    for one in (one.lesson for one in experiences):
        was, item = item, not is_section(one)
        apart = "\n" if text and was != item and not text.endswith("\n\n") else ""
        text += f"{apart}{'- ' if item else ''}{one}" + ("" if one.endswith("\n") else "\n")
    return text


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """A text on one line with a `\\` before each character that Markdown or HTML would obey."""
    line = _LOUD.sub(lambda found: f"\\{found[0]}", " ".join(text.split("\n")))
    return _START.sub(lambda found: f"{found[1] or ''}\\", line, count=1) if _START.match(line) else line


def tags_of_heading(heading: str) -> tuple[str, ...]:
    """The tags that a heading names: its parts between commas, in lower case, with `-` for what tags cannot hold."""

    def slug(text: str) -> str:
        """The words as a tag of at most 24 characters; it ends with a whole word where that is possible."""
        words = re.findall(r"[a-z0-9]+", text.casefold())
        tag = ""
        for word in words:
            longer = f"{tag}-{word}" if tag else word
            if len(longer) > _LONGEST_TAG:
                break
            tag = longer
        return tag or (words[0][:_LONGEST_TAG] if words else "")

    found = [tag for part in heading.split(",") if (tag := slug(part))]
    return () if found and found[0] in _NO_TAG else tuple(dict.fromkeys(found))


class MarkdownList(LibraryFormat):
    """A Markdown list of lessons, in order."""

    name = "markdown"
    keeps = "lessons and tags"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the file is named as Markdown, or has a list item or a heading."""
        if source.is_folder:
            return False
        named = next(iter(source.texts)).lower().endswith((".md", ".markdown"))
        return named or any(_LISTED.fullmatch(line) for line in source.only.split("\n")[:200])

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the items of the list."""
        return _read_items(source.only)

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the list, with the name as its title."""
        return {"": "\n".join([f"# {escaped(name)}", "", *_written_items(library.experiences)]) + "\n"}


class AgentSkill(LibraryFormat):
    """A folder with `SKILL.md`, or that file."""

    name = "skill"
    keeps = "lessons and tags"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether `SKILL.md` is there."""
        return any(name in source.texts for name in SKILL)

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons of a skill of ours, and the sections of `SKILL.md` of another one; with all other files.

        The `SKILL.md` of another skill is kept with its files, for its front matter.
        """
        name = next((one for one in (SKILL if source.is_folder else source.texts) if one in source.texts), None)
        if name is None:
            raise LibraryError(f"{source.path!r} has no SKILL.md; give the folder of a skill")
        text, kept = source.texts[name], dict(source.files)
        lines = text.split("\n")
        front = takewhile(lambda line: line.rstrip() != "---", lines[1:] if lines[0].rstrip() == "---" else ())
        exported = next((found[1] for line in front if (found := _SKILL_VERSION.fullmatch(line.strip()))), "")
        if not exported:
            main = {} if source.is_folder else {SKILL[0]: kept.get(name, text.encode(errors="replace"))}
            start = 1 + (front_matter[0].count("\n") if (front_matter := FRONT_MATTER.match(text)) else 0)
            found = (FoundLesson(f"{name} line {line}", one) for line, one in sections_of(text) if line >= start)
            return ReadLessons(tuple(found), files=main or kept, unread=source.unread)
        others = sorted(filter(REFERENCE.fullmatch, source.texts), key=lambda one: (len(one), one))
        parts = [_read_items(source.texts[one], f"{one} ") for one in (name, *others)]
        return ReadLessons(
            tuple(lesson for part in parts for lesson in part.lessons),
            exported=exported,
            files={path: content for path, content in kept.items() if path not in source.texts},
            unread=(*(one for part in parts for one in part.unread), *source.unread),
        )

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the files of the skill.

        description: what it is for and when to load it; made from tags and lessons when it is empty. Raises
        LibraryError when the standard does not allow the name or the description.
        """
        if not _SKILL_NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise LibraryError(
                f"{name!r} cannot name a skill; give a name of up to 64 lower-case letters, digits and single hyphens,"
                f" such as {self.usual_name(name)!r}"
            )
        description = " ".join(description.split()) or self.description(library, name)
        if fault := self.description_fault(description):
            raise LibraryError(f"{description[:60]!r} cannot describe a skill: {fault}")
        parts, tokens = [list[Experience]()], 0
        for one in (lesson for section in in_sections(library.experiences, _TAGS).values() for lesson in section):
            cost, (most, largest) = estimated_tokens(one.lesson), _IN__REFERENCE if parts[1:] else _IN_SKILL
            if parts[-1] and (len(parts[-1]) == most or tokens + cost > largest):
                parts.append([])
                tokens = 0
            parts[-1].append(one)
            tokens += cost
        files = {
            f"references/lessons-{part}.md": "\n".join([f"# {name}, part {part}", "", *_written_items(lessons)]) + "\n"
            for part, lessons in enumerate(parts[1:], 2)
        }
        lines = [
            "---",
            f"name: {name}",
            f"description: {json.dumps(description, ensure_ascii=False)}",
            "metadata:",
            f'  agentlearn-format: "{_SKILL_FORMAT}"',
            f'  agentlearn-version: "{library.version}"',
            f'  agentlearn-lessons: "{len(library)}"',
            *("---", "", f"# {name}", "", _FOLLOW),
        ]
        lines += ["", _MORE] if files else []
        for one, lessons in zip(files, parts[1:], strict=True):
            topics = ", ".join(filter(None, in_sections(lessons, _TAGS))) or _UNTAGGED
            lines += ["", f"[{one.rpartition('/')[2]}]({one}): {escaped(topics)}"]
        return {"SKILL.md": _text([*lines, "", *_written_items(parts[0])]), **files}

    def folder(
        self, library: Library, name: str, description: str, content: Callable[[KeptFile], bytes]
    ) -> dict[str, bytes]:
        """Return the files of the skill: those that are kept, byte for byte, and `SKILL.md`.

        Of an imported skill it has the front matter that came with it, and the sections; what nobody changed is the
        same bytes. content: returns the bytes of a kept file. Raises LibraryError.
        """
        kept, main = {one.path: content(one) for one in library.files}, self.main_of(library)
        if main is None:
            texts = self.write(library, name, description)
            return {**kept, **{path: text.encode("utf-8", "backslashreplace") for path, text in texts.items()}}
        original = kept[main.path]
        before, own = SourceFiles.of_bytes(original, main.path).only, self.own_name(original)
        head = front[0] if (front := FRONT_MATTER.match(before)) else ""
        renamed = _NAME_LINE.sub(f"name: {name}", head, count=1) if own and name != own else head
        text = renamed + _joined(library.experiences)
        if text.rstrip("\n") != before.rstrip("\n"):
            text = text.replace("\n", "\r\n") if b"\r\n" in original else text
            kept[main.path] = text.encode("utf-8", "backslashreplace")
        return kept

    @staticmethod
    def main_of(library: Library) -> KeptFile | None:
        """The `SKILL.md` that a library was imported with; None for a library of ours."""
        return next((one for one in library.files if one.path in SKILL), None)

    @staticmethod
    def own_name(main: bytes) -> str:
        """The name in the front matter of a `SKILL.md`; empty where there is none that the standard allows."""
        front = FRONT_MATTER.match(SourceFiles.of_bytes(main, SKILL[0]).only)
        named = _NAME_LINE.search(front[0]) if front else None
        own = named[1].strip("\"'") if named else ""
        return own if _SKILL_NAME.fullmatch(own) and len(own) <= _LONGEST_NAME else ""

    @staticmethod
    def parts_in(folder: Path) -> set[str]:
        """The names of the files in a folder that a skill of ours consists of."""
        found = (folder / "references").glob("*") if (folder / "references").is_dir() else ()
        parts = {part for file in found if REFERENCE.fullmatch(part := f"references/{file.name}")}
        return parts | {part for part in SKILL if (folder / part).exists() or (folder / part).is_symlink()}

    @staticmethod
    def description_fault(description: str) -> str:
        """Why a text cannot describe a skill, as a program that loads skills demands it; empty when it can."""
        if 0 < len(description) <= _LONGEST_DESCRIPTION and not re.search("[<>]", description):
            return ""
        return f"give 1 to {_LONGEST_DESCRIPTION} characters without < and >"

    @staticmethod
    def usual_name(name: str) -> str:
        """The name as a skill may be called."""
        letters = normalize("NFKD", name).encode("ascii", "ignore").decode().casefold()
        return "-".join(re.findall(r"[a-z0-9]+", letters))[:_LONGEST_NAME].strip("-") or "lessons"

    @staticmethod
    def description(library: Library, name: str, about: str = "") -> str:
        """What the skill is for and when to load it, for programs that choose among skills.

        about: what its lessons were learned from, in words that follow `Lessons for`; empty when it is not known.
        """
        tags = dict.fromkeys(
            tag for one in library.experiences for tag in one.tags if re.fullmatch(r"[\w-]{1,24}", tag)
        )
        topics = f" Topics: {', '.join(list(tags)[:_TAGS_NAMED])}." if tags else ""
        start = f"Lessons for {about}." if about else f"Lessons of the library {name}."
        words = f"{start}{topics} Load it before and while you work on such a task."
        named = [one.lesson for one in library.experiences if not re.search("[<>\n]", one.lesson)][:_LESSONS_NAMED]
        for number, lesson in enumerate(named):
            longer = f"{words}{' For example:' if number == 0 else ''} {lesson}"
            if len(longer) <= _LONGEST_DESCRIPTION:
                words = longer
        return words


class AgentsMd(LibraryFormat):
    """A block of lessons in a Markdown file of a person."""

    name = "agents-md"
    keeps = "lessons and tags"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the file has a mark of ours."""
        return not source.is_folder and _MARK.search(source.only.encode(errors="surrogatepass")) is not None

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons of all blocks, with the numbers of their lines."""
        kept, inside = list[str](), False
        for line in source.only.split("\n"):
            mark = _MARK.fullmatch(line.encode(errors="surrogatepass"))
            inside = mark[1] == b"begin" if mark else inside
            kept.append(line if inside and not mark else "")
        return _read_items("\n".join(kept))

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the block with its marks."""
        if not _BLOCK_NAME.fullmatch(name):
            raise LibraryError(
                f"{name!r} cannot name a block of lessons; give up to 64 letters, digits, '.', '_' and single '-' with"
                " --name"
            )
        body = _text([f"## Lessons ({name})", "", _FOLLOW, "", *_written_items(library.experiences, level=3)])
        body = _LIKE_A_MARK.sub(rb"\\\g<0>", body.encode(errors="surrogatepass")).decode(errors="surrogatepass")
        mark = f"<!-- agentlearn:begin {name} {self._hash(body.encode())} -->"
        return {"": f"{mark}\n{body}<!-- agentlearn:end {name} -->\n"}

    def put(self, out: Path, block: bytes, name: str) -> Path:
        """Put a block into a file, in place of the block of that name, else at the end. Returns the file.

        All other bytes stay as they are. out: the file, or the folder that holds or gets `AGENTS.md`. Raises
        LibraryError for a link, for a file whose marks are damaged, and for a block that was changed by hand; OSError.
        """
        file = out / _AGENTS_FILE if out.is_dir() else out
        if file.is_symlink():
            raise LibraryError(f"{str(file)!r} is a link; give the file itself, {str(file.resolve())!r}")
        before = readable(file).read_bytes() if file.exists() else b""
        if before.startswith(_WIDE):
            raise LibraryError(f"{str(file)!r} is UTF-16; save it as UTF-8")
        start, end = self._place(before, name, str(file))
        head, tail = before[:start], before[end:]
        if head and start == end:  # a new block begins on a line of its own, after an empty one
            head += b"\n" if head.endswith(b"\n") else b"\n\n"
        mode = stat.S_IMODE(file.stat().st_mode) if before else None
        write_whole(file, head + block + tail)
        if mode is not None:
            file.chmod(mode)
        return file

    def _place(self, content: bytes, name: str, shown: str) -> tuple[int, int]:
        """Where the block of that name begins and ends; the end of the file, twice, when there is none."""
        marks = list(_MARK.finditer(content))
        kinds = [(one[1], one[2]) for one in marks]
        paired = len(kinds) % 2 == 0 and all(
            first == (b"begin", second[1]) and second[0] == b"end"
            for first, second in zip(kinds[::2], kinds[1::2], strict=True)
        )
        names = [one[1] for one in kinds[::2]]
        if not paired or len(set(names)) < len(names) or len(_LIKE_A_MARK.findall(content)) != len(marks):
            raise LibraryError(
                f"the marks of agentlearn's lessons in {shown} are damaged: each block begins with a line such as"
                f" '<!-- agentlearn:begin {name} … -->' and ends with '<!-- agentlearn:end {name} -->', once; repair or"
                " remove them, and export again"
            )
        for begin, end in zip(marks[::2], marks[1::2], strict=True):
            if begin[2] != name.encode():
                continue
            body = content[begin.end() + 1 : end.start()]
            if begin[3] != self._hash(body).encode():
                raise LibraryError(
                    f"the lessons of {name!r} in {shown} were changed by hand, so they are not replaced; move your"
                    " lines out of the block, or remove the block with its marks, and export again"
                )
            return begin.start(), min(end.end() + 1, len(content))
        return len(content), len(content)

    @staticmethod
    def _hash(body: bytes) -> str:
        """The hash of a block, whichever line ends git gave it."""
        return hashlib.sha256(body.replace(b"\r\n", b"\n")).hexdigest()[:16]
