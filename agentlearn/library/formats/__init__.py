"""Library formats: ours as JSON and as lines for git, and those of other programs. Reading, importing and writing.

Ours keep everything. The object is sorted and indented, with the experiences in the order in which they are shown:

    {"experiences": [{"id": …, "lesson": …, "origin": {…}, "tags": […]}, …],
     "format": "agentlearn-library/1", "parent": …, "version": …}

`version` is a hash of the lessons and shows whether the file was changed. A library written by hand has
`"version": "hand-written"`; it needs only `format` and each experience's `lesson`, and may have `tags`. As lines, a
change of one lesson changes its line and the first one; lessons with a status are withheld:

    {"format": "agentlearn-lessons/1", "version": …, "parent": …}
    {"lesson": …, "tags": […], "id": …, "origin": {…}}
    {"lesson": …, "tags": […], "id": …, "origin": {…}, "status": "pending", "reason": …}

The original implementation writes JSON, and its youtu-agent an agent's configuration in YAML. In a playbook of ACE the
counts may be absent, as in those of its AppWorld experiments, and a line may continue on the next ones.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import ValidationError

from agentlearn.errors import LibraryError, MissingExtra
from agentlearn.library.formats.document import MarkdownDocument
from agentlearn.library.formats.markdown import AgentSkill, AgentsMd, MarkdownList, tags_of_heading
from agentlearn.library.formats.source_files import Form, FoundLesson, LibraryFormat, ReadLessons, SourceFiles
from agentlearn.text.files import own, write_whole
from agentlearn.types.experience import (
    EMPTY_LIBRARY,
    Experience,
    KeptFile,
    Library,
    Origin,
    OriginKind,
    Withheld,
    experience_id,
)
from agentlearn.types.ids import LibraryVersion
from agentlearn.types.rendering import in_sections
from agentlearn.types.value import first_fault

_FORMAT = "agentlearn-library/1"
_LINES_FORMAT = "agentlearn-lessons/1"
_CHANGES_FORMAT = "agentlearn-changes/1"
"""The format of a version in a store that builds on another one; `changes_text` describes it."""
_LINES_FILE = "lessons.jsonl"
"""The file of a folder that holds the library."""
_HAND_WRITTEN = "hand-written"
"""The version of a file that a person wrote."""
_HOW_TO_FIX = f'set "version": "{_HAND_WRITTEN}" to read it as a new library, or export the library again'
_ID = re.compile(r"[0-9A-Za-z._:-]{1,64}")
_SHOWN = 60


def _json_value(text: str, source: str) -> object:
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


class _LibraryJson(LibraryFormat):
    """Our JSON."""

    name = "agentlearn"
    keeps = "everything"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the text is a JSON object that names our format."""
        is_ours = not source.is_folder and f'"{_FORMAT.partition("/")[0]}/' in source.only
        return is_ours and source.only.lstrip()[:1] == "{"

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons, and the library itself when the file was not changed."""
        document = _json_value(source.only, source.path)
        if not isinstance(document, dict):
            raise LibraryError(
                f'{source.path!r} is not an agentlearn library; give an object with "format": {_FORMAT!r}'
            )
        found = cast("dict[str, Any]", document)
        _check_format(found.get("format"), _FORMAT, source.path)
        entries, held = _entries(found, source.path), found.get("withheld")
        inner = [one.get("experience") for one in _objects(held if isinstance(held, list) else [])]
        lessons = [FoundLesson(f"#{n}", one.get("lesson"), one.get("tags", ())) for n, one in enumerate(entries, 1)]
        for n, one in enumerate(_objects(inner), 1):
            lessons.append(FoundLesson(f"withheld #{n}", one.get("lesson"), one.get("tags", ()), withheld=True))
        exported = found.get("parent" if found.get("version") == _HAND_WRITTEN else "version")
        return ReadLessons(tuple(lessons), _unchanged(found, source.path), str(exported or ""))

    def write(self, library: Library, name: str = "", description: str = "") -> Mapping[str, str]:
        """Return the object, sorted and indented."""
        document = {"format": _FORMAT, "version": library.version, **library.model_dump(mode="json")}
        return {"": json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n"}


class _LessonLines(LibraryFormat):
    """One lesson per line."""

    name = "lines"
    keeps = "everything"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the first line names this format."""
        first = (source.named(_LINES_FILE) or "").lstrip().partition("\n")[0]
        return first.startswith("{") and f'"{_LINES_FORMAT.partition("/")[0]}/' in first

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons, and the library itself when the file was not changed."""
        rows, document = self._document(source)
        lessons = tuple(
            FoundLesson(f"line {line}", row.get("lesson"), row.get("tags", ()), withheld="status" in row)
            for line, row in rows
        )
        return ReadLessons(lessons, _unchanged(document, source.path), str(document.get("version") or ""))

    def library(self, source: SourceFiles) -> Library:
        """Return the library. Raises LibraryError when its lessons and its version differ."""
        return _library_of(self._document(source)[1], source.path)

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the header and a line for each lesson."""

        def row(one: Experience) -> dict[str, Any]:
            dumped = one.model_dump(mode="json")
            return {key: dumped[key] for key in ("lesson", "tags", "id", "origin")}

        more = library.model_dump(mode="json", include={"joined", "document", "files"})
        header = {"format": _LINES_FORMAT, "version": library.version, "parent": library.parent, **more}
        shown = map(row, library.experiences)
        held = ({**row(one.experience), "status": one.status, "reason": one.reason} for one in library.withheld)
        return {"": "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in (header, *shown, *held))}

    def _document(self, source: SourceFiles) -> tuple[list[tuple[int, dict[str, Any]]], dict[str, Any]]:
        """The rows below the header with the numbers of their lines, and the library as the object of our JSON."""
        text = source.named(_LINES_FILE)
        if text is None:
            raise LibraryError(f"the folder {source.path!r} has no file {_LINES_FILE!r}; give the file of the library")
        objects: list[tuple[int, dict[str, Any]]] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                value = _json_value(line, f"{source.path} line {number}")
                if not isinstance(value, dict):
                    raise LibraryError(
                        f"line {number} of {source.path!r} is not a JSON object; write one lesson per line"
                    )
                objects.append((number, cast("dict[str, Any]", value)))
        if not objects:
            raise LibraryError(f"{source.path!r} is empty; its first line must name the format {_LINES_FORMAT!r}")
        (_, header), *rows = objects
        _check_format(header.get("format"), _LINES_FORMAT, source.path)
        document: dict[str, Any] = {**header, "experiences": [], "withheld": []}
        for _, row in rows:
            if "status" in row:
                experience = {key: value for key, value in row.items() if key not in {"status", "reason"}}
                held = {"experience": experience, "status": row["status"], "reason": row.get("reason", "")}
                document["withheld"].append(held)
            else:
                document["experiences"].append(row)
        return rows, document


def _check_format(found: object, expected: str, source: str) -> None:
    """Raise LibraryError when a file names another version of our format."""
    if found != expected:
        raise LibraryError(
            f"{source!r} has the library format {found!r}; this agentlearn reads {expected!r}:"
            " pip install --upgrade agentlearn-lib"
        )


def _unchanged(document: dict[str, Any], source: str) -> Library | None:
    """Return the library of a document of ours; None when a person wrote or changed it."""
    try:
        return None if document.get("version") == _HAND_WRITTEN else _library_of(document, source)
    except LibraryError:
        return None


def _library_of(document: dict[str, Any], source: str) -> Library:
    """Return the library of a document of ours. Raises LibraryError when its lessons and its version differ."""
    entries = _entries(document, source)
    if document.get("version") == _HAND_WRITTEN:
        written = [(f"#{place}", entry.get("lesson"), entry.get("tags", ())) for place, entry in enumerate(entries, 1)]
        return _new_library(written, "person", source)
    given = cast("list[object]", entries)
    try:
        library = Library(
            parent=document.get("parent"),
            joined=document.get("joined"),
            experiences=tuple(one if isinstance(one, Experience) else Experience.model_validate(one) for one in given),
            withheld=document.get("withheld", ()),
            document=document.get("document", ""),
            files=document.get("files", ()),
        )
    except ValidationError as error:
        raise LibraryError(f"{source!r} was changed and cannot be read: {first_fault(error)}; {_HOW_TO_FIX}") from error
    if library.version != document.get("version"):
        raise LibraryError(
            f"{source!r} was changed: its lessons make version {library.version[:8]!r}, but it says"
            f" {str(document.get('version'))[:8]!r}; {_HOW_TO_FIX}"
        )
    held = [one for one, entry in zip(library.experiences, given, strict=True) if one is not entry]  # the base is right
    held += [one.experience for one in library.withheld]
    ids = {library.parent, library.joined, *(one.id for one in held), *(one.origin.library for one in held)}
    ids |= {parent for one in held for parent in one.origin.parents}
    if odd := sorted(one for one in ids if one is not None and not _ID.fullmatch(one)):
        raise LibraryError(f"{source!r} has the id {shown_value(odd[0])}, which agentlearn never makes; {_HOW_TO_FIX}")
    return library


def _new_library(entries: Sequence[tuple[str, Any, Any]], kind: OriginKind, source: str) -> Library:
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
                f"experience {name} of {source!r} cannot be used: {first_fault(error)}; correct it in the file:"
                f" {shown_value(lesson)}"
            ) from error
        experiences.append(experience)
    return Library(experiences=tuple(experiences))


