"""Operations on a library, the proposals that carry them, how a proposal ends, and the plan that may be applied.

What a stage may emit is its type: a group cannot merge, a batch can. A `Proposal` is not yet checked; only
`curate.check` makes a `Plan`.
"""

from typing import Annotated, Literal

from pydantic import Field

from agentlearn.types.experience import Lesson
from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId, RolloutId, TaskId
from agentlearn.types.value import Value


class Add(Value):
    """Put a new lesson at the end."""

    op: Literal["add"] = "add"
    lesson: Lesson
    tags: tuple[str, ...] = ()


class Modify(Value):
    """Put a better lesson in the place of one."""

    op: Literal["modify"] = "modify"
    target: ExperienceId
    lesson: Lesson
    tags: tuple[str, ...] = ()


class Merge(Value):
    """Put one lesson in the place of several; it stands where the first of them stood."""

    op: Literal["merge"] = "merge"
    targets: tuple[ExperienceId, ...] = Field(min_length=2)
    lesson: Lesson
    tags: tuple[str, ...] = ()


class Delete(Value):
    """Take a lesson out."""

    op: Literal["delete"] = "delete"
    target: ExperienceId


GroupOperation = Annotated[Add | Modify | Delete, Field(discriminator="op")]
BatchOperation = Annotated[Add | Modify | Delete | Merge, Field(discriminator="op")]


class Applied(Value):
    """The operation is part of the next version."""

    end: Literal["applied"] = "applied"
    experience: ExperienceId | None = None
    """What it made; None for a delete."""


class Folded(Value):
    """Another proposal carries it on."""

    end: Literal["folded"] = "folded"
    into: tuple[ProposalId, ...] = Field(min_length=1)


class Dropped(Value):
    """Nobody took it up."""

    end: Literal["dropped"] = "dropped"
    reason: str


class Rejected(Value):
    """It broke a rule: `code` is stable, `reason` a sentence."""

    end: Literal["rejected"] = "rejected"
    code: str
    reason: str


End = Annotated[Applied | Folded | Dropped | Rejected, Field(discriminator="end")]


class Proposal(Value):
    """An operation that a stage asked for, not yet checked, with what it rests on."""

    id: ProposalId
    stage: Literal["compare", "consolidate"]
    ordinal: int = Field(ge=0)
    """Place among the proposals of its stage and batch, in order of (task, item), never of completion."""
    operation: BatchOperation | None = None
    """None where the raw item could not be parsed; then `refusal` says why."""
    refusal: Rejected | None = None
    raw: str = ""
    """What the model wrote, at most 4,000 characters."""
    task: TaskId | None = None
    """The group's task, for a proposal of the compare stage."""
    evidence: tuple[RolloutId, ...] = ()
    """The rollouts it was made from."""
    rests_on: tuple[ProposalId, ...] = ()
    """For the consolidate stage: the compare proposals it carries on."""


class Ended(Value):
    """A proposal with its end."""

    proposal: Proposal
    end: End
    flags: tuple[str, ...] = ()
    """Codes of doubts that did not refuse it, such as `mentions_answer`."""


class PlannedOperation(Value):
    """One checked operation and the proposal it came from."""

    operation: BatchOperation
    proposal: ProposalId
    ordinal: int
    makes: ExperienceId | None = None
    """Id of the experience it makes; None for a delete."""


class Plan(Value):
    """Checked operations for one library version. Made by `curate.check`, consumed by `curate.apply`."""

    library: LibraryVersion
    operations: tuple[PlannedOperation, ...] = ()
