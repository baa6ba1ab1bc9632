"""Reading items from replies of any shape: good items survive bad ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.learning.lessons.stage_agent import ListKey, salvage

ADD = {"op": "add", "lesson": "When counting, include both ends."}
DELETE = {"op": "delete", "target": "G1"}


def test_good_items_survive(subtests: pytest.Subtests) -> None:
    for reply, items, faults in [
        ({"proposals": [ADD, DELETE]}, (ADD, DELETE), ()),
        ({"proposals": []}, (), ()),
        ({"proposals": ADD}, (ADD,), ("object_not_array",)),
        (ADD, (ADD,), ("object_not_array",)),
        ([ADD, DELETE], (ADD, DELETE), ("wrong_key",)),
        ({"operations": [ADD]}, (ADD,), ("wrong_key",)),
        ({"proposals": ["When a, b.", ADD]}, ("When a, b.", ADD), ()),
        ({"proposals": None}, (), ("no_reply",)),
        ("I would add a lesson about ends.", (), ("prose",)),
        ("", (), ("no_reply",)),
        (None, (), ("no_reply",)),
        (json.dumps({"proposals": [ADD]}), (ADD,), ()),
        ("Here it is:\n```json\n" + json.dumps({"proposals": [ADD]}) + "\n```\nDone.", (ADD,), ()),
        ({"proposals": json.dumps([ADD])}, (ADD,), ("wrong_key",)),
        ('{"proposals": [' + json.dumps(ADD) + ', {"op": "del', (ADD,), ("cut_json",)),
        ('{"proposals": [{"op": "add", "less', ({"op": "add"},), ("cut_json",)),
        # Objects one after the other, as a public recording lists the operations of DeepSeek-R1 32B.
        (f"{json.dumps(ADD, indent=2)}\n{json.dumps(DELETE, indent=2)}", (ADD, DELETE), ("wrong_key",)),
        (f"These:\n{json.dumps(ADD)},\n{json.dumps(DELETE)}\nI am done {{}}.", (ADD, DELETE), ("wrong_key",)),
        (f'{json.dumps(ADD)}\n{{"op": "del', (ADD,), ("cut_json",)),
        (json.dumps({"proposals": [ADD]}) + json.dumps(DELETE), (ADD,), ()),
        (f"{json.dumps(ADD)} is what {json.dumps(DELETE)} is not.", (ADD,), ("object_not_array",)),
    ]:
        with subtests.test(repr((reply, items, faults))):
            found = salvage(reply, "proposals")
            assert (found.items, found.faults) == (items, faults)


def test_an_empty_list_is_an_answer_and_prose_is_none() -> None:
    assert salvage({"proposals": []}, "proposals").usable
    assert not salvage("nothing to say", "proposals").usable


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


@given(reply=json_values, key=st.sampled_from(["steps", "proposals"]))
def test_never_raises(reply: object, key: ListKey) -> None:
    salvage(reply, key)


@given(cut=st.integers(min_value=0, max_value=200), text=st.text())
def test_any_cut_keeps_only_true_items(cut: int, text: str) -> None:
    whole = json.dumps({"proposals": [ADD, DELETE, {"op": "add", "lesson": text}]})
    found = salvage(whole[: cut % (len(whole) + 1)], "proposals")
    assert all(isinstance(item, dict) for item in found.items)
    for item, true in zip(found.items, [ADD, DELETE], strict=False):
        assert item.items() <= true.items()
