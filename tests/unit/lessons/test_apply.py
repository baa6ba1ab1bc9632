"""The next version of a library, and the plans that are not applied."""

import copy
import gc
import pickle
from collections.abc import Callable

import pytest

from agentlearn.errors import CurationError, StalePlan
from agentlearn.learn.lessons.curate import CheckContext, apply, check, seal
from agentlearn.types.experience import Experience, Library, Origin, library_of
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import Add, BatchOperation, Delete, Merge, Modify, Plan, PlannedOperation, Proposal

A, B, C, D = (
    "When counting pairs, decide first whether order matters.",
    "When a range is closed, count both of its endpoints.",
    "When a fraction is asked for, reduce it before answering.",
    "When a formula is guessed, verify it against small cases.",
)
NEW = "When a search needs a bound, double it once and compare."
OTHER = "When values are integers, stay exact and avoid floating point."
LIBRARY = library_of([A, B, C, D])
ONE, TWO, THREE, FOUR = (experience.id for experience in LIBRARY.experiences)


def plan(*operations: BatchOperation, library: Library = LIBRARY) -> Plan:
    asked = tuple(
        Proposal(id=ProposalId(str(ordinal)), stage="consolidate", ordinal=ordinal, operation=operation)
        for ordinal, operation in enumerate(operations)
    )
    made = check(asked, library, CheckContext()).plan
    assert len(made.operations) == len(operations)
    return made


def lessons(library: Library) -> list[str]:
    return [experience.lesson for experience in library.experiences]


def test_an_add_goes_to_the_end():
    assert lessons(apply(plan(Add(lesson=NEW), Add(lesson=OTHER)), LIBRARY)) == [A, B, C, D, NEW, OTHER]


def test_a_modify_keeps_the_place():
    assert lessons(apply(plan(Modify(target=TWO, lesson=NEW)), LIBRARY)) == [A, NEW, C, D]


def test_a_merge_takes_the_place_of_its_first_target():
    assert lessons(apply(plan(Merge(targets=(TWO, FOUR), lesson=NEW)), LIBRARY)) == [A, NEW, C]
    assert lessons(apply(plan(Merge(targets=(FOUR, TWO), lesson=NEW)), LIBRARY)) == [A, C, NEW]


def test_a_delete_takes_out():
    assert lessons(apply(plan(Delete(target=ONE), Delete(target=THREE)), LIBRARY)) == [B, D]


def test_operations_do_not_disturb_one_another():
    made = plan(
        Add(lesson=NEW), Delete(target=ONE), Merge(targets=(THREE, TWO), lesson=OTHER), Modify(target=FOUR, lesson=A)
    )
    assert lessons(apply(made, LIBRARY)) == [OTHER, A, NEW]


def test_what_is_made_tells_where_it_comes_from():
    made = plan(Merge(targets=(THREE, ONE), lesson=NEW), Modify(target=TWO, lesson=OTHER), Add(lesson=A))
    after = apply(made, LIBRARY)
    assert after.parent == LIBRARY.version
    assert after.by_id[FOUR] is LIBRARY.by_id[FOUR]
    origins = {one.lesson: one.origin for one in after.experiences}
    assert origins[NEW] == Origin(kind="merge", parents=(THREE, ONE), library=LIBRARY.version)
    assert origins[OTHER] == Origin(kind="modify", parents=(TWO,), library=LIBRARY.version)
    assert origins[A] == Origin(kind="add", library=LIBRARY.version)
    assert [planned.makes for planned in made.operations] == [
        next(one.id for one in after.experiences if one.lesson == text) for text in (NEW, OTHER, A)
    ]


def test_tags_are_inherited_unless_new_ones_are_given():
    tagged = Library(
        experiences=tuple(
            Experience(id=one.id, lesson=one.lesson, tags=(f"t{place}", "all"), origin=one.origin)
            for place, one in enumerate(LIBRARY.experiences)
        )
    )
    operations = (
        Merge(targets=(ONE, TWO), lesson=NEW),
        Modify(target=THREE, lesson=OTHER),
        Modify(target=FOUR, lesson=A, tags=("own",)),
    )
    after = apply(plan(*operations, library=tagged), tagged)
    assert [one.tags for one in after.experiences] == [("t0", "all", "t1"), ("t2", "all"), ("own",)]


def test_an_empty_plan_makes_no_new_version():
    assert apply(plan(), LIBRARY) is LIBRARY


def test_the_same_run_makes_the_same_version():
    assert apply(plan(Add(lesson=NEW)), LIBRARY) == apply(plan(Add(lesson=NEW)), LIBRARY)


def test_bringing_a_lesson_back_makes_another_id():
    first = apply(plan(Add(lesson=NEW)), LIBRARY)
    made = first.experiences[-1].id
    without = apply(plan(Delete(target=made), library=first), first)
    again = apply(plan(Add(lesson=NEW), library=without), without)
    assert again.experiences[-1].lesson == NEW
    assert again.experiences[-1].id != made


def test_a_plan_for_another_version_is_stale():
    made = plan(Add(lesson=NEW))
    later = apply(made, LIBRARY)
    with pytest.raises(StalePlan) as caught:
        apply(made, later)
    assert str(caught.value) == (
        f"the plan was made for library version {LIBRARY.version!r}, the library is at {later.version!r};"
        " check the proposals again against the present version"
    )
    with pytest.raises(StalePlan):
        apply(plan(), later)


DERIVED: list[Callable[[Plan], Plan]] = [
    lambda made: made.model_copy(),
    lambda made: made.model_copy(update={"operations": ()}),
    copy.copy,
    copy.deepcopy,
    lambda made: Plan.model_validate_json(made.model_dump_json()),
    lambda made: Plan.model_validate(made.model_dump()),
    lambda made: pickle.loads(pickle.dumps(made)),
    lambda made: Plan(library=made.library, operations=made.operations),
    lambda made: Plan.model_construct(library=made.library, operations=made.operations),
]


@pytest.mark.parametrize("derived", DERIVED)
def test_a_plan_that_check_did_not_return_is_not_applied(derived: Callable[[Plan], Plan]):
    made = plan(Add(lesson=NEW))
    with pytest.raises(CurationError) as caught:
        apply(derived(made), LIBRARY)
    assert caught.value.code == "unchecked_plan"
    assert str(caught.value) == (
        f"the plan for library version {LIBRARY.version!r} did not come from this process's check"
        " (built by hand, copied or read back); check its proposals again"
    )
    assert lessons(apply(made, LIBRARY)) == [A, B, C, D, NEW]


def test_a_forged_plan_is_not_applied():
    forged = PlannedOperation(operation=Delete(target=ONE), proposal=ProposalId("p"), ordinal=0)
    with pytest.raises(CurationError):
        apply(Plan(library=LIBRARY.version, operations=(forged,)), LIBRARY)


def test_a_seal_goes_with_its_plan():
    made = plan(Add(lesson=NEW))
    key = id(made)
    assert key in seal._sealed  # pyright: ignore[reportPrivateUsage]
    del made
    gc.collect()
    assert key not in seal._sealed  # pyright: ignore[reportPrivateUsage]
