"""The library formats by name, finding the format of a text, and the formats that keep everything.

The counts may be absent, as in the playbooks of its AppWorld experiments, and a line may continue on the next ones.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args

from agentlearn.errors import LibraryError, MissingExtra
from agentlearn.library.formats.agent_skill import AgentSkill
from agentlearn.library.formats.lesson_lines import LessonLines
from agentlearn.library.formats.markdown_list import MarkdownList, tags_of_heading
from agentlearn.library.formats.our_json import FORMAT, AgentlearnJson, check_format, json_value, new_library, ours
from agentlearn.library.formats.source_files import (
    Form,
    FoundLesson,
    LibraryFormat,
    ReadLessons,
    SourceFiles,
    usual_losses,
)
from agentlearn.types.experience import Library


class OriginalJson:
    """The JSON of the original implementation. It keeps the lessons and their order."""

    name: Form = "training-free-grpo"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the text is a JSON object with experiences in an object."""
        if source.is_folder or source.only.lstrip()[:1] != "{":
            return False
        try:
            return experiences_of(json_value(source.only, source.path)) is not None
        except LibraryError:
            return False

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons in order."""
        found = experiences_of(json_value(source.only, source.path))
        if found is None:
            raise LibraryError(f'{source.path!r} needs "experiences", an object of lessons such as {{"G0": "…"}}')
        return ReadLessons(tuple(FoundLesson(label, one_line(text)) for label, text in found.items()))

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return the library as text. It does not hold a name."""
        lessons = {f"G{place}": experience.lesson for place, experience in enumerate(library.experiences)}
        document = {"experiences": lessons, "next_id": len(lessons)}
        return {"": json.dumps(document, ensure_ascii=False, indent=2) + "\n"}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Everything but the lessons."""
        return usual_losses(library, tags=True)


def experiences_of(document: object) -> dict[str, Any] | None:
    """The lessons by label of a document of the original; None when it is none."""
    match document:
        case {"format": str()}:
            return None
        case {"experiences": dict(lessons)}:
            return cast("dict[str, Any]", lessons)
        case _:
            return None


def one_line(text: object) -> object:
    """A text with its line breaks as spaces: other formats allow them in a lesson, ours does not."""
    return " ".join(text.split()) if isinstance(text, str) else text


_LINE = re.compile(r"[ \t]*(?:[-*][ \t]+)?\[([a-z][\w-]{0,40}-\d{1,9})\](.*)", re.IGNORECASE)
_COUNTS = re.compile(r"[ \t]*helpful=(\d{1,9})[ \t]*harmful=(\d{1,9})[ \t]*::(.*)")
_SECTION = re.compile(r"##[ \t]*([^#].*)")
_SECTION_NAME = "STRATEGIES & INSIGHTS"


class AcePlaybook:
    """A playbook. It keeps the lessons and the first tag of each; lessons stand together by section."""

    name: Form = "ace"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether two lines, or all lines but the headings, begin with an ACE id."""
        if source.is_folder:
            return False
        lines = [line for line in source.only.split("\n") if line.strip() and not line.startswith("#")]
        found = sum(_LINE.fullmatch(line) is not None for line in lines)
        return found > 1 or 0 < found == len(lines)

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lines of all sections, with the counts as notes."""
        return ReadLessons(tuple(_ace_playbook_lessons(source.only)))

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return the library as one text, all counts 0."""
        sections: dict[str, list[str]] = {}
        for number, one in enumerate(library.experiences, 1):
            title = one.tags[0].replace("-", " ").upper() if one.tags else _SECTION_NAME
            letters = "".join(word[0] for word in re.findall(r"[a-z]+", title.lower())) or "x"
            line = f"[{letters[:5]}-{number:05d}] helpful=0 harmful=0 :: {one.lesson}"
            sections.setdefault(title, []).append(line)
        blocks = ["\n".join([f"## {title}", *lines]) for title, lines in sections.items()]
        return {"": "\n\n".join(blocks or [f"## {_SECTION_NAME}"]) + "\n"}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Ids, origins, the second and further tags, the order between sections, and what is withheld."""
        lost = usual_losses(library, tags=False)
        more = any(len(one.tags) > 1 for one in library.experiences)
        return (*lost, *(["all tags but the first"] if more else []))


def _ace_playbook_lessons(text: str) -> Iterator[FoundLesson]:
    tags: tuple[str, ...] = ()
    label, words, note = "", list[str](), ""

    def finished() -> Iterator[FoundLesson]:
        if label:
            yield FoundLesson(f"[{label}]", one_line(" ".join(words)), tags, note)

    for line in text.split("\n"):
        if section := _SECTION.fullmatch(line.strip()):
            yield from finished()
            label, tags = "", _section_tags(section[1])
        elif found := _LINE.fullmatch(line):
            yield from finished()
            label, note, words = found[1], "", [found[2]]
            if counts := _COUNTS.fullmatch(found[2]):
                note = f"ACE counted it helpful {counts[1]} and harmful {counts[2]} times"
                words = [counts[3]]
        elif label:
            words.append(line)
    yield from finished()


def _section_tags(title: str) -> tuple[str, ...]:
    return () if title.strip(" :") == _SECTION_NAME else tags_of_heading(title.replace(",", " "))


_DEEPEST = 32
_MOST_PARTS = 100_000


def yaml_value(text: str, source: str) -> object:
    """Return the value of a YAML text; every scalar is text. Raises LibraryError, or MissingExtra without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("reading YAML needs PyYAML: pip install 'agentlearn-lib[learn]'") from error
    try:
        _check(yaml.parse(text, Loader=yaml.BaseLoader), source)
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  it makes text, lists and dictionaries only
    except (yaml.YAMLError, ValueError) as error:
        words = " ".join(str(error).split())
        raise LibraryError(f"{source!r} is not YAML: {words[:200]}", code="bad_yaml") from error
    except RecursionError as error:
        raise LibraryError(f"{source!r} is nested too deep", code="bad_yaml") from error


