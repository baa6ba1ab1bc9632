"""Joining two versions of a library, lesson by lesson, with the nearest version that both were made from.

Lessons that replace one another belong together: an edited lesson and its edit, a merged lesson and those it replaced.
Such a family is taken from the side that changed it. A family that both sides changed in different ways is a conflict.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from agentlearn.errors import LibraryError
from agentlearn.library.history.change import Change
from agentlearn.library.history.hand_edits import LessonStatus, held_lessons
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Withheld
from agentlearn.types.ids import ExperienceId, LibraryVersion, RunId
from agentlearn.types.value import Value


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


JoinSide = Literal["ours", "theirs"]
"""Which of two libraries: the one that the join changes, or the other."""

NEAR_DUPLICATE = 0.85
"""Jaccard similarity of two lessons' words, 0..1, from which they count as the same."""


class JoinConflict(Value):
    """Lessons that two libraries changed in different ways."""

    kind: Literal["both_edited", "edited_and_removed", "near_duplicate", "status"]
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


_Held = Mapping[ExperienceId, tuple[Experience, LessonStatus]]


class _Choice(NamedTuple):
    side: JoinSide
    conflict: JoinConflict | None = None


def join_libraries(
    ours: Library, theirs: Library, ancestry: Ancestry, prefer: JoinSide = "ours", *, base: Library | None = None
) -> LibraryJoin:
    """Return both libraries as one. Raises LibraryError for a reused id.

    prefer: the side to take in a conflict. base: the version that both were made from; None finds it.
    """
    base = base or ancestry.nearest(ours.version, theirs.version)
    before, mine, others = held_lessons(base or EMPTY_LIBRARY), held_lessons(ours), held_lessons(theirs)
    _refuse_reused(before, mine, others)
    conflicts, sides = list[JoinConflict](), dict[ExperienceId, JoinSide]()
    for family in _families({**before, **mine, **others}, ancestry):
        choice = _choice(family, before, mine, others, ancestry, prefer)
        sides.update(dict.fromkeys(family, choice.side))
        conflicts += [choice.conflict] if choice.conflict else []
    near = _near(mine, others, sides)
    conflicts += [JoinConflict(kind="near_duplicate", ours=(one,), theirs=(other,)) for one, other in near]
    left_out = {(other if prefer == "ours" else one).id for one, other in near}
    library = _assembled(ours, theirs, {one: side for one, side in sides.items() if one not in left_out})
    held = held_lessons(library)
    return LibraryJoin(
        library=library,
        base=base,
        conflicts=tuple(conflicts),
        taken=tuple(one for identity, (one, _) in others.items() if identity in held and identity not in mine),
        dropped=tuple(one for identity, (one, _) in mine.items() if identity not in held),
    )


def _refuse_reused(*sides: _Held) -> None:
    words: dict[ExperienceId, str] = {}
    for held in sides:
        for identity, (one, _) in held.items():
            if words.setdefault(identity, one.lesson) != one.lesson:
                raise LibraryError(
                    f"the id {identity[:12]!r} stands for two different lessons, {words[identity]!r:.60} and"
                    f" {one.lesson!r:.60}; one of the files was changed, export it again",
                    code="reused_id",
                )


def _families(held: _Held, ancestry: Ancestry) -> list[list[ExperienceId]]:
    """The lessons in groups: those that replace one another belong together."""
    first: dict[ExperienceId, ExperienceId] = {}

    def root(identity: ExperienceId) -> ExperienceId:
        while first.setdefault(identity, identity) != identity:
            identity = first[identity]
        return identity

    for identity in held:
        for parent in (*held[identity][0].origin.parents, *ancestry.lesson_ancestors(identity)):
            if root(parent) != root(identity):
                first[root(parent)] = root(identity)
    families: dict[ExperienceId, list[ExperienceId]] = {}
    for identity in held:
        families.setdefault(root(identity), []).append(identity)
    return list(families.values())


def _choice(
    family: Iterable[ExperienceId], before: _Held, mine: _Held, others: _Held, ancestry: Ancestry, prefer: JoinSide
) -> _Choice:
    """Which side a family is taken from."""
    was, our, their = (_statuses(family, held) for held in (before, mine, others))
    was = was or _implied(our, their, ancestry)
    if our == their or their == was:
        return _Choice("ours")
    if our == was:
        return _Choice("theirs")
    kind: Literal["both_edited", "edited_and_removed", "status"] = "both_edited"
    if not our or not their:
        kind = "edited_and_removed"
    elif our.keys() == their.keys():
        kind = "status"
    known = {**before, **mine, **others}
    named = [tuple(known[one][0] for one in side) for side in (was, our, their)]
    return _Choice(prefer, JoinConflict(kind=kind, base=named[0], ours=named[1], theirs=named[2]))


def _statuses(family: Iterable[ExperienceId], held: _Held) -> dict[ExperienceId, LessonStatus]:
    return {one: held[one][1] for one in family if one in held}


def _implied(
    our: Mapping[ExperienceId, LessonStatus], their: Mapping[ExperienceId, LessonStatus], ancestry: Ancestry
) -> dict[ExperienceId, LessonStatus]:
    """What both began with where no common version says it: the side whose lessons all go on in the other's.

    The empty result means that both are new.
    """
    for old, new in ((our, their), (their, our)):
        carried = {parent for one in new for parent in ancestry.lesson_ancestors(one)}
        if old and all(one in carried and one not in new for one in old):
            return dict(old)
    return {}


def _near(mine: _Held, others: _Held, sides: Mapping[ExperienceId, JoinSide]) -> list[tuple[Experience, Experience]]:
    """Pairs of lessons with nearly the same words, one only in ours and one only in theirs, that would both stay."""
    from agentlearn.library.curate.similarity import LessonWords  # its package takes a second to load

    own = [one for identity, (one, _) in mine.items() if identity not in others and sides[identity] == "ours"]
    other = [one for identity, (one, _) in others.items() if identity not in mine and sides[identity] == "theirs"]
    return [
        (one, two)
        for one in own
        for two in other
        if LessonWords.of(one.lesson).is_near(LessonWords.of(two.lesson), NEAR_DUPLICATE)
    ]


def _assembled(ours: Library, theirs: Library, sides: Mapping[ExperienceId, JoinSide]) -> Library:
    """The lessons of both, each from its side, in our order."""
    withheld: dict[ExperienceId, Withheld] = {}
    for side, library in (("ours", ours), ("theirs", theirs)):
        withheld.update({one.experience.id: one for one in library.withheld if sides.get(one.experience.id) == side})
    return Library(
        parent=ours.version,
        joined=theirs.version,
        experiences=tuple(_shown(ours, theirs, sides)),
        withheld=tuple(withheld.values()),
    )


def _shown(ours: Library, theirs: Library, sides: Mapping[ExperienceId, JoinSide]) -> list[Experience]:
    """Our lessons in our order. A lesson of theirs that replaces another stands where it stands there.

    Every other lesson of theirs goes to the end.
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
    return shown
