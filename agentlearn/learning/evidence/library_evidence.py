"""The evidence on the lessons of one library, from everything that a store holds."""

from collections.abc import Iterable
from dataclasses import dataclass

from agentlearn.learning.evidence.blocks import blocks_of
from agentlearn.learning.evidence.judgement import EvidenceRules, LessonEvidence, judge
from agentlearn.library.store import LibraryStore
from agentlearn.store import StoreReader
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId


@dataclass(frozen=True, slots=True)
class LibraryEvidence:
    """What is known about the lessons of a library, the removed and the parked ones included."""

    name: str
    library: Library
    """Its current version."""
    evidence: tuple[LessonEvidence, ...]
    """Of every lesson that was ever tested under this name, with each model."""

    @property
    def tested(self) -> int:
        """Number of tests that share the budget of errors: one for each lesson and model with evidence."""
        return sum(bool(one.blocks) for one in self.evidence)


def library_evidence(
    reader: StoreReader, libraries: LibraryStore, name: str, rules: EvidenceRules | None = None
) -> LibraryEvidence:
    """The evidence on a library's lessons. Raises LibraryError for an unknown name.

    Nothing is kept between two calls but the rollouts themselves, so the result is the same in every process.
    """
    versions = {version: libraries.load(f"{name}@{version}") for version in libraries.versions(name)}
    ever = lessons_ever(versions.values())
    rows = reader.exposed(ever, {version: list(library.by_id) for version, library in versions.items()})
    hidden = {lesson for row in rows for lesson in row.masked} & {*ever}
    learned_from = {lesson: reader.tasks_behind(lesson) for lesson in sorted(hidden)}
    blocks = [one for one in blocks_of(rows, learned_from) if one.lesson in hidden]
    return LibraryEvidence(name, libraries.load(name), judge(blocks, rules))


def lessons_ever(versions: Iterable[Library]) -> tuple[ExperienceId, ...]:
    """Every lesson that one of these versions holds, sorted. Withheld ones are among them."""
    known = list(versions)
    shown = {lesson for version in known for lesson in version.by_id}
    return tuple(sorted(shown | {one.experience.id for version in known for one in version.withheld}))