def _check(events: "object", source: str) -> None:
    """Raise LibraryError when the events of a document are not those of plain data."""
    import yaml

    depth = 0
    for number, event in enumerate(events):  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportUnknownArgumentType]
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise LibraryError(f"{source!r} has an anchor or an alias; write the text itself there", code="bad_yaml")
        if getattr(event, "tag", None):
            raise LibraryError(f"{source!r} has a YAML tag, which could make objects; remove it", code="bad_yaml")
        if depth > _DEEPEST or number > _MOST_PARTS:
            raise LibraryError(f"{source!r} is too deep or too long for a library in YAML", code="bad_yaml")


_LABEL = re.compile(r"^[ \t]*\[(G\d{1,6})\]\.?[ \t]*", re.MULTILINE)
_FIRST = re.compile(r"\[G\d{1,6}\]\.?\s")
_HEAD = """# @package _global_
defaults:
  - _self_

agent:
  name: {name}
  instructions: |-
    You are a helpful assistant.

    Helpful instructions and experiences for this kind of problem:
"""


class YoutuYaml:
    """A configuration of an agent. It keeps the lessons and their order."""

    name: Form = "youtu"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether a YAML file has instructions with a label."""
        return (
            not source.is_folder
            and source.only.lstrip()[:1] not in {"{", "["}
            and re.search(r"^[ \t]*instructions:", source.only, re.MULTILINE) is not None
            and _FIRST.search(source.only) is not None
        )

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the labelled lessons of the instructions. Raises MissingExtra without PyYAML."""
        document = yaml_value(source.only, source.path)
        texts = list(_instructions(document))
        if not texts:
            raise LibraryError(f"{source.path!r} has no agent.instructions; give the configuration of an agent")
        return ReadLessons(tuple(one for text in texts for one in _youtu_yaml_lessons(text)))

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return a configuration with the lessons."""
        lines = [f"    [G{number}]. {one.lesson}\n" for number, one in enumerate(library.experiences)]
        return {"": _HEAD.format(name=re.sub(r"[^A-Za-z0-9_-]", "_", name) or "agent") + "".join(lines)}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Everything but the lessons."""
        return usual_losses(library, tags=True)


def _instructions(document: object) -> Iterator[str]:
    match document:
        case {"agent": {"instructions": str(text)}} | {"instructions": str(text)}:
            yield text
        case {"agents": dict(agents)}:
            for one in cast("dict[str, Any]", agents).values():
                yield from _instructions(one)
        case _:
            return


def _youtu_yaml_lessons(text: str) -> Iterator[FoundLesson]:
    labels = list(_LABEL.finditer(text))
    ends = [*(found.start() for found in labels[1:]), len(text)]
    for found, end in zip(labels, ends, strict=False):
        yield FoundLesson(f"[{found[1]}]", one_line(text[found.end() : end]))


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
