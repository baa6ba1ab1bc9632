"""Pairs of answers of the kinds that a web walker meets: no wrong one is accepted, no right one is refused."""

import json
from collections import Counter
from pathlib import Path

import pytest

from agentlearn.answers.matching import match_answers

PAIRS = [json.loads(line) for line in Path(__file__).with_name("answer_pairs.jsonl").read_text("utf-8").splitlines()]
"""Each has a question, the expected answer, an answer, and whether that is `right`, `wrong` or for a `judge`."""
NEVER = {"right": {"different"}, "wrong": {"equal"}, "judge": {"equal", "different"}}
DECIDED = {"right": "equal", "wrong": "different"}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair['gold']}~{pair['answer']}")
def test_no_verdict_is_wrong(pair: dict[str, str]) -> None:
    assert match_answers(pair["answer"], pair["gold"], pair["question"]).status not in NEVER[pair["expected"]]


def test_there_are_many_pairs_of_each_kind_and_none_twice() -> None:
    counts = Counter(pair["expected"] for pair in PAIRS)
    assert counts["right"] >= 130
    assert counts["wrong"] >= 150
    assert counts["judge"] >= 20
    assert len({tuple(pair.values())[1:] for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize(("expected", "most"), [("right", 0.06), ("wrong", 0.45)])
def test_few_clear_pairs_need_a_judge(expected: str, most: float) -> None:
    pairs = [pair for pair in PAIRS if pair["expected"] == expected]
    found = [match_answers(pair["answer"], pair["gold"], pair["question"]).status for pair in pairs]
    assert found.count("unclear") <= most * len(pairs)
