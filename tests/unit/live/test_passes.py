"""Passes over live traffic: what is new is learned from once, within a budget, and no failure loses anything."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import LearnSettings, LibraryStore, Recorder, library_of
from agentlearn.cli.app import run as command_line
from agentlearn.errors import ConfigError, LibraryError, StoreLocked
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.evidence import EvidenceLabel, LessonEvidence, LibraryEvidence
from agentlearn.learning.report import LearnReport
from agentlearn.live.forgetting import forget
from agentlearn.live.inbox import Inbox
from agentlearn.live.passes import LiveLearning, LivePass, keep_learning
from agentlearn.store.store_files import StoreLock
from tests.support.desk import LESSON, reflecting, reply


class Reflector:
    """A scripted model that writes the lesson of the desk, and fails while it is told to."""

    def __init__(self) -> None:
        self.calls, self.fails_after, self.garbles = 0, 1_000_000, False
        self.model = FunctionModel(self.answer, model_name="desk")

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.calls += 1
        if self.calls > self.fails_after:
            raise ConnectionError("the service is down")
        if self.garbles:
            return ModelResponse(parts=[TextPart("{")])
        return reflecting(messages, info) or reply(messages, info)


def record(store: Path, *numbers: int, right: bool = False) -> None:
    """Record a wrong and a right rollout for each ticket. right: also its right answer, written by a person."""
    with Recorder("support", store) as recorder:
        for number in numbers:
            for team, reward in (("it", 0), ("billing", 1)):
                asked = f"Ticket {number}: who handles invoice {number * 37}?"
                chat = [{"role": "user", "content": asked}, {"role": "assistant", "content": team}]
                rollout = recorder.record_sync(chat, model="desk", user="ana")
                shown = "billing" if right and not reward else ""
                recorder.feedback_sync(rollout, reward=(reward, f"{team} has it"), demonstration=shown)


def passes(store: Path, model: Reflector, number: int = 1, **options: Any) -> list[LivePass]:
    made = list[LivePass]()
    given: dict[str, Any] = {"store": store, "every_s": 0, "passes": number, "told": made.append, **options}
    assert asyncio.run(keep_learning("support", model=model.model, **given)) is made[-1]
    return made


def test_each_group_teaches_once_and_nothing_new_means_no_call(tmp_path: Path) -> None:
    model = Reflector()
    (nothing,) = passes(tmp_path, model)
    assert (nothing.outcome, model.calls) == ("nothing_new", 0)
    assert "nothing with feedback is recorded under 'support'" in nothing.words
    record(tmp_path, 1, 2)
    learned, again = passes(tmp_path, model, 2)
    assert [(one.number, one.outcome, one.groups) for one in (learned, again)] == [
        (2, "learned", 2),
        (3, "nothing_new", 0),
    ]
    assert learned.waiting == again.waiting == 1, "it is in the inbox"
    assert LibraryStore(tmp_path / "libraries").names() == ()
    calls = model.calls
    record(tmp_path, 3)
    (third,) = passes(tmp_path, model)
    assert (third.outcome, third.groups) == ("learned", 1)
    assert model.calls - calls < calls, "the old groups are not asked about again"


def test_what_nobody_measured_waits_although_its_author_is_trusted(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    (waits,) = passes(tmp_path, Reflector(), trust="traffic", evaluate=True)
    assert (waits.outcome, waits.measured, waits.waiting) == ("learned", False, 1)
    record(tmp_path, 3, 4)
    (told,) = passes(tmp_path, Reflector(), trust="traffic", publish_unmeasured=True)
    assert (told.outcome, "published as" in told.words) == ("learned", True)


def test_a_lesson_on_trial_is_accepted_only_when_it_is_promoted(tmp_path: Path) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    libraries.publish("support", library_of(["Ask for the number."]))
    tried = library_of(["Ask for the number.", LESSON], kind="add")
    history = libraries.history("support")
    history.start_canary(tried, share=0.5, margin=0.02, who="ana")
    assert LESSON not in [one.lesson for one in libraries.shown_lessons().values()], "else a run could publish it"
    record(tmp_path, 1, 2)
    (done,) = passes(tmp_path, Reflector(), trust="traffic", publish_unmeasured=True)
    assert (done.outcome, done.waiting, done.canary.partition(":")[0]) == ("learned", 1, "collect")
    assert history.canary is not None, "nothing was published, which would have ended it"
    history.end_canary(promote=True)
    assert LESSON in [one.lesson for one in libraries.shown_lessons().values()]


def test_a_pass_has_learned_though_what_waits_cannot_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> int:
        raise LibraryError("library 'other' is damaged")

    monkeypatch.setattr(Inbox, "count", damaged)
    record(tmp_path, 1)
    (done,) = passes(tmp_path, Reflector())
    assert (done.outcome, done.waiting, bool(done.marks)) == ("learned", 0, True)


@pytest.mark.slow
def test_a_label_that_got_worse_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    libraries.publish("support", library_of([LESSON]))
    record(tmp_path, 1)
    library = libraries.load("support")
    (lesson,) = library.experiences

    def alarms(label: EvidenceLabel) -> list[str]:
        known = LessonEvidence.model_construct(None, lesson=lesson.id, model="desk", label=label, withheld="")
        found = LibraryEvidence("support", library, (known,))
        monkeypatch.setattr(LibraryEvidence, "of", lambda *_given: found)  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(LessonEvidence, "words", lambda *_given: label)  # pyright: ignore[reportUnknownLambdaType]
        made = [one.alarms for one in passes(tmp_path, Reflector(), 2)]
        assert made[1] == ()
        return [one.sentence for one in made[0]]

    said = f"lesson {lesson.id[:12]} of support was"
    assert [alarms("proven"), alarms("harmful"), alarms("unknown")] == [
        [],
        [f"{said} proven and is harmful"],
        [f"{said} harmful and is unknown"],
    ]


@pytest.mark.slow
def test_recorded_tasks_with_a_right_answer_are_held_out_and_measure_the_lessons(tmp_path: Path) -> None:
    record(tmp_path, *range(12), right=True)
    (done,) = passes(tmp_path, Reflector(), trust="traffic", evaluate=True, eval_rollouts=2)
    assert (done.outcome, done.measured) == ("learned", True)
    assert done.groups == 12
    shown = LibraryStore(tmp_path / "libraries").load("support").experiences
    assert [one.lesson for one in shown] == [LESSON], "measured and better, so it is published"


@pytest.mark.slow
def test_a_pass_that_reaches_its_budget_goes_on_in_the_next_one(tmp_path: Path) -> None:
    record(tmp_path, 1, 2, 3)
    model = Reflector()
    whole = Reflector()
    record(tmp_path / "whole", 1, 2, 3)
    passes(tmp_path / "whole", whole)
    over = list[LivePass]()
    while not over or over[-1].outcome == "over_budget":
        over += passes(tmp_path, model, max_tokens=1_000, concurrency=1)
        assert len(over) < 20
    assert over[-1].outcome == "learned"
    assert over[-1].resumed
    assert len(over) > 1
    assert len({one.run for one in over}) == 1
    assert model.calls == whole.calls, "no answered call is made again"
    record(tmp_path, 4)
    (spent,) = passes(tmp_path, model, budget_tokens=100)
    assert (spent.outcome, spent.run) == ("over_budget", None)
    assert "of the day's 100 tokens are used; no model was called" in spent.words


@pytest.mark.slow
def test_a_group_whose_comparison_failed_is_tried_again_twice(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    model = Reflector()
    model.fails_after = 2
    options: dict[str, Any] = {"max_attempts": 1, "max_outage_minutes": 0.0, "concurrency": 1}
    (first,) = passes(tmp_path, model, **options)
    assert (first.outcome, first.marks, len(first.left)) == ("learned", (), 4)
    model.fails_after = model.calls + 3
    (second,) = passes(tmp_path, model, **options)
    model.fails_after = 1_000_000
    (third,) = passes(tmp_path, model, **options)
    assert {*second.marks, *third.marks} == {*first.left}
    assert passes(tmp_path, model, **options)[0].outcome == "nothing_new"


def test_a_pass_that_could_use_no_reply_says_so_and_the_next_one_asks_again(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    model = Reflector()
    model.garbles = True
    (unread,) = passes(tmp_path, model)
    assert (unread.outcome, unread.marks, len(unread.left)) == ("learned", (), 4)
    assert unread.words == (
        "no reply of the model that writes lessons could be used; the next pass asks about 2 groups again"
    )
    model.garbles = False
    (read,) = passes(tmp_path, model)
    assert {*read.marks} == {*unread.left}
    assert read.words.startswith("learned from 2 groups of 4 rollouts")


@pytest.mark.slow
def test_a_service_that_is_down_is_said_and_the_next_pass_goes_on(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    model = Reflector()
    model.fails_after = 0
    options: dict[str, Any] = {"max_attempts": 1, "max_outage_minutes": 0.0, "concurrency": 1}
    (failed,) = passes(tmp_path, model, **options)
    assert failed.outcome == "failed"
    assert failed.code
    model.fails_after = 1_000_000
    (done,) = passes(tmp_path, model, **options)
    assert (done.outcome, done.resumed, done.run) == ("learned", True, failed.run)
    assert passes(tmp_path, model, **options)[0].outcome == "nothing_new"


@pytest.mark.slow
def test_a_run_that_fails_three_times_is_left_and_its_groups_teach_anew(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    model = Reflector()
    model.fails_after = 0
    options: dict[str, Any] = {"max_attempts": 1, "max_outage_minutes": 0.0}
    made = passes(tmp_path, model, 4, **options)
    assert [one.outcome for one in made] == ["failed"] * 4
    assert len({one.run for one in made[:3]}) == 1
    assert "the next pass begins anew" in made[2].words
    assert made[3].run != made[2].run
    model.fails_after = 1_000_000
    assert passes(tmp_path, model, **options)[0].outcome == "learned"


@pytest.mark.slow
def test_a_locked_store_and_a_disk_that_refuses_are_failed_passes(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    model = Reflector()
    lock = StoreLock(tmp_path)
    (locked,) = passes(tmp_path, model)
    lock.release()
    assert (locked.outcome, locked.code) == ("failed", "store_locked")
    in_the_way = tmp_path / "live/support/under_way.json"
    in_the_way.mkdir()
    (refused,) = passes(tmp_path, model)
    assert (refused.outcome, model.calls) == ("failed", 0), "what cannot be resumed is not begun"
    in_the_way.rmdir()
    assert passes(tmp_path, model)[0].outcome == "learned"


def test_a_crash_after_the_run_and_before_the_note_learns_nothing_twice(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    model, folder = Reflector(), tmp_path / "live/support"
    saved = dict[str, bytes]()

    class Keeping(Callbacks):
        def done(self, report: LearnReport) -> None:
            saved["under_way"] = (folder / "under_way.json").read_bytes()

    passes(tmp_path, model, callbacks=Keeping())
    calls = model.calls
    (folder / "passes.jsonl").write_bytes(b'{"number": 1, "at"')  # cut off
    (folder / "under_way.json").write_bytes(saved["under_way"])
    (after,) = passes(tmp_path, model)
    assert (after.outcome, model.calls) == ("nothing_new", calls)
    noted = [json.loads(line) for line in (folder / "passes.jsonl").read_bytes().splitlines()[1:]]
    assert [(one["number"], one["outcome"]) for one in noted] == [(1, "learned"), (2, "nothing_new")]
    assert noted[0]["tokens"] > 0


def test_an_erasure_takes_the_groups_of_a_run_that_was_broken_off(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    model = Reflector()
    model.fails_after = 0
    (failed,) = passes(tmp_path, model, max_attempts=1, max_outage_minutes=0.0)
    assert failed.outcome == "failed"
    forget(tmp_path, user="ana")
    assert not (tmp_path / "live/support/under_way.json").exists()
    assert passes(tmp_path, model)[0].outcome == "nothing_new"


def test_the_second_process_is_told_who_learns_already(tmp_path: Path) -> None:
    learning = LiveLearning(LearnSettings(domain="support", model="sim:novice", store=tmp_path))
    with (
        learning.held(),
        pytest.raises(StoreLocked, match=rf"process {os.getpid()} on .* learns from the live traffic"),
    ):
        passes(tmp_path, Reflector())
    assert passes(tmp_path, Reflector())[0].outcome == "nothing_new"


@pytest.mark.slow
def test_an_approved_lesson_is_shown_and_rejected_ones_do_not_come_back(tmp_path: Path) -> None:
    record(tmp_path, 1, 2)
    passes(tmp_path, Reflector())
    inbox = Inbox(tmp_path / "libraries", tmp_path, who="ana")
    inbox.reject(inbox.items()[0], "it names no team")
    record(tmp_path, 3, 4)
    (again,) = passes(tmp_path, Reflector())
    assert again.outcome == "learned"
    assert LibraryStore(tmp_path / "libraries").names() == ()


def test_a_notice_of_what_waits_does_not_end_the_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, 1)
    monkeypatch.setattr("agentlearn.live.inbox.PATIENCE_S", 0.0)
    monkeypatch.setattr("agentlearn.store.trajectory_store.HANDOVER_S", 0.0)
    lock = StoreLock(tmp_path)
    options = ["--once", "--model", "sim:novice", "--notify", "false", "--store", str(tmp_path)]
    assert command_line(["live", "support", *options]) == 1
    lock.release()
    said = capsys.readouterr().err
    assert "warning: --notify cannot see what waits: the store" in said
    assert "agentlearn: the pass failed: the store" in said


def test_bad_options_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    for options, sentence in {
        "": "no model is named that writes the lessons; name one: agentlearn live support --model openai:gpt-5-mini",
        "--model sim:novice --every soon": "--every is 'soon'; give a number with s, m, h or d",
        "--model sim:novice --every 0s": "--every is '0s'; give",
        "--model sim:novice --budget-usd 0": "--budget-usd is 0; give a number above 0, or leave it out",
        "--model http://127.0.0.1:9/v1#mine --budget-usd 2": "the price of 'http://127.0.0.1:9/v1#mine' is not known",
    }.items():
        with subtests.test(options):
            assert command_line(["live", "support", "--once", *options.split(), "--store", str(tmp_path)]) == 2
            assert sentence in capsys.readouterr().err
    with pytest.raises(ConfigError, match="there is no setting 'epoch'; did you mean 'epochs'"):
        passes(tmp_path, Reflector(), epoch=2)
    status = command_line(["live", "support", "--once", "--json", "--model", "sim:novice", "--store", str(tmp_path)])
    assert (status, json.loads(capsys.readouterr().out)["outcome"]) == (0, "nothing_new")
