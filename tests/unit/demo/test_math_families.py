"""Every family's promise: exact answers, wordings that can be read back, and traps that show."""

from dataclasses import fields
from itertools import combinations
from random import Random
from string import Formatter
from typing import Any

import pytest

from agentlearn_demo.math.families import FAMILIES, LEARNING, UNSEEN
from agentlearn_demo.math.family import Family, combinations_of, printed
from agentlearn_math.answers import answer_key

SEEDS = range(30)
FOREIGN = (
    # Small problems of our own in the manner of AIME, AMC and GSM8K.
    "Find the number of positive integers less than 1000 that are divisible by 7 but not by 2.",
    "Two fair dice are rolled. What is the probability that the sum is 7?",
    "How many pairs of integers satisfy $3x + 5y = 120$?",
    "Mia has 12 marbles. She buys 3 bags with 5 marbles each. How many marbles does she have now?",
    "A tank holds 60 liters. A pipe fills 4 liters a minute. How many minutes does it take to fill the tank?",
    "Let $P(x) = x^4 + ax^3 + bx^2 + cx + d$ be a polynomial with integer roots. Find $a+b+c+d$.",
    "",
)

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def problems(family: Family[Any]) -> list[Any]:
    return [family.generate(Random(seed)) for seed in SEEDS]


@every_family
def test_the_flawless_program_prints_the_gold_answer_for_every_draw(family: Family[Any]) -> None:
    for seed in SEEDS:
        params = family.draw(Random(seed))
        assert printed(family.program(params)) == family.gold(params), params


@every_family
def test_every_flaw_and_every_combination_of_flaws_prints_something_else(family: Family[Any]) -> None:
    for params in problems(family):
        gold = family.gold(params)
        assert printed(family.program(params)) == gold
        for flaws in combinations_of(family.traps):
            assert answer_key(printed(family.program(params, flaws))) != answer_key(gold), (params, flaws)


@every_family
def test_a_problem_whose_traps_do_not_show_is_refused(family: Family[Any]) -> None:
    blunt = Family(**{field.name: getattr(family, field.name) for field in fields(family)} | {"gold": lambda _: "0"})
    params = family.draw(Random(1))
    assert not blunt.shows_every_trap(params)


@every_family
def test_every_wording_is_read_back_by_its_own_family_alone(family: Family[Any]) -> None:
    assert 2 <= len(family.templates) <= 3
    for seed, params in enumerate(problems(family)[:12]):
        for template in family.templates:
            text = template.format_map(vars(params))
            reader = [other.name for other in FAMILIES if other.recognise(text) is not None]
            assert reader == [family.name]
            assert family.recognise(text) == params
            assert (
                family.recognise("Please solve this:\n\n" + text.replace(" ", "\n", seed) + "\n\nThank you.") == params
            )


@every_family
def test_wordings_hold_every_parameter(family: Family[Any]) -> None:
    names = {field.name for field in fields(family.draw(Random(0)))}
    for template in family.templates:
        assert {name for _, name, _, _ in Formatter().parse(template) if name is not None} == names


@every_family
def test_a_family_has_two_to_four_traps(family: Family[Any]) -> None:
    assert 2 <= len(set(family.traps)) == len(family.traps) <= 4
    assert family.topics


@every_family
def test_each_decision_is_visible_as_a_comment_and_is_code(family: Family[Any]) -> None:
    params = family.generate(Random(3))
    notes = {trap: f"note on {trap}" for trap in family.traps}
    careful = family.program(params, notes=notes)
    for trap in family.traps:
        assert f"# note on {trap}\n" in careful
        flawed = family.program(params, frozenset({trap}), notes)
        changed = [
            (before, after)
            for before, after in zip(careful.splitlines(), flawed.splitlines(), strict=True)
            if before != after
        ]
        assert changed
        assert not any("#" in line for pair in changed for line in pair)


@every_family
def test_programs_need_no_third_party_package(family: Family[Any]) -> None:
    program = family.program(family.draw(Random(0)))
    imports = [line.split()[1] for line in program.splitlines() if line.startswith(("from ", "import "))]
    assert set(imports) <= {"math", "itertools", "functools", "fractions"}


@every_family
def test_generation_depends_on_the_seed_alone(family: Family[Any]) -> None:
    assert family.generate(Random(5)) == family.generate(Random(5))
    assert len(set(problems(family))) > len(SEEDS) // 2


@every_family
def test_wishes_that_nothing_meets_end_the_search(family: Family[Any]) -> None:
    assert family.generate(Random(0), lambda _: False) is None


@pytest.mark.parametrize("text", FOREIGN)
def test_other_problems_are_not_ours(text: str) -> None:
    assert [family.name for family in FAMILIES if family.recognise(text) is not None] == []


def test_there_are_families_to_learn_on_and_families_held_out() -> None:
    assert len(LEARNING) >= 12
    assert len(UNSEEN) == 6
    assert len({family.name for family in FAMILIES}) == len(FAMILIES) == len(LEARNING) + len(UNSEEN)


def test_each_trap_lives_in_three_families_and_none_in_unseen_ones_only() -> None:
    everywhere = {trap for family in FAMILIES for trap in family.traps}
    for trap in everywhere:
        assert sum(trap in family.traps for family in FAMILIES) >= 3, trap
        assert sum(trap in family.traps for family in LEARNING) >= 2, trap
    assert {trap for family in UNSEEN for trap in family.traps} == everywhere


def test_no_two_families_share_their_topics_fully() -> None:
    for one, other in combinations(FAMILIES, 2):
        assert set(one.topics) != set(other.topics)
