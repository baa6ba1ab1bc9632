"""The page of a training run shows hostile texts and does not obey them."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.learning.report import Delta, HeldOutScore
from agentlearn.pages.figure import shown
from agentlearn.pages.train_page import TrainPage
from agentlearn.train.report import TrainedWeights, TrainReport, UpdateLine
from agentlearn.train.settings import TrainSettings
from agentlearn.types.ids import LibraryVersion, RunId
from tests.support.hostile import HOSTILE, POISON, unseen
from tests.support.markup import Read


def report_of(text: str, **changes: Any) -> TrainReport:
    score = HeldOutScore(mean=0.5, ci=(0.4, 0.6), n=3, k=1)
    line = UpdateLine(
        update=1, reward=0.5, mixed=0.5, loss=0.1, entropy=0.2, clipped=0.1, mismatch=0.1, tokens=9, seconds=1.0
    )
    fields: dict[str, Any] = {
        "run": RunId("01jc0000000000000000000001"),
        "domain": text,
        "model": text,
        "sampler": text,
        "loss": text,
        "seed": 0,
        "library": LibraryVersion("none"),
        "tasks": {text: 1},
        "before": score,
        "after": score,
        "delta": Delta(mean=0.1, ci=None, p=None, n=3, sentence=text),
        "known_families": None,
        "unseen_families": None,
        "curve": (),
        "updates": (line,),
        "weights": TrainedWeights(sha256_before=text, sha256_after=text, path=text, adapter=False),
        "groups": {},
        "rollouts": {"failed": 0},
        "turns": {"clean": 1, "forked": 0},
        "skipped": 0,
        "stale": 0,
        "stages": {},
        "seconds": {},
        "wall_s": 1.0,
        "notes": (text,),
    }
    return TrainReport(**fields | changes)


def page_of(report: TrainReport) -> Read:
    return Read(TrainPage(report, TrainSettings(domain="math", model="m", store=Path("s"))).html())


def test_hostile_texts_are_shown_and_not_obeyed(subtests: pytest.Subtests) -> None:
    for text in [POISON, *HOSTILE]:
        with subtests.test(repr(text)):
            read = page_of(report_of(text))
            read.assert_ours()
            assert shown(text).strip() in read.text
            assert unseen(read.text) <= {"'\\t'"}


def test_a_run_that_distils_shows_the_teacher_and_whether_its_weights_are_published() -> None:
    plain = report_of("plain")
    line = plain.updates[0].model_copy(update={"teacher": 0.25, "answer_tokens": 40.0})
    weights = plain.weights.model_copy(update={"published": False, "withheld": "held-out tasks got worse"})
    text = page_of(report_of("plain", loss="distill", updates=(line,), weights=weights)).text
    assert "Lessons distilled into a local model" in text
    assert "Divergence from the teacher that reads the lessons" in text
    assert "Share of tokens whose ratio was clipped" not in text
    assert "(a checkpoint; not published)" in text
    other = page_of(plain).text
    assert "teacher that reads" not in other
    assert "not published" not in other
