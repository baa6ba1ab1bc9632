"""Operations on a library, the proposals that carry them, and how a proposal ends.

A `Proposal` is not checked yet. `next_version` in `library.curate` checks proposals and applies those that pass.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from agentlearn.types.experience import Lesson
from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId, RolloutId, RunId, TaskId
from agentlearn.types.trajectory import PromptRef
from agentlearn.types.value import Author, Value


class Add(Value):
    """Append a new lesson."""

    op: Literal["add"] = "add"
    lesson: Lesson
    tags: tuple[str, ...] = ()


class Modify(Value):
    """Replace one lesson with a better one, in the same place."""

    op: Literal["modify"] = "modify"
    target: ExperienceId
    lesson: Lesson
    tags: tuple[str, ...] = ()


class Merge(Value):
    """Replace several lessons with one, in the place of the first target. Only a batch may merge, not a group."""

    op: Literal["merge"] = "merge"
    targets: tuple[ExperienceId, ...] = Field(min_length=2)
    lesson: Lesson
    tags: tuple[str, ...] = ()


class Delete(Value):
    """Remove a lesson."""

    op: Literal["delete"] = "delete"
    target: ExperienceId


class Edit(Value):
    """Change a passage of one section of a document. Several edits of a section may follow one another."""

    op: Literal["edit"] = "edit"
    target: ExperienceId
    old: str = ""
    """The passage, as the section has it; empty: `new` is added at the end of the section."""
    new: str = ""
    """What stands in its place; empty: the passage is deleted."""


Operation = Annotated[Add | Modify | Delete | Merge | Edit, Field(discriminator="op")]


class Applied(Value):
    """The operation is part of the next version."""

    end: Literal["applied"] = "applied"
    experience: ExperienceId | None = None
    """Experience that the operation made; None for a delete."""


class Folded(Value):
    """Other proposals of the consolidate stage replace it."""

    end: Literal["folded"] = "folded"
    into: tuple[ProposalId, ...] = Field(min_length=1)
    """The proposals that rest on it."""


class Dropped(Value):
    """The proposal is valid but was not used."""

    end: Literal["dropped"] = "dropped"
    reason: str
    """A stable code or a sentence."""


class Rejected(Value):
    """The proposal broke a rule."""

    end: Literal["rejected"] = "rejected"
    code: str
    """Stable code of the rule."""
    reason: str
    """A sentence that names the value and what is allowed."""


class Quarantined(Value):
    """The lesson may be harmful: it waits for a person, and is not part of any version until one approves it."""

    end: Literal["quarantined"] = "quarantined"
    code: str
    """Stable code of the doubt."""
    reason: str
    """A sentence that names the words in doubt."""
    strangers: tuple[Author, ...] = Field(default=(), exclude_if=lambda authors: not authors)
    """The strangers whose text its reflector read."""


End = Annotated[Applied | Folded | Dropped | Rejected | Quarantined, Field(discriminator="end")]


class Proposal(Value):
    """An unchecked operation that a stage asked for, with its evidence."""

    id: ProposalId
    stage: Literal["compare", "consolidate"]
    ordinal: int = Field(ge=0)
    """Place among the proposals of its stage and batch, in order of (task, item), never of completion."""
    operation: Operation | None = None
    """None when the raw item could not be parsed; then `refusal` says why."""
    refusal: Rejected | None = None
    raw: str = ""
    """The text that the model wrote, at most 4,000 characters."""
    task: TaskId | None = None
    """The group's task, for a proposal of the compare stage."""
    evidence: tuple[RolloutId, ...] = ()
    """The rollouts it was made from."""
    rests_on: tuple[ProposalId, ...] = ()
    """For the consolidate stage: the compare proposals that it replaces."""
    prompts: tuple[PromptRef, ...] = ()
    """Prompts that asked for it: the stage's, then the repair prompt if it came from the repair round."""


class Ended(Value):
    """A proposal and how it ended."""

    proposal: Proposal
    end: End
    flags: tuple[str, ...] = ()
    """Codes of doubts that did not refuse it, such as `mentions_answer`."""


OF_VERSION = "version"
"""Phase of a decision about a whole version. Such a decision has no proposal and no words of a lesson."""


OF_EVIDENCE = "evidence"
"""Phase of a decision to keep a lesson that the evidence calls harmful. `experience` names the lesson."""
LEFT_OUT = "left_out"
"""Phase of a decision about a lesson that was left out of a version when a person approved the version."""


class LessonDecision(Value):
    """One decision. It is stored once and never changed."""

    run: RunId
    """The run whose proposal was decided on."""
    phase: str
    batch: int
    proposal: ProposalId
    verdict: Literal["approved", "rejected"]
    lesson_key: str
    """Words of the lesson in lower case: the same lesson in other spelling counts as decided too."""
    who: str
    """Name of the person's account on this machine."""
    note: str = ""
    at: datetime
    library: str
    """Name of the library that the run learned."""
    version: LibraryVersion | None = None
    """The version that the approval made, or that was decided on; None for a rejected lesson of no version."""
    experience: ExperienceId | None = None
    """The experience that the approval made, or that it left out of the version."""

    @property
    def of_version(self) -> bool:
        """Whether it is about a whole version, not about a lesson."""
        return self.phase == OF_VERSION


class Feedback(Value):
    """One piece of feedback. All are kept; the last reward counts."""

    id: RolloutId
    """Its own id. A demonstration becomes a rollout with this id."""
    name: str
    """Name of the recorder."""
    rollout: RolloutId | None = None
    """The rollout that it is about; None when it is about an episode."""
    episode: str = ""
    """The episode that it is about; empty when it is about one rollout."""
    reward: float | None = Field(default=None)
    """From 0 to 1; None for a comment or a demonstration without a reward."""
    given: str = ""
    """What was given, where the recorder has another scale: `4 on a scale from 1 to 5`; empty otherwise."""
    reason: str = ""
    """Why, in words."""
    demonstration: str = ""
    """A right answer, written by a person; empty for none."""
    by: str = ""
    """Who gave it."""
    personal: dict[str, int] = Field(default_factory=dict[str, int])
    """Number of values of personal data by kind, where the recorder searched for them."""
    at: datetime
