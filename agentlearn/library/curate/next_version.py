"""The next version of a library: check a batch of proposals and apply those that pass, in one step.

A rule checks an operation against the library, the batch and the limits. It returns how an operation that breaks it
ends, else None. `RULES` gives their order.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentlearn.errors import ConfigError
from agentlearn.library.curate.codes import (
    ACCEPTABLE,
    MERGE_IN_GROUP,
    DropReason,
    LessonFlag,
    QuarantineCode,
    RejectionCode,
    quarantine,
    reject,
)
from agentlearn.library.curate.hostile import screened
from agentlearn.library.curate.lesson_text import (
    FEWEST_COPIED_WORDS,
    LessonWords,
    checked_lesson,
    refusal_key,
    too_long,
    word_runs,
    words_line,
)
from agentlearn.library.curate.library_draft import CheckContext, LibraryDraft
from agentlearn.library.curate.operations import lesson_of, sound_operation, tags_of, targets_of
from agentlearn.text import storable
from agentlearn.types.experience import Library
from agentlearn.types.operation import (
    Applied,
    Delete,
    Dropped,
    Edit,
    Ended,
    Merge,
    Modify,
    Operation,
    Proposal,
    Quarantined,
    Rejected,
)
from agentlearn.types.ranking import lower_case_words, single_spaced
from agentlearn.types.rendering import is_section

_MARKS = re.compile(r"[ \t]*(?:#{1,6}[ \t]+|(?:[-*+]|\d{1,9}[.)])[ \t]+)?")
"""What a line of Markdown begins with that is a heading or an item of a list."""
Rule = Callable[[Operation, LibraryDraft, CheckContext], Rejected | Dropped | Quarantined | None]


def _duplicate(operation: Operation, draft: LibraryDraft, _context: CheckContext) -> Dropped | None:
    lesson = lesson_of(operation)
    if lesson and any(one.normal == LessonWords.of(lesson).normal for one in draft.added):
        return Dropped(reason=DropReason.DUPLICATE.value)
    return None


def _targets(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    targets = targets_of(operation)
    for target in targets:
        if target not in draft.library.by_id:
            return reject(RejectionCode.UNKNOWN_ID, f"no experience of this library has the id {target[:64]!r}")
    if len(set(targets)) < len(targets):
        return reject(RejectionCode.ID_USED_TWICE, "the operation names one experience twice")
    for target in targets:
        if target not in draft.unchanged or (target in draft.edited and not isinstance(operation, Edit)):
            return reject(RejectionCode.ID_USED_TWICE, f"an earlier proposal of this batch already changes {target!r}")
    if isinstance(operation, Merge) and len(targets) > context.max_merge_targets:
        return reject(
            RejectionCode.TOO_MANY_TARGETS,
            f"the merge replaces {len(targets)} experiences; at most {context.max_merge_targets} are allowed",
        )
    return None


def _protect(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    """Refuse that a stage changes what a person wrote, in the library, a file or a program."""
    if context.by_person or context.options.change_written:
        return None
    for target in targets_of(operation):
        if draft.library.by_id[target].by_person:
            return reject(
                RejectionCode.WRITTEN_BY_PERSON,
                f"a person wrote the lesson {target[:64]!r}; leave it as it is, or add another lesson",
            )
    return None


def _passage(operation: Operation, draft: LibraryDraft, _context: CheckContext) -> Rejected | None:
    """Refuse an edit whose passage is not there, that changes nothing, says what is there, or leaves nothing."""
    if not isinstance(operation, Edit):
        return None
    section, after = draft.experiences[operation.target].lesson, draft.after(operation)
    if after is None:
        return reject(
            RejectionCode.UNKNOWN_PASSAGE,
            f"the passage {operation.old[:80]!r} does not stand in the section exactly once; copy it as it is",
        )
    if not is_section(section):
        return reject(RejectionCode.WRONG_TYPE, "only a section of a document has passages; replace the lesson")
    if after == section:
        return reject(RejectionCode.NO_CHANGE, "the section already says exactly this")
    if not any(map(str.isalnum, after)):
        return reject(RejectionCode.EMPTY_LESSON, "nothing would be left of the section; delete it")
    whole = " ".join(words_line(one.lesson) for one in draft.experiences.values())
    if operation.new.strip() and words_line(operation.new) in whole.replace(words_line(operation.old), " "):
        return reject(RejectionCode.NEAR_DUPLICATE, f"the document already says {operation.new[:80]!r}")
    changed = checked_lesson(after, sections=True)
    return changed if isinstance(changed, Rejected) else None


def _edits(_operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    if context.edits is None or draft.accepted < context.edits:
        return None
    return reject(RejectionCode.TOO_MANY_EDITS, f"one update makes at most {context.edits} changes to the document now")


def _no_change(operation: Operation, draft: LibraryDraft, _context: CheckContext) -> Rejected | None:
    if isinstance(operation, Modify) and single_spaced(operation.lesson) == draft.unchanged[operation.target].normal:
        return reject(RejectionCode.NO_CHANGE, "the experience already says exactly this")
    return None


def _near_duplicate(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    if isinstance(operation, Delete | Edit):
        return None
    lesson, targets = LessonWords.of(operation.lesson), targets_of(operation)
    others = [words for identity, words in draft.unchanged.items() if identity not in targets]
    for other in (*others, *draft.added):
        if lesson.is_near(other, context.near_duplicate):
            return reject(RejectionCode.NEAR_DUPLICATE, f"the lesson says nearly the same as {other.text!r}")
    return None


def _near_parked(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    if isinstance(operation, Delete | Edit):
        return None
    lesson = LessonWords.of(operation.lesson)
    if near := next((one for one in draft.parked if lesson.is_near(one, context.near_duplicate)), None):
        return reject(RejectionCode.NEAR_PARKED, f"the lesson says nearly the same as {near.text!r}, which is parked")
    return None


def _leak(operation: Operation, _draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    lesson = lesson_of(operation)
    if context.holds_answer(lesson):
        return reject(
            RejectionCode.HOLDS_ANSWER, "the lesson holds the expected answer of a task; say how to find such answers"
        )
    if copied := context.copied_words(lesson):
        return reject(RejectionCode.COPIES_TASK, f"the lesson copies {copied!r} from a task; say what is general")
    return None


def _copied_page(operation: Operation, _draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    """Refuse text that a page may have planted: as a lesson it would outlive the rollout that read the page."""
    lesson = lesson_of(operation)
    if not context.seen or not lesson:
        return None
    copied = next((run for run in word_runs(lesson) if any(run in page for page in context.seen)), None)
    if copied is not None:
        return reject(
            RejectionCode.COPIES_PAGE, f"the lesson copies {copied.strip()!r} from a page; use words of your own"
        )
    return None


def _copied_reason(operation: Operation, _draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    """Refuse words that a reason may have planted: a reward may pass on what a stranger wrote.

    A hint of up to four words may become a lesson as it is, and up to seven words may be part of one: a reason is
    meant as advice, unlike a page.
    """
    lesson = lesson_of(operation)
    if not context.reasons or len(lower_case_words(lesson)) < FEWEST_COPIED_WORDS:
        return None
    copied = next((run for run in word_runs(lesson) if any(run in reason for reason in context.reasons)), None)
    if copied is not None:
        return reject(
            RejectionCode.COPIES_REASON,
            f"the lesson copies {copied.strip()!r} from the reason of a verdict; use words of your own",
        )
    return None


def _refused(operation: Operation, _draft: LibraryDraft, context: CheckContext) -> Rejected | Quarantined | None:
    """Refuse what a person refused. Other lessons from the same source wait for a person, in whatever words."""
    if isinstance(operation, Delete):
        return None
    if refusal_key(lesson_of(operation)) in context.refused:
        return reject(RejectionCode.REFUSED_BY_PERSON, "a person refused this lesson before; propose another one")
    again = next((one for one in context.strangers if one in context.refused_authors), None)
    if again is None or context.by_person:
        return None
    reason = f"a person refused a lesson from {again.words} before; a person decides"
    return quarantine(QuarantineCode.REFUSED_SOURCE, reason, context.strangers)


def _asked_length(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    """Refuse a longer lesson than the reflector was asked for. A person may write up to the limit of all lessons.

    What is written into a document may be twice as long: it may be a step with its condition, or a short section.
    """
    if context.by_person:
        return None
    lesson = lesson_of(operation)
    if not draft.library.document and is_section(lesson):
        return reject(RejectionCode.MULTI_LINE, "the lesson has several lines; write it as one")
    words = context.options.lesson_words
    return too_long(lesson, 2 * words if draft.library.document else words)


def _form(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    """Refuse what a lesson may not look like. Each line that is written into a document is looked at as a lesson."""
    lesson = lesson_of(operation)
    if context.by_person and is_section(lesson):
        return None
    if not draft.library.document:
        return screened(lesson, context.answers) if lesson else None
    for line in filter(None, (_MARKS.sub("", one, count=1).strip() for one in lesson.splitlines())):
        checked = checked_lesson(line)
        if isinstance(checked, Rejected):
            return checked
        if end := screened(line, context.answers):
            return end
    return None


def _deletes(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    limit = context.options.max_deletes
    if isinstance(operation, Delete) and not context.by_person and draft.deletes >= limit:
        return reject(RejectionCode.TOO_MANY_DELETES, f"at most {limit} experiences are deleted in one batch")
    return None


def _room(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    """Refuse growth past a limit. A library that is already past one may still shrink."""
    lessons, tokens = draft.growth(operation)
    size, options = len(draft.experiences), context.options
    if lessons > 0 and size + lessons > options.max_lessons:
        return reject(RejectionCode.LIBRARY_FULL, f"the library holds {size} of at most {options.max_lessons} lessons")
    if tokens > 0 and draft.tokens + tokens > options.max_library_tokens:
        return reject(
            RejectionCode.OVER_TOKEN_BUDGET,
            f"the library would cost {draft.tokens + tokens} tokens; at most {options.max_library_tokens} are allowed",
        )
    return None


def _own_rules(operation: Operation, draft: LibraryDraft, context: CheckContext) -> Rejected | None:
    """Refuse what a rule of the user's own refuses. One that fails refuses too, since it was to stop something."""
    for rule in context.rules:
        try:
            if reason := rule(operation, draft.library):
                return reject(RejectionCode.OWN_RULE, storable(reason))
        except ConfigError as error:
            return reject(RejectionCode.OWN_RULE_FAILED, storable(error.message))
    return None


