"""Finding the answer: tags before label before the whole text; and when two texts are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.domain.custom.final_answer import MAX_BARE_CHARACTERS, final_answer_in, normalised

LONG = "I looked at it from all sides. " * 20


def test_the_answer_is_found_or_there_is_none(subtests: pytest.Subtests) -> None:
    for text, answer in [
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
        (f"{LONG}\nAnswer: 1\nNo.\nAnswer:\n", None),
        ("The form is <answer>N</answer>, so maybe <answer>5</answer> but", None),
        ("I get <answer>5</answer>, let me check that the", None),
        ("It is <answer>5</answer> km", "5"),
        ("<answer>\n```json\n[1,2]\n```\n</answer>", "[1,2]"),
        (r"<answer>$\boxed{\text{blue}}$</answer>", "blue"),
        (f"{LONG}\n**Answer:**\n73", "73"),
        (f"{LONG}\n### Final Answer\n\n**D**\n\nBecause A is wrong.", "D"),
        (f"{LONG}\n✅ **Final Answer: 73**.", "73"),
        (f"{LONG}\n<b>Answer:</b> 73", "73"),
        (f"{LONG}\n(Answer – 73)", "73"),
        (f"{LONG}\nAnswer: -73", "-73"),
        (f"{LONG}\nAnswer：73", "73"),
        (f"{LONG}\nAnswer:\n```json\n[1,\n2]\n```\nDone.", "[1,\n2]"),
        (f"{LONG}\nAnswer:\n\n$$\n73\n$$", "73"),
        (f"{LONG}\nAnswer:\n- a\n- b\n\nDone.", "- a\n- b"),
        (f"{LONG}\nTherefore the answer is: 60", "60"),
        (f"{LONG}\nTherefore the answer is **60**.", "60"),
        (f"{LONG}\nSo we get $\\boxed{{\\frac{{1}}{{2}}}}$.", r"\frac{1}{2}"),
        (f"{LONG}\nAnswer: 5\nNo.\n\\boxed{{7}}", "7"),
        (f"{LONG}\nAnswer: 5\n\nI hope it **helps**", "5"),
        (f"{LONG}\n#### 60", "60"),
        (f"{LONG}\nIt is **60** or **61**", None),
        (f"{LONG}\n**Note:** check it", None),
        (f"{LONG}\nThe answer is 60", None),
        (f"{LONG}\nThe answer is not here.", None),
        ("", None),
    ]:
        with subtests.test(repr((text, answer))):
            assert final_answer_in(text) == answer


@pytest.mark.parametrize("bit", ["<answer>", "Answer:\n", "\\boxed{", "**a", "<b>", "(", "Answer:\n- "])
def test_a_text_of_marks_alone_is_read_in_no_time(bit: str) -> None:
    assert final_answer_in(bit * 20_000 + "\nAnswer:") is None


@given(st.text())
def test_what_stands_in_the_last_tags_is_found_whatever_stands_before(before: str) -> None:
    assert final_answer_in(f"{before}<answer>here</answer>") == "here"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris.", "paris"),
        (" a  b\n", "a b"),
        ("ﬁne", "FINE"),
        ("`x`", "x"),
        ("“x”", '"X"'),
        ("x。", "x"),
        ("Straße", "STRASSE"),
    ],
)
def test_small_differences_do_not_matter(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(("one", "other"), [("Paris", "Pari s"), ("and...", "and"), ("1", "1!"), ("naïve", "naive")])
def test_other_differences_do(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)
