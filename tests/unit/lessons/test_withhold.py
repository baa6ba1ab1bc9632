"""Withholding lessons makes a version that keeps them and does not show them."""

import pytest

from agentlearn.errors import LibraryError
from agentlearn.types.experience import library_of, withhold
from agentlearn.types.ids import ExperienceId

LIBRARY = library_of(["Check the units.", "Try small cases.", "Read the question twice."])
FIRST, SECOND, THIRD = LIBRARY.by_id


def test_a_parked_lesson_stays_in_the_library_and_is_not_shown() -> None:
    parked = withhold(LIBRARY, {SECOND: "it lowers the reward"})
    assert parked.parent == LIBRARY.version
    assert list(parked.by_id) == [FIRST, THIRD]
    (one,) = parked.withheld
    assert (one.experience, one.status, one.reason) == (LIBRARY.by_id[SECOND], "parked", "it lowers the reward")
    assert "Try small cases" not in str(parked.render())
    again = withhold(parked, {FIRST: "also"}, status="pending")
    assert [one.experience.id for one in again.withheld] == [SECOND, FIRST]
    assert [one.status for one in again.withheld] == ["parked", "pending"]


def test_nothing_to_withhold_makes_no_version() -> None:
    assert withhold(LIBRARY, {}) is LIBRARY


def test_a_lesson_that_is_not_shown_cannot_be_withheld() -> None:
    with pytest.raises(LibraryError, match="library show"):
        withhold(LIBRARY, {ExperienceId("ff"): "gone"})
    with pytest.raises(LibraryError):
        withhold(withhold(LIBRARY, {FIRST: "a"}), {FIRST: "b"})
