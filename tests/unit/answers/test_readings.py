"""What is read in a text: the answer, the box, the number, the choice, the formula."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.answers.forms import Literal, Node, Symbol, exact_value
from agentlearn.answers.formula import MAX_CHARACTERS, MAX_DEPTH, UnreadableFormula, parse
from agentlearn.answers.latex import normalise
from agentlearn.answers.numbers import number_key, same_number, single_number
from agentlearn.answers.reply import MAX_BARE_CHARACTERS, boxed, final_answer_in, single_choice
from tests.unit.answers.tables import rows

LONG = "I looked at it from all sides. " * 20


VALUES = st.fractions(min_value=-(10**9), max_value=10**9, max_denominator=10**6)


def shown(node: Node) -> str:
    """The tree in prefix form."""
    if isinstance(node, Literal):
        return str(node.value)
    return node.name if isinstance(node, Symbol) else f"({' '.join([node.op, *map(shown, node.args)])})"


def refusal(text: str) -> str:
    with pytest.raises(UnreadableFormula) as refused:
        parse(normalise(text))
    return str(refused.value)


def key(text: str) -> str | None:
    value = single_number(text)
    return None if value is None else number_key(value)


def test_every_text_is_read_as_it_is_meant(subtests: pytest.Subtests) -> None:
    readers = {"reply": final_answer_in, "box": boxed, "choice": single_choice, "key": key, "number": single_number}
    for kind, text, wanted in rows("readings"):
        with subtests.test(kind=kind, text=text):
            found = readers[kind](text.replace("LONG", LONG))
            assert (found if found is None else str(found)) == wanted


def test_every_formula_is_read_as_it_is_meant_or_refused_with_its_reason(subtests: pytest.Subtests) -> None:
    for kind, text, wanted in rows("formulas"):
        with subtests.test(kind=kind, text=text):
            if kind == "refused":
                assert refusal(text) == wanted
            elif kind == "tree":
                assert shown(parse(normalise(text))) == wanted
            else:
                assert exact_value(parse(normalise(text))) == (Fraction(wanted) if kind == "value" else None)


def test_formulas_of_great_size_are_refused() -> None:
    assert refusal("(" * 30 + "x" + ")" * 30) == f"nests more than {MAX_DEPTH} deep"
    assert refusal("x+" * MAX_CHARACTERS + "x") == f"is longer than {MAX_CHARACTERS} characters"
    assert refusal("x/" * 50 + "x") == "holds more than 40 divisions"


@pytest.mark.parametrize("bit", ["<answer>", "Answer:\n", "\\boxed{", "**a", "<b>", "(", "Answer:\n- "])
def test_a_text_of_marks_alone_is_read_in_no_time(bit: str) -> None:
    assert final_answer_in(bit * 20_000 + "\nAnswer:") is None
    assert final_answer_in("x" * (MAX_BARE_CHARACTERS + 1)) is None
    assert boxed(bit * 20_000) is None
    assert boxed("{" * 100_000 + r"\boxed{1}" + "}" * 100_000) == "1"
    assert single_number("1 " * 50_000) is single_number("1" * 100_000) is None


@given(st.text())
def test_what_stands_in_the_last_tags_is_found_whatever_stands_before(before: str) -> None:
    assert final_answer_in(f"{before}<answer>here</answer>") == "here"


@given(VALUES | st.fractions() | st.integers().map(Fraction))
def test_a_key_is_a_number_and_its_own_key(value: Fraction) -> None:
    again = single_number(number_key(value))
    assert again is not None
    assert number_key(again) == number_key(value)
    assert abs(again - value) <= abs(value) / 10**5
    assert same_number(again, value) or value.denominator > 1
