"""Library formats: ours as JSON and as lines for git, and those of other programs. Reading, importing and writing.

The original implementation writes JSON, and its youtu-agent an agent's configuration in YAML. In a playbook of ACE the
counts may be absent, as in those of its AppWorld experiments, and a line may continue on the next ones.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_args

from agentlearn.errors import LibraryError, MissingExtra
from agentlearn.files import write_whole
from agentlearn.library.formats.markdown import AgentSkill, AgentsMd, MarkdownList, tags_of_heading
from agentlearn.library.formats.our_json import (
    FORMAT,
    LINES_FILE,
    LessonLines,
    LibraryJson,
    check_format,
    json_value,
    library_of,
    new_library,
)
from agentlearn.library.formats.source_files import Form, FoundLesson, LibraryFormat, ReadLessons, SourceFiles
from agentlearn.types.experience import Library
from agentlearn.types.rendering import in_sections


def _one_line(text: object) -> object:
    """A text with its line breaks as spaces: other formats allow them in a lesson, ours does not."""
    return " ".join(text.split()) if isinstance(text, str) else text


class _OriginalJson(LibraryFormat):
    """The JSON of the original implementation."""

    name = "training-free-grpo"
    keeps = "lessons"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the text is a JSON object with experiences in an object."""
        if source.is_folder or source.only.lstrip()[:1] != "{":
            return False
        try:
            return self.lessons(json_value(source.only, source.path)) is not None
        except LibraryError:
            return False

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons by their labels."""
        found = self.lessons(json_value(source.only, source.path))
        if found is None:
            raise LibraryError(f'{source.path!r} needs "experiences", an object of lessons such as {{"G0": "…"}}')
        return ReadLessons(tuple(FoundLesson(label, _one_line(text)) for label, text in found.items()))

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the object with the labels `G0`, `G1`, …"""
        lessons = {f"G{place}": experience.lesson for place, experience in enumerate(library.experiences)}
        return {"": json.dumps({"experiences": lessons, "next_id": len(lessons)}, ensure_ascii=False, indent=2) + "\n"}

    @staticmethod
    def lessons(document: object) -> dict[str, Any] | None:
        """The lessons by label of a document; None when it is no document of the original."""
        match document:
            case {"format": str()}:
                return None
            case {"experiences": dict(lessons)}:
                return cast("dict[str, Any]", lessons)
            case _:
                return None


_LINE = re.compile(r"[ \t]*(?:[-*][ \t]+)?\[([a-z][\w-]{0,40}-\d{1,9})\](.*)", re.IGNORECASE)
_COUNTS = re.compile(r"[ \t]*helpful=(\d{1,9})[ \t]*harmful=(\d{1,9})[ \t]*::(.*)")
_SECTION = re.compile(r"##[ \t]*([^#].*)")
_SECTION_NAME = "STRATEGIES & INSIGHTS"