RULES: tuple[Rule, ...] = (
    _asked_length,
    _duplicate,
    _targets,
    _protect,
    _passage,
    _no_change,
    _near_duplicate,
    _near_parked,
    _leak,
    _copied_page,
    _copied_reason,
    _form,
    _refused,
    _deletes,
    _edits,
    _room,
    _own_rules,
)


class NextVersion(NamedTuple):
    """A library after a batch of proposals."""

    library: Library
    """The next version; the given library itself when no proposal was applied."""
    ended: tuple[Ended, ...]
    """One end per proposal, in the order given."""


def next_version(proposals: Sequence[Proposal], library: Library, context: CheckContext) -> NextVersion:
    """Return the next version of the library, and how each proposal ended.

    Proposals are checked one after the other against the library as the accepted ones before it leave it: the first of
    two conflicting proposals wins, and a delete makes room for what follows. A modified lesson keeps its place, a
    merged one takes the place of its first target, an added one goes to the end. A lesson without tags inherits the
    tags of the lessons it replaces.

    Operations may have any content, also content that their types refuse. Raises nothing.
    """
    draft = LibraryDraft.of(library, by_person=context.by_person, name=context.library, read=context.strangers)
    ended = tuple(_end(proposal, draft, context) for proposal in proposals)
    return NextVersion(draft.finished(), ended)


