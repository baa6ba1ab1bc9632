"""Stable codes for how proposals end. Programs and stored runs rely on them."""

from enum import StrEnum

from agentlearn.types.operation import Quarantined, Rejected
from agentlearn.types.value import Author


class RejectionCode(StrEnum):
    """Why a proposal was rejected."""

    # Form of an item.
    NOT_AN_OBJECT = "not_an_object"
    """The item is a string, list or number where an object was asked for."""
    UNKNOWN_OP = "unknown_op"
    """The item names an operation that does not exist."""
    WRONG_STAGE = "wrong_stage"
    """The stage may not use this operation: a group cannot merge."""
    MISSING_FIELD = "missing_field"
    """The operation, a target or a lesson is missing."""
    WRONG_TYPE = "wrong_type"
    """A lesson or a target is not text."""
    MALFORMED = "malformed"
    """The operation has an unknown type, or its lesson has white space at an end."""

    # Targets of an operation.
    UNKNOWN_ID = "unknown_id"
    """A target is not in the library."""
    ID_USED_TWICE = "id_used_twice"
    """A target is named twice, or an earlier accepted proposal of the batch already changed it."""
    TOO_FEW_TARGETS = "too_few_targets"
    """A merge names fewer than two experiences."""
    TOO_MANY_TARGETS = "too_many_targets"
    """A modify or delete names several experiences, or a merge more than the limit."""
    WRITTEN_BY_PERSON = "written_by_person"
    """A target was written into the library by a person, and the run was not told to change such lessons."""
    NO_CHANGE = "no_change"
    """A modify has the text that the lesson already has."""
    UNKNOWN_PASSAGE = "unknown_passage"
    """The passage that an edit replaces is not in the section, or stands there more than once."""

    # Text of a lesson.
    EMPTY_LESSON = "empty_lesson"
    """The lesson has no letter or digit."""
    TOO_LONG = "too_long"
    """The lesson has more words or characters than a lesson may have, or than the reflector was asked for."""
    MULTI_LINE = "multi_line"
    """The lesson has a line break."""
    CONTROL_CHARACTERS = "control_characters"
    """The lesson has a tab, an escape or another control character."""
    INVISIBLE_CHARACTERS = "invisible_characters"
    """The lesson has format, filler, private or unassigned characters, or spaces other than U+0020."""
    SURROGATES = "surrogates"
    """The lesson has a lone half of a UTF-16 pair."""
    FORGED_ID = "forged_id"
    """The lesson has something like a label or an id of the library, such as `[G3]` or `G12:`."""
    FORGED_HEADER = "forged_header"
    """The lesson has a heading, tag or fence, which could close the block that shows lessons."""
    ROLE_TAG = "role_tag"
    """The lesson has something like a change of speaker, such as `system:`."""
    TOOL_SYNTAX = "tool_syntax"
    """The lesson has something like a tool call."""

    # A lesson compared with other lessons, tasks, pages, reasons and limits.
    NEAR_DUPLICATE = "near_duplicate"
    """The lesson has nearly the same words as one that stays or was accepted earlier."""
    NEAR_PARKED = "near_parked"
    """The lesson has nearly the same words as one that is parked."""
    HOLDS_ANSWER = "holds_answer"
    """The lesson holds a distinctive expected answer as a whole token."""
    COPIES_TASK = "copies_task"
    """The lesson copies eight words in a row from a task."""
    COPIES_PAGE = "copies_page"
    """The lesson copies eight words in a row from a page that was read; a shorter lesson, all of its words."""
    COPIES_REASON = "copies_reason"
    """The lesson copies eight words in a row from the reason of a verdict, or is such a run of five words or more."""
    NAMES_ADDRESS = "names_address"
    """The lesson names a web address, mail address or host, also a disguised one."""
    STATES_ANSWER = "states_answer"
    """The lesson states an answer, such as `the answer was eighteen`."""
    HOLDS_COMMAND = "holds_command"
    """The lesson holds a command of a shell, of a database or of a program that acts outside of a calculation."""
    ENCODED = "encoded"
    """Part of the lesson must be decoded to be read: base64, character codes, Morse, ROT13, reversed or spelled out."""
    LOOKALIKE_LETTERS = "lookalike_letters"
    """A word of the lesson mixes Latin letters with letters of other scripts that look like them."""
    REFUSED_BY_PERSON = "refused_by_person"
    """A person refused this lesson before, with `library reject`."""
    TOO_MANY_EDITS = "too_many_edits"
    """The update already has the largest number of changes of the document."""
    TOO_MANY_DELETES = "too_many_deletes"
    """The batch already has the largest number of deletes."""
    LIBRARY_FULL = "library_full"
    """The library would have more lessons than allowed."""
    OVER_TOKEN_BUDGET = "over_token_budget"  # noqa: S105
    """The library would have more tokens than allowed."""
    NO_BETTER = "no_better"
    """The tasks that the change was made from did no better with it in a trial."""
    OWN_RULE = "own_rule"
    """A rule of the user's own refuses it."""
    OWN_RULE_FAILED = "own_rule_failed"
    """A rule of the user's own raised an error, or returned something else than a reason or None."""


class QuarantineCode(StrEnum):
    """Why a lesson waits for a person."""

    REFUSED_SOURCE = "refused_source"
    """The lesson comes from a stranger from whom a person refused a lesson or a version before."""


class DropReason(StrEnum):
    """Why a valid proposal was not used."""

    DUPLICATE = "duplicate"
    """An earlier proposal of the batch has exactly this lesson."""


class LessonFlag(StrEnum):
    """A doubt about an accepted proposal."""

    MENTIONS_ANSWER = "mentions_answer"
    """The lesson holds an expected answer that is too common to be distinctive, such as `B`, `yes` or `7`."""
    TAGS_IGNORED = "tags_ignored"
    """Some tags were left out because of their form."""
    RESTS_ON_IGNORED = "rests_on_ignored"
    """Some entries of `rests_on` were left out because they are not labels."""


ACCEPTABLE: frozenset[str] = frozenset(
    {
        *(code.value for code in QuarantineCode),
        RejectionCode.NEAR_DUPLICATE.value,
        RejectionCode.NEAR_PARKED.value,
        RejectionCode.REFUSED_BY_PERSON.value,
        RejectionCode.LIBRARY_FULL.value,
        RejectionCode.OVER_TOKEN_BUDGET.value,
    }
)
"""Codes that a person can set aside for a lesson. All others hold for everybody."""

MERGE_IN_GROUP = "a group may add, modify and delete; only a batch may merge"


def quarantine(code: QuarantineCode, reason: str, strangers: tuple[Author, ...] = ()) -> Quarantined:
    """The end of a proposal that waits for a person. strangers: whose text its reflector read."""
    return Quarantined(code=code.value, reason=reason, strangers=strangers)


def reject(code: RejectionCode, reason: str) -> Rejected:
    """The end of a proposal that broke a rule. The model reads the reason in the repair round."""
    return Rejected(code=code.value, reason=reason)
