"""Laws of answer matching: two values are never called equal, and two renderings of one value never different."""

from collections.abc import Callable
from datetime import date, time
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentlearn.answers.matching import answer_match_key, match_answers
from agentlearn.answers.numbers import leading_number
from agentlearn.answers.units import MeasureUnit

ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
SMALL = [*ONES.split(), "eighteen", "nineteen"]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"]
NAMES = st.lists(
    st.sampled_from(["Ada Byron", "Grace Hopper", "Alan Turing", "Emmy Noether", "Mary Cartwright"]),
    min_size=2,
    unique=True,
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(lambda text: text.strip())
NUMBERS = st.fractions(min_value=-(10**9), max_value=10**9, max_denominator=1).map(int) | st.integers(0, 5_000)
DATES = st.dates(date(1900, 1, 1), date(2100, 12, 31)).filter(lambda one: one.month < 12)
COUNTS = st.integers(0, 30) | st.integers(0, 2_000) | st.integers(0, 999_999_999)
DAYS = st.dates(date(1800, 1, 1), date(2100, 12, 31))
TIMES = st.times().map(lambda one: one.replace(second=0, microsecond=0))
VERSIONS = st.lists(st.integers(0, 30), min_size=2, max_size=4)
DURATIONS = st.integers(1, 3_000)
FORMS = st.integers(0, 20)


def status(answer: str, gold: str, question: str = "") -> str:
    return match_answers(answer, gold, question).status


def words(number: int) -> str:
    if number < 20:
        return SMALL[number]
    if number < 100:
        return TENS[number // 10] + (f"-{SMALL[number % 10]}" if number % 10 else "")
    for size, name in ((10**6, "million"), (1_000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = number % size
            joint = " and " if rest < 100 else " "
            return f"{words(number // size)} {name}" + (joint + words(rest) if rest else "")
    raise AssertionError


def counts(number: int) -> list[str]:
    grouped = f"{number:,}"
    return [
        *(str(number), grouped, words(number), f"{words(number).capitalize()} students", f"**{grouped}** students."),
        *(
            f"There are {grouped} students.",
            f"{number} students",
            f"It has {number} students",
            f"{number} (as of 2024)",
        ),
    ]


def days(day: date) -> list[str]:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10 if day.day not in {11, 12, 13} else 0, "th")
    return [
        *(day.isoformat(), f"{day.day} {day:%B %Y}", f"{day:%B} {day.day}, {day.year}", f"{day:%d.%m.%Y}"),
        *(f"{day:%A}, {day.day} {day:%b} {day.year}", f"on {day:%B} {day.day}{suffix}, {day.year}"),
        f"The deadline is {day.day} {day:%B %Y}.",
    ]


def times(at: time) -> list[str]:
    half = "am" if at.hour < 12 else "pm"
    hour = at.hour % 12 or 12
    return [
        *(
            f"{at:%H:%M}",
            f"{hour}:{at:%M} {half}",
            f"{hour}:{at:%M}{half.upper()}",
            f"at {at:%H:%M}",
            f"{at:%H:%M} Uhr",
        ),
        *(f"{hour}.{at:%M} {half[0]}.m.", f"{at:%H:%M:00}"),
    ]


def durations(minutes: int) -> list[str]:
    hours = f"{Fraction(minutes, 60)} hours" if minutes % 3 else f"{minutes / 60:.2f} hours"
    return [
        *(f"{minutes} minutes", f"{minutes} min", f"{60 * minutes} seconds", hours, f"{minutes:,} minutes"),
        f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} mins",
    ]


def versions(parts: list[int]) -> list[str]:
    text = ".".join(map(str, parts))
    return [text, f"v{text}", f"version {text}", f"Version {text}.", f"Tool {text}", f"`{text}`"]


KINDS = [
    ("How many students are there?", COUNTS, counts),
    ("When is the deadline?", DAYS, days),
    ("What time does it close?", TIMES, times),
    ("How long is the film?", DURATIONS, durations),
    ("Which version of Tool is required?", VERSIONS, versions),
]


@pytest.mark.parametrize(
    ("question", "values", "forms"), KINDS, ids=["counts", "days", "times", "durations", "versions"]
)
@given(data=st.data(), one=FORMS, other=FORMS)
def test_renderings_of_one_value_are_equal_and_of_two_are_not(
    question: str,
    values: st.SearchStrategy[object],
    forms: Callable[[object], list[str]],
    data: st.DataObject,
    one: int,
    other: int,
) -> None:
    value, wrong = data.draw(values), data.draw(values)
    rendered, again, others = forms(value), forms(value), forms(wrong)
    match = match_answers(rendered[one % len(rendered)], again[other % len(again)], question)
    assert match.status == "equal"
    assume(value != wrong)
    assert match_answers(rendered[one % len(rendered)], others[other % len(others)], question).status != "equal"


@given(COUNTS)
def test_words_and_digits_name_one_number(number: int) -> None:
    read = leading_number(words(number))
    assert read is not None
    assert (read.value, read.rest) == (number, "")
    assert answer_match_key(words(number)) == answer_match_key(str(number)) == str(number)


@given(st.permutations(["Rome", "Paris", "Oslo", "Bern"]), st.sampled_from(["; ", ", ", "\n", "\n- "]))
def test_the_order_counts_when_the_question_asks_for_it(cities: list[str], mark: str) -> None:
    gold, answer = "Rome; Paris; Oslo; Bern", mark.join(cities)
    in_order = answer.split(mark) == gold.split("; ")
    asked = match_answers(answer, gold, "Name the cities in the order of the route.").status
    assert asked == ("equal" if in_order else "different")
    assert match_answers(answer, gold, "Which cities are members?").status == "equal"
    maybe = match_answers(answer, gold, "Through which cities does it go from Rome to Bern?").status
    assert maybe == ("equal" if in_order else "unclear")


@pytest.mark.parametrize("text", ["5 kg", "90 min", "$5", "16 A", "3 gw", "2 m^3", "5 MWh", "12%", "3 acres", "7 amps"])
def test_the_key_of_a_quantity_is_its_own_key(text: str) -> None:
    key = answer_match_key(text)
    assert key is not None
    assert answer_match_key(key) == key
    assert key.isdecimal() or "." in key or MeasureUnit.named(key.split(" ", 1)[1]) is not None


LOWER, UPPER = ["at least {}", "{} or more", "minimum of {}", "≥ {}", "no fewer than {}"], ["at most {}", "up to {}"]


@given(COUNTS, COUNTS, st.sampled_from(LOWER), st.sampled_from(LOWER), st.sampled_from(UPPER))
def test_limits_are_equal_only_with_the_same_value_and_direction(
    one: int, other: int, form: str, again: str, opposite: str
) -> None:
    question = "How many votes are needed?"
    assert match_answers(form.format(one), again.format(one), question).status == "equal"
    assert match_answers(form.format(one), opposite.format(one), question).status == "different"
    assert match_answers(form.format(one), str(one), question).status == "unclear"
    assert one == other or match_answers(form.format(one), again.format(other), question).status == "different"


@given(st.integers(1, 12), st.integers(1, 59), st.sampled_from(["past", "to"]), st.sampled_from(["am", "pm"]))
def test_spoken_times_are_the_times_that_they_name(hour: int, minutes: int, side: str, half: str) -> None:
    at = ((hour % 12 + (12 if half == "pm" else 0)) * 60 + (minutes if side == "past" else -minutes)) % 1440
    clock = f"{at // 60:02}:{at % 60:02}"
    spoken = f"{words(minutes)} {side} {words(hour)} {half}"
    assert match_answers(spoken, clock, "What time does it start?").status == "equal"
    late = f"{at // 60:02}:{(at + 1) % 60:02}"
    assert match_answers(spoken, late, "What time does it start?").status == "different"


@given(st.integers(1, 9), st.sampled_from([(3, "third"), (5, "fifth"), (8, "eighth"), (10, "tenth")]))
def test_fractions_in_words_are_the_fractions_in_digits(top: int, part: tuple[int, str]) -> None:
    size, name = part
    written = f"{words(top)} {name}{'s' if top > 1 else ''}"
    question = "What fraction of members voted?"
    assert match_answers(written, f"{top}/{size}", question).status == "equal"
    assert match_answers(written, f"{top + 1}/{size}", question).status == "different"
    assert match_answers(f"{written} of an hour", f"{top}/{size} hours", "How long is it?").status == "equal"


@given(st.integers(-200, 200), st.integers(-200, 200))
def test_temperatures_are_converted_exactly(celsius: int, other: int) -> None:
    fahrenheit = f"{(celsius * 18 + 320) / 10:.1f}"
    question = "What is the temperature?"
    assert match_answers(f"{fahrenheit} °F", f"{celsius} °C", question).status == "equal"
    assert abs(celsius - other) <= 1 or match_answers(f"{fahrenheit} °F", f"{other} °C", question).status == "different"


@given(st.permutations(["Ctrl", "Shift", "Alt"]), st.sampled_from(" "), st.characters(categories=["Lu"]))
def test_the_order_of_modifiers_does_not_matter_and_the_key_does(held: list[str], space: str, key: str) -> None:
    chord = f"{space}+{space}".join([*held, key])
    assert match_answers(chord, f"Ctrl+Shift+Alt+{key}", "Which keys open it?").status == "equal"
    assert match_answers(chord, f"Ctrl+Shift+Alt+{key}1", "Which keys open it?").status == "different"
    assert match_answers(chord, f"Ctrl+Shift+{key}", "Which keys open it?").status == "different"


@given(st.sampled_from(["not", "before", "until", "at least", "deprecated in", "up to"]), VERSIONS)
def test_a_version_with_a_qualifier_is_not_the_version(qualifier: str, parts: list[int]) -> None:
    version = ".".join(map(str, parts))
    assert match_answers(f"{qualifier} {version}", version, "Which version is required?").status != "equal"
    assert match_answers(version, f"{qualifier} {version}", "Which version is required?").status != "equal"


@given(st.permutations(["Rome", "Paris", "Oslo"]), st.sampled_from(["beat", "beats", "defeated"]))
def test_subject_and_object_are_not_exchanged(teams: list[str], verb: str) -> None:
    one, other, _ = teams
    question = f"Which team {verb} {one}?"
    assert match_answers(f"{other} {verb} {one}", other, question).status == "equal"
    assert match_answers(f"{one} {verb} {other}", other, question).status != "equal"


def test_an_ambiguous_date_or_price_gives_unclear() -> None:
    match = match_answers("3 April 2024", "03/04/2024")
    assert match.status == "unclear"
    assert match.reason == "can be read in several ways"
    assert match_answers("3 April 2023", "03/04/2024").status == "different"
    assert match_answers("04/03/2024", "03/04/2024").status == "unclear"
    assert match_answers("1240 €", "1.240 €").status == "unclear"
    assert match_answers("03/04/2024", "2024-04-03").status == "unclear"


@given(TEXTS)
def test_every_text_equals_itself_and_its_key_is_stable(text: str) -> None:
    assert status(text, text) == "equal"
    key = answer_match_key(text)
    assert key is None or answer_match_key(key) == key
    assert answer_match_key(f"  {text} ") == key


@given(TEXTS | NUMBERS.map(str) | DATES.map(str), TEXTS | NUMBERS.map(str) | DATES.map(str))
def test_equality_is_symmetric(one: str, other: str) -> None:
    assert (status(one, other) == "equal") == (status(other, one) == "equal")


def number_forms(number: int) -> list[str]:
    grouped = f"{number:,}"
    separated = [grouped.replace(",", mark) for mark in (",", " ", "\u202f", "'")]
    return [str(number), *separated, f"{number}.0", f"{grouped}.00", f"{number}.", f"**{number}**"]


@given(NUMBERS, st.integers(0, 8), st.integers(0, 8))
def test_the_notation_of_a_number_does_not_matter(number: int, one: int, other: int) -> None:
    forms = number_forms(number)
    assert status(forms[one], forms[other]) == "equal"
    assert answer_match_key(forms[one]) == answer_match_key(forms[other]) == str(number)


@given(NUMBERS, NUMBERS, st.integers(0, 8), st.integers(0, 8), st.sampled_from(["", " km", " €", "%", " million"]))
def test_different_numbers_are_never_equal(a: int, b: int, one: int, other: int, unit: str) -> None:
    assume(a != b)
    assert status(number_forms(a)[one] + unit, number_forms(b)[other] + unit) != "equal"


@given(st.decimals(-9999, 9999, places=4, allow_nan=False), st.integers(0, 5), st.sampled_from([".", ","]))
def test_trailing_zeros_do_not_matter(number: object, zeros: int, point: str) -> None:
    text = f"{number:f}"
    written = (text + "0" * zeros).replace(".", point)
    assert status(written, text) == "equal"
    other = f"{Fraction(text) + Fraction(1, 10_000)}"
    # A whole number may be the rounded value.
    assert status(written, other) == ("different" if "/" in other else "unclear")


@given(DATES, DATES, st.integers(0, 5), st.integers(0, 5))
def test_dates_are_equal_exactly_when_they_are_the_same_day(a: date, b: date, one: int, other: int) -> None:
    def form(of: date, at: int) -> str:
        month = MONTHS[of.month - 1]
        return [
            of.isoformat(),
            f"{of.day} {month} {of.year}",
            f"{month} {of.day}, {of.year}",
            f"{of:%A}, {of.day} {month[:3]} {of.year}",
            f"{of.day:02}.{of.month:02}.{of.year}",
            f"{of.day}-{month[:3]}-{of.year}",
        ][at]

    assert status(form(a, one), form(a, other)) == "equal"
    assert answer_match_key(form(a, one)) == a.isoformat()
    assert a == b or status(form(a, one), form(b, other)) == "different"


@given(NAMES, st.randoms(use_true_random=False), st.sampled_from(["; ", ", ", "\n", "\n- "]))
def test_the_order_of_a_list_does_not_matter_and_its_items_do(names: list[str], random: object, mark: str) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    head, last = ", ".join(shuffled[:-1]), shuffled[-1]
    assert status(mark.join(shuffled), "; ".join(names)) == "equal"
    assert status(f"{head} and {last}", "; ".join(names)) == "equal"
    assert answer_match_key(f"{head} and {last}") == answer_match_key("; ".join(names))
    assert status(mark.join([*shuffled, "Kurt Hensel"]), "; ".join(names)) == "unclear"
    assert status(mark.join([*shuffled[:-1], "Kurt Hensel"]), "; ".join(names)) == "unclear"


CITED = (
    "According to the page, {}", "according to the site's page about it: {}.", "On the page, {}",
    "{}, according to the page",
    "As listed in the table, {}", "The page says that it is {}", "{} as stated on the website.", "From this page: {}",
)  # fmt: skip


@pytest.mark.parametrize(
    "gold", ["42", "3 May 2024", "Ada Byron", "Room 12", "yes", "tea, coffee", "--force", "1,240 EUR"]
)
def test_a_clause_that_names_where_it_was_read_changes_no_answer(gold: str) -> None:
    for form in CITED:
        assert match_answers(form.format(gold), gold).status == "equal", form
        assert match_answers(form.format("something else"), gold).status != "equal", form
