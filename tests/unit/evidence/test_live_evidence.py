"""Evidence from live traffic: lessons hidden by episode, judged by the feedback that users give."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentlearn.learning.evidence import LibraryEvidence
from agentlearn.library import LibraryStore
from agentlearn.library.lessons import lessons
from agentlearn.live.recorder import Recorder
from agentlearn.store import read_store
from agentlearn.types.experience import library_of, withhold

LIBRARY = library_of(["Ask for the order number first.", "Never promise a refund.", "Be brief."], kind="add")
BAD, GOOD, LATER = LIBRARY.by_id
CHAT: list[dict[str, Any]] = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "Here."}]


def serve(recorder: Recorder, folder: Path, episodes: range) -> None:
    """Episodes that go well exactly when the bad lesson is hidden, in an application that reads the library by name."""
    for number in episodes:
        advice = lessons("desk", store=folder, hide="1/2", episode=f"talk-{number}").advice
        episode = f"talk-{number}"
        recorder.record_sync(CHAT, experiences=advice, episode=episode, model="m")
        if number % 10:
            recorder.feedback_sync(episode=episode, reward=float(BAD in advice.shown.masked))


def test_feedback_on_episodes_shows_which_lesson_does_harm(tmp_path: Path) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    libraries.publish("desk", withhold(LIBRARY, {LATER: "not yet"}))
    with Recorder("desk", tmp_path) as recorder:
        serve(recorder, tmp_path, range(80))
    with read_store(tmp_path) as reader:
        young = LibraryEvidence.of(reader, libraries, "desk")
        found = LibraryEvidence.of(reader, libraries, "desk", now=datetime.now(UTC) + timedelta(days=8))
    assert {one.label for one in young.evidence} == {"unknown"}
    assert max(one.waiting for one in young.evidence) > 60, "the first silent user is waited for"
    assert {one.lesson: one.label for one in found.evidence} == {BAD: "harmful", GOOD: "unknown"}
    (bad,) = (one for one in found.evidence if one.lesson == BAD)
    assert bad.points == -100
    assert bad.shown + bad.hidden <= 72
    assert bad.undecided_shown + bad.undecided_hidden >= 6
