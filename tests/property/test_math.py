"""Properties of the math domain that hold for every input of their kind."""

from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.answers.reply import boxed
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.problem import Problem
from agentlearn_math.verify import answer_key, judge_exactly, rational

integers = st.integers(min_value=-(10**40), max_value=10**40)
fractions = st.fractions(max_denominator=10**6)
plain = st.text(st.characters(blacklist_characters="\\{}", blacklist_categories=("Cs",)), max_size=40)
families = st.sampled_from(FAMILIES)
FRAGMENTS = (
    "1", "2", "10", ",", ";", ":", ".", " ", "x", "y", "e", "i", "n", "+", "-", "*", "/", "^", "_", "!", "|", "=", "<",
    "(", ")", "[", "]", "{", "}", "\\{", "\\}", "\\frac", "\\sqrt", "\\pi", "\\infty", "\\cup", "\\in", "\\leq",
    "\\text{", "\\pm", "\\%", "^\\circ", "\\sin", "\\log", "\\sum_{k=1}^", "\\int_0^", "dx", " or ", "\\\\", "&", "$",
    "\\begin{pmatrix}", "\\end{pmatrix}", "\\overline", "\\left", "\\right", "A", "B", "yes", "cm", "\\mathbb{R}",
)  # fmt: skip
seeds = st.integers(min_value=0, max_value=2**31)


def status(answer: str, gold: str) -> str:
    verdict = judge_exactly(answer, gold)
    assert verdict is not None
    return verdict.status


def integer_forms(number: int) -> list[str]:
    """Ways to write an integer."""
    sign, digits = ("-" if number < 0 else ""), str(abs(number))
    return [
        str(number),
        f"{number:,}",
        f"{number:,}".replace(",", "{,}"),
        f"{number:,}".replace(",", "\\,"),
        f"{sign}00{digits}",
        f"{number}.0",
        f"${number}$",
        f"\\( {number} \\)",
        f"{number}\\text{{ units}}",
        str(number).replace("-", "\N{MINUS SIGN}"),
        f"{{{number}}}",
        f"x = {number}",
        f"\\frac{{{3 * number}}}{{3}}",
        f"{sign}{digits}.",
    ]


def fraction_forms(value: Fraction) -> list[str]:
    """Ways to write a fraction."""
    top, bottom, sign = abs(value.numerator), value.denominator, "-" if value < 0 else ""
    whole, rest = divmod(top, bottom)
    return [
        f"{sign}{top}/{bottom}",
        f"{sign}\\frac{{{top}}}{{{bottom}}}",
        f"{sign}\\dfrac{{{3 * top}}}{{{3 * bottom}}}",
        f"\\frac{{{sign}{top}}}{{{bottom}}}",
        f"{sign}\\left({top} \\div {bottom}\\right)",
        f"y={sign}{top}\\cdot\\frac{{1}}{{{bottom}}}",
        f"{sign}{whole}\\frac{{{rest}}}{{{bottom}}}" if whole and rest else f"{sign}{top}/{bottom}",
    ]


@given(integers, integers, st.data())
def test_integers_are_judged_by_their_value_however_they_are_written(one: int, other: int, data: st.DataObject) -> None:
    for number in (one, other):
        answer, gold = data.draw(st.sampled_from(integer_forms(number))), data.draw(st.sampled_from(integer_forms(one)))
        assert (status(answer, gold) == "correct") == (number == one)
        assert status(answer, gold) in {"correct", "incorrect"}
    assert {answer_key(form) for form in integer_forms(one)} == {str(one)}


@given(fractions, fractions, st.data())
def test_fractions_are_judged_by_their_value_however_they_are_written(
    one: Fraction, other: Fraction, data: st.DataObject
) -> None:
    for value in (one, other):
        answer, gold = (
            data.draw(st.sampled_from(fraction_forms(value))),
            data.draw(st.sampled_from(fraction_forms(one))),
        )
        assert status(answer, gold) == ("correct" if value == one else "incorrect")
    assert all(rational(form) == one for form in fraction_forms(one)[:3])


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12), st.lists(st.sampled_from(FRAGMENTS), max_size=12))
def test_any_two_texts_that_look_like_mathematics_can_be_judged(answer: list[str], gold: list[str]) -> None:
    one, other = "".join(answer), "".join(gold)
    verdict = judge_exactly(one, other)
    assert verdict is None or (verdict.reward is None) == (verdict.status == "undecided")
    same = judge_exactly(one, one)
    assert same is not None
    assert same.status in {"correct", "no_answer"}


@given(plain, plain, integers)
def test_the_box_is_found_in_any_text(before: str, after: str, number: int) -> None:
    assert boxed(f"{before}\\boxed{{{number}}}{after}") == str(number)


@given(families, seeds, seeds)
def test_a_problem_is_read_back_from_its_words(family: type[Problem], seed: int, wording: int) -> None:
    problem = family.draw(Random(seed))
    assert family.recognise(problem.ask(Random(wording))) == problem


@given(families, seeds)
def test_a_generated_problem_shows_every_trap_and_has_one_home(family: type[Problem], seed: int) -> None:
    problem = family.generate(Random(seed))
    assert problem is not None
    assert problem.shows_every_trap()
    assert problem.home in {"train", "validation", "test"}
    assert family.recognise(problem.ask(Random(seed))) == problem
