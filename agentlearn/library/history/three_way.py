"""What lessons and versions go back to, and two versions as one with the version that both were made from.

Lessons that replace one another belong together: an edited lesson and its edit, a merged lesson and those it replaced.
Such a family is taken from the side that changed it; where both did, from ours.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from agentlearn.errors import LibraryError
from agentlearn.library.curate.lesson_text import NEAR, LessonWords
from agentlearn.library.history.change_log import Change, ChangeLog, VersionFiles, is_library_name
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, LessonStatus, Library, held_lessons
from agentlearn.types.ids import ExperienceId, LibraryVersion, RunId
from agentlearn.types.value import Value


class BlamedLesson(Value):
    """A lesson of the history, with the changes that brought and removed it."""

    experience: Experience
    status: LessonStatus | None
    """How the current version holds it; None where it does not."""
    brought: Change | None
    """The first change whose version holds it; None where no version of the log does."""
    left: Change | None
    """The last change whose version no longer holds it; None where the current version does."""
    replaces: tuple[ExperienceId, ...] = ()
    """The lessons that it replaced, which follow in the list as far as they are known."""


class HeldLesson(Value):
    """A lesson and the versions that hold it."""

    experience: Experience
    versions: tuple[str, ...]
    """References to these versions, `NAME@VERSION`, in order of name and version."""


_Held = dict[ExperienceId, tuple[Experience, LessonStatus]]
_Statuses = Mapping[ExperienceId, str]


class Ancestry:
    """The versions of a store and what each was made from."""

    def __init__(self, libraries: Iterable[Library], changes: Iterable[Change]) -> None:
        self.libraries: dict[LibraryVersion, Library] = {EMPTY_LIBRARY.version: EMPTY_LIBRARY}
        self._parents: dict[LibraryVersion, set[LibraryVersion]] = {}
        self.experiences: dict[ExperienceId, Experience] = {}
        """Every lesson of these versions by id."""
        self._copied: dict[ExperienceId, set[ExperienceId]] = {}
        self._runs: dict[LibraryVersion, set[RunId]] = {}
        for library in libraries:
            self.libraries.setdefault(library.version, library)
            made_from = self._parents.setdefault(library.version, set())
            made_from.update(one for one in (library.parent, library.joined) if one is not None)
            for one in (*library.experiences, *(held.experience for held in library.withheld)):
                self.experiences.setdefault(one.id, one)
        for change in changes:
            if change.base is not None and change.base != change.version:
                self._parents.setdefault(change.version, set()).add(change.base)
            for one, sources in change.copied.items():
                self._copied.setdefault(one, set()).update(sources)
            if change.run and change.moves:
                self._runs.setdefault(change.version, set()).add(RunId(change.run))

    @classmethod
    def in_store(cls, directory: Path, first: str = "", more: Iterable[Library] = ()) -> Self:
        """What the libraries of a folder know, and these further versions. What is damaged is left out.

        first: the library whose copy of a lesson counts where several hold it.
        """
        libraries, changes = list(more), list[Change]()
        for folder in sorted(directory.glob("*"), key=lambda one: (one.name != first, one.name)):
            if is_library_name(folder.name) and folder.is_dir():
                with suppress(LibraryError):
                    changes += ChangeLog(folder).read().changes
                files = VersionFiles(directory, folder.name)
                libraries += (one for _, one in files.several(files.listed()) if isinstance(one, Library))
        return cls(libraries, changes)

    def parents(self, version: LibraryVersion) -> frozenset[LibraryVersion]:
        """The versions that a version was made from, as far as they are known."""
        return frozenset(self._parents.get(version, ()))

    def runs(self, version: LibraryVersion) -> frozenset[RunId]:
        """The runs that published a version."""
        return frozenset(self._runs.get(version, ()))

    def copied_from(self, identity: ExperienceId) -> frozenset[ExperienceId]:
        """The lessons of other libraries that a lesson is a copy of."""
        return frozenset(self._copied.get(identity, ()))

    def lesson_ancestors(self, identity: ExperienceId) -> list[ExperienceId]:
        """Ids of all lessons that a lesson goes back to, the nearest first. Some may be unknown to the store."""
        found: dict[ExperienceId, None] = {}
        edge = [identity]
        while edge:
            parents = [
                parent for one in edge if one in self.experiences for parent in self.experiences[one].origin.parents
            ]
            edge = [parent for parent in dict.fromkeys(parents) if parent not in found and parent != identity]
            found.update(dict.fromkeys(edge))
        return list(found)

    def join(self, ours: Library, theirs: Library, base: Library) -> Library:
        """Return two libraries as one. A new lesson of theirs that nearly repeats a new one of ours is left out.

        base: the version that both were made from. Raises LibraryError for a reused id.
        """
        before, mine, others = (held_lessons(one) for one in (base, ours, theirs))
        known: _Held = {}
        for held in (before, mine, others):
            for identity, (one, _) in held.items():
                words = known.setdefault(identity, held[identity])[0].lesson
                if words != one.lesson:
                    raise LibraryError(
                        f"the id {identity[:12]!r} stands for two different lessons, {words!r:.60} and"
                        f" {one.lesson!r:.60}; one of the files was changed, export it again"
                    )
        taken = set[ExperienceId]()
        for family in self._families(known):
            was, our, their = ({one: held[one][1] for one in family if one in held} for held in (before, mine, others))
            if our == (was or self._implied(our, their)) != their:
                taken.update(family)
        own = [LessonWords.of(one.lesson) for identity, (one, _) in mine.items() if identity not in {*others, *taken}]
        for identity in taken - mine.keys():
            if identity in others and any(LessonWords.of(others[identity][0].lesson).is_near(one, NEAR) for one in own):
                taken.remove(identity)
        return _assembled(ours, theirs, taken)

    def _families(self, held: _Held) -> list[list[ExperienceId]]:
        """The lessons in groups: those that replace one another belong together."""
        first: dict[ExperienceId, ExperienceId] = {}

        def root(identity: ExperienceId) -> ExperienceId:
            while first.setdefault(identity, identity) != identity:
                identity = first[identity]
            return identity

        for identity in held:
            for parent in (*held[identity][0].origin.parents, *self.lesson_ancestors(identity)):
                if root(parent) != root(identity):
                    first[root(parent)] = root(identity)
        families: dict[ExperienceId, list[ExperienceId]] = {}
        for identity in held:
            families.setdefault(root(identity), []).append(identity)
        return list(families.values())

    def _implied(self, our: _Statuses, their: _Statuses) -> _Statuses:
        """What both began with where no common version says it: the side whose lessons all go on in the other's.

        The empty result means that both are new.
        """
        for old, new in ((our, their), (their, our)):
            carried = {parent for one in new for parent in self.lesson_ancestors(one)}
            if old and all(one in carried and one not in new for one in old):
                return dict(old)
        return {}

    def blame(self, identity: ExperienceId, changes: Sequence[Change]) -> tuple[BlamedLesson, ...]:
        """Return a lesson and all that it goes back to, the nearest first, as far as they are known."""
        chain = [identity, *self.lesson_ancestors(identity)]
        known = dict.fromkeys(one for one in chain if one in self.experiences)
        brought, left = dict[ExperienceId, Change](), dict[ExperienceId, Change]()
        status: dict[ExperienceId, LessonStatus] = {}
        for change in changes:
            if change.moves and change.version in self.libraries:
                held = held_lessons(self.libraries[change.version])
                left.update((one, change) for one in status if one not in held)
                status = {one: how for one, (_, how) in held.items() if one in known}
                for one in status:
                    brought.setdefault(one, change)
                    left.pop(one, None)
        return tuple(
            BlamedLesson(
                experience=self.experiences[one],
                status=status.get(one),
                brought=brought.get(one),
                left=left.get(one),
                replaces=self.experiences[one].origin.parents,
            )
            for one in known
        )

    def with_descendants(self, identities: Iterable[ExperienceId]) -> tuple[Experience, ...]:
        """Return the lessons, then all others that go back to one of them, as far as they are known."""
        wanted = dict.fromkeys(one for one in identities if one in self.experiences)
        made_from: dict[ExperienceId, list[ExperienceId]] = {}
        for one in self.experiences.values():
            for parent in one.origin.parents:
                made_from.setdefault(parent, []).append(one.id)
        found, edge = set(wanted), list(wanted)
        while edge:
            edge = [child for one in edge for child in made_from.get(one, ()) if child not in found]
            found.update(edge)
        later = [one for one in self.experiences if one in found]
        return tuple(self.experiences[one] for one in wanted | dict.fromkeys(later))


def _assembled(ours: Library, theirs: Library, taken: Collection[ExperienceId]) -> Library:
    """The lessons of both in our order. taken: those that are as theirs has them.

    A lesson of theirs that replaces another stands where it stands there. Every other one goes to the end.
    """
    shown = [one for one in ours.experiences if one.id not in taken]
    before: Experience | None = None
    for one in theirs.experiences:
        if one.id in taken:
            mine = next((place for place, our in enumerate(ours.experiences) if our.id == one.id), None)
            if mine is not None:
                kept = {our.id for our in ours.experiences[:mine]}
                place = sum(our.id in kept for our in shown)
            elif one.origin.parents:
                place = shown.index(before) + 1 if before in shown else 0
            else:
                place = len(shown)
            shown.insert(place, one)
        before = one if one in shown else before
    withheld = [one for one in ours.withheld if one.experience.id not in taken]
    withheld += [one for one in theirs.withheld if one.experience.id in taken]
    return ours.next(shown, withheld, joined=theirs.version)
