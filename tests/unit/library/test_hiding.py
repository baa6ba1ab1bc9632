"""Which lessons are hidden: exactly as often as asked, independently, and the same every time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from agentlearn.errors import ConfigError
from agentlearn.library.capability import Experiences
from agentlearn.library.lessons import lessons
from agentlearn.library.shown import hidden_in_episode, masks, share_of, shown_in
from agentlearn.types.experience import library_of
from agentlearn.types.ids import ExperienceId

IDS = [ExperienceId(f"{number:032x}") for number in range(20)]
LIBRARY = library_of([f"Check the number {number}." for number in range(10)])


@given(
    count=st.integers(0, 8),
    sizes=st.integers(2, 8).flatmap(lambda g: st.tuples(st.just(g), st.integers(1, g - 1))),
    key=st.text(max_size=20),
)
def test_every_lesson_is_hidden_exactly_as_often_as_asked(count: int, sizes: tuple[int, int], key: str) -> None:
    rollouts, hidden = sizes
    found = masks(IDS[:count], rollouts=rollouts, hidden=hidden, key=key)
    assert len(found) == rollouts
    for lesson in IDS[:count]:
        assert sum(lesson in one for one in found) == hidden
    assert all(one == tuple(sorted(one)) for one in found)
    assert found == masks(IDS[:count][::-1], rollouts=rollouts, hidden=hidden, key=key)


def test_a_lesson_is_hidden_where_it_is_whatever_other_lessons_there_are() -> None:
    alone = masks(IDS[:1], rollouts=5, hidden=2, key="k")
    among = masks(IDS, rollouts=5, hidden=2, key="k")
    assert [IDS[0] in one for one in alone] == [IDS[0] in one for one in among]


def test_the_choice_is_the_same_in_every_process_and_version() -> None:
    found = masks(IDS[:4], rollouts=5, hidden=1, key="golden")
    assert [[IDS.index(one) for one in mask] for mask in found] == [[2], [0], [1], [], [3]]
    assert [IDS.index(one) for one in hidden_in_episode(IDS, share=0.2, episode="golden")] == [0, 3, 4, 13, 14, 15]


@pytest.mark.parametrize(("rollouts", "hidden"), [(5, 0), (5, 5), (1, 1), (2, -1)])
def test_what_measures_nothing_is_refused(rollouts: int, hidden: int) -> None:
    with pytest.raises(ConfigError, match="measures nothing"):
        masks(IDS, rollouts=rollouts, hidden=hidden, key="k")


def test_an_episode_hides_its_share_and_always_the_same_lessons() -> None:
    found = [hidden_in_episode(IDS, share=0.2, episode=f"e{number}") for number in range(1_000)]
    assert 3_800 <= sum(map(len, found)) <= 4_200
    assert found == [hidden_in_episode(IDS[::-1], share=0.2, episode=f"e{number}") for number in range(1_000)]


def test_a_share_is_a_fraction_or_a_number_and_nothing_else(subtests: pytest.Subtests) -> None:
    assert share_of("1/5") == share_of(0.2) == share_of("0.2") == 0.2
    for wrong in ["1/0", "most", "2/3", -0.1, float("nan"), float("inf"), True, ""]:
        with subtests.test(repr(wrong)), pytest.raises(ConfigError, match="share of episodes"):
            share_of(wrong)


def test_an_agent_is_not_shown_the_hidden_lessons_of_its_episode_and_its_messages_say_so() -> None:
    experiences = Experiences(LIBRARY, hide="1/2", episode="talk-1")
    assert 0 < len(experiences.masked) < len(LIBRARY)
    result = asyncio.run(Agent(TestModel(), capabilities=[experiences]).run("hello"))
    shown = shown_in(result)
    assert shown is not None
    assert shown.masked == experiences.masked
    assert {*shown.lessons} == {*LIBRARY.by_id} - {*shown.masked}
    for one in LIBRARY.experiences:
        assert (one.lesson in experiences.rendered.text) == (one.id not in shown.masked)
    assert Experiences(LIBRARY, hide="1/2", episode="talk-1").masked == experiences.masked
    assert lessons(LIBRARY, hide="1/2", episode="talk-1").shown.masked == experiences.masked
    with pytest.raises(ConfigError, match="there is no episode"):
        lessons(LIBRARY, hide="1/2")
    assert Experiences(LIBRARY, episode="e").masked == lessons(LIBRARY, episode="e").shown.masked == ()
    first = LIBRARY.experiences[0].id
    assert all(first in Experiences(LIBRARY, masked=[first], hide="1/5", episode=f"{n}").masked for n in range(20))
