"""The rules that hold a sound candidate against the library, the batch and its limits, each a function of its own.

A rule returns the end of a candidate that breaks it, else None. `RULES` is the order in which they are asked.
"""

import re
from collections.abc import Callable

from agentlearn.learn.lessons.curate.candidate import Candidate
from agentlearn.learn.lessons.curate.codes import DropReason, RejectionCode, reject
from agentlearn.learn.lessons.curate.context import CheckContext
from agentlearn.learn.lessons.curate.draft import Draft
from agentlearn.learn.lessons.curate.similarity import normal, runs, shingles
from agentlearn.types.operation import Dropped, Rejected

_HOSTS = "com|org|net|info|biz|io|ai|app|dev|co|gov|edu|mil|int|test|example|invalid|local|localhost|internal|onion"
ADDRESS = re.compile(
    rf"""
      \b[a-z][a-z0-9+.-]*://\S*                                  # any scheme
    | \b(?:javascript|data|mailto|file|view-source):\S*
    | \bwww\.\S+
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                              # mail
    | \b\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b                          # IPv4
    | \b(?:[a-z0-9-]+\.)+(?:{_HOSTS})\b\S*
    | \b(?:[a-z0-9-]+\.)+[a-z]{{2}}/\S*                         # a host of a country, with a path
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What sends a reader to a place on the net."""

Rule = Callable[[Candidate, Draft, CheckContext], Rejected | Dropped | None]


def _repeated(candidate: Candidate, draft: Draft, _context: CheckContext) -> Dropped | None:
    if candidate.wording and any(one.normal == candidate.wording.normal for one in draft.fresh):
        return Dropped(reason=DropReason.DUPLICATE.value)
    return None


def _targets(candidate: Candidate, draft: Draft, context: CheckContext) -> Rejected | None:
    for target in candidate.targets:
        if draft.experience(target) is None:
            return reject(RejectionCode.UNKNOWN_ID, f"no experience of this library has the id {target[:64]!r}")
    if len(set(candidate.targets)) < len(candidate.targets):
        return reject(RejectionCode.ID_USED_TWICE, "the operation names one experience twice")
    for target in candidate.targets:
        if target not in draft.staying:
            return reject(RejectionCode.ID_USED_TWICE, f"an earlier proposal of this batch already changes {target!r}")
    if candidate.kind == "merge" and len(candidate.targets) > context.max_merge_targets:
        return reject(
            RejectionCode.TOO_MANY_TARGETS,
            f"the merge replaces {len(candidate.targets)} experiences; at most {context.max_merge_targets} are allowed",
        )
    return None


def _no_change(candidate: Candidate, draft: Draft, _context: CheckContext) -> Rejected | None:
    if candidate.kind == "modify" and normal(candidate.text) == draft.staying[candidate.targets[0]].normal:
        return reject(RejectionCode.NO_CHANGE, "the experience already says exactly this")
    return None


def _near_duplicate(candidate: Candidate, draft: Draft, context: CheckContext) -> Rejected | None:
    if candidate.wording is None:
        return None
    others = [wording for key, wording in draft.staying.items() if key not in candidate.targets]
    for other in (*others, *draft.fresh):
        if candidate.wording.is_near(other, context.near_duplicate):
            return reject(RejectionCode.NEAR_DUPLICATE, f"the lesson says nearly the same as {other.text!r}")
    return None


def _leak(candidate: Candidate, _draft: Draft, context: CheckContext) -> Rejected | None:
    if context.answer_search.found(candidate.text) == "distinctive":
        return reject(
            RejectionCode.HOLDS_ANSWER, "the lesson holds the expected answer of a task; say how to find such answers"
        )
    if copied := shingles(candidate.text) & context.shingles:
        return reject(
            RejectionCode.COPIES_TASK, f"the lesson copies {' '.join(min(copied))!r} from a task; say what is general"
        )
    return None


def _injected(candidate: Candidate, _draft: Draft, context: CheckContext) -> Rejected | None:
    """What pages say may have been written to become a lesson; such a lesson would outlive the rollout that read it."""
    if not context.seen or not candidate.text:
        return None
    if found := ADDRESS.search(normal(candidate.text)):
        return reject(
            RejectionCode.NAMES_ADDRESS, f"the lesson names {found[0][:60]!r}; say how to find such a place instead"
        )
    copied = next((run for run in runs(candidate.text) if any(run in page for page in context.seen)), None)
    if copied is not None:
        return reject(
            RejectionCode.COPIES_PAGE, f"the lesson copies {copied.strip()!r} from a page; use words of your own"
        )
    return None


def _deletes(candidate: Candidate, draft: Draft, context: CheckContext) -> Rejected | None:
    if candidate.kind == "delete" and draft.deletes >= context.max_deletes:
        return reject(
            RejectionCode.TOO_MANY_DELETES, f"at most {context.max_deletes} experiences are deleted in one batch"
        )
    return None


def _room(candidate: Candidate, draft: Draft, context: CheckContext) -> Rejected | None:
    """Refuses growth past a limit; what shrinks a library that is already past one is welcome."""
    lessons, tokens = draft.growth(candidate)
    limits = context.limits
    if lessons > 0 and draft.lessons + lessons > limits.max_lessons:
        return reject(
            RejectionCode.LIBRARY_FULL, f"the library holds {draft.lessons} of at most {limits.max_lessons} lessons"
        )
    if tokens > 0 and draft.tokens + tokens > limits.max_tokens:
        return reject(
            RejectionCode.OVER_TOKEN_BUDGET,
            f"the library would cost {draft.tokens + tokens} tokens; at most {limits.max_tokens} are allowed",
        )
    return None


RULES: tuple[Rule, ...] = (_repeated, _targets, _no_change, _near_duplicate, _leak, _injected, _deletes, _room)
