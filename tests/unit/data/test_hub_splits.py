"""Which files are a split: cards as people write them, names as people choose them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.data.hub import splits_of
from tests.support.cases import cases


def told(names: list[str], card: str = "") -> dict[tuple[str, str], tuple[str, ...]]:
    return {(one.config, one.name): one.files for one in splits_of(names, card)}


def test_names_give_the_splits(subtests: pytest.Subtests) -> None:
    for names, splits in cases(__file__, "names_give_the_splits"):
        with subtests.test(repr((names, splits))):
            assert sorted(name for _, name in told(names)) == sorted(splits)


FORMS = dict(cases(__file__, "forms"))


def test_every_form_of_a_card_gives_the_same_split(subtests: pytest.Subtests) -> None:
    for form in FORMS:
        with subtests.test(repr(form)):
            card = f"---\nconfigs:\n- {{config_name: all, {FORMS[form]}}}\n---\n"
            assert told(["rows/a.jsonl", "rows/b.jsonl", "other/c.jsonl"], card) == {
                ("all", "train"): ("rows/a.jsonl", "rows/b.jsonl")
            }


def test_a_star_stays_in_its_folder_and_two_stars_do_not() -> None:
    names = ["a/x.csv", "a/b/y.csv", "z.csv"]
    card = "---\nconfigs: [{{config_name: c, data_files: '{}'}}]\n---\n"
    assert told(names, card.format("a/*.csv")) == {("c", "train"): ("a/x.csv",)}
    assert told(names, card.format("**/*.csv"))["c", "train"] == ("a/b/y.csv", "a/x.csv", "z.csv")


@pytest.mark.parametrize("card", cases(__file__, "a_card_that_says_nothing_of_files_leaves_their_names"))
def test_a_card_that_says_nothing_of_files_leaves_their_names(card: str) -> None:
    assert told(["train.csv"], card) == {("default", "train"): ("train.csv",)}


@given(st.text(), st.lists(st.text(min_size=1)))
def test_any_card_and_any_names_give_only_files_of_the_repository(text: str, names: list[str]) -> None:
    for card in (text, f"---\n{text}\n---\n", f"---\nconfigs: [{{data_files: '{text}'}}]\n---\n"):
        for split in splits_of(names, card):
            assert set(split.files) <= set(names)
            assert len(set(split.files)) == len(split.files) > 0


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "**/" * 60 + "b", "[z-a]*", "[", "a" * 5000])
def test_a_hostile_pattern_fits_nothing_and_costs_little(pattern: str) -> None:
    card = f"---\nconfigs: [{{config_name: c, data_files: '{pattern}'}}]\n---\n"
    assert told(["/".join(["a" * 200] * 40) + ".csv"], card) == {}
