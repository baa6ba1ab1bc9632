"""Reading one raw item: tolerant in form, strict in sense."""

import pytest

from agentlearn.library.curate import ParsedItem, parse_item
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import Add, Delete, Merge, Modify, Rejected
from tests.support.cases import cases

ONE, TWO, THREE = (ExperienceId(name * 32) for name in "abc")
LABELS = {"G1": ONE, "G2": TWO, "G3": THREE}
LESSON = "When a range is closed, count both endpoints."


def parsed(item: object, *, compare: bool = False) -> ParsedItem:
    return parse_item(item, stage="compare" if compare else "consolidate", labels=LABELS)


def code(item: object, *, compare: bool = False) -> str:
    refusal = parsed(item, compare=compare).refusal
    assert refusal is not None
    return refusal.code


def test_valid_items_become_operations(subtests: pytest.Subtests):
    for item, operation in [
        ({"op": "add", "lesson": LESSON}, Add(lesson=LESSON)),
        ({"Option": "CREATE", "experience": f"  {LESSON}\n"}, Add(lesson=LESSON)),
        ({"operation": "Update", "id": "[G2]", "content": LESSON}, Modify(target=TWO, lesson=LESSON)),
        ({"option": "modify", "modified_from": "g2", "experience": LESSON}, Modify(target=TWO, lesson=LESSON)),
        ({"action": "modify", "targets": ["G2"], "text": LESSON}, Modify(target=TWO, lesson=LESSON)),
        ({"op": "remove", "delete_id": " G3 "}, Delete(target=THREE)),
        ({"op": "delete", "experience_id": "[ G3 ]", "lesson": None}, Delete(target=THREE)),
        ({"op": "merge", "merged_from": ["G3", "G1"], "lesson": LESSON}, Merge(targets=(THREE, ONE), lesson=LESSON)),
        ({"op": "merge", "target": ["G3", "G1"], "lesson": LESSON}, Merge(targets=(THREE, ONE), lesson=LESSON)),
        (
            {"op": "add", "lesson": LESSON, "tags": ["range", "off-by-1"]},
            Add(lesson=LESSON, tags=("range", "off-by-1")),
        ),
        ({"op": "add", "lesson": LESSON, "id": None, "why": {"any": "thing"}}, Add(lesson=LESSON)),
    ]:
        with subtests.test(repr((item, operation))):
            assert parsed(item) == ParsedItem(operation)  # pyright: ignore[reportArgumentType]


def test_invalid_items_are_refused(subtests: pytest.Subtests):
    for item, expected in cases(__file__, "invalid"):
        with subtests.test(repr((item, expected))):
            assert code(item) == expected


def test_a_group_may_not_merge():
    item = {"op": "merge", "targets": ["G1", "G2"], "lesson": LESSON}
    assert code(item, compare=True) == "wrong_stage"
    assert parsed(item).operation is not None


def test_what_it_rests_on_comes_back_as_labels():
    item = {"op": "add", "lesson": LESSON, "rests_on": ["[P1]", "p4", "P1"]}
    assert parsed(item) == ParsedItem(Add(lesson=LESSON), rests_on=("P1", "P4"))
    assert parsed({**item, "rests_on": "P2"}).rests_on == ("P2",)
    assert parsed({"op": "add", "rests_on": ["P2"]}).rests_on == ("P2",)


def test_a_refusal_says_what_was_wrong_and_what_is_right():
    refusal = parsed({"op": "delete", "target": "G9"}).refusal
    assert refusal == Rejected(code="unknown_id", reason="'G9' is not a label of this library")
    refusal = parsed({"op": "delete", "targets": ["G1", "G2"]}).refusal
    assert refusal == Rejected(
        code="too_many_targets", reason="a delete names one experience, not 2; write one item for each"
    )
