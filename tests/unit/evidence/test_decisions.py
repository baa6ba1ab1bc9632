"""What follows from evidence: persons' lessons stay, the others are parked with a reason, and eviction is by value."""

from agentlearn.learning.evidence import LessonBlock, judge, to_evict, to_park
from agentlearn.types.experience import Library, library_of

MADE = library_of(["Check the units of every amount.", "Try small cases first."], kind="add")
OWN = library_of(["Answer in one word."], kind="person")
LIBRARY = Library(experiences=(*MADE.experiences, *OWN.experiences))
FIRST, SECOND, PERSONS = LIBRARY.by_id


def blocks(lesson: str, effect: float, model: str = "m") -> list[LessonBlock]:
    return [LessonBlock(lesson, model, effect, 4, 1, at) for at in range(80)]  # pyright: ignore[reportArgumentType]


def test_harmful_lessons_are_parked_with_their_evidence() -> None:
    plan = to_park(judge([*blocks(FIRST, -0.5), *blocks(SECOND, 0.5)]), LIBRARY)
    assert list(plan.reasons) == [FIRST]
    assert plan.reasons[FIRST].startswith("harmful: -50.0 points [")
    assert "320 rollouts with it and 80 without it" in plan.reasons[FIRST]
    assert plan.reported == ()


def test_a_lesson_that_a_person_wrote_is_reported_and_not_parked() -> None:
    plan = to_park(judge(blocks(PERSONS, -0.5)), LIBRARY)
    assert plan.park == ()
    assert [one.experience.id for one in plan.reported] == [PERSONS]


def test_a_lesson_that_is_proven_with_another_model_is_only_reported() -> None:
    evidence = judge([*blocks(FIRST, -0.5, "a"), *blocks(FIRST, 0.5, "b")])
    assert [one.experience.id for one in to_park(evidence, LIBRARY).reported] == [FIRST]
    assert list(to_park(evidence, LIBRARY, model="a").reasons) == [FIRST]
    assert to_park(evidence, LIBRARY, model="b").reasons == {}


def test_evidence_on_lessons_that_are_gone_changes_nothing() -> None:
    assert to_park(judge(blocks("gone", -0.5)), LIBRARY).reasons == {}


def test_a_full_library_gives_up_what_is_worth_least_and_never_what_is_proven_or_not_measured() -> None:
    weak = judge([*blocks(FIRST, 0.01), *blocks(SECOND, -0.01), *blocks(PERSONS, -0.01)])
    assert [one.experience.id for one in to_evict(weak, LIBRARY, max_lessons=2)] == [SECOND]
    assert [one.experience.id for one in to_evict(weak, LIBRARY, max_lessons=0)] == [SECOND, FIRST]
    assert to_evict(weak, LIBRARY, max_lessons=3) == ()
    assert [one.experience.id for one in to_evict(weak, LIBRARY, max_tokens=LIBRARY.tokens - 1)] == [SECOND]
    assert "least value per token" in to_evict(weak, LIBRARY, max_lessons=2)[0].reason
    proven = judge([*blocks(FIRST, 0.5)])
    assert to_evict(proven, LIBRARY, max_lessons=0) == ()
