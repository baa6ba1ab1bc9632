"""Joining two versions of a library, lesson by lesson, with the nearest version that both were made from.

Lessons that replace one another belong together: an edited lesson and its edit, a merged lesson and those it replaced.
Such a family is taken from the side that changed it. A family that both sides changed in different ways is a conflict.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Literal

from agentlearn.errors import LibraryError
from agentlearn.library.curate.similarity import NEAR, LessonWords
from agentlearn.library.history.change_log import Change
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, LessonStatus, Library, Withheld, held_lessons
from agentlearn.types.ids import ExperienceId, LibraryVersion, RunId
from agentlearn.types.value import Value

JoinSide = Literal["ours", "theirs"]
"""Which of two libraries: the one that the join changes, or the other."""

_ConflictKind = Literal["both_edited", "edited_and_removed", "near_duplicate", "status"]


class JoinConflict(Value):
    """Lessons that two libraries changed in different ways."""

    kind: _ConflictKind
    """`status`: the same lesson is shown on one side and withheld on the other."""
    base: tuple[Experience, ...] = ()
    """The lessons before both changes; empty where both are new."""
    ours: tuple[Experience, ...] = ()
    theirs: tuple[Experience, ...] = ()


class LibraryJoin(Value):
    """Two libraries as one, and what they disagree on."""

    library: Library
    """The joined library, with the preferred side of each conflict; ours where no side is preferred."""
    base: Library | None
    """The version that both were made from; None where none is known."""
    conflicts: tuple[JoinConflict, ...] = ()
    taken: tuple[Experience, ...] = ()
    """Lessons of theirs that ours did not hold."""
    dropped: tuple[Experience, ...] = ()
    """Lessons of ours that the joined library does not hold."""

    def held_back(self) -> "LibraryJoin":
        """The join with lessons of strangers withheld, and with the lessons of ours that they would replace."""
        taken = {one.id for one in self.taken if one.origin.strangers}
        held = [one for one in self.library.experiences if one.id in taken]
        if not held:
            return self
        replaced = {parent for one in held for parent in one.origin.parents}
        shown = (one for one in self.library.experiences if one.id not in taken)
        waiting = (
            Withheld(experience=one, status="pending", reason=f"from {one.origin.strangers[0].words}") for one in held
        )
        library = Library(
            parent=self.library.parent,
            joined=self.library.joined,
            experiences=(*shown, *(one for one in self.dropped if one.id in replaced)),
            withheld=(*self.library.withheld, *waiting),
        )
        dropped = tuple(one for one in self.dropped if one.id not in replaced)
        return self.model_copy(update={"library": library, "dropped": dropped})


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
                parent for one in edge if one in self.experiences for parent in self.experiences[one].origin.parents
            ]
            edge = [parent for parent in dict.fromkeys(parents) if parent not in found and parent != identity]
            found.update(dict.fromkeys(edge))
        return list(found)

    def join(
        self, ours: Library, theirs: Library, prefer: JoinSide = "ours", *, base: Library | None = None
    ) -> LibraryJoin:
        """Return two libraries as one. Raises LibraryError for a reused id.

        prefer: the side to take in a conflict. base: the version that both were made from; None finds it.
        """
        base = base or self.nearest(ours.version, theirs.version)
        before, mine, others = (held_lessons(one) for one in (base or EMPTY_LIBRARY, ours, theirs))
        known: _Held = {}
        for held in (before, mine, others):
            for identity, (one, _) in held.items():
                words = known.setdefault(identity, held[identity])[0].lesson
                if words != one.lesson:
                    raise LibraryError(
                        f"the id {identity[:12]!r} stands for two different lessons, {words!r:.60} and"
                        f" {one.lesson!r:.60}; one of the files was changed, export it again",
                        code="reused_id",
                    )
        conflicts, sides = list[JoinConflict](), dict[ExperienceId, JoinSide]()
        for family in self._families(known):
            was, our, their = ({one: held[one][1] for one in family if one in held} for held in (before, mine, others))
            was = was or self._implied(our, their)
            side, conflict = _side(was, our, their)
            sides.update(dict.fromkeys(family, side or prefer))
            if conflict:
                lessons = [tuple(known[one][0] for one in held) for held in (was, our, their)]
                conflicts.append(JoinConflict(kind=conflict, base=lessons[0], ours=lessons[1], theirs=lessons[2]))
        own = [one for identity, (one, _) in mine.items() if identity not in others and sides[identity] == "ours"]
        foreign = [one for identity, (one, _) in others.items() if identity not in mine and sides[identity] == "theirs"]
        for one, other in product(own, foreign):
            if LessonWords.of(one.lesson).is_near(LessonWords.of(other.lesson), NEAR):
                conflicts.append(JoinConflict(kind="near_duplicate", ours=(one,), theirs=(other,)))
                sides.pop((other if prefer == "ours" else one).id, None)
        library = _assembled(ours, theirs, sides)
        held = held_lessons(library)
        return LibraryJoin(
            library=library,
            base=base,
            conflicts=tuple(conflicts),
            taken=tuple(one for identity, (one, _) in others.items() if identity in held and identity not in mine),
            dropped=tuple(one for identity, (one, _) in mine.items() if identity not in held),
        )

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


def _side(was: _Statuses, our: _Statuses, their: _Statuses) -> tuple[JoinSide | None, _ConflictKind | None]:
    """Which side a family is taken from; None where both changed it, with how they disagree."""
    if our == their or their == was:
        return "ours", None
    if our == was:
        return "theirs", None
    if not our or not their:
        return None, "edited_and_removed"
    return None, "status" if our.keys() == their.keys() else "both_edited"


def _assembled(ours: Library, theirs: Library, sides: Mapping[ExperienceId, JoinSide]) -> Library:
    """The lessons of both, each from its side, in our order.

    A lesson of theirs that replaces another stands where it stands there. Every other one goes to the end.
    """
    shown = [one for one in ours.experiences if sides.get(one.id) == "ours"]
    before: Experience | None = None
    for one in theirs.experiences:
        if sides.get(one.id) == "theirs":
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
    withheld = {
        one.experience.id: one
        for side, library in (("ours", ours), ("theirs", theirs))
        for one in library.withheld
        if sides.get(one.experience.id) == side
    }
    return Library(
        parent=ours.version, joined=theirs.version, experiences=tuple(shown), withheld=tuple(withheld.values())
    )
