"""A run leaves alone what a person wrote into a library, and does not learn again what was parked."""

import pytest

from agentlearn.config.options import LessonOptions
from agentlearn.errors import LibraryError
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.history.hand_edits import HandEdits
from agentlearn.types.experience import Library, library_of
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import Add, Delete, Ended, Merge, Modify, Operation, Proposal, Rejected

CARRY = "When adding, carry."
ENDS = "When counting, check the ends of the range."
ZERO = "When dividing, look for zero."
GIVEN = library_of([ENDS], kind="add")
WRITTEN = HandEdits(GIVEN).add(CARRY).library
FIRST, SECOND = (one.id for one in WRITTEN.experiences)


def learned(library: Library, *operations: Operation, told: bool = False) -> tuple[Library, tuple[Ended, ...]]:
    proposals = [
        Proposal(id=ProposalId(str(place)), stage="consolidate", ordinal=place, operation=one)
        for place, one in enumerate(operations)
    ]
    context = CheckContext(options=LessonOptions(change_written=told))
    return next_version(proposals, library, context)


@pytest.mark.parametrize(
    "operation",
    [Modify(target=SECOND, lesson=ZERO), Merge(targets=(FIRST, SECOND), lesson=ZERO), Delete(target=SECOND)],
)
def test_a_run_changes_a_written_lesson_only_when_it_is_told_to(operation: Operation) -> None:
    library, (ended,) = learned(WRITTEN, operation)
    assert library == WRITTEN
    assert isinstance(ended.end, Rejected)
    assert ended.end.code == "written_by_person"
    assert ended.end.reason == f"a person wrote the lesson {SECOND!r}; leave it as it is, or add another lesson"
    told, _ = learned(WRITTEN, operation, told=True)
    assert SECOND not in told.by_id
    given = Library.of([ENDS])  # lessons of a program or a file are left alone too
    library, (ended,) = learned(given, Modify(target=given.experiences[0].id, lesson=ZERO))
    assert (library, getattr(ended.end, "code", None)) == (given, "written_by_person")


def test_a_lesson_like_a_parked_one_is_not_learned_again() -> None:
    library = HandEdits(WRITTEN).park((SECOND,), "").library
    after, (ended,) = learned(library, Add(lesson=CARRY.lower()))
    assert after == library
    assert isinstance(ended.end, Rejected)
    assert (ended.end.code, ended.end.reason) == (
        "near_parked",
        f"the lesson says nearly the same as {CARRY!r}, which is parked",
    )
    _, (modified,) = learned(library, Modify(target=FIRST, lesson=CARRY))
    assert isinstance(modified.end, Rejected)
    assert modified.end.code == "near_parked"


def test_a_run_carries_withheld_lessons_over() -> None:
    library = HandEdits(WRITTEN).park((SECOND,), "It costs points.").library
    after, _ = learned(library, Add(lesson=ZERO))
    assert after.withheld == library.withheld


def test_a_person_may_exceed_a_limit_only_by_name() -> None:
    options = LessonOptions(max_lessons=1)
    with pytest.raises(LibraryError, match="the library holds 1 of at most 1 lessons"):
        HandEdits(GIVEN, context=HandEdits.checked(options=options)).add(CARRY)
    waived = HandEdits.checked(["library_full"], options)
    assert len(HandEdits(GIVEN, context=waived).add(CARRY).library) == 2