def _entries(document: dict[str, Any], source: str) -> list[dict[str, Any]]:
    entries = document.get("experiences")
    if not isinstance(entries, list) or not all(isinstance(entry, dict | Experience) for entry in entries):
        raise LibraryError(f'{source!r} needs "experiences", a list of objects')
    return cast("list[dict[str, Any]]", entries)


def _objects(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", one) for one in values if isinstance(one, dict)]


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
            return self.lessons(_json_value(source.only, source.path)) is not None
        except LibraryError:
            return False

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons by their labels."""
        found = self.lessons(_json_value(source.only, source.path))
        if found is None:
            raise LibraryError(f'{source.path!r} needs "experiences", an object of lessons such as {{"G0": "…"}}')
        return ReadLessons(tuple(FoundLesson(label, _one_line(text)) for label, text in found.items()))

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the object with the labels `G0`, `G1`, …"""
        lessons = {f"G{place}": _one_line(experience.lesson) for place, experience in enumerate(library.experiences)}
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
                lines.append(f"[{letters[:5]}-{number:05d}] helpful=0 harmful=0 :: {_one_line(one.lesson)}")
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
        return LibraryError(f"{source!r} {why}")

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
        lines = [f"    [G{number}]. {_one_line(one.lesson)}\n" for number, one in enumerate(library.experiences)]
        return {"": _HEAD.format(name=re.sub(r"[^A-Za-z0-9_-]", "_", name) or "agent") + "".join(lines)}


_LINES, _JSON, _AGENTS_MD = _LessonLines(), _LibraryJson(), AgentsMd()
_ORDER = (
    AgentSkill(),
    _LINES,
    _JSON,
    _OriginalJson(),
    _AcePlaybook(),
    _YoutuAgent(),
    _AGENTS_MD,
    MarkdownList(),
    MarkdownDocument(),
)
"""Every format, in the order in which they are tried."""
_FORMATS: dict[str, LibraryFormat] = {name: one for name in get_args(Form) for one in _ORDER if one.name == name}
"""Every format by its name."""


def library_format(form: str) -> LibraryFormat:
    """Return the format of that name. Raises LibraryError for an unknown one."""
    if form not in _FORMATS:
        known = ", ".join(map(repr, _FORMATS))
        raise LibraryError(f"unknown library format {form!r} (known: {known})")
    return _FORMATS[form]


def format_of(source: SourceFiles) -> LibraryFormat:
    """Return the format that the source is in. Raises LibraryError when it is in none."""
    found = next((one for one in _ORDER if one.sniff(source)), None)
    if found is None:
        known = ", ".join(map(repr, _FORMATS))
        raise LibraryError(f"{source.path!r} is in no format that is known here; name one with --format ({known})")
    return found


def library_text(library: Library) -> str:
    """Return the library in our JSON."""
    return _JSON.write(library)[""]


def changes_text(library: Library, base: Library, hash_of_base: str) -> str:
    """Return what changed in a library since another version, as a line of JSON.

    A list of lessons holds new ones, and [FROM, TO] for those that stand next to one another in the list of the base.
    hash_of_base: of the file that the base was read from, which `parse_library` gives back.
    """

    def pieces(before: Sequence[Experience | Withheld], after: Sequence[Experience | Withheld]) -> list[Any]:
        places = {(one.experience if isinstance(one, Withheld) else one).id: n for n, one in enumerate(before)}
        found = list[Any]()
        for one in after:
            place = places.get((one.experience if isinstance(one, Withheld) else one).id)
            if place is None or before[place] != one:
                found.append(one.model_dump(mode="json"))
            elif found and isinstance(found[-1], list) and found[-1][1] == place:
                found[-1][1] += 1
            else:
                found.append([place, place + 1])
        return found

    document = {
        "format": _CHANGES_FORMAT,
        "version": library.version,
        "base": {"version": base.version, "file": hash_of_base},
        "parent": library.parent,
        "joined": library.joined,
        **library.model_dump(mode="json", include={"document", "files"}),
        "experiences": pieces(base.experiences, library.experiences),
        "withheld": pieces(base.withheld, library.withheld),
    }
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n"


BaseLoader = Callable[[LibraryVersion, str], Library]
"""Returns a version, from a file with this hash. Raises LibraryError."""


def _with_changes(document: dict[str, Any], source: str, load: BaseLoader) -> Library:
    """Return the library of what `changes_text` wrote. Raises LibraryError."""
    match document.get("base"):
        case {"version": str(version), "file": str(hash_of_base)}:
            base = load(LibraryVersion(version), hash_of_base)
        case _:
            raise LibraryError(f"{source!r} does not say which version it builds on; restore the file from a copy")

    def whole(before: Sequence[Any], listed: object) -> list[Any]:
        found = list[Any]()
        for piece in cast("list[Any]", listed) if isinstance(listed, list) else [None]:
            match piece:
                case [int(first), int(end)] if 0 <= first < end <= len(before):
                    found += before[first:end]
                case dict():
                    found.append(cast("dict[str, Any]", piece))
                case _:
                    raise LibraryError(f"{source!r} was changed and cannot be read; restore the file from a copy")
        return found

    lists = {name: whole(getattr(base, name), document.get(name)) for name in ("experiences", "withheld")}
    return _library_of({**document, **lists}, source)


def parse_library(text: str, source: str, base: BaseLoader | None = None) -> Library:
    """Return the library in a text of ours, or of the original. source: the file's name, for messages.

    Files of other formats are imported, because their lessons have to be checked. base: reads the version that a file
    of changes builds on; without it, such a file is refused. Raises LibraryError.
    """
    given = SourceFiles.of_text(text, source)
    if _LINES.sniff(given):
        return _LINES.library(given)
    document = _json_value(text, source)
    match document:
        case {"format": "agentlearn-changes/1"}:
            if base is None:
                raise LibraryError(
                    f"{source!r} holds only what changed since another version; name it NAME@VERSION, or export that to"
                    " a file"
                )
            return _with_changes(cast("dict[str, Any]", document), source, base)
        case {"format": str(form)}:
            _check_format(form, _FORMAT, source)
            return _library_of(cast("dict[str, Any]", document), source)
        case [str(), *_] if all(isinstance(one, str) for one in cast("list[object]", document)):
            return Library.of(cast("list[str]", document))
        case _ if (lessons := _OriginalJson.lessons(document)) is not None:
            return _new_library([(name, _one_line(lesson), ()) for name, lesson in lessons.items()], "import", source)
        case _:
            raise LibraryError(
                f'{source!r} is not a library file: expected an object with "format": {_FORMAT!r}, a list of texts, or'
                ' the original\'s {"experiences": {"G0": "…"}, "next_id": 1}'
            )


def missing_file(file: KeptFile) -> LibraryError:
    """The error about a file beside a skill whose bytes no library of this store has."""
    return LibraryError(
        f"the bytes of {file.path!r} (sha256 {file.sha256[:12]}) are not in this store; import the folder of the skill"
        " here, or export to another format than 'skill'"
    )


def _no_content(file: KeptFile) -> bytes:
    raise missing_file(file)


def write_form(
    library: Library,
    out: Path,
    form: str,
    name: str = "",
    *,
    describe: Callable[[Library], str] = lambda _: "",
    known: Iterable[Library] = (),
    content: Callable[[KeptFile], bytes] = _no_content,
) -> Path:
    """Write the library and return the file or the folder of the skill. Raises LibraryError.

    A file or folder that exists is replaced only if it is an unchanged export of this library or of a known one.
    name: of the library, for the title, or of the skill; when it is empty, that of the file or folder. A skill whose
    name is not that of the folder gets a folder of its name in it, because programs want both to be the same. In the
    format `lines`, a folder that exists stands for its file `lessons.jsonl`. describe: returns the description of a
    skill. In the format `agents-md` only the block of this name in a file is replaced, see `AgentsMd.put`. known: the
    published versions of the library; read only where `out` exists. content: returns the bytes of a file beside a
    skill.
    """
    chosen = library_format(form)
    if form == "lines" and out.is_dir():
        out = out / _LINES_FILE
    if form == "skill" and name and out.resolve().name != name:
        out = out / name
    name = name or (out.resolve().name if form == "skill" else out.stem) or "library"

    def export(one: Library) -> dict[str, bytes]:
        if isinstance(chosen, AgentSkill):
            return chosen.folder(one, name, describe(one), content)
        texts = chosen.write(one, name)
        return {part: text.encode("utf-8", "backslashreplace") for part, text in texts.items()}

    texts = export(library)
    if form == "agents-md":
        try:
            return _AGENTS_MD.put(out, texts[""], name)
        except OSError as error:
            raise LibraryError(f"the lessons could not be written to {str(out)!r}: {error}") from error

    def holds(part: str, content: bytes) -> bool:
        """Whether a part is a file of its own with this content."""
        file = own(out / part, out) if part else out
        return file.is_file() and not file.is_symlink() and file.read_bytes() == content

    exports = chain([texts], map(export, known))
    old = dict[str, bytes]()
    try:
        if "" in texts:
            free = not (out.exists() or out.is_symlink()) or any(holds("", one[""]) for one in exports)
        else:  # other files in the folder of a skill are left alone
            parts = AgentSkill.parts_in(out)
            free = not out.exists() or not any(out.iterdir())
            same = (one for one in exports if parts <= set(one) and all(holds(part, one[part]) for part in one))
            old = {} if free else max(same, key=len, default={})
            free = free or (bool(old) and not any(os.path.lexists(out / part) for part in texts.keys() - old.keys()))
        if not free:
            raise LibraryError(
                f"{str(out)!r} exists, and it is not an unchanged export of this library; give another --out, or move"
                " it away",
                code="exists",
            )
        for part in old.keys() - texts.keys():
            (out / part).unlink()
        for part, made in texts.items():
            file = own(out / part, out) if part else out
            if part:
                file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, made)
    except OSError as error:
        raise LibraryError(f"the library could not be written to {str(out)!r}: {error}") from error
    return out


def loss_sentence(library: Library, form: str) -> str:
    """What the format does not keep of this library, in one sentence; empty when it keeps everything."""
    lost = library_format(form).losses(library)
    return f"the format {form!r} does not keep: {', '.join(lost)}" if lost else ""
