"""Canaries: which episodes read one, what the rule decides from their feedback, and that a decision is made once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.library import LibraryStore
from agentlearn.library.history import History
from agentlearn.library.lessons import lessons
from agentlearn.library.shown import hidden_in_episode, in_canary
from agentlearn.live.canary import step_canary
from agentlearn.recorder import Recorder
from agentlearn.types.experience import Library, library_of
from agentlearn.types.ids import ExperienceId, LibraryVersion

OLD = library_of(["Ask for the order number first."], kind="add")
NEW = library_of(["Ask for the order number first.", "Be brief."], kind="add")
OTHER = library_of(["Answer in the language of the user."], kind="add")
BRIEF = NEW.experiences[1].id
CHAT: list[dict[str, Any]] = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "Here."}]
VERSION = LibraryVersion("f" * 32)


@pytest.fixture
def libraries(tmp_path: Path) -> LibraryStore:
    made = LibraryStore(tmp_path / "libraries")
    made.publish("desk", OLD)
    return made


def start(libraries: LibraryStore, library: Library = NEW, share: float = 0.5, margin: float = 0.02) -> History:
    history = libraries.history("desk")
    history.start_canary(library, share=share, margin=margin, who="ana")
    return history


def serve(folder: Path, episodes: range, reward: Callable[[bool, int], float | None], **options: Any) -> None:
    """An application that takes part. reward: of whether an episode read the canary, and its number."""
    with Recorder("desk", folder) as recorder:
        for number in episodes:
            episode = f"talk-{number}"
            advice = lessons("desk", store=folder, canary=True, episode=episode, **options).advice
            recorder.record_sync(CHAT, experiences=advice, episode=episode, model="m")
            if (given := reward(advice.version == NEW.version, number)) is not None:
                recorder.feedback_sync(episode=episode, reward=given)


# Which episodes read it


@given(episode=st.text(max_size=30), shares=st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)))
def test_an_episode_that_reads_a_canary_goes_on_when_the_share_grows(episode: str, shares: tuple[float, float]) -> None:
    small, large = sorted(shares)
    assert in_canary("desk", VERSION, episode, share=small) <= in_canary("desk", VERSION, episode, share=large)


def test_the_draw_has_its_share_and_does_not_depend_on_hidden_lessons_other_canaries_and_libraries() -> None:
    episodes = [f"talk-{number}" for number in range(4_000)]
    lesson = ExperienceId("a" * 32)

    def both(first: Callable[[str], bool], second: Callable[[str], bool]) -> float:
        """The share of episodes with the second answer, among those with the first one."""
        drawn = [one for one in episodes if first(one)]
        return sum(map(second, drawn)) / len(drawn)

    def drawn(episode: str, library: str = "desk", version: LibraryVersion = VERSION) -> bool:
        return in_canary(library, version, episode, share=0.25)

    def hidden(episode: str) -> bool:
        return bool(hidden_in_episode([lesson], share=0.25, episode=episode))

    assert sum(map(drawn, episodes)) / len(episodes) == pytest.approx(0.25, abs=0.025)
    assert both(hidden, drawn) == pytest.approx(0.25, abs=0.05)
    assert both(lambda one: drawn(one, "shop"), drawn) == pytest.approx(0.25, abs=0.05)
    assert both(lambda one: drawn(one, version=OLD.version), drawn) == pytest.approx(0.25, abs=0.05)


def test_the_draw_is_the_same_in_every_process_and_version() -> None:
    assert [n for n in range(40) if in_canary("desk", VERSION, f"golden-{n}", share=0.2)] == GOLDEN


GOLDEN = [3, 5, 7, 17, 21, 24, 27, 33, 37]


# What the rule decides


@pytest.mark.parametrize(
    ("better", "outcome", "kind", "words"),
    [(True, "promote", "promote", "promoted: it is better"), (False, "roll_back", "end_canary", "it is worse")],
)
def test_feedback_decides_and_the_figures_are_in_the_history(
    libraries: LibraryStore, tmp_path: Path, better: bool, outcome: str, kind: str, words: str
) -> None:
    history = start(libraries)
    assert step_canary(libraries, tmp_path, "desk").outcome == "collect", "there is no store yet"
    serve(tmp_path, range(60), lambda canary, _: float(canary == better))
    decision = step_canary(libraries.directory, tmp_path, "desk", who="ben")
    assert decision.outcome == outcome, decision
    assert words in decision.sentence
    assert decision.episodes + decision.episodes_baseline == 60
    change = history.changes[-1]
    assert change == decision.change
    assert (change.kind, change.who, change.note, change.figures) == (
        kind, "ben", decision.sentence, decision.figures,
    )  # fmt: skip
    assert history.resolve() == (NEW.version if better else OLD.version)
    again = step_canary(libraries, tmp_path, "desk")
    assert (again.outcome, again.change) == ("none", None)
    assert "desk has no canary; the last one" in again.sentence
