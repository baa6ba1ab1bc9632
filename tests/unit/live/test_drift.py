"""Drift: labels that got worse since the last look, told once, and a notification about them."""

import json
from pathlib import Path

from agentlearn.cli.review import notifying
from agentlearn.learning.evidence import EvidenceLabel, LessonBlock, LibraryEvidence, judge
from agentlearn.library import LibraryStore
from agentlearn.live.waiting import LABELS_FILE, label_changes
from agentlearn.types.experience import library_of
from agentlearn.types.ids import ExperienceId

LIBRARY = library_of(["Ask for the order number first.", "Be brief."], kind="add")
FIRST, SECOND = LIBRARY.by_id
GONE = ExperienceId("f" * 32)


def blocks(lesson: ExperienceId, effects: list[float]) -> list[LessonBlock]:
    return [LessonBlock(lesson, "m", effect, 4, 1, at, task=f"t{at}") for at, effect in enumerate(effects)]


def found(**effects: float) -> LibraryEvidence:
    """Evidence on a library of which each lesson has this effect. Lessons: first, second, gone."""
    ids = {"first": FIRST, "second": SECOND, "gone": GONE}
    made = [one for name, effect in effects.items() for one in blocks(ids[name], [effect, effect / 2] * 60)]
    return LibraryEvidence("desk", LIBRARY, judge(made))


def seen(
    libraries: LibraryStore, of: LibraryEvidence, **options: bool
) -> list[tuple[str, EvidenceLabel, EvidenceLabel]]:
    return [(one.lesson, one.before, one.after) for one in label_changes(libraries, of, **options)]


def test_each_label_that_got_worse_is_told_once(tmp_path: Path) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    libraries.publish("desk", LIBRARY)
    assert seen(libraries, found(first=0.5, second=0.0, gone=0.5)) == [], "that it is proven now is no alarm"
    worse = found(first=0.0, second=-0.5, gone=-0.5)
    told = [(FIRST, "proven", "unknown"), (SECOND, "unknown", "harmful")]
    assert seen(libraries, worse, remember=False) == sorted(told)
    assert seen(libraries, worse) == sorted(told)
    assert seen(libraries, worse) == []
    (lost,) = label_changes(libraries, found(first=0.0, second=0.0))
    assert lost.sentence.startswith(f"lesson {SECOND[:12]} of desk was harmful and is unknown: ")
    assert libraries.versions("desk") == (LIBRARY.version,), "the file of labels is no version"


def test_damaged_labels_of_the_last_look_count_as_none(tmp_path: Path) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    libraries.publish("desk", LIBRARY)
    for damaged in (b"", b"[]", b"\xff", b'{"x": 3}'):
        (libraries.directory / "desk" / LABELS_FILE).write_bytes(damaged)
        assert seen(libraries, found(first=-0.5)) == [(FIRST, "unknown", "harmful")]


def test_a_lesson_whose_effect_is_gone_loses_its_label_for_good() -> None:
    once, after = [1.0, -0.4] * 200, [0.62, -0.58] * 600
    assert judge(blocks(FIRST, once))[0].label == "proven"
    assert judge(blocks(FIRST, once + after[:20]))[0].label == "proven"
    (lost,) = judge(blocks(FIRST, once + after))
    assert (lost.label, lost.points > 0) == ("unknown", True)
    assert lost.withheld == "it had an effect, and the latest comparisons show less than half of it"
    assert judge(blocks(FIRST, once * 4))[0].label == "proven", "an effect that stays keeps its label"


def test_an_alarm_runs_the_notification_also_when_nothing_waits(tmp_path: Path) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    libraries.publish("desk", LIBRARY)
    with notifying(f"tee {tmp_path}/told", tmp_path) as alarms:
        alarms.extend(label_changes(libraries, found(first=-0.5)))
    told = json.loads((tmp_path / "told").read_text())
    assert (told["waiting"], told["new"]) == (0, [])
    assert [(one["lesson"], one["after"]) for one in told["alarms"]] == [(FIRST, "harmful")]
