"""Finding the answer: tags before label before the whole text; and when two texts are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.domain.custom.final_answer import MAX_BARE_CHARACTERS, final_answer_in, normalised

LONG = "I looked at it from all sides. " * 20


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So it is <answer>blue</answer>.", "blue"),
        ("<answer>1</answer> no, <answer> 2 </answer>", "2"),
        ("<ANSWER>two\nlines</Answer>", "two\nlines"),
        ("<answer><answer>inner</answer></answer>", "inner"),
        ("<answer>shut</answer> <answer>left open", "shut"),
        ("</answer><answer>x</answer>", "x"),
        ("Answer: tagged wins? <answer>tag</answer>", "tag"),
        (f"{LONG}\nAnswer: 12 zorks", "12 zorks"),
        (f"{LONG}\n**Final answer:** 12", "12"),
        (f"{LONG}\n- The answer is: `12`\n", "12"),
        (f"{LONG}\nAnswer: 1\nAnswer: 2\n{LONG}", "2"),
        ("  just this  ", "just this"),
        ("**bold**", "bold"),
        ("$5", "$5"),
        ("**a** and **b**", "**a** and **b**"),
        (LONG, None),
        ("x" * (MAX_BARE_CHARACTERS + 1), None),
        ("<answer> </answer>", None),
        (f"{LONG}\nAnswer:\n", None),
        ("", None),
    ],
)
def test_the_answer_is_found_or_there_is_none(text: str, answer: str | None) -> None:
    assert final_answer_in(text) == answer


def test_an_unfinished_text_full_of_tags_is_read_in_no_time() -> None:
    assert final_answer_in("<answer>" * 100_000) is None


@given(st.text())
def test_what_stands_in_the_last_tags_is_found_whatever_stands_before(before: str) -> None:
    assert final_answer_in(f"{before}<answer>here</answer>") == "here"


@pytest.mark.parametrize(
    ("one", "other"), [("Paris.", "paris"), (" a  b\n", "a b"), ("ﬁne", "FINE"), ("`x`", "x"), ("Straße", "STRASSE")]
)
def test_small_differences_do_not_matter(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(("one", "other"), [("Paris", "Pari s"), ("and...", "and"), ("1", "1!"), ("naïve", "naive")])
def test_other_differences_do(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)
