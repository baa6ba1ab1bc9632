"""Agent Skills: a folder with `SKILL.md`, whose front matter names the skill and whose lists are lessons. Pure.

A long library continues in `references/`. Of other programs' skills, the list items are read and the rest is not.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from unicodedata import normalize

from agentlearn.errors import LibraryError
from agentlearn.library.formats.markdown_list import read_items, written_items
from agentlearn.library.formats.source_files import SKILL, Form, ReadLessons, SourceFiles, usual_losses
from agentlearn.types.experience import Experience, Library

FORMAT = "agentlearn-skill/1"
"""The value of `metadata.agentlearn-format` in skills that we write."""
REFERENCE = re.compile(r"references/lessons-(\d{1,4})\.md")
"""Names of the files that we write next to `SKILL.md`."""
_VERSION = re.compile(r'agentlearn-version: "?([0-9a-f]{8,64})"?')
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_IN_SKILL, _IN_REFERENCE = 100, 200
_LONGEST_DESCRIPTION = 1024
_TAGS_NAMED = 12
_LESSONS_NAMED = 3


class AgentSkill:
    """A skill. It keeps the lessons, their order and their tags."""

    name: Form = "skill"

    def sniff(self, source: SourceFiles) -> bool:
        """Whether it is a folder with `SKILL.md`, or that file."""
        return any(name in source.texts for name in SKILL)

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the list items of `SKILL.md` and of the Markdown files in `references/`."""
        name = next((one for one in SKILL if one in source.texts), None)
        if name is None:
            raise LibraryError(f"{source.path!r} has no SKILL.md; give the folder of a skill")
        others = [one for one in source.texts if one.startswith("references/") and one.endswith(".md")]
        lessons = read_items(source.texts[name], f"{name} ")
        for one in sorted(others, key=_number):
            lessons += read_items(source.texts[one], f"{one} ")
        return ReadLessons(tuple(lessons), exported=_exported(source.texts[name]))

    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the files of the skill.

        name: of the skill. description: what it is for and when to load it; made from tags and lessons when it is
        empty. Raises LibraryError when the standard allows one of them not.
        """
        if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise LibraryError(
                f"{name!r} cannot name a skill; give a name of up to 64 lower-case letters, digits and single hyphens,"
                f" such as {skill_name(name)!r}",
                code="bad_skill_name",
            )
        description = " ".join(description.split()) or skill_description(library, name)
        if len(description) > _LONGEST_DESCRIPTION or re.search("[<>]", description):
            raise LibraryError(
                f"{description[:60]!r} cannot describe a skill; give at most {_LONGEST_DESCRIPTION} characters without"
                " < and >",
                code="bad_skill_description",
            )
        first, rest = library.experiences[:_IN_SKILL], library.experiences[_IN_SKILL:]
        parts = [rest[at : at + _IN_REFERENCE] for at in range(0, len(rest), _IN_REFERENCE)]
        files = {f"references/lessons-{n}.md": _reference(name, n, one) for n, one in enumerate(parts, 2)}
        return {"SKILL.md": _skill(name, description, library, first, tuple(files)), **files}

    def losses(self, library: Library) -> tuple[str, ...]:
        """Ids, origins, and what is withheld."""
        return usual_losses(library, tags=False)


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


def _skill(name: str, description: str, library: Library, first: Sequence[Experience], others: tuple[str, ...]) -> str:
    lines = [
        "---",
        f"name: {name}",
        f"description: {json.dumps(description, ensure_ascii=False)}",
        "metadata:",
        f'  agentlearn-format: "{FORMAT}"',
        f'  agentlearn-version: "{library.version}"',
        f'  agentlearn-lessons: "{len(library)}"',
        "---",
        "",
        f"# {name}",
        "",
        "Follow those of these lessons that fit the task at hand.",
    ]
    if others:
        lines += ["", "More lessons, to be read when none of these fits:"]
        lines += [f"[{one.rpartition('/')[2]}]({one})" for one in others]
    return "\n".join([*lines, "", *written_items(first)]).rstrip("\n") + "\n"


def _reference(name: str, number: int, lessons: Sequence[Experience]) -> str:
    return "\n".join([f"# {name}, part {number}", "", *written_items(lessons)]) + "\n"


def _number(path: str) -> tuple[int, str]:
    found = REFERENCE.fullmatch(path)
    return (int(found[1]) if found else 0, path)


def _exported(skill: str) -> str:
    """The version that the front matter names; empty for none."""
    return next((found[1] for line in _front(skill) if (found := _VERSION.fullmatch(line.strip()))), "")


def _front(text: str) -> Iterator[str]:
    lines = iter(text.split("\n"))
    if next(lines, "").rstrip() != "---":
        return
    for line in lines:
        if line.rstrip() == "---":
            return
        yield line
