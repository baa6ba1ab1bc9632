"""Carrying out a plan: the next version of a library."""

from typing import assert_never

from agentlearn.errors import CurationError, StalePlan
from agentlearn.learn.lessons.curate.seal import is_sealed
from agentlearn.learn.lessons.curate.tags import MAX_TAGS
from agentlearn.types.experience import Experience, Library, Origin
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import Add, Delete, Merge, Modify, Plan, PlannedOperation


def apply(plan: Plan, library: Library) -> Library:
    """The library's next version; the library itself for an empty plan.

    A modified lesson keeps its place, a merged one takes the place of its first target, an added one goes to the end.
    A lesson that names no tags inherits those of the lessons it replaces. Either the whole plan is carried out or an
    error is raised before anything is. Raises StalePlan when the plan was made for another version, and CurationError
    (code `unchecked_plan`) for a plan that `check` did not make in this process; see `seal`.
    """
    if not is_sealed(plan):
        raise CurationError(
            f"the plan for library version {plan.library!r} did not come from this process's check"
            " (built by hand, copied or read back); check its proposals again",
            code="unchecked_plan",
        )
    if plan.library != library.version:
        raise StalePlan(
            f"the plan was made for library version {plan.library!r}, the library is at {library.version!r};"
            " check the proposals again against the present version"
        )
    if not plan.operations:
        return library
    places: dict[ExperienceId, Experience] = dict(library.by_id)
    for planned in plan.operations:
        _carry_out(planned, library, places)
    return Library(parent=library.version, experiences=tuple(places.values()))


def _carry_out(planned: PlannedOperation, library: Library, places: dict[ExperienceId, Experience]) -> None:
    """Change `places`, which holds experiences by the id whose place they stand in."""
    operation = planned.operation
    match operation:
        case Add():
            new = _made(planned, operation, (), library)
            places[new.id] = new
        case Modify():
            places[operation.target] = _made(planned, operation, (operation.target,), library)
        case Merge():
            first, *others = operation.targets
            places[first] = _made(planned, operation, operation.targets, library)
            for target in others:
                del places[target]
        case Delete():
            del places[operation.target]
        case _:
            assert_never(operation)


def _made(
    planned: PlannedOperation, operation: Add | Modify | Merge, parents: tuple[ExperienceId, ...], library: Library
) -> Experience:
    assert planned.makes is not None, "check names what every operation but a delete makes"
    inherited = dict.fromkeys(tag for parent in parents for tag in library.by_id[parent].tags)
    return Experience(
        id=planned.makes,
        lesson=operation.lesson,
        tags=operation.tags or tuple(inherited)[:MAX_TAGS],
        origin=Origin(kind=operation.op, parents=parents, library=library.version),
    )
