"""Personal data is found by its form, counted or replaced before anything is stored."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn import Recorder, read_store
from agentlearn.errors import ConfigError
from agentlearn.live.personal_data import PersonalData
from agentlearn.store import Selection
from agentlearn.store.database import Database
from tests.support.cases import cases


def redacted(text: str, **patterns: str) -> str:
    return PersonalData("redact", patterns).cleaning().text(text)


def test_forms_are_replaced_and_look_alikes_stay(subtests: pytest.Subtests) -> None:
    for text, wanted in cases(__file__, "forms"):
        with subtests.test(text):
            assert redacted(text) == wanted


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="@%"), max_size=30)
LETTERS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)
DIGITS = st.text("0123456789", min_size=9, max_size=14)


def card(digits: str) -> str:
    """The digits as a card number, with its check digit (Luhn)."""
    doubled = sum(sum(divmod(int(one) * 2, 10)) for one in digits[::-2]) + sum(map(int, digits[-2::-2]))
    return f"{digits}{-doubled % 10}"


def iban(digits: str) -> str:
    """The digits as a German account number, with its check digits (ISO 13616)."""
    return f"DE{98 - int(f'{digits}131400') % 97:02}{digits}"


VALUES = st.one_of(
    st.tuples(LETTERS, LETTERS, LETTERS.map(lambda one: f"{one}x")).map(lambda parts: "{}@{}.{}".format(*parts)),
    DIGITS.map(lambda digits: f"+4{digits}"),
    st.text("0123456789", min_size=14, max_size=14).map(lambda digits: card(f"4{digits}")),
    st.text("0123456789", min_size=18, max_size=18).map(iban),
    st.text("abcdefghijklmnop", min_size=20, max_size=30).map(lambda one: f"sk-{one}"),
)


@given(parts=st.lists(st.tuples(WORDS, VALUES), min_size=1, max_size=5), end=WORDS)
def test_a_redacted_text_holds_no_value(parts: list[tuple[str, str]], end: str) -> None:
    text = "".join(f"{words} {value} " for words, value in parts) + end
    cleaned = redacted(text)
    assert not [value for _, value in parts if value in cleaned]
    assert redacted(cleaned) == cleaned
    nested = PersonalData("redact").cleaning().json([{"arguments": json.dumps({"text": text})}])
    assert not [value for _, value in parts if value in json.loads(nested[0]["arguments"])["text"]]


def test_a_value_has_one_number_in_a_record_whatever_its_spelling() -> None:
    cleaning = PersonalData("redact").cleaning()
    assert cleaning.text("a@b.org, c@d.org, A@B.ORG") == "[email 1], [email 2], [email 1]"
    assert cleaning.text("+49 30 1234567 and +49301234567; a@b.org") == "[phone 1] and [phone 1]; [email 1]"
    assert cleaning.numbers == {"email": 2, "phone": 1}


CHAT = cases(__file__, "chat")


def recorded(store: Path, **how: Any) -> tuple[str, list[tuple[str, str]]]:
    """All that a store says after a record with feedback, and the counts of both."""
    with Recorder("support", store, **how) as recorder:
        identity = recorder.record_sync(CHAT, user="u7", episode="talk")
        recorder.feedback_sync(identity, reward=(0, "say ana@example.org"), demonstration="Call +49 30 1234567.")
    with read_store(store) as reader:
        (row,) = reader.selected(Selection(phase="live"))
        (whole,) = reader.whole([row.id])
        said = f"{whole} {reader.feedback(row.id)} {reader.task(row.task)}"
    database = Database(store, create=False)
    try:
        with database.cursor() as cursor:
            counts = cursor.execute("SELECT l.personal, f.personal FROM live l, feedback f").fetchall()
    finally:
        database.close()
    return said, counts


def test_redact_replaces_it_everywhere_and_tag_counts_it(tmp_path: Path) -> None:
    said, counts = recorded(tmp_path / "redact", personal_data="redact", personal_patterns={"order": r"ORD-\d+"})
    assert not [one for one in ("ana@", "bob@", "ORD-77", "1234567") if one in said]
    assert "Done, [email 1]." in said
    assert counts == [('{"email":2,"order":1}', '{"email":1,"phone":1}')]
    said, counts = recorded(tmp_path / "tag", personal_data="tag")
    assert "Done, ana@example.org." in said
    assert counts == [('{"email":2}', '{"email":1,"phone":1}')]
    said, counts = recorded(tmp_path / "off")
    assert ("ana@example.org" in said, counts) == (True, [(None, None)])


@pytest.mark.parametrize(
    ("mode", "patterns", "words"),
    [
        ("on", {}, "personal_data is 'on'; pass 'off', 'tag' or 'redact'"),
        ("off", {"order": "x"}, "has no effect with personal_data='off'"),
        ("tag", {"order": "("}, r"the pattern '\(' for 'order' is no regular expression"),
        ("tag", {"order": "x*"}, r"the pattern 'x\*' cannot have the name 'order'"),
        ("tag", {"email": "x"}, "cannot have the name 'email'"),
    ],
)
def test_what_makes_no_sense_is_refused(mode: Any, patterns: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        PersonalData(mode, patterns)