class _AcePlaybook(LibraryFormat):
    """A playbook of ACE."""

    name = "ace"
    keeps = "lessons and first tags"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether two lines, or all lines but the headings, begin with an ACE id."""
        if source.is_folder:
            return False
        lines = [line for line in source.only.split("\n") if line.strip() and not line.startswith("#")]
        found = sum(_LINE.fullmatch(line) is not None for line in lines)
        return found > 1 or 0 < found == len(lines)

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lines of all sections, with the counts as notes."""
        lessons, tags = list[FoundLesson](), tuple[str, ...]()
        label, words, note = "", list[str](), ""

        def finish() -> None:
            if label:
                lessons.append(FoundLesson(f"[{label}]", _one_line(" ".join(words)), tags, note))

        for line in source.only.split("\n"):
            if section := _SECTION.fullmatch(line.strip()):
                finish()
                title = section[1].strip(" :")
                label, tags = "", () if title == _SECTION_NAME else tags_of_heading(section[1].replace(",", " "))
            elif found := _LINE.fullmatch(line):
                finish()
                label, note, words = found[1], "", [found[2]]
                if counts := _COUNTS.fullmatch(found[2]):
                    note = f"ACE counted it helpful {counts[1]} and harmful {counts[2]} times"
                    words = [counts[3]]
            elif label:
                words.append(line)
        finish()
        return ReadLessons(tuple(lessons))

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return a playbook, all counts 0. Lessons stand together by section, the first tag of each."""
        blocks, number = list[str](), 0
        for tag, lessons in in_sections(library.experiences, lambda one: one.tags).items():
            title = tag.replace("-", " ").upper() or _SECTION_NAME
            letters = "".join(word[0] for word in re.findall(r"[a-z]+", title.lower())) or "x"
            lines = [f"## {title}"]
            for number, one in enumerate(lessons, number + 1):  # noqa: B020  numbers go on from section to section
                lines.append(f"[{letters[:5]}-{number:05d}] helpful=0 harmful=0 :: {one.lesson}")
            blocks.append("\n".join(lines))
        return {"": "\n\n".join(blocks or [f"## {_SECTION_NAME}"]) + "\n"}


_DEEPEST = 32
_MOST_PARTS = 100_000


def _yaml_value(text: str, source: str) -> object:
    """Return the value of a YAML text; every scalar is text. Raises LibraryError, or MissingExtra without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("reading YAML needs PyYAML: pip install 'agentlearn-lib[learn]'") from error

    def refusal(why: str) -> LibraryError:
        return LibraryError(f"{source!r} {why}", code="bad_yaml")

    depth, events = 0, cast("Iterator[Any]", yaml.parse(text, Loader=yaml.BaseLoader))
    try:
        for number, event in enumerate(events):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise refusal("has an anchor or an alias; write the text itself there")
            if getattr(event, "tag", None):
                raise refusal("has a YAML tag, which could make objects; remove it")
            if depth > _DEEPEST or number > _MOST_PARTS:
                raise refusal("is too deep or too long for a library in YAML")
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  it makes text, lists and dictionaries only
    except (yaml.YAMLError, ValueError) as error:
        raise refusal(f"is not YAML: {' '.join(str(error).split())[:200]}") from error
    except RecursionError as error:
        raise refusal("is nested too deep") from error


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


