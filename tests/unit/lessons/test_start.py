"""What persons wrote into a library is in every version that a run starts from, chooses from and publishes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentlearn.config import LearnSettings
from agentlearn.errors import LibraryError
from agentlearn.learning.lessons.candidates import Candidates
from agentlearn.learning.lessons.run_learning import start_library, start_words
from agentlearn.library import LibraryStore
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.history import History
from agentlearn.types.experience import EMPTY_LIBRARY, Library, library_of
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import Add, Modify, Operation, Proposal

CARRY = "When adding, carry."
ENDS = "When counting, check the ends of the range."
ZERO = "When dividing, look for zero."
WHOLE = "When rounding, first look for whole numbers."
AGO = datetime.now(UTC) - timedelta(days=1)


def learned(library: Library, *operations: Operation) -> Library:
    proposals = [
        Proposal(id=ProposalId(str(place)), stage="consolidate", ordinal=place, operation=one)
        for place, one in enumerate(operations)
    ]
    return next_version(proposals, library, CheckContext()).library


def lessons(library: Library) -> list[str]:
    return [one.lesson for one in library.experiences]


def settings(store: Path, **fields: Any) -> LearnSettings:
    return LearnSettings(domain="good", model="sim:novice", store=store, **fields)


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A library with one learned lesson and one that a person wrote after it."""
    history = LibraryStore(tmp_path / "libraries").history("good")
    history.publish(learned(EMPTY_LIBRARY, Add(lesson=CARRY)), kind="learn", at=AGO)
    history.add(ENDS, at=AGO)
    return history


def test_a_run_starts_from_the_library_of_its_name_and_says_so(tmp_path: Path, history: History) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    start = start_library(settings(tmp_path), libraries)
    assert start == history.load()
    version = f"good@{start.version[:8]}"
    words = start_words(settings(tmp_path), start)
    assert words == f"{version}: 2 lessons, 1 of them written by a person"
    assert start_library(settings(tmp_path, name="new"), libraries) == EMPTY_LIBRARY


def test_from_none_and_from_another_library_keep_what_persons_wrote(tmp_path: Path, history: History) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    libraries.publish("other", library_of([ZERO, ENDS.upper()], kind="add"))
    none = start_library(settings(tmp_path, library="none"), libraries)
    assert lessons(none) == [ENDS]
    assert start_words(settings(tmp_path, library="none"), none) == (
        "nothing but the 1 lesson of good that a person wrote"
    )
    other = start_library(settings(tmp_path, library="other"), libraries)
    assert lessons(other) == [ZERO, ENDS], "a lesson that says the same gives way to the person's"
    given = start_library(settings(tmp_path), libraries, Library.of([WHOLE]))
    assert lessons(given) == [WHOLE, ENDS]
    old = start_library(settings(tmp_path, library=f"good@{history.changes[0].version}"), libraries)
    assert lessons(old) == [CARRY, ENDS]


def test_lessons_that_wait_or_are_parked_outlive_a_fresh_start(tmp_path: Path, history: History) -> None:
    history.park(history.load().experiences[0].id, reason="It costs points.")
    start = start_library(settings(tmp_path, library="none"), LibraryStore(tmp_path / "libraries"))
    assert (lessons(start), [one.experience.lesson for one in start.withheld]) == ([ENDS], [CARRY])


def test_the_version_without_learned_lessons_is_a_candidate_in_place_of_the_empty_one(history: History) -> None:
    start = history.load()
    candidates = Candidates(start)
    assert lessons(candidates.bare) == [ENDS]
    assert all(ENDS in lessons(one) for one in candidates.libraries.values())


def test_what_a_person_changes_while_a_run_goes_on_is_part_of_what_it_publishes(history: History) -> None:
    start, since = history.load(), datetime.now(UTC)
    selected = learned(start, Add(lesson=ZERO))
    history.add(WHOLE)
    history.edit(start.experiences[0].id, "When adding, carry what is above nine.")
    published = history.publish_learned(selected, start=start, since=since, versions=(start,), run="r")
    assert sorted(lessons(published)) == sorted([ENDS, ZERO, WHOLE, "When adding, carry what is above nine."])
    assert (published.parent, history.load()) == (selected.version, published)
    assert history.diff().added, "the change names what it brought"


def test_where_a_run_and_a_person_changed_the_same_lesson_the_persons_words_stay(history: History) -> None:
    start, since = history.load(), datetime.now(UTC)
    first = start.experiences[0].id
    merged = learned(start, Modify(target=first, lesson="When adding columns, carry left."), Add(lesson=ZERO.upper()))
    history.edit(first, "When adding, carry what is above nine.")
    history.add(ZERO)
    published = history.publish_learned(merged, start=start, since=since)
    assert lessons(published) == ["When adding, carry what is above nine.", ENDS, ZERO], "nearly the same is left out"


def test_an_id_that_stands_for_two_lessons_is_refused(history: History) -> None:
    start, since = history.load(), datetime.now(UTC)
    history.add(WHOLE)
    forged = Library(parent=start.version, experiences=(start.experiences[0].model_copy(update={"lesson": ZERO}),))
    with pytest.raises(LibraryError, match="stands for two different lessons"):
        history.publish_learned(forged, start=start, since=since)


def test_what_was_written_before_the_run_and_removed_meanwhile_stays_removed(history: History) -> None:
    start, since = history.load(), datetime.now(UTC)
    history.remove(start.written[0].id)
    published = history.publish_learned(learned(start, Add(lesson=ZERO)), start=start, since=since)
    assert lessons(published) == [CARRY, ZERO]


def test_an_undisturbed_run_publishes_the_version_that_it_selected(history: History) -> None:
    start, since = history.load(), datetime.now(UTC)
    selected = learned(start, Add(lesson=ZERO))
    assert history.publish_learned(selected, start=start, since=since) == selected
    assert history.changes[-1].base == start.version


def test_a_version_approved_later_has_the_lessons_written_since_and_not_those_learned_since(history: History) -> None:
    start, since = history.load(), datetime.now(UTC)
    waiting = learned(start, Add(lesson=ZERO))
    history.publish(learned(start, Add(lesson="When stuck, draw.")), kind="learn")
    history.add(WHOLE)
    published = history.publish_learned(waiting, start=start, since=since, kind="approve")
    assert sorted(lessons(published)) == sorted([CARRY, ENDS, ZERO, WHOLE])
