"""Which versions a version was made from, and the nearest one that two versions have in common."""

from collections.abc import Iterable, Mapping

from agentlearn.library.history.change import Change
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, RunId


class Ancestry:
    """The versions of a store and what each was made from."""

    def __init__(self, libraries: Iterable[Library], changes: Iterable[Change]) -> None:
        self.libraries: dict[LibraryVersion, Library] = {EMPTY_LIBRARY.version: EMPTY_LIBRARY}
        self._parents: dict[LibraryVersion, set[LibraryVersion]] = {}
        self._experiences: dict[ExperienceId, Experience] = {}
        self._copied: dict[ExperienceId, set[ExperienceId]] = {}
        self._runs: dict[LibraryVersion, set[RunId]] = {}
        for library in libraries:
            self.libraries.setdefault(library.version, library)
            made_from = self._parents.setdefault(library.version, set())
            made_from.update(one for one in (library.parent, library.joined) if one is not None)
            for one in (*library.experiences, *(held.experience for held in library.withheld)):
                self._experiences.setdefault(one.id, one)
        for change in changes:
            if change.base is not None and change.base != change.version:
                self._parents.setdefault(change.version, set()).add(change.base)
            for one, sources in change.copied.items():
                self._copied.setdefault(one, set()).update(sources)
            if change.run and change.moves:
                self._runs.setdefault(change.version, set()).add(RunId(change.run))

    @property
    def experiences(self) -> Mapping[ExperienceId, Experience]:
        """Every lesson of these versions by id."""
        return self._experiences

    def parents(self, version: LibraryVersion) -> frozenset[LibraryVersion]:
        """The versions that a version was made from, as far as they are known."""
        return frozenset(self._parents.get(version, ()))

    def runs(self, version: LibraryVersion) -> frozenset[RunId]:
        """The runs that published a version."""
        return frozenset(self._runs.get(version, ()))

    def copied_from(self, identity: ExperienceId) -> frozenset[ExperienceId]:
        """The lessons of other libraries that a lesson is a copy of."""
        return frozenset(self._copied.get(identity, ()))

    def distances(self, version: LibraryVersion) -> dict[LibraryVersion, int]:
        """The version and all that it was made from, with the number of steps to each."""
        found, edge = {version: 0}, [version]
        while edge:
            parents = dict.fromkeys(parent for one in edge for parent in sorted(self._parents.get(one, ())))
            steps = found[edge[0]] + 1
            edge = [parent for parent in parents if parent not in found]
            found.update(dict.fromkeys(edge, steps))
        return found

    def nearest(self, one: LibraryVersion, other: LibraryVersion) -> Library | None:
        """The version nearest to both that both were made from; None where the store knows none."""
        first, second = self.distances(one), self.distances(other)
        shared = [version for version in first if version in second and version in self.libraries]
        if not shared:
            return None
        return self.libraries[min(shared, key=lambda version: (first[version] + second[version], version))]

    def lesson_ancestors(self, identity: ExperienceId) -> list[ExperienceId]:
        """Ids of all lessons that a lesson goes back to, the nearest first. Some may be unknown to the store."""
        found: dict[ExperienceId, None] = {}
        edge = [identity]
        while edge:
            parents = [
                parent for one in edge if one in self._experiences for parent in self._experiences[one].origin.parents
            ]
            edge = [parent for parent in dict.fromkeys(parents) if parent not in found and parent != identity]
            found.update(dict.fromkeys(edge))
        return list(found)
