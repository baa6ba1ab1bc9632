"""The index of words ranks as plain BM25 does, in any language, and whatever the texts are."""

from collections import Counter
from math import log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.types.ranking import (
    K1,
    B,
    TermIndex,
    fused,
    search_words,
)
from tests.support.cases import cases

WORDS = st.sampled_from("bcdefghijklm")
TEXTS = st.lists(st.lists(WORDS, max_size=8).map(" ".join), max_size=400)


def plain_bm25(texts: list[str], query: str) -> dict[int, float]:
    """The formula as it is written in books, without any shortcut."""
    held = [Counter(search_words(text)) for text in texts]
    mean = sum(one.total() for one in held) / len(held) if held else 1
    scores: dict[int, float] = {}
    for word in set(search_words(query)):
        places = [place for place, one in enumerate(held) if word in one]
        if len(places) > max(10, len(texts) // 2):
            continue
        rarity = log(1 + (len(texts) - len(places) + 0.5) / (len(places) + 0.5))
        for place in places:
            count, length = held[place][word], held[place].total()
            part = rarity * count * (K1 + 1) / (count + K1 * (1 - B + B * length / mean))
            scores[place] = scores.get(place, 0) + part
    return scores


NAMES = [f"{number:04}" for number in range(1_000)]


def in_order(texts: list[str]) -> TermIndex:
    """An index of texts that are named in their order."""
    return TermIndex(texts, NAMES[: len(texts)])


@given(TEXTS, st.lists(WORDS, max_size=12).map(" ".join), st.integers(1, 20), st.randoms())
def test_equal_needs_get_equal_answers_in_whatever_order_lessons_and_words_stand(
    texts: list[str], query: str, depth: int, chance: Random
) -> None:
    order = list(range(len(texts)))
    chance.shuffle(order)
    asked = query.split()
    chance.shuffle(asked)
    other = TermIndex([texts[place] for place in order], [NAMES[place] for place in order])
    found = [(order[place], score) for place, score in other.ranked(" ".join(asked).upper(), depth)]
    assert found == in_order(texts).ranked(query, depth)


@given(TEXTS, st.lists(WORDS, max_size=12).map(" ".join), st.integers(1, 20))
def test_the_ranking_is_that_of_plain_bm25(texts: list[str], query: str, depth: int) -> None:
    expected = plain_bm25(texts, query)
    ranked = in_order(texts).ranked(query, depth)
    assert len(ranked) == min(depth, len(expected))
    assert [score for _, score in ranked] == pytest.approx(sorted(expected.values(), reverse=True)[:depth])
    assert all(score == pytest.approx(expected[place]) for place, score in ranked)
    assert ranked == sorted(ranked, key=lambda one: (-one[1], one[0]))


@pytest.mark.parametrize("small", [0, 256])
def test_leaving_texts_out_early_changes_nothing(monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    """Texts that cannot enter the ranking are left out early only where lists are long."""
    monkeypatch.setattr("agentlearn.types.ranking.SMALL", small)
    texts = [
        f"{'rare ' * (n % 97 == 0)}{'some ' * (n % 7 == 0)}{'often ' * (n % 3 == 0)}text n{n % 11}" for n in range(999)
    ]
    expected = plain_bm25(texts, "rare some often n3")
    best = sorted(expected, key=lambda place: (-round(expected[place], 9), place))[:8]
    assert [place for place, _ in in_order(texts).ranked("rare some often n3", 8)] == best


@pytest.mark.parametrize(("query", "found"), cases(__file__, "words_are_found_in_any_script_and_in_code"))
def test_words_are_found_in_any_script_and_in_code(query: str, found: str) -> None:
    texts = [
        "Carry the digit.",
        "检查结果的单位。",
        "تحقق من وحدات القياس قبل الإجابة.",
        "Set max_length before the loop.",
    ]
    texts.append("After strncpy(dst, src, n), end dst with a zero byte.")
    assert texts[in_order(texts).ranked(query, 1)[0][0]] == found


def test_other_endings_are_found_where_no_word_is_held(subtests: pytest.Subtests) -> None:
    table = cases(__file__, "other_endings_are_found_where_no_word_is_held")
    index, texts = in_order([text for _, text in table]), [text for _, text in table]
    for query, found in table:
        with subtests.test(query):
            assert texts[index.ranked(query, 1)[0][0]] == found
    assert index.ranked("counting", 8) != []
    (only,) = in_order(["The count of parts", "Counting is hard"]).ranked("counting", 8)
    assert only[0] == 1, "where a text holds a word, nothing else is guessed"


@pytest.mark.parametrize("query", ["", "   ", "!?…", "\x00\ud800", "the of and", "How many is it?", "12 or 7"])
def test_a_query_without_words_finds_nothing(query: str) -> None:
    texts = [f"the sum of parts and wholes number{n} 7" for n in range(40)]
    assert in_order(texts).ranked(query, 8) == []


@given(st.lists(st.lists(st.integers(0, 30), unique=True), max_size=3))
def test_the_joined_ranking_holds_each_text_once(rankings: list[list[int]]) -> None:
    joined = fused(rankings, NAMES)
    assert {place for place, _ in joined} == {place for one in rankings for place in one}
    assert len(joined) == len({place for place, _ in joined})
    if len(rankings) == 1:
        assert [place for place, _ in joined] == rankings[0]


def test_a_text_that_is_high_in_both_rankings_comes_first() -> None:
    assert next(place for place, _ in fused([[5, 1, 2], [3, 1, 9]], NAMES)) == 1
