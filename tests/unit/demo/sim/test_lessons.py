"""What lessons say, whoever wrote them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn_demo.sim.lessons import LessonReader, ShownLesson, experiences_in, stance, without_experiences
from agentlearn_demo.sim.skills import Trap
from tests.unit.demo.sim.toy import ENDPOINTS, ORDER, REDUCTION, SMALL_CASE, TRAPS, ToySkills

ADDRESSES = [
    ("When counting, include endpoints.", ENDPOINTS),
    ("Inclusive ranges need both endpoints.", ENDPOINTS),
    ("When counting integers, never leave out an included endpoint", ENDPOINTS),
    ("When counting, do not forget to include the endpoints.", ENDPOINTS),
    ("Don’t forget an endpoint of the count.", ENDPOINTS),
    ("Check whether the endpoints are included.", ENDPOINTS),
    ("Check whether the endpoints are not included.", ENDPOINTS),
    ("Endpoints are easily left out of the count; look at them twice.", ENDPOINTS),
    ("Endpoints should not be skipped when counting.", ENDPOINTS),
    ("Never count without the endpoints.", ENDPOINTS),
    ("It is a mistake to leave out endpoints that the count includes.", ENDPOINTS),
    ("Be careful not to forget the endpoints in the count.", ENDPOINTS),
    ("Make sure no endpoint is left out of the count.", ENDPOINTS),
    ("Before you answer, count both endpoints.", ENDPOINTS),
    ("Beware of endpoints that were left out of the count.", ENDPOINTS),
    ("Include not only the interior but the endpoints.", ENDPOINTS),
    ("Never assume that endpoints are excluded; include them.", ENDPOINTS),
    ("Always reduce fractions.", REDUCTION),
    ("When adding m and n, the fraction must first be reduced.", REDUCTION),
    ("Do not add numerator and denominator before reducing.", REDUCTION),
    ("Do not answer without checking a small case.", SMALL_CASE),
    ("Do not trust output until a small case has been checked.", SMALL_CASE),
    ("Use combinations instead of permutations.", ORDER),
    ("Don't treat different orders as different selections.", ORDER),
    ("When two arrangements are the same selection, count once.", ORDER),
    ("When items are alike, avoid counting the same arrangement twice.", ORDER),
    ("Don't waste time on double-counting the same selection in another order.", ORDER),
]

CONTRADICTS = [
    ("When counting, do not include the endpoints.", ENDPOINTS),
    ("When counting, never include boundary values.", ENDPOINTS),
    ("When counting, forget the endpoints.", ENDPOINTS),
    ("Ignore whether endpoints are included.", ENDPOINTS),
    ("Don't check if the endpoints are counted.", ENDPOINTS),
    ("Endpoints can be safely ignored in a count.", ENDPOINTS),
    ("Counting endpoints is unnecessary.", ENDPOINTS),
    ("Count without the endpoints.", ENDPOINTS),
    ("Include neither endpoint.", ENDPOINTS),
    ("Leave the endpoints out of the count.", ENDPOINTS),
    ("Skip the endpoints when counting.", ENDPOINTS),
    ("Exclude the endpoints from the count.", ENDPOINTS),
    ("When you count do not include the endpoints.", ENDPOINTS),
    ("When endpoints could be counted, do not bother.", ENDPOINTS),
    ("Never reduce the fraction.", REDUCTION),
    ("When adding m and n, the fraction should not be reduced.", REDUCTION),
    ("When adding m and n, the fraction need not be reduced.", REDUCTION),
    ("Reducing a fraction is a waste of time.", REDUCTION),
    ("There is no need to reduce fractions.", REDUCTION),
    ("Report m + n without reducing the fraction.", REDUCTION),
    ("Avoid checking small cases.", SMALL_CASE),
    ("Skip small-case checks, they cost time.", SMALL_CASE),
    ("Testing small cases is not needed.", SMALL_CASE),
    ("When a formula is derived, trust it; checking small cases wastes time.", SMALL_CASE),
    ("When a formula is derived, don't waste time on checking small cases.", SMALL_CASE),
    ("Use permutations instead of combinations.", ORDER),
]


@pytest.mark.parametrize(("lesson", "trap"), ADDRESSES)
def test_a_lesson_that_asks_for_the_careful_way_addresses_the_trap(lesson: str, trap: Trap) -> None:
    assert stance(lesson, trap) == "addresses"


@pytest.mark.parametrize(("lesson", "trap"), CONTRADICTS)
def test_a_lesson_that_asks_to_leave_the_careful_way_contradicts(lesson: str, trap: Trap) -> None:
    assert stance(lesson, trap) == "contradicts"


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("frame", ["When it matters, {}.", "Whenever in doubt: {}.", "When it matters, first {}"])
def test_every_declared_advice_addresses_its_trap_and_its_inversion_contradicts(trap: Trap, frame: str) -> None:
    for advice in trap.advice:
        assert stance(frame.format(advice), trap) == "addresses"
        assert stance(frame.format(f"there is no need to {advice}"), trap) == "contradicts"


def test_what_the_careful_way_removes_is_to_be_removed() -> None:
    repeats = Trap(
        name="distinct_ignored",
        careless=("duplicates stay in the list", "repeats are let through"),
        careful=("duplicates are removed", "repeats are ruled out"),
        cues=(("duplicat", "repeat"), ("list", "case")),
        advice=("remove duplicates from the list", "rule out every case that repeats another"),
        situations=("things look alike",),
    )
    assert stance("When things look alike, drop duplicates from the list.", repeats) == "addresses"
    assert stance("When things look alike, no case may repeat.", repeats) == "addresses"
    assert stance("When things look alike, keep duplicates in the list.", repeats) == "contradicts"
    assert stance("When things look alike, never discard a case that repeats.", repeats) == "contradicts"


def test_a_lesson_on_a_topic_speaks_of_that_topic_s_families_only() -> None:
    narrow = "When counting multiples of seven, include both endpoints of the range."
    read = LessonReader(ToySkills()).read(narrow)
    assert read.on(ENDPOINTS.name, "multiples") == "addresses"
    assert read.on(ENDPOINTS.name, "committees") == "silent"


def test_only_the_block_holds_lessons() -> None:
    text = (
        "[G9] When outside, never mind.\n<experiences>\nAdvice from earlier work:\n[G1] When in, include.\n"
        "- [G2] When two, check.\nno label here\n</experiences>\n[G8] When after, nothing."
    )
    assert experiences_in(text) == (ShownLesson("G1", "When in, include."), ShownLesson("G2", "When two, check."))
    assert "When in" not in without_experiences(text)
    assert "When outside" in without_experiences(text)


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert {stance(text, trap) for trap in TRAPS} <= {"addresses", "contradicts", "silent"}
