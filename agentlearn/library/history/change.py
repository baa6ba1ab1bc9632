"""One change of a library, and its line in the log.

A line is JSON with sorted keys. Each line holds the hash of the line before it, so a line that was changed, added or
removed later does not fit its neighbours.
"""

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from agentlearn.errors import LibraryError
from agentlearn.types.ids import ExperienceId, LibraryVersion
from agentlearn.types.operation import Add, Delete, Merge, Modify
from agentlearn.types.value import Value

FORMAT = 1
"""The format of a line that this agentlearn writes."""

ChangeKind = Literal[
    "publish",
    "learn",
    "add",
    "edit",
    "remove",
    "park",
    "unpark",
    "approve",
    "reject",
    "import",
    "join",
    "rollback",
    "pin",
    "unpin",
    "tag",
    "branch",
]
"""What a change did. `pin`, `unpin`, `tag` and `branch` change names only; every other kind moves a branch."""


class ParkLesson(Value):
    """Keep a lesson and show it to no agent."""

    op: Literal["park"] = "park"
    target: ExperienceId
    reason: str = ""


class UnparkLesson(Value):
    """Show a parked lesson again."""

    op: Literal["unpark"] = "unpark"
    target: ExperienceId


class ApproveLesson(Value):
    """Show a lesson that waited for a person."""

    op: Literal["approve"] = "approve"
    target: ExperienceId


class RejectLesson(Value):
    """Refuse a lesson that waited for a person. The library no longer holds it."""

    op: Literal["reject"] = "reject"
    target: ExperienceId
    lesson: str
    """Its words, which later runs do not propose again."""


HistoryOperation = Annotated[
    Add | Modify | Merge | Delete | ParkLesson | UnparkLesson | ApproveLesson | RejectLesson, Field(discriminator="op")
]
"""One operation of a change: what a person or the evidence did to one lesson."""


class Change(Value):
    """One line of a library's log."""

    format: Literal[1] = FORMAT
    number: int = Field(ge=0)
    """Place in the log, from 0."""
    at: datetime
    kind: ChangeKind
    branch: str
    """The branch that it moved or made."""
    version: LibraryVersion
    """The version after the change; for `pin` and `tag`, the version that the name now means."""
    before: LibraryVersion | None = None
    """The version of the branch before it; None for the first one."""
    base: LibraryVersion | None = None
    """The version that a learn run started from. The versions in between are in the trajectory store."""
    label: str = ""
    """The name of a tag."""
    operations: tuple[HistoryOperation, ...] = ()
    """What was done to single lessons; empty where whole versions were published, joined or made current."""
    copied: dict[ExperienceId, tuple[ExperienceId, ...]] = Field(
        default_factory=dict[ExperienceId, tuple[ExperienceId, ...]], exclude_if=lambda copied: not copied
    )
    """By lesson that came from elsewhere: the lessons of this store that it was copied from, as far as is known."""
    accepted: tuple[str, ...] = ()
    """Codes of rules that the person set aside."""
    who: str = ""
    """Name of the person's account; empty for a program."""
    note: str = ""
    run: str = ""
    """The run that made the version."""
    previous: str
    """Hash of the line before it."""

    @property
    def makes(self) -> bool:
        """Whether it may bring lessons that no library showed before."""
        return self.kind not in {"pin", "unpin", "tag", "branch", "rollback"}

    @property
    def moves(self) -> bool:
        """Whether it makes a version the current one of a branch."""
        return self.kind not in {"pin", "unpin", "tag"}


def line_hash(line: bytes) -> str:
    """Return the hash of a line without its end: 32 hex digits (BLAKE2b, 128 bits)."""
    return hashlib.blake2b(line, digest_size=16).hexdigest()


NO_LINE = line_hash(b"")
"""What the first line has as the hash of the line before it."""


def change_line(change: Change) -> bytes:
    """Return the line of a change, without its end. Equal changes have equal lines on every machine."""
    document = change.model_dump(mode="json")
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def parse_change(line: bytes, number: int, previous: str, source: str) -> Change:
    """Return the change in a line. Raises LibraryError, which names the line, where it does not fit its place."""
    where = f"line {number + 1} of {source!r}"
    try:
        document: Any = json.loads(line)
        if isinstance(document, dict) and _newer(document):
            raise LibraryError(
                f"{where} was written by a newer agentlearn; pip install --upgrade agentlearn-lib", code="newer_history"
            )
        change = Change.model_validate(document)
    except (ValueError, RecursionError, ValidationError) as error:
        reason = "its fields cannot be read" if isinstance(error, ValidationError) else "it is not JSON"
        raise _damaged(where, reason) from error
    if change.number != number:
        raise _damaged(where, f"it has the number {change.number}, and {number} was expected")
    if change.previous != previous:
        raise _damaged(where, "it does not follow the line before it")
    return change


def _newer(document: dict[Any, Any]) -> bool:
    form = document.get("format")
    return isinstance(form, int) and form > FORMAT


def _damaged(where: str, reason: str) -> LibraryError:
    return LibraryError(
        f"{where} is damaged: {reason}; restore the file from a copy, or export a version to a file and begin a new"
        " library with it",
        code="history_damaged",
    )
