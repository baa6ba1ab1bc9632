"""Invariants of the next version for any proposals: every end, no reused id, no broken limit, no exception."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.library.curate import CheckContext, DropReason, QuarantineCode, RejectionCode, next_version, parse_item
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, MAX_LESSON_WORDS, Experience, Library, word_count
from agentlearn.types.operation import Applied, Delete, Dropped, Ended, Merge, Proposal, Quarantined, Rejected
from agentlearn.types.task import Task
from tests.property.strategies import HOSTILE_LESSONS, labels_of, libraries, options, proposals, raw_items

TASK = Task.of("test", "Find how many ordered pairs of positive integers have a sum of forty nine exactly", "1729")
STABLE_CODES = {code.value for code in RejectionCode} | {"not_an_object"}


@st.composite
def batches(draw: st.DrawFn) -> tuple[Library, tuple[Proposal, ...], CheckContext]:
    library = draw(libraries)
    context = CheckContext.of([TASK], options=draw(options))
    return library, draw(proposals(library)), context


def applied_proposals(ended: tuple[Ended, ...]) -> list[Proposal]:
    return [one.proposal for one in ended if isinstance(one.end, Applied)]


def made_in_order(ended: tuple[Ended, ...]) -> list[str]:
    return [one.end.experience for one in ended if isinstance(one.end, Applied) and one.end.experience]


def targets_in_order(ended: tuple[Ended, ...]) -> list[str]:
    """The experiences that the applied operations replace or delete."""
    operations = [proposal.operation for proposal in applied_proposals(ended)]
    named = [getattr(one, "targets", (getattr(one, "target", None),)) for one in operations]
    return [target for targets in named for target in targets if target is not None]


@given(batches())
def test_every_proposal_ends_exactly_once_and_in_order(batch: tuple[Library, tuple[Proposal, ...], CheckContext]):
    library, asked, context = batch
    ended = next_version(asked, library, context).ended
    assert [one.proposal for one in ended] == list(asked)
    for one in ended:
        match one.end:
            case Rejected(code=code, reason=reason):
                assert code in STABLE_CODES
                assert reason.isprintable()
                assert len(reason) < 600
            case Quarantined(code=code, reason=reason):
                assert code in {doubt.value for doubt in QuarantineCode}
                assert reason.isprintable()
            case Dropped(reason=reason):
                assert reason in {drop.value for drop in DropReason}
            case _:
                assert isinstance(one.end, Applied)


@given(batches())
def test_the_next_version_holds_exactly_what_ended_as_applied(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext],
):
    library, asked, context = batch
    after, ended = next_version(asked, library, context)
    if not applied_proposals(ended):
        assert after is library
        return
    stayed = library.by_id.keys() - set(targets_in_order(ended))
    assert set(after.by_id) == stayed | set(made_in_order(ended))
    assert all(after.by_id[kept] is library.by_id[kept] for kept in stayed)
    assert after.parent == library.version != after.version


@given(batches())
def test_no_id_is_reused_and_no_two_operations_touch_one_experience(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext],
):
    library, asked, context = batch
    ended = next_version(asked, library, context).ended
    made, touched = made_in_order(ended), targets_in_order(ended)
    assert len(set(made)) == len(made)
    assert not set(made) & set(library.by_id)
    assert len(set(touched)) == len(touched)
    assert set(touched) <= set(library.by_id)


@given(batches())
def test_no_limit_is_broken(batch: tuple[Library, tuple[Proposal, ...], CheckContext]):
    library, asked, context = batch
    after, ended = next_version(asked, library, context)
    assert len(after) <= max(len(library), context.options.max_lessons)
    assert after.tokens <= max(library.tokens, context.options.max_library_tokens)
    deletes = sum(isinstance(one.operation, Delete) for one in applied_proposals(ended))
    assert deletes <= context.options.max_deletes
    for one in after.experiences:
        assert word_count(one.lesson) <= MAX_LESSON_WORDS
        assert len(one.lesson) <= MAX_LESSON_CHARACTERS


@given(batches())
def test_new_experiences_are_valid_by_their_own_type_and_harmless_when_shown(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext],
):
    library, asked, context = batch
    after, ended = next_version(asked, library, context)
    for proposal in applied_proposals(ended):
        assert not (isinstance(proposal.operation, Merge) and proposal.stage == "compare")
    for identity in after.by_id.keys() - library.by_id.keys():
        made = after.by_id[identity]
        assert Experience.model_validate_json(made.model_dump_json()) == made
        assert made.lesson not in HOSTILE_LESSONS
        plain = unicodedata.normalize("NFKC", made.lesson).casefold()
        assert not any(forged in plain for forged in ("[g", "</", "\n", "system:", "<|im", "1729"))


@given(batches(), st.data())
def test_a_refused_proposal_changes_nothing(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext], data: st.DataObject
):
    library, asked, context = batch
    after, ended = next_version(asked, library, context)
    refused = [place for place, one in enumerate(ended) if not isinstance(one.end, Applied)]
    left_out = set(data.draw(st.lists(st.sampled_from(refused)))) if refused else set[int]()
    without = [proposal for place, proposal in enumerate(asked) if place not in left_out]
    assert next_version(without, library, context).library == after


@given(batches())
def test_a_later_proposal_cannot_change_the_end_of_an_earlier_one(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext],
):
    library, asked, context = batch
    whole = next_version(asked, library, context).ended
    half = len(asked) // 2
    assert next_version(asked[:half], library, context).ended == whole[:half]


@given(libraries, raw_items, st.sampled_from(["compare", "consolidate"]))
def test_any_raw_item_is_an_operation_of_its_stage_or_a_refusal(library: Library, item: object, stage: str):
    labels = labels_of(library)
    parsed = parse_item(item, stage=stage, labels=labels)  # pyright: ignore[reportArgumentType]
    assert (parsed.operation is None) != (parsed.refusal is None)
    if parsed.operation is None:
        assert parsed.refusal is not None
        assert parsed.refusal.code in STABLE_CODES
        assert parsed.refusal.reason.isprintable()
        return
    assert stage == "consolidate" or not isinstance(parsed.operation, Merge)
    named = getattr(parsed.operation, "targets", (getattr(parsed.operation, "target", None),))
    assert {target for target in named if target is not None} <= set(labels.values())
    assert json.loads(parsed.operation.model_dump_json())["op"] == parsed.operation.op
