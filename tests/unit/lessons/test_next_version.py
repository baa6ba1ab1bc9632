"""The next version of a library: places, ids, origins and tags."""

from agentlearn.library.curate import CheckContext, NextVersion, next_version
from agentlearn.types.experience import Library, Origin, library_of
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import Add, Applied, Delete, Merge, Modify, Operation, Proposal

A, B, C, D = (
    "When counting pairs, decide first whether order matters.",
    "When a range is closed, count both of its endpoints.",
    "When a fraction is asked for, reduce it before answering.",
    "When a formula is guessed, verify it against small cases.",
)
NEW = "When a search needs a bound, double it once and compare."
OTHER = "When values are integers, stay exact and avoid floating point."
LIBRARY = library_of([A, B, C, D], kind="add")
ONE, TWO, THREE, FOUR = (experience.id for experience in LIBRARY.experiences)


def changed(*operations: Operation, library: Library = LIBRARY) -> NextVersion:
    """The library after operations that all pass."""
    asked = tuple(
        Proposal(id=ProposalId(str(ordinal)), stage="consolidate", ordinal=ordinal, operation=operation)
        for ordinal, operation in enumerate(operations)
    )
    result = next_version(asked, library, CheckContext())
    assert all(isinstance(one.end, Applied) for one in result.ended)
    return result


def after(*operations: Operation, library: Library = LIBRARY) -> Library:
    return changed(*operations, library=library).library


def lessons(library: Library) -> list[str]:
    return [experience.lesson for experience in library.experiences]


def test_a_merge_takes_the_place_of_its_first_target():
    assert lessons(after(Merge(targets=(TWO, FOUR), lesson=NEW))) == [A, NEW, C]
    assert lessons(after(Merge(targets=(FOUR, TWO), lesson=NEW))) == [A, C, NEW]


def test_operations_do_not_disturb_one_another():
    made = changed(
        Add(lesson=NEW), Delete(target=ONE), Merge(targets=(THREE, TWO), lesson=OTHER), Modify(target=FOUR, lesson=A)
    )
    assert lessons(made.library) == [OTHER, A, NEW]


def test_a_new_experience_names_its_origin():
    made = changed(Merge(targets=(THREE, ONE), lesson=NEW), Modify(target=TWO, lesson=OTHER), Add(lesson=A))
    library = made.library
    assert library.parent == LIBRARY.version
    assert library.by_id[FOUR] is LIBRARY.by_id[FOUR]
    origins = {one.lesson: one.origin for one in library.experiences}
    assert origins[NEW] == Origin(kind="merge", parents=(THREE, ONE), library=LIBRARY.version)
    assert origins[OTHER] == Origin(kind="modify", parents=(TWO,), library=LIBRARY.version)
    assert origins[A] == Origin(kind="add", library=LIBRARY.version)
    assert [one.end.experience for one in made.ended if isinstance(one.end, Applied)] == [
        next(one.id for one in library.experiences if one.lesson == text) for text in (NEW, OTHER, A)
    ]