def why_not(operation: object, library: Library, context: CheckContext) -> Rejected | Dropped | Quarantined | None:
    """Return how an operation would end that breaks a rule; None if it could be applied."""
    sound = sound_operation(operation)
    return sound if isinstance(sound, Rejected) else _broken(sound, LibraryDraft.of(library), context)


def _end(proposal: Proposal, draft: LibraryDraft, context: CheckContext) -> Ended:
    operation = _operation(proposal)
    if isinstance(operation, Rejected):
        return Ended(proposal=proposal, end=operation)
    if end := _broken(operation, draft, context):
        return Ended(proposal=proposal, end=end)
    made = draft.apply(operation)
    return Ended(proposal=proposal, end=Applied(experience=made), flags=_flags(proposal, operation, context))


def _broken(
    operation: Operation, draft: LibraryDraft, context: CheckContext
) -> Rejected | Dropped | Quarantined | None:
    """The first rule that the operation breaks and that nobody set aside."""
    for rule in RULES:
        end = rule(operation, draft, context)
        if end is not None and (isinstance(end, Dropped) or end.code not in context.waived & ACCEPTABLE):
            return end
    return None


def _operation(proposal: Proposal) -> Operation | Rejected:
    if proposal.operation is None:
        return proposal.refusal or reject(RejectionCode.MALFORMED, "the item could not be read as an operation")
    operation = sound_operation(proposal.operation)
    if isinstance(operation, Merge) and proposal.stage == "compare":
        return reject(RejectionCode.WRONG_STAGE, MERGE_IN_GROUP)
    return operation


def _flags(proposal: Proposal, operation: Operation, context: CheckContext) -> tuple[str, ...]:
    doubts = {
        LessonFlag.MENTIONS_ANSWER: context.answer_search.found(lesson_of(operation)) is not None,
        LessonFlag.TAGS_IGNORED: tags_of(getattr(proposal.operation, "tags", None)).ignored,
    }
    return tuple(flag.value for flag, raised in doubts.items() if raised)
