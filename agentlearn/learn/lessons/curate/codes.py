"""The stable names of everything curation can say about a proposal. Programs and stored runs rely on them."""

from enum import StrEnum

from agentlearn.types.operation import Rejected


class RejectionCode(StrEnum):
    """Why a proposal was rejected."""

    # The form of an item.
    NOT_AN_OBJECT = "not_an_object"
    """The item is a string, list or number where an object was asked for."""
    UNKNOWN_OP = "unknown_op"
    """It names no operation, or one that does not exist."""
    WRONG_STAGE = "wrong_stage"
    """Its stage may not do that: a group cannot merge."""
    MISSING_FIELD = "missing_field"
    """The operation lacks a target or a lesson."""
    WRONG_TYPE = "wrong_type"
    """A lesson or a target is no text."""
    MALFORMED = "malformed"
    """The operation is none of ours, or its lesson is surrounded by white space."""

    # What it touches.
    UNKNOWN_ID = "unknown_id"
    """It names an experience that the library does not hold."""
    ID_USED_TWICE = "id_used_twice"
    """An experience is named twice, or an earlier accepted proposal of the batch touched it."""
    TOO_FEW_TARGETS = "too_few_targets"
    """A merge of fewer than two."""
    TOO_MANY_TARGETS = "too_many_targets"
    """A modify or delete of several, or a merge that swallows more than the cap."""
    NO_CHANGE = "no_change"
    """A modify with the text that already stands there."""

    # The words of a lesson.
    EMPTY_LESSON = "empty_lesson"
    """No letter or digit in it."""
    TOO_LONG = "too_long"
    """More than 32 words or 400 characters."""
    MULTI_LINE = "multi_line"
    """Any character that ends a line."""
    CONTROL_CHARACTERS = "control_characters"
    """Tabs, escapes and the like."""
    INVISIBLE_CHARACTERS = "invisible_characters"
    """Format, filler, private and unassigned characters, and spaces other than the common one."""
    SURROGATES = "surrogates"
    """Half of a UTF-16 pair: no text at all."""
    FORGED_ID = "forged_id"
    """Something that reads as a label or an id of the library, such as `[G3]` or `G12:`."""
    FORGED_HEADER = "forged_header"
    """Headings, tags and fences, which could close the block that lessons are shown in."""
    ROLE_TAG = "role_tag"
    """Something that reads as a change of speaker, such as `system:`."""
    TOOL_SYNTAX = "tool_syntax"
    """Something that reads as a call of a tool."""

    # A lesson beside others, tasks and limits.
    NEAR_DUPLICATE = "near_duplicate"
    """Nearly the same words as a lesson that stays or was accepted earlier."""
    HOLDS_ANSWER = "holds_answer"
    """A distinctive expected answer stands in it as a whole token."""
    COPIES_TASK = "copies_task"
    """Eight words in a row from a task."""
    COPIES_PAGE = "copies_page"
    """Eight words in a row from a page that was seen, or a shorter lesson that stands in one word for word."""
    NAMES_ADDRESS = "names_address"
    """A web or mail address or a host's name, after pages were seen: a lesson sends nobody anywhere."""
    TOO_MANY_DELETES = "too_many_deletes"
    """More deletes in one batch than the cap."""
    LIBRARY_FULL = "library_full"
    """The library would hold more lessons than allowed."""
    OVER_TOKEN_BUDGET = "over_token_budget"  # noqa: S105
    """The library would cost more tokens than allowed."""


class DropReason(StrEnum):
    """Why a sound proposal was not taken up."""

    DUPLICATE = "duplicate"
    """An earlier proposal of the batch brought exactly this lesson."""


class LessonFlag(StrEnum):
    """A doubt that refuses nothing."""

    MENTIONS_ANSWER = "mentions_answer"
    """An expected answer too common to be distinctive (a choice letter, yes or no, a small integer) stands in it."""
    TAGS_IGNORED = "tags_ignored"
    """Some tags were not of the form we keep."""
    RESTS_ON_IGNORED = "rests_on_ignored"
    """What it rests on was not a list of labels."""


MERGE_IN_GROUP = "a group may add, modify and delete; only a batch may merge"


def reject(code: RejectionCode, reason: str) -> Rejected:
    """The end of a proposal that broke a rule."""
    return Rejected(code=code.value, reason=reason)
