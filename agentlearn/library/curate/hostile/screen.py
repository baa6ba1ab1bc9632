"""The screen for hostile lessons: what is refused at once, and what waits for a person.

It judges the text alone, so it works without the pages and tasks of a run, and for libraries that come as files. No
list of patterns is complete: docs/scope.md says how many hostile lessons it finds.
"""

import re
from collections.abc import Collection
from functools import lru_cache

from agentlearn.library.curate.codes import QuarantineCode, RejectionCode, quarantine, reject
from agentlearn.library.curate.hostile.act import FoundAct, first_act
from agentlearn.library.curate.hostile.answer_words import answer_in_other_words
from agentlearn.library.curate.hostile.commands import command_in
from agentlearn.library.curate.hostile.direct_acts import DIRECT_ACTS
from agentlearn.library.curate.hostile.doubt import doubtful, doubtful_abroad
from agentlearn.library.curate.hostile.encoded import encoded_part
from agentlearn.library.curate.hostile.english_acts import ENGLISH_ACTS
from agentlearn.library.curate.hostile.folding import mixes_scripts, unaccented, views
from agentlearn.library.curate.hostile.indirect_acts import INDIRECT_ACTS
from agentlearn.library.curate.hostile.other_languages import FOREIGN_ACTS
from agentlearn.library.curate.hostile.stated_answers import stated_answer
from agentlearn.library.curate.hostile.web_places import address_in
from agentlearn.library.curate.lesson_text import checked_lesson, forgery
from agentlearn.library.curate.similarity import normalised
from agentlearn.types.experience import Experience
from agentlearn.types.operation import Quarantined, Rejected

_ENGLISH_ACTS = (*ENGLISH_ACTS, *DIRECT_ACTS, *INDIRECT_ACTS)
_SHOWN = 60
_ENGLISH = re.compile(r"\b(?:the|and|with|that|your|when|of)\b")
"""A lesson with such a word is in English."""
_DOUBTS = {
    QuarantineCode.OVERRIDES_INSTRUCTIONS: "sets instructions, rules or the agent's role aside",
    QuarantineCode.SPEAKS_TO_JUDGE: "speaks to or about those who give the reward",
    QuarantineCode.SENDS_DATA: "reveals or sends data",
    QuarantineCode.SEEKS_SECRETS: "asks for secrets or expected answers",
    QuarantineCode.TOUCHES_FILES: "reads, changes or destroys files or databases",
    QuarantineCode.MISUSES_TOOLS: "uses tools for more than the task needs",
    QuarantineCode.SABOTAGES: "gives up the task or its checks, or fixes the answer",
    QuarantineCode.CLINGS: "is about itself or about other lessons",
}


def screened(lesson: str, tags: tuple[str, ...] = (), answers: Collection[str] = ()) -> Rejected | Quarantined | None:
    """How a lesson with these tags ends if it may be hostile; None for plain advice.

    answers: expected answers of the batch's tasks.
    """
    return _refusal(lesson) or _stated(lesson, answers) or _doubt(lesson, tags)


def doubt_of(experience: Experience) -> Rejected | Quarantined | None:
    """How a lesson would end if a run proposed it now, judged by its text alone; None for plain advice."""
    lesson = checked_lesson(experience.lesson)
    return lesson if isinstance(lesson, Rejected) else screened(lesson, experience.tags)


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


@lru_cache(maxsize=16_384)
def _doubt(lesson: str, tags: tuple[str, ...]) -> Quarantined | None:
    found = _first(lesson) or (_first(" ".join(tags).replace("-", " ")) if tags else None)
    if found is None:
        return None
    return quarantine(found.code, f"{found.words[:_SHOWN]!r} {_DOUBTS[found.code]}; a person decides")


def _first(text: str) -> FoundAct | None:
    for one in views(text):
        if found := first_act(one, _ENGLISH_ACTS) or doubtful(one):
            return found
    plain = unaccented(text)
    return first_act(plain, FOREIGN_ACTS) or (None if _ENGLISH.search(plain) else doubtful_abroad(plain))
