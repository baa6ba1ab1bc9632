"""The audit of a library: every lesson is judged by rules, alone, with the others, and with given tasks. Pure."""

from collections.abc import Iterator, Sequence

from agentlearn.library.audit.audit_codes import AuditCode
from agentlearn.library.audit.audit_result import AuditedLesson, Finding, LessonAudit, LibraryAudit, with_findings
from agentlearn.library.audit.known_tasks import KnownTasks
from agentlearn.library.audit.opposites import opposite_pairs
from agentlearn.library.audit.specific_numbers import specific_numbers
from agentlearn.library.audit.wording import platitude_in
from agentlearn.library.curate.codes import RejectionCode
from agentlearn.library.curate.hostile import screened
from agentlearn.library.curate.lesson_text import checked_lesson
from agentlearn.library.curate.near_index import NearIndex
from agentlearn.library.curate.similarity import refusal_key
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, MAX_LESSON_WORDS, word_count
from agentlearn.types.operation import Rejected

_FEWEST_WORDS = 4
_SHOWN = 60
_JUDGED = 10 * MAX_LESSON_CHARACTERS
"""Characters whose wording is judged. A longer lesson is too long anyway."""
_NO_TASKS = KnownTasks()


def audit_lessons(lessons: Sequence[AuditedLesson], tasks: KnownTasks = _NO_TASKS) -> LibraryAudit:
    """Return the findings about each lesson. tasks: tasks that no lesson may repeat."""
    alone = tuple(LessonAudit(one, tuple(_alone(one, tasks))) for one in lessons)
    return with_findings(LibraryAudit(alone), (*_repeated(lessons), *_opposite(lessons)))


def _alone(lesson: AuditedLesson, tasks: KnownTasks) -> Iterator[Finding]:
    text = lesson.text[:_JUDGED]
    yield from _length(lesson.text)
    yield from _form(text, tasks)
    yield from _copied(lesson.text, tasks)
    if numbers := specific_numbers(text):
        yield Finding(AuditCode.SPECIFIC_NUMBERS, f"it holds {', '.join(numbers[:5])}, as one problem has them")
    if platitude := platitude_in(text):
        yield Finding(AuditCode.PLATITUDE, f"{platitude[:_SHOWN]!r} holds for any task")


def _length(text: str) -> Iterator[Finding]:
    words = word_count(text)
    if words > MAX_LESSON_WORDS or len(text) > MAX_LESSON_CHARACTERS:
        limits = f"at most {MAX_LESSON_WORDS} and {MAX_LESSON_CHARACTERS} are allowed"
        yield Finding(AuditCode.TOO_LONG, f"it has {words} words and {len(text)} characters; {limits}")
    elif words < _FEWEST_WORDS and text.isascii():
        yield Finding(AuditCode.TOO_SHORT, f"it has {words} words")


def _form(text: str, tasks: KnownTasks) -> Iterator[Finding]:
    checked = checked_lesson(text)
    refused = checked if isinstance(checked, Rejected) and checked.code != RejectionCode.TOO_LONG else None
    if end := refused or screened(text, tasks.answers):
        yield Finding(AuditCode.HOSTILE, f"{end.code}: {end.reason}")


def _copied(text: str, tasks: KnownTasks) -> Iterator[Finding]:
    if tasks.holds_answer(text):
        yield Finding(AuditCode.HOLDS_ANSWER, "it holds the expected answer of a given task")
    if copied := tasks.copied_words(text):
        yield Finding(AuditCode.COPIES_TASK, f"it copies {copied[:_SHOWN]!r} from a given task")
    elif near := tasks.near_copy(text):
        yield Finding(AuditCode.NEAR_COPY, f"most of its words stand in the given task {near!r}")


def _repeated(lessons: Sequence[AuditedLesson]) -> Iterator[tuple[int, Finding]]:
    """Findings about lessons that an earlier one makes superfluous."""
    index = NearIndex(lesson.text for lesson in lessons)
    for number, lesson in enumerate(lessons):
        if (at := index.near(lesson.text)) is not None:
            same = refusal_key(lessons[at].text) == refusal_key(lesson.text)
            code = AuditCode.DUPLICATE if same else AuditCode.NEAR_DUPLICATE
            says = "the same as" if same else "nearly the same as"
            yield number, Finding(code, f"it says {says} {_short(lessons[at])}")
        index.add(lesson.text)


def _opposite(lessons: Sequence[AuditedLesson]) -> Iterator[tuple[int, Finding]]:
    for one, other, why in opposite_pairs([lesson.text for lesson in lessons]):
        yield one, contradiction(lessons[other], why)
        yield other, contradiction(lessons[one], why)


def contradiction(other: AuditedLesson, why: str) -> Finding:
    """The finding that a lesson and another one contradict each other."""
    return Finding(AuditCode.CONTRADICTS, f"it contradicts {_short(other)}: {why}")


def _short(lesson: AuditedLesson) -> str:
    text = lesson.text if len(lesson.text) <= _SHOWN else lesson.text[:_SHOWN] + "…"
    return f"{lesson.name[:12]} {text!r}"
