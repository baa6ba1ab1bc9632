"""Answers in many scripts: words without blanks, digits, magnitudes, marks that nobody sees, tags without an end."""

import asyncio
import re
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.answers.reply import final_answer_in
from agentlearn.answers.units import MAGNITUDES, magnitude_at
from agentlearn.domain.custom import find_reward
from agentlearn.domain.custom.reward import ComparisonReward
from agentlearn.text import ATTACHED, seen, word_places
from agentlearn_math.verify import judge
from tests.support.cases import cases
from tests.unit.domain.rollouts import own_task, rollout

JUDGED: list[tuple[str, str, str, str]] = [tuple(row) for row in cases(__file__, "judged")]
"""Reward, answer, expected answer and verdict."""
UNSEEN = st.text(
    st.sampled_from("\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202c\u2060\ufe0f\ufeff")
)
ZEROS = [code for code in range(sys.maxunicode) if unicodedata.decimal(chr(code), None) == 0]
"""The digit zero of each script."""


def verdict(reward: str, answer: str | None, gold: str) -> str:
    if reward == "math":
        return asyncio.run(judge(answer, gold)).status
    rule: Any = find_reward(reward)
    assert isinstance(rule, ComparisonReward)
    task = own_task(gold)
    return rule.judge(task, rollout(task, answer)).status


def test_every_answer_is_judged_as_a_reader_of_its_script_would(subtests: pytest.Subtests) -> None:
    for reward, answer, gold, status in JUDGED:
        with subtests.test(reward=reward, answer=answer, gold=gold):
            assert verdict(reward, answer, gold) == status


def test_a_tag_that_is_never_closed_holds_the_answer(subtests: pytest.Subtests) -> None:
    for reward, reply, gold, status in cases(__file__, "replies"):
        with subtests.test(reply=reply):
            assert verdict(reward, final_answer_in(reply), gold) == status


@pytest.mark.parametrize("reply", ["It is\n<answer>4", "<answer>41</answer> No.\n<answer>4", "x " * 200 + "<answer>4"])
def test_what_a_reply_that_was_cut_off_began_is_no_answer(reply: str) -> None:
    assert final_answer_in(reply, whole=False) is None
    assert final_answer_in(f"{reply}2</answer>", whole=False) == "42"


@given(st.sampled_from([row for row in JUDGED if row[0] != "math"]), st.data())
def test_marks_that_nobody_sees_change_no_verdict(row: tuple[str, str, str, str], data: st.DataObject) -> None:
    reward, answer, gold, status = row
    if "\U0001f3f4" not in answer:  # the tags behind a black flag are seen: they make it another flag
        assert verdict(reward, "".join(data.draw(UNSEEN) + one for one in answer) + data.draw(UNSEEN), gold) == status


@given(st.sampled_from(ZEROS), st.sampled_from(["number", "exact", "contains", "math"]), st.integers(0, 10**6))
def test_digits_of_every_script_are_those_of_ascii(zero: int, reward: str, value: int) -> None:
    written = "".join(chr(zero + int(digit)) for digit in str(value))
    assert verdict(reward, written, str(value)) == "correct"
    assert verdict(reward, written, str(value + 1)) == "incorrect"
    assert verdict("number", f"-{written}", str(-value)) == "correct"


def test_scripts_without_blanks_are_those_that_unicode_names() -> None:
    names = re.compile(
        "CJK UNIFIED|HIRAGANA|KATAKANA|BOPOMOFO|HANGUL SYLLABLE|THAI|LAO|KHMER LETTER|MYANMAR|TIBETAN|JAVANESE|BALINESE"
        "|YI SYLLABLE|NEW TAI LUE|TAI THAM"
    )
    blanks = re.compile("LATIN|GREEK|CYRILLIC|ARMENIAN|HEBREW|ARABIC|DEVANAGARI|BENGALI|TAMIL|TELUGU|GEORGIAN|ETHIOPIC")
    for letter in map(chr, range(sys.maxunicode)):
        if unicodedata.category(letter)[0] == "L" and (name := unicodedata.name(letter, "")):
            assert not names.match(name) or re.match(ATTACHED, letter), name
            assert not blanks.match(name) or not re.match(ATTACHED, letter), name


@given(st.text(), st.text(min_size=1), st.text())
def test_words_between_blanks_are_always_found(before: str, words: str, behind: str) -> None:
    bare = seen(words)
    assert (
        not bare
        or unicodedata.category(bare[0])[0] == "M"
        or len(before) + 1 in word_places(f"{before} {words} {behind}", words)
    )


def test_every_magnitude_is_read_behind_a_number(subtests: pytest.Subtests) -> None:
    for word, size in MAGNITUDES.items():
        with subtests.test(word):
            assert magnitude_at(f"3 {word}", 1) == (size, 2 + len(word))
            assert magnitude_at(f"3 {word}, it seems", 1) == (size, 2 + len(word))
