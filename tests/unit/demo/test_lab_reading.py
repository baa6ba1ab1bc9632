"""What the shipped lab model takes from lessons that it was not trained on: the same on any machine, up to rounding."""

import asyncio

import pytest

from agentlearn_demo.lab.evaluation import evaluate_lab_model
from agentlearn_demo.math.lab import lab

pytestmark = pytest.mark.slow

PROBLEMS = 100
CONDITIONS = (
    "none",
    "right",
    "paraphrase",
    "shuffled",
    "salad",
    "absurd",
    "german",
    "twenty",
    "sixty",
    "negation",
    "inverted",
)


@pytest.fixture(scope="module")
def shares() -> dict[str, float]:
    """Share of right answers under each condition."""
    scores = asyncio.run(evaluate_lab_model(lab, lab.folder, PROBLEMS, 0, conditions=CONDITIONS))
    return {one.condition: one.share for one in scores}


def test_advice_in_the_corpus_s_own_wordings_helps_much(shares: dict[str, float]) -> None:
    assert shares["right"] - shares["none"] > 0.3


def test_advice_in_wordings_that_are_held_out_helps(shares: dict[str, float]) -> None:
    assert shares["paraphrase"] - shares["none"] > 0.15


def test_orders_to_make_the_mistakes_mislead_and_bans_on_the_advice_help_little(shares: dict[str, float]) -> None:
    assert shares["inverted"] < shares["none"] - 0.1
    assert shares["negation"] < shares["none"] + 0.12


@pytest.mark.parametrize("condition", ["shuffled", "salad", "absurd", "german"])
def test_lessons_without_sense_do_not_help(shares: dict[str, float], condition: str) -> None:
    assert abs(shares[condition] - shares["none"]) < 0.12


def test_the_right_lessons_are_found_among_many(shares: dict[str, float]) -> None:
    assert shares["sixty"] > shares["twenty"] - 0.1
    assert shares["twenty"] > shares["none"] + 0.25
