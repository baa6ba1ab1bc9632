"""Properties of the math domain that hold for every input of their kind."""

from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn_math.answers import answer_key, boxed, rational, tidy
from agentlearn_math.families import FAMILIES
from agentlearn_math.family import Family
from agentlearn_math.tasks import home
from agentlearn_math.verify import judge

integers = st.integers(min_value=-(10**40), max_value=10**40)
fractions = st.fractions(max_denominator=10**6)
plain = st.text(st.characters(blacklist_characters="\\{}", blacklist_categories=("Cs",)), max_size=40)
families = st.sampled_from(FAMILIES)
seeds = st.integers(min_value=0, max_value=2**31)


@given(integers)
def test_all_ways_to_write_an_integer_are_equal(number: int) -> None:
    sign, digits = ("-" if number < 0 else ""), str(abs(number))
    forms = (
        f"{number:,}",
        f"{sign}00{digits}",
        f"{number}.0",
        f"${number}$",
        f"{number}\\text{{ units}}",
        str(number).replace("-", "\N{MINUS SIGN}"),
        f"{{{number}}}",
    )
    assert {answer_key(form) for form in forms} == {str(number)}
    assert all(judge(form, str(number)).status == "correct" for form in forms)


@given(fractions)
def test_all_ways_to_write_a_fraction_are_equal(value: Fraction) -> None:
    top, bottom, sign = abs(value.numerator), value.denominator, "-" if value < 0 else ""
    for form in (
        f"{sign}{top}/{bottom}",
        f"{sign}\\frac{{{top}}}{{{bottom}}}",
        f"{sign}\\dfrac{{{3 * top}}}{{{3 * bottom}}}",
    ):
        assert rational(form) == value
        assert judge(form, str(value)).reward == 1.0


@given(fractions, fractions)
def test_numbers_are_judged_by_their_value(left: Fraction, right: Fraction) -> None:
    assert (judge(str(left), str(right)).status == "correct") == (left == right)


@given(plain, plain, integers)
def test_the_box_is_found_in_any_text(before: str, after: str, number: int) -> None:
    assert boxed(f"{before}\\boxed{{{number}}}{after}") == str(number)


@given(st.text(max_size=80))
def test_any_text_can_be_looked_at(text: str) -> None:
    found = boxed(text)
    assert found is None or found in text
    key = answer_key(text)
    assert key is None or (key == "".join(key.split()) and key)
    assert rational(text) is None or judge(text, text).status == "correct"
    assert len(tidy(text)) <= len(text)


@settings(max_examples=60)
@given(families, seeds, seeds)
def test_a_problem_is_read_back_from_its_words(family: Family[Any], seed: int, wording: int) -> None:
    params = family.draw(Random(seed))
    assert family.recognise(family.ask(params, Random(wording))) == params


@settings(max_examples=60)
@given(families, seeds)
def test_a_generated_problem_shows_every_trap_and_has_one_home(family: Family[Any], seed: int) -> None:
    params = family.generate(Random(seed))
    assert params is not None
    assert family.shows_every_trap(params)
    assert home(family.name, params) in {"train", "validation", "test"}
    assert home(family.name, params) == home(family.name, family.recognise(family.ask(params, Random(seed))))