class _YoutuAgent(LibraryFormat):
    """The configuration of an agent of youtu-agent, with lessons in its instructions."""

    name = "youtu"
    keeps = "lessons"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether a YAML file has instructions with a label."""
        return (
            not source.is_folder
            and source.only.lstrip()[:1] not in {"{", "["}
            and re.search(r"^[ \t]*instructions:", source.only, re.MULTILINE) is not None
            and _FIRST.search(source.only) is not None
        )

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the labelled lessons of the instructions."""

        def instructions(document: object) -> Iterator[str]:
            match document:
                case {"agent": {"instructions": str(text)}} | {"instructions": str(text)}:
                    yield text
                case {"agents": dict(agents)}:
                    for one in cast("dict[str, Any]", agents).values():
                        yield from instructions(one)
                case _:
                    return

        texts = list(instructions(_yaml_value(source.only, source.path)))
        if not texts:
            raise LibraryError(f"{source.path!r} has no agent.instructions; give the configuration of an agent")
        lessons: list[FoundLesson] = []
        for text in texts:
            labels = list(_LABEL.finditer(text))
            ends = [*(found.start() for found in labels[1:]), len(text)]
            for found, end in zip(labels, ends, strict=False):
                lessons.append(FoundLesson(f"[{found[1]}]", _one_line(text[found.end() : end])))
        return ReadLessons(tuple(lessons))

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the configuration of an agent of this name."""
        lines = [f"    [G{number}]. {one.lesson}\n" for number, one in enumerate(library.experiences)]
        return {"": _HEAD.format(name=re.sub(r"[^A-Za-z0-9_-]", "_", name) or "agent") + "".join(lines)}


_LINES, _JSON, _AGENTS_MD = LessonLines(), LibraryJson(), AgentsMd()
_ORDER = (AgentSkill(), _LINES, _JSON, _OriginalJson(), _AcePlaybook(), _YoutuAgent(), _AGENTS_MD, MarkdownList())
"""Every format, in the order in which they are tried."""
_FORMATS: dict[str, LibraryFormat] = {name: one for name in get_args(Form) for one in _ORDER if one.name == name}
"""Every format by its name."""


def library_format(form: str) -> LibraryFormat:
    """Return the format of that name. Raises LibraryError for an unknown one."""
    if form not in _FORMATS:
        known = ", ".join(map(repr, _FORMATS))
        raise LibraryError(f"unknown library format {form!r} (known: {known})", code="unknown_format")
    return _FORMATS[form]


def format_of(source: SourceFiles) -> LibraryFormat:
    """Return the format that the source is in. Raises LibraryError when it is in none."""
    found = next((one for one in _ORDER if one.sniff(source)), None)
    if found is None:
        known = ", ".join(map(repr, _FORMATS))
        raise LibraryError(
            f"{source.path!r} is in no format that is known here; name one with --format ({known})",
            code="unknown_format",
        )
    return found


def library_text(library: Library) -> str:
    """Return the library in our JSON."""
    return _JSON.write(library)[""]


def parse_library(text: str, source: str) -> Library:
    """Return the library in a text of ours, or of the original. source: the file's name, for messages.

    Files of other formats are imported, because their lessons have to be checked. Raises LibraryError.
    """
    given = SourceFiles.of_text(text, source)
    if _LINES.sniff(given):
        return _LINES.library(given)
    document = json_value(text, source)
    match document:
        case {"format": str(form)}:
            check_format(form, FORMAT, source)
            return library_of(cast("dict[str, Any]", document), source)
        case _ if (lessons := _OriginalJson.lessons(document)) is not None:
            return new_library([(name, _one_line(lesson), ()) for name, lesson in lessons.items()], "import", source)
        case _:
            raise LibraryError(
                f'{source!r} is not a library file: expected an object with "format": {FORMAT!r}, or the original\'s'
                ' {"experiences": {"G0": "…"}, "next_id": 1}'
            )


def write_form(
    library: Library,
    out: Path,
    form: str,
    name: str = "",
    *,
    describe: Callable[[Library], str] = lambda _: "",
    known: Iterable[Library] = (),
) -> Path:
    """Write the library and return the file or the folder of the skill. Raises LibraryError.

    A file or folder that exists is replaced only if it is an unchanged export of this library or of a known one.
    name: of the library, for the title, or of the skill; when it is empty, that of the file or folder. A skill whose
    name is not that of the folder gets a folder of its name in it, because programs want both to be the same. In the
    format `lines`, a folder that exists stands for its file `lessons.jsonl`. describe: returns the description of a
    skill. In the format `agents-md` only the block of this name in a file is replaced, see `AgentsMd.put`. known: the
    published versions of the library; read only where `out` exists.
    """
    chosen = library_format(form)
    if form == "lines" and out.is_dir():
        out = out / LINES_FILE
    if form == "skill" and name and out.resolve().name != name:
        out = out / name
    name = name or (out.resolve().name if form == "skill" else out.stem) or "library"

    def export(one: Library) -> dict[str, bytes]:
        texts = chosen.write(one, name, describe(one) if form == "skill" else "")
        return {part: text.encode("utf-8", "backslashreplace") for part, text in texts.items()}

    texts = export(library)
    if form == "agents-md":
        try:
            return _AGENTS_MD.put(out, texts[""], name)
        except OSError as error:
            raise LibraryError(f"the lessons could not be written to {str(out)!r}: {error}") from error

    def holds(part: str, content: bytes) -> bool:
        """Whether a part is a file of its own with this content."""
        file = out / part if part else out
        return file.is_file() and not file.is_symlink() and file.read_bytes() == content

    exports = chain([texts], map(export, known))
    parts = set[str]()
    try:
        if "" in texts:
            free = not (out.exists() or out.is_symlink()) or any(holds("", one[""]) for one in exports)
        else:  # other files in the folder of a skill are left alone
            parts = AgentSkill.parts_in(out)
            free = not out.exists() or not any(out.iterdir())
            free = free or any(parts == set(one) and all(holds(part, one[part]) for part in parts) for one in exports)
        if not free:
            raise LibraryError(
                f"{str(out)!r} exists, and it is not an unchanged export of this library; give another --out, or move"
                " it away",
                code="exists",
            )
        for file in parts - texts.keys():
            (out / file).unlink()
        for part, content in texts.items():
            file = out / part if part else out
            if part:
                file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, content)
    except OSError as error:
        raise LibraryError(f"the library could not be written to {str(out)!r}: {error}") from error
    return out


def loss_sentence(library: Library, form: str) -> str:
    """What the format does not keep of this library, in one sentence; empty when it keeps everything."""
    lost = library_format(form).losses(library)
    return f"the format {form!r} does not keep: {', '.join(lost)}" if lost else ""
