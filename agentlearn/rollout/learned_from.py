"""Which tasks a library was learned from, however its lessons came to be where they are.

The history of a library says what each lesson goes back to: through edits, merges, rollbacks, branches, parking,
and through files that were exported and imported again. For a lesson that nothing is known of, such as one in a list or
in a file by hand, its words decide: a lesson that says nearly the same as one that a run learned counts as that one.
What a file says about itself can only add tasks here, never remove any.
"""

from collections.abc import Collection, Iterable, Mapping

from agentlearn.library.curate.lesson_text import SAME_LESSON, NearIndex
from agentlearn.library.history.three_way import Ancestry
from agentlearn.library.store import LibraryStore
from agentlearn.store import StoreReader
from agentlearn.store.queries import VersionMade
from agentlearn.types.experience import Experience, Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, RunId, TaskId

_OF_RUNS = frozenset({"add", "modify", "merge"})
"""How runs make lessons."""


class LearnedFrom:
    """What one store knows about the tasks behind lessons. libraries: its published libraries."""

    def __init__(self, reader: StoreReader, libraries: LibraryStore) -> None:
        self._reader = reader
        self._ancestry: Ancestry = libraries.ancestry()
        self._found: dict[ExperienceId, Experience | None] = {}
        self._index: tuple[NearIndex, list[Experience]] | None = None

    def sources(self, lesson: Experience) -> frozenset[ExperienceId]:
        """Return the lesson and all lessons that it goes back to."""
        line = self._line([lesson])
        if any(one.origin.kind in _OF_RUNS for one in line.values()):
            return frozenset(line)
        near = [same for one in line.values() for same in self._near(one)]
        return frozenset({**line, **self._line(near)})

    def evidence(self, lessons: Iterable[Experience]) -> Mapping[TaskId, frozenset[ExperienceId]]:
        """Return the tasks whose rollouts lessons rest on, each with those of the lessons that do."""
        sources = {one.id: self.sources(one) for one in lessons}
        learned = self._reader.learned_on(sorted({source for found in sources.values() for source in found}))
        made = {
            task: frozenset(lesson for lesson, found in sources.items() if found & behind)
            for task, behind in learned.items()
        }
        return {task: found for task, found in made.items() if found}

    def tasks(self, library: Library, without: Collection[ExperienceId] = ()) -> frozenset[TaskId]:
        """Return the tasks that the lessons of a library rest on, and all tasks of the runs that made it or them.

        without: lessons that are left out.
        """
        shown = [one for one in library.experiences if one.id not in without]
        if not shown:
            return frozenset()
        sources = sorted({source for one in shown for source in self.sources(one)})
        runs = {row.run for row in self._reader.proposals_of(sources)} | self.runs_behind(library)
        trained = (found.train for run in sorted(runs) if (found := self._reader.run_inputs(run)) is not None)
        return frozenset(self._reader.learned_on(sources)) | frozenset(task for train in trained for task in train)

    def runs_behind(self, library: Library) -> set[RunId]:
        """Return the runs that made a version or one that it was made from, as far back as learned lessons reach.

        A run that only started from a version did not make it.
        """
        stored = {one.version: one for one in self._reader.versions_made()}
        seen, edge, runs = {library.version}, [library.version], set[RunId]()
        known = {library.version: library}
        while edge:
            version = edge.pop()
            row, held = stored.get(version), known.get(version) or self._ancestry.libraries.get(version)
            if not self._holds_learned(held, row):
                continue
            made = {*self._ancestry.runs(version), *([row.run] if row is not None and row.run else [])}
            runs |= {run for run in made if not self._started_with(run, version)}
            parents = {*self._ancestry.parents(version), *([row.parent, row.joined] if row is not None else [])}
            parents |= {held.parent, held.joined} if held is not None else set()
            further = sorted(one for one in parents if one is not None and one not in seen)
            seen.update(further)
            edge += further
        return runs

    def _started_with(self, run: RunId, version: LibraryVersion) -> bool:
        found = self._reader.run_inputs(run)
        return found is not None and found.library == version

    def _holds_learned(self, library: Library | None, row: VersionMade | None) -> bool:
        """Whether a version may show a lesson that no person wrote from nothing. True where nothing is known."""
        if library is not None:
            lessons: Iterable[Experience | None] = library.experiences
        elif row is not None:
            lessons = [self._experience(one) for one in row.experiences]
        else:
            return True
        return any(one is None or self._is_learned(one) for one in lessons)

    def _is_learned(self, one: Experience) -> bool:
        return not one.by_person or any(not other.by_person for other in self._line([one]).values())

    def _line(self, lessons: Iterable[Experience]) -> dict[ExperienceId, Experience]:
        """The lessons and all that they replaced or were copied from, as far as they are known."""
        line, edge = dict[ExperienceId, Experience](), list(lessons)
        while edge:
            one = edge.pop()
            if one.id not in line:
                line[one.id] = one
                before = (*one.origin.parents, *self._ancestry.copied_from(one.id))
                edge += [found for each in before if (found := self._experience(each)) is not None]
        return line

    def _experience(self, identity: ExperienceId) -> Experience | None:
        if (known := self._ancestry.experiences.get(identity)) is not None:
            return known
        if identity not in self._found:
            self._found[identity] = next(iter(self._reader.experiences([identity])), None)
        return self._found[identity]

    def _near(self, lesson: Experience) -> list[Experience]:
        """The learned lessons of the store that say nearly the same."""
        if self._index is None:
            learned = {one.id: one for one in self._reader.learned_lessons()}
            learned |= {key: one for key, one in self._ancestry.experiences.items() if one.origin.kind in _OF_RUNS}
            listed = list(learned.values())
            index = NearIndex((one.lesson for one in listed), SAME_LESSON)
            for one in listed:
                index.add(one.lesson)
            self._index = index, listed
        index, listed = self._index
        return [listed[at] for at in index.all_near(lesson.lesson)]
