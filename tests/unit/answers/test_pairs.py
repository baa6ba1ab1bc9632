"""Pairs of answer and expected answer: no wrong one is accepted, no right one is refused.

In mathematics `undecided` is right where conventions differ, and never where they do not. Answers in words may be two
names of one thing; those go to a judge.
"""

import asyncio
from collections import Counter
from functools import cache

import pytest

from agentlearn.answers.algebra import NumericAlgebra
from agentlearn.answers.matching import match_answers
from agentlearn.answers.verifier import compare_texts
from agentlearn.answers.workers import open_workers
from agentlearn.domain.custom import find_reward
from agentlearn.domain.custom.reward import ComparisonReward
from agentlearn_math.verify import judge, judge_exactly
from tests.unit.answers.tables import rows
from tests.unit.domain.rollouts import own_task, rollout

NEVER = {"right": {"different"}, "wrong": {"equal"}, "judge": {"equal", "different"}, "not_right": {"equal"}}


@cache
def judged(table: str) -> tuple[tuple[str, str, str, str, str], ...]:
    """Rows of a table of mathematics: what is expected, expected answer, answer, status and reason by real workers."""

    async def judge_all() -> list[tuple[str, str, str, str, str]]:
        async with open_workers(limit_s=60.0, quick_s=60.0) as workers:
            verdicts = [(kind, gold, answer, await judge(answer, gold, workers)) for kind, answer, gold in pairs]
        return [(kind, gold, answer, one.status, one.reason) for kind, gold, answer, one in verdicts]

    turned = table == "forms_of_mathematics"  # it has the expected answer first
    pairs = [(kind, *((b, a) if turned else (a, b))) for kind, _, a, b in rows(table)]
    return tuple(asyncio.run(judge_all()))


def test_every_pair_of_mathematics_is_judged_right(subtests: pytest.Subtests) -> None:
    for expected, gold, answer, status, reason in judged("pairs_of_mathematics"):
        with subtests.test(answer=answer, gold=gold):
            assert status == expected, reason
            assert reason or status != "undecided"


def test_the_worker_finds_what_its_algebra_finds_in_this_process() -> None:
    algebra = NumericAlgebra()
    statuses = {"equal": "correct", "different": "incorrect", "unclear": "undecided"}
    for _, gold, answer, status, reason in judged("pairs_of_mathematics")[::5]:
        if judge_exactly(answer, gold) is None:
            finding = compare_texts(answer, gold, algebra)
            assert (statuses[finding.status], finding.reason) == (status, reason), (answer, gold)


def test_of_answers_in_fifteen_forms_no_wrong_one_is_accepted_and_few_right_ones_are_undecided() -> None:
    found = judged("forms_of_mathematics")
    assert [row for row in found if row[0] == "wrong" and row[3] == "correct"] == []
    for kind, status, most in (("right", "incorrect", 6), ("right", "undecided", 6), ("wrong", "undecided", 30)):
        rest = [row for row in found if row[0] == kind and row[3] == status]
        assert len(rest) <= most, rest


def test_no_verdict_about_words_is_wrong_and_few_clear_pairs_need_a_judge(subtests: pytest.Subtests) -> None:
    found: Counter[tuple[str, str]] = Counter()
    for expected, question, gold, answer in rows("pairs_in_words"):
        with subtests.test(question=question, gold=gold, answer=answer):
            status = match_answers(answer, gold, question).status
            found[expected, status] += 1
            assert status not in NEVER[expected]
    for expected, most in (("right", 0.06), ("wrong", 0.3)):
        every = sum(number for (kind, _), number in found.items() if kind == expected)
        assert found[expected, "unclear"] <= most * every, found


def test_every_pair_of_own_tasks_is_rewarded_right(subtests: pytest.Subtests) -> None:
    for name, answer, gold, right in rows("pairs_of_own_tasks"):
        with subtests.test(reward=name, answer=answer, gold=gold):
            reward, task = find_reward(name), own_task(gold)
            assert isinstance(reward, ComparisonReward)
            verdict = reward.judge(task, rollout(task, answer))
            assert (verdict.status, verdict.reward) == (("correct", 1.0) if right else ("incorrect", 0.0))
            assert (verdict.reason == "") == (reward.key(answer) is not None)
