"""What a ridge fit of the rollouts already made says about versions."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.learning.lessons.candidates import Candidates
from agentlearn.types.experience import EMPTY_LIBRARY, Library, library_of
from agentlearn.types.ids import TaskId

FIRST = library_of(["When adding, carry."])
SECOND = Library(
    parent=FIRST.version, experiences=(*FIRST.experiences, *library_of(["When dividing, check."]).experiences)
)
THIRD = Library(
    parent=SECOND.version, experiences=(*SECOND.experiences, *library_of(["When lost, guess."]).experiences)
)
VERSIONS = (EMPTY_LIBRARY, FIRST, SECOND, THIRD)


def seen(rates: dict[Library, float] | list[tuple[Library, float]], tasks: int = 60, seed: int = 0) -> Candidates:
    """Candidates after three rollouts per task. Each version met other tasks, some of which are harder."""
    rng, made = Random(seed), Candidates(EMPTY_LIBRARY)
    pairs = list(rates.items()) if isinstance(rates, dict) else rates
    for library, _ in pairs:
        made.add(library)
    for number in range(tasks):
        library, rate = pairs[number * len(pairs) // tasks]
        level = rate + (0.15 if number % 2 else -0.15)
        for g in range(3):
            reward = float(rng.random() < level)
            made.observe("epoch-1", TaskId(str(number)), f"f{number % 7}", g, library.version, reward)
    return made


def test_the_best_version_is_found_and_not_only_the_last() -> None:
    made = seen([(EMPTY_LIBRARY, 0.3), (FIRST, 0.5), (SECOND, 0.8), (THIRD, 0.2)], tasks=160)
    assert made.best() == SECOND
    assert made.finalists(3)[0] == SECOND
    assert EMPTY_LIBRARY not in made.finalists(3)
    assert made.to_continue(THIRD) == SECOND


def test_without_rollouts_the_latest_version_leads() -> None:
    made = Candidates(EMPTY_LIBRARY)
    for library in (FIRST, SECOND):
        made.add(library)
    assert made.best() == SECOND
    assert made.to_continue(FIRST) == FIRST
    assert [one.rollouts for one in made.standings()] == [0, 0, 0]


def test_only_versions_that_may_be_the_best_get_more_rollouts() -> None:
    made = seen([(EMPTY_LIBRARY, 0.2), (FIRST, 0.8), (SECOND, 0.8)], tasks=150)
    left = made.contenders((EMPTY_LIBRARY, FIRST, SECOND))
    assert EMPTY_LIBRARY not in left
    assert made.best() in left


def test_rollouts_of_other_versions_and_repeats_change_nothing() -> None:
    made = seen([(EMPTY_LIBRARY, 0.3), (FIRST, 0.7)])
    before = made.standings()
    made.observe("epoch-1", TaskId("9"), "f", 0, library_of(["When elsewhere, rest."]).version, 1.0)
    assert made.standings() == before


@given(st.lists(st.tuples(st.sampled_from(VERSIONS), st.integers(0, 8), st.floats(0, 1)), max_size=40), st.randoms())
def test_standings_do_not_depend_on_the_order_and_are_finite(
    shown: list[tuple[Library, int, float]], random: Random
) -> None:
    def candidates(order: list[tuple[int, tuple[Library, int, float]]]) -> Candidates:
        made = Candidates(EMPTY_LIBRARY)
        for library in VERSIONS:
            made.add(library)
        for g, (library, task, reward) in order:
            made.observe("epoch-1", TaskId(str(task)), "f", g, library.version, reward)
        return made

    numbered = list(enumerate(shown))
    first, second = candidates(numbered).standings(), candidates(random.sample(numbered, len(numbered))).standings()
    assert [(one.library, one.estimate, one.sd) for one in first] == [
        (one.library, one.estimate, one.sd) for one in second
    ]
    assert all(abs(one.estimate) <= 2 and 0 <= one.sd <= 2 for one in first)
    assert (first[0].estimate, first[0].sd) == (0.0, 0.0)
