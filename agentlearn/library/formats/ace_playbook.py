"""Playbooks of ACE: `[id] helpful=3 harmful=0 :: words` under `## SECTION`. Pure.

The counts may be absent, as in the playbooks of its AppWorld experiments, and a line may continue on the next ones.
"""

import re
from collections.abc import Iterator, Mapping

from agentlearn.library.formats.library_format import Form, FoundLesson, ReadLessons, usual_losses
from agentlearn.library.formats.markdown_list import tags_of_heading
from agentlearn.library.formats.original_json import one_line
from agentlearn.library.formats.source_files import SourceFiles
from agentlearn.types.experience import Library

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
        return ReadLessons(tuple(_lessons(source.only)))

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


def _lessons(text: str) -> Iterator[FoundLesson]:
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
