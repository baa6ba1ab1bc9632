"""The check of a lesson's form: what a lesson may not look like, hold or copy, no matter who wrote it.

It judges the text alone, so it works without the pages and tasks of a run, and for libraries that come as files. What a
lesson means is not judged: words cannot tell that. Who wrote what its reflector read decides whether it waits for a
person (`agentlearn.types.author`).
"""

from collections.abc import Collection
from functools import lru_cache

from agentlearn.library.curate.codes import RejectionCode, reject
from agentlearn.library.curate.hostile.answer_words import answer_in_other_words
from agentlearn.library.curate.hostile.commands import command_in
from agentlearn.library.curate.hostile.encoded import encoded_part
from agentlearn.library.curate.hostile.folding import mixes_scripts, views
from agentlearn.library.curate.hostile.stated_answers import stated_answer
from agentlearn.library.curate.hostile.web_places import address_in
from agentlearn.library.curate.lesson_text import checked_lesson, forgery
from agentlearn.library.curate.similarity import normalised
from agentlearn.types.operation import Rejected

_SHOWN = 60


def screened(lesson: str, answers: Collection[str] = ()) -> Rejected | None:
    """How a lesson ends whose form is refused; None for plain advice.

    answers: expected answers of the batch's tasks.
    """
    return _refusal(lesson) or _stated(lesson, answers)


def wrong_form(lesson: str) -> Rejected | None:
    """How any text would end if a run proposed it as a lesson now, judged by its form alone; None for plain advice."""
    checked = checked_lesson(lesson)
    return checked if isinstance(checked, Rejected) else screened(checked)


@lru_cache(maxsize=16_384)  # the same lesson is checked in several stages
def _refusal(lesson: str) -> Rejected | None:
    if found := mixes_scripts(lesson):
        return reject(
            RejectionCode.LOOKALIKE_LETTERS, f"{found[:_SHOWN]!r} mixes letters of several scripts; use one script"
        )
    every, text = views(lesson), normalised(lesson)
    for one in (text,) if text.isascii() else (text, every[0]):
        if found := address_in(one):
            return reject(
                RejectionCode.NAMES_ADDRESS,
                f"the lesson names {found[:_SHOWN]!r}; say how to find such a place instead",
            )
        if found := command_in(one):
            return reject(
                RejectionCode.HOLDS_COMMAND, f"{found[:_SHOWN]!r} is a command; say in plain words what to do"
            )
    if found := encoded_part(text):
        return reject(RejectionCode.ENCODED, f"{found[:_SHOWN]!r} is not plain text; a lesson is one plain sentence")
    return next((end for one in every if (end := forgery(one))), None)


def _stated(lesson: str, answers: Collection[str]) -> Rejected | None:
    for one in views(lesson):
        if stated_answer(one, answers) or answer_in_other_words(one, lesson, answers):
            return reject(RejectionCode.STATES_ANSWER, "the lesson states an answer; say how to find such answers")
    return None
