"""Whatever a model asks for: nothing half applies, vanishes, reuses an id, breaks a limit, or raises."""

import json
import unicodedata
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agentlearn.learn.lessons.curate import CheckContext, DropReason, RejectionCode, apply, check, parse_item
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, MAX_LESSON_WORDS, Library, LibraryLimits, word_count
from agentlearn.types.operation import Applied, BatchOperation, Dropped, Ended, Merge, Proposal, Rejected
from agentlearn.types.task import Task
from tests.property.strategies import HOSTILE_LESSONS, labels_of, libraries, limits, proposals, raw_items

TASK = Task.of("test", "Find how many ordered pairs of positive integers have a sum of forty nine exactly", "1729")
STABLE_CODES = {code.value for code in RejectionCode} | {"not_an_object"}


@st.composite
def batches(draw: st.DrawFn) -> tuple[Library, tuple[Proposal, ...], CheckContext]:
    library = draw(libraries)
    context = CheckContext.of([TASK], limits=draw(limits), max_deletes=draw(st.integers(0, 3)))
    return library, draw(proposals(library)), context


def makes_in_order(ended: tuple[Ended, ...]) -> list[str]:
    return [one.end.experience for one in ended if isinstance(one.end, Applied) and one.end.experience]


@given(batches())
def test_every_proposal_ends_exactly_once_and_in_order(batch: tuple[Library, tuple[Proposal, ...], CheckContext]):
    library, asked, context = batch
    plan, ended = check(asked, library, context)
    assert [one.proposal for one in ended] == list(asked)
    applied = [one.proposal.id for one in ended if isinstance(one.end, Applied)]
    assert applied == [planned.proposal for planned in plan.operations]
    assert [planned.makes for planned in plan.operations if planned.makes] == makes_in_order(ended)
    for one in ended:
        match one.end:
            case Rejected(code=code, reason=reason):
                assert code in STABLE_CODES
                assert reason.isprintable()
                assert len(reason) < 600
            case Dropped(reason=reason):
                assert reason in {drop.value for drop in DropReason}
            case _:
                assert isinstance(one.end, Applied)


@given(batches())
def test_the_next_version_holds_exactly_what_ended_as_applied(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext],
):
    library, asked, context = batch
    plan, ended = check(asked, library, context)
    after = apply(plan, library)
    if not plan.operations:
        assert after is library
        return
    gone = {
        target
        for planned in plan.operations
        for target in getattr(planned.operation, "targets", (getattr(planned.operation, "target", None),))
    }
    stayed = {one.id for one in library.experiences} - gone
    assert set(after.by_id) == stayed | set(makes_in_order(ended))
    assert all(after.by_id[kept] is library.by_id[kept] for kept in stayed)
    assert after.parent == library.version != after.version


@given(batches())
def test_no_id_is_reused_and_no_two_operations_touch_one_experience(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext],
):
    library, asked, context = batch
    plan = check(asked, library, context).plan
    made = [planned.makes for planned in plan.operations if planned.makes]
    assert len(set(made)) == len(made)
    assert not set(made) & set(library.by_id)
    touched = [
        target
        for planned in plan.operations
        for target in getattr(planned.operation, "targets", (getattr(planned.operation, "target", None),))
        if target is not None
    ]
    assert len(set(touched)) == len(touched)
    assert set(touched) <= set(library.by_id)


@given(batches())
def test_no_limit_is_broken(batch: tuple[Library, tuple[Proposal, ...], CheckContext]):
    library, asked, context = batch
    plan = check(asked, library, context).plan
    after = apply(plan, library)
    assert len(after) <= max(len(library), context.limits.max_lessons)
    assert after.tokens <= max(library.tokens, context.limits.max_tokens)
    assert sum(planned.operation.op == "delete" for planned in plan.operations) <= context.max_deletes
    for planned in plan.operations:
        lesson = getattr(planned.operation, "lesson", "word")
        assert word_count(lesson) <= MAX_LESSON_WORDS
        assert len(lesson) <= MAX_LESSON_CHARACTERS


@given(batches())
def test_what_is_planned_is_valid_by_its_own_type_and_harmless_when_shown(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext],
):
    library, asked, context = batch
    plan = check(asked, library, context).plan
    adapter = TypeAdapter[BatchOperation](BatchOperation)
    stages = {one.id: one.stage for one in asked}
    for planned in plan.operations:
        assert adapter.validate_json(planned.operation.model_dump_json()) == planned.operation
        assert not (isinstance(planned.operation, Merge) and stages[planned.proposal] == "compare")
        lesson = getattr(planned.operation, "lesson", "word")
        assert lesson not in HOSTILE_LESSONS
        plain = unicodedata.normalize("NFKC", lesson).casefold()
        assert not any(forged in plain for forged in ("[g", "</", "\n", "system:", "<|im", "1729"))


@given(batches(), st.data())
def test_a_refused_proposal_changes_nothing(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext], data: st.DataObject
):
    library, asked, context = batch
    plan, ended = check(asked, library, context)
    refused = [place for place, one in enumerate(ended) if not isinstance(one.end, Applied)]
    left_out = set(data.draw(st.lists(st.sampled_from(refused)))) if refused else set[int]()
    without = [proposal for place, proposal in enumerate(asked) if place not in left_out]
    assert check(without, library, context).plan == plan


@given(batches())
def test_check_and_apply_are_deterministic(batch: tuple[Library, tuple[Proposal, ...], CheckContext]):
    library, asked, context = batch
    first, second = check(asked, library, context), check(asked, library, context)
    assert first == second
    assert apply(first.plan, library) == apply(second.plan, library)
    assert library == Library(parent=library.parent, experiences=library.experiences)


@given(batches())
def test_a_later_proposal_cannot_change_the_end_of_an_earlier_one(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext],
):
    library, asked, context = batch
    whole = check(asked, library, context).ended
    half = len(asked) // 2
    assert check(asked[:half], library, context).ended == whole[:half]


@given(batches(), st.permutations(["12 cm", "B", "yes", "2048", "7"]), st.permutations(["a page " * 9, "one two " * 5]))
def test_the_order_of_tasks_and_pages_does_not_matter(
    batch: tuple[Library, tuple[Proposal, ...], CheckContext], answers: list[str], pages: list[str]
):
    library, asked, context = batch
    tasks = [Task.of("test", f"problem {answer}", answer) for answer in answers]
    drawn = CheckContext.of(tasks, pages=pages, limits=context.limits)
    fixed = CheckContext.of(sorted(tasks, key=lambda task: task.id), pages=sorted(pages), limits=context.limits)
    assert drawn == fixed
    assert check(asked, library, drawn) == check(asked, library, fixed)


@given(batches())
def test_wider_limits_never_refuse_the_first_proposal(batch: tuple[Library, tuple[Proposal, ...], CheckContext]):
    library, asked, context = batch
    wide = replace(context, limits=LibraryLimits(max_lessons=10_000, max_tokens=1_000_000), max_deletes=1_000)
    for narrow_end, wide_end in zip(
        check(asked[:1], library, context).ended, check(asked[:1], library, wide).ended, strict=True
    ):
        if isinstance(narrow_end.end, Applied):
            assert narrow_end == wide_end


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
