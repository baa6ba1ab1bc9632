"""The one letter in an answer."""

import pytest

from agentlearn.answers.reply import single_choice


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"), ("b", "B"), ("(B)", "B"), ("[b]", "B"), ("B.", "B"), ("B)", "B"), ("**B**", "B"), ("I", "I"),
        (r"$\boxed{C}$", "C"), (r"\text{C}", "C"), ("Option B", "B"), ("choice (b)", "B"), ("Answer: b", "B"),
        ("the correct answer is (a).", "A"), ("The answer is A.", "A"), ("B) Paris", "B"), ("B. Paris", "B"),
        ("B: Paris", "B"), ("B - Paris", "B"), ("B, since it rains", "B"), ("I think B", "B"), ("A) yes", "A"),
        ("I think it is A", "A"), ("Ｂ", "B"), ("D. Because option A is wrong", "D"),
        ("**D**\n\nOptions A and B are wrong.", "D"),
    ],
)  # fmt: skip
def test_the_usual_ways_of_writing_it(text: str, letter: str) -> None:
    assert single_choice(text) == letter


@pytest.mark.parametrize(
    "text",
    ["", "K", "Paris", "A cat", "It's a dog", "the answer is a dog", "B or C", "(A) or (B)", "A and B", "a) and b)",
     "B, because C is wrong", "Option A is a trap; B", "C++", "ABC", "all of them",
     "A. Paris B. London", "(A) Paris\n(B) London", "A\nB\nC", "A. Maybe B."],
)  # fmt: skip
def test_no_letter_or_more_than_one_is_none(text: str) -> None:
    assert single_choice(text) is None
