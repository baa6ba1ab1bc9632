"""What an audit can find in a lesson: stable codes, each with a weight and the step that removes it."""

from enum import StrEnum


class AuditCode(StrEnum):
    """Why a lesson loses points. Programs and continuous integration rely on these codes."""

    HOSTILE = "hostile"
    """A screen refuses the lesson: it names an address, holds a command or imitates a part of the prompt."""
    HOLDS_ANSWER = "holds_answer"
    """The lesson holds the expected answer of a given task."""
    COPIES_TASK = "copies_task"
    """The lesson copies eight words in a row from a given task, or a short problem."""
    NEAR_COPY = "near_copy"
    """Most of the lesson is the wording of a given task, also with other numbers."""
    PLATITUDE = "platitude"
    """The lesson says what is true of any task: be careful, check your work."""
    DUPLICATE = "duplicate"
    """An earlier lesson says the same, word for word."""
    NEAR_DUPLICATE = "near_duplicate"
    """An earlier lesson says nearly the same."""
    CONTRADICTS = "contradicts"
    """Another lesson says the opposite."""
    TOO_LONG = "too_long"
    """The lesson is longer than lessons may be."""
    TOO_SHORT = "too_short"
    """The lesson has fewer than four words."""
    SPECIFIC_NUMBERS = "specific_numbers"
    """The lesson holds numbers that look as if they came from one problem."""


WEIGHTS: dict[AuditCode, int] = {
    AuditCode.HOSTILE: 100,
    AuditCode.HOLDS_ANSWER: 100,
    AuditCode.COPIES_TASK: 100,
    AuditCode.NEAR_COPY: 60,
    AuditCode.PLATITUDE: 60,
    AuditCode.DUPLICATE: 60,
    AuditCode.NEAR_DUPLICATE: 50,
    AuditCode.CONTRADICTS: 50,
    AuditCode.TOO_LONG: 50,
    AuditCode.TOO_SHORT: 30,
    AuditCode.SPECIFIC_NUMBERS: 30,
}
"""Points that a lesson loses, of 100."""

FIXES: dict[AuditCode, str] = {
    AuditCode.HOSTILE: "remove it, or say it in plain words",
    AuditCode.HOLDS_ANSWER: "say how to find such answers",
    AuditCode.COPIES_TASK: "say what is general, without the words of the task",
    AuditCode.NEAR_COPY: "say what is general, without the words of the task",
    AuditCode.PLATITUDE: "name the situation and the one thing to do in it, or remove it",
    AuditCode.DUPLICATE: "remove one of them",
    AuditCode.NEAR_DUPLICATE: "merge them",
    AuditCode.CONTRADICTS: "keep one of them, or say when each holds",
    AuditCode.TOO_LONG: "shorten it, or make two lessons of it",
    AuditCode.TOO_SHORT: "say when, and what to do",
    AuditCode.SPECIFIC_NUMBERS: "replace the numbers by what they stand for",
}
"""What to do about each finding."""
