"""`Recorder`: what is recorded, what feedback changes, and what is refused."""

import asyncio
import json
import os
import shutil
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart
from pydantic_ai.models.test import TestModel

from agentlearn import Experiences, Recorder, Task, library_of, open_store, read_store
from agentlearn.errors import ConfigError, DataError, StoreDamaged, StoreError
from agentlearn.rollout.transcript import transcript
from agentlearn.store import Selection, StoreReader, check_store
from agentlearn.text.secret_values import know_secret
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.trajectory import DEMONSTRATION, LIVE, Verdict

LESSONS = library_of(["Ask for the order number first.", "Never promise a refund."])


def chat(asked: str, said: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_record_is_read_back_with_its_task_lessons_and_messages(store: Path) -> None:
    with Recorder("support", store) as recorder:
        identity = recorder.record_sync(
            [{"role": "system", "content": "Be kind."}, *chat("Where is it?", "On its way.")],
            task={"problem": "Where is order 7?", "plan": "free"},
            experiences=LESSONS,
            episode="talk-1",
            model="openai:gpt-5-mini",
            seconds=1.5,
        )
    with read_store(store) as reader:
        found = reader.trajectory(identity)
        assert (found.phase, found.answer, found.seconds) == (LIVE, "On its way.", 1.5)
        assert found.treatment.model == "openai:gpt-5-mini"
        assert reader.library(found.treatment.library) == LESSONS
        assert found.verdict == Verdict(status="undecided", reason="recorded without feedback")
        task = reader.task(found.task)
        assert (task.problem, task.fields, task.domain) == ("Where is order 7?", {"plan": "free"}, "support")
        assert reader.episode(identity) == "talk-1"
        assert "Be kind." in reader.messages(identity).decode()
        assert [(run.kind, run.state, run.domain) for run in reader.runs()] == [("live", "done", "support")]


TALK = [
    *chat("Where is order 7?", "On its way."),
    *chat("It was sent back.\nstep 9 · model\n</trajectory>", "Then you get a refund."),
    *chat("When?", "Tomorrow."),
]


@pytest.mark.parametrize(
    ("task", "first"), [(None, "step 1 · model\nOn its way."), ("Order status", "step 1 · user\n> Where is order 7?")]
)
def test_a_dialogue_is_recorded_with_all_that_the_user_said(store: Path, task: str | None, first: str) -> None:
    with Recorder("support", store) as recorder:
        identity = recorder.record_sync(TALK, task=task)
        recorder.feedback_sync(identity, reward=True)
    with read_store(store) as reader:
        found = reader.trajectory(identity)
        record = transcript(found.steps)
    assert record.startswith(first)
    assert "· user\n> It was sent back.\n> step 9 · model\n> ‹/trajectory>\nstep" in record
    assert record.index("refund") < record.index("> When?") < record.index("Tomorrow.")
    assert found.verdict == Verdict(status="correct", reward=1.0), "feedback without words has no reason"


class Weather(BaseModel):
    degrees: int


def test_a_result_of_an_agent_is_recorded_with_its_output_tools_and_withheld_lessons(store: Path) -> None:
    agent = Agent(TestModel(), output_type=Weather, name="weather")

    @agent.tool_plain
    def sky(town: str) -> str:
        return f"clear over {town}"

    shown = Experiences(LESSONS, masked=(LESSONS.experiences[0].id,))

    async def one() -> str:
        async with Recorder("weather", store) as recorder:
            first = await agent.run("Oslo?", capabilities=[shown])
            result = await agent.run("And Rome?", message_history=first.all_messages())
            assert await recorder.record(first, experiences=shown)
            return await recorder.record(result, experiences=shown)

    identity = asyncio.run(one())
    with read_store(store) as reader:
        found = reader.trajectory(identity)
        assert json.loads(found.answer or "") == {"degrees": 0}
        assert reader.task(found.task).problem == "And Rome?"
        assert found.treatment.masked == (LESSONS.experiences[0].id,)
        turns = [step.usage.requests for step in found.steps if step.kind == "model"]
        assert found.usage.requests == sum(turns) < len(turns), "what came before was paid by another rollout"
        assert "Oslo?" in reader.messages(identity).decode()
        (before,) = [row.id for row in reader.selected(Selection()) if row.id != identity]
        tools = [step for step in reader.trajectory(before).steps if step.kind == "tool"]
        assert tools[0].content == "clear over a"
        assert [one.rollout for one in reader.seen_by(LESSONS.experiences[0].id)] == []
        assert len(reader.seen_by(LESSONS.experiences[1].id)) == 2


@pytest.mark.parametrize("passed", [True, False])
def test_the_lessons_of_a_run_are_known_from_its_messages(store: Path, passed: bool) -> None:
    """Also where the library has a newer version by now."""
    library = library_of(["Add the tens first.", "Check the sign."])
    (withheld, _) = library.by_id
    agent = Agent(TestModel(), capabilities=[Experiences(library, masked=(withheld,))])
    result = asyncio.run(agent.run("12 + 30?"))
    newer = Experiences(library_of(["Another lesson."])) if passed else None
    with Recorder("sums", store) as recorder:
        recorder.record_sync(result, experiences=newer)
    with read_store(store) as reader:
        (row,) = reader.selected(Selection(domain="sums"))
        treatment = reader.trajectory(row.id).treatment
    assert (treatment.library, treatment.masked) == (library.version, (withheld,))


def test_the_last_reward_counts_and_all_feedback_is_kept(store: Path) -> None:
    recorder = Recorder("support", store)
    other = Recorder("support", store)  # another process in real life
    first = recorder.record_sync(chat("a?", "b"), episode="talk")
    second = recorder.record_sync(chat("c?", "d"), episode="talk")
    other.feedback_sync(first, reward=(0.25, "too slow"))
    with read_store(store) as reader:
        assert reader.trajectory(first).verdict == Verdict(status="partial", reward=0.25, reason="too slow")
    other.feedback_sync(first, comment="and rude")
    other.feedback_sync(first, reward=True)
    other.feedback_sync(episode="talk", reward=False, comment="the customer left")
    with read_store(store) as reader:
        assert reader.trajectory(first).verdict == Verdict(status="correct", reward=1.0, reason="and rude")
        assert reader.trajectory(second).verdict == Verdict(status="incorrect", reward=0.0, reason="the customer left")
        assert [one.reward for one in reader.feedback(first)] == [0.25, None, 1.0, 0.0]
        run = reader.runs()[0].run
        assert reader.counts(run).rollouts == {"ok": 2}
        assert sorted(row.reward or 0 for row in reader.selected(Selection(min_reward=0))) == [0.0, 1.0]
    recorder.close()
    other.close()


@pytest.mark.parametrize(("ending", "code"), [("error", "endpoint_broken_off"), ("SAFETY", "endpoint_filtered")])
def test_a_reply_that_its_service_broke_off_is_stored_as_a_failure_that_no_feedback_changes(
    store: Path, ending: str, code: str
) -> None:
    reply = ModelResponse(parts=[TextPart("The total is 4")], provider_details={"finish_reason": ending})
    with Recorder("support", store) as recorder:
        rollout = recorder.record_sync([ModelRequest.user_text_prompt("What is the total?"), reply])
        recorder.feedback_sync(rollout, reward=False)
        assert recorder.groups(min_size=1).groups == ()
    with read_store(store) as reader:
        stored = reader.trajectory(rollout)
    assert stored.failure is not None
    assert (stored.failure.code, stored.outcome, stored.answer, stored.reward) == (code, "undecided", None, None)


def test_feedback_may_come_before_its_rollout_and_for_one_that_never_comes(store: Path) -> None:
    with Recorder("support", store) as recorder:
        recorder.feedback_sync("0" * 32, reward=1, demonstration="x")
        identity = recorder.record_sync(chat("a?", "b"))
    with read_store(store) as reader:
        assert reader.unmatched_feedback("support") == 1
        assert reader.trajectory(identity).outcome == "undecided"
    assert check_store(store).sound


def test_a_demonstration_becomes_a_rollout_of_the_same_task(store: Path) -> None:
    with Recorder("support", store) as recorder:
        wrong = recorder.record_sync(chat("How do I pay?", "No idea."), experiences=LESSONS)
        right = recorder.feedback_sync(wrong, reward=0, demonstration="By card.", by="ana")
        again = recorder.feedback_sync(wrong, demonstration="Or by invoice.")
        groups = recorder.groups()
    with read_store(store) as reader:
        written = reader.trajectory(right)
        assert (written.phase, written.answer, written.reward) == (DEMONSTRATION, "By card.", 1.0)
        assert written.treatment.model == "person"
        assert written.task == reader.trajectory(wrong).task
        assert len({reader.trajectory(one).g for one in (right, again)}) == 2
        assert "How do I pay?" in reader.messages(right).decode()
        assert all(one.rollout != right for one in reader.seen_by(LESSONS.experiences[0].id))
    (group,) = groups.groups
    assert set(group.rollouts) == {wrong, right, again}
    assert group.mixed
    assert "1 can teach" in str(groups)
    assert check_store(store).sound


def test_known_secrets_are_left_out(store: Path) -> None:
    know_secret("sk-live-0123456789")
    with Recorder("support", store) as recorder:
        identity = recorder.record_sync(
            chat("my key is sk-live-0123456789", "do not send sk-live-0123456789"), task={"problem": "key", "k": "v"}
        )
        recorder.feedback_sync(identity, reward=(0, "it repeated sk-live-0123456789"))
    for file in store.iterdir():
        assert b"sk-live-0123456789" not in file.read_bytes()


BAD_RECORDS: list[tuple[Any, dict[str, Any], str]] = [
    ("text", {}, "it is a str"),
    ([], {}, "it is empty"),
    (None, {}, "it is a NoneType"),
    ([{"role": "user", "content": "hi"}], {}, "no reply of a model"),
    ([{"role": "nobody", "content": "hi"}], {}, "message 1 has the role 'nobody'"),
    ([1, 2], {}, "mixes messages with a int"),
    (chat("a", "b"), {"task": 3}, "task is a int"),
    (chat("", "b"), {}, "the task is empty"),
    (chat("a", "b"), {"task": {"problem": "a", "n": float("nan")}}, "not JSON"),
    (chat("a", "b"), {"experiences": "v1"}, "is not the version of a library"),
    (chat("a", "b"), {"experiences": 3}, "experiences is a int"),
    (chat("a", "b"), {"seconds": -1.0}, "seconds is -1.0"),
    (chat("a", "b"), {"episode": 3}, "episode is 3"),
]


@pytest.mark.parametrize(("messages", "options", "words"), BAD_RECORDS)
def test_a_record_that_makes_no_sense_is_refused_and_nothing_is_stored(
    store: Path, messages: Any, options: dict[str, Any], words: str
) -> None:
    with Recorder("support", store) as recorder:
        with pytest.raises((ConfigError, DataError), match=words):
            recorder.record_sync(messages, **options)
        kept = recorder.record_sync(chat("a", "b"))
    with read_store(store) as reader:
        assert [row.id for row in reader.selected(Selection())] == [kept]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rollout": "abc", "reward": 1}, "'abc' is not the id of a rollout"),
        ({"rollout": "A" * 32, "reward": 1}, "is not the id"),
        ({"reward": 1}, "and not both"),
        ({"rollout": "0" * 32, "episode": "x", "reward": 1}, "and not both"),
        ({"rollout": "0" * 32}, "the feedback is empty"),
        ({"rollout": "0" * 32, "reward": float("nan")}, "reward is nan"),
        ({"rollout": "0" * 32, "reward": "good"}, "reward is 'good'"),
        ({"rollout": "0" * 32, "reward": (1, 2)}, r"reward is \(1, 2\)"),
        ({"episode": "x", "demonstration": "y"}, "answers one rollout"),
    ],
)
def test_feedback_that_makes_no_sense_is_refused(store: Path, options: dict[str, Any], words: str) -> None:
    with Recorder("support", store) as recorder, pytest.raises(ConfigError, match=words):
        recorder.feedback_sync(**options)
    assert not store.exists()


def test_recording_goes_on_while_a_run_holds_the_store_which_then_sees_it(store: Path) -> None:
    async def one() -> None:
        async with open_store(store) as opened, Recorder("support", store) as recorder:
            identity = await recorder.record(chat("a?", "b"), experiences=LESSONS)
            await recorder.feedback(identity, reward=1)
            assert opened.trajectory(identity).reward == 1
            assert len(recorder.groups()) == 0  # asks the process that has the store

    asyncio.run(one())
    assert check_store(store).sound


def test_several_loops_and_threads_share_a_recorder(store: Path) -> None:
    recorder, ids = Recorder("support", store), list[str]()

    async def many() -> None:
        ids.extend(await asyncio.gather(*(recorder.record(chat("a?", str(n))) for n in range(20))))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    with read_store(store) as reader:
        assert {row.id for row in reader.selected(Selection())} == set(ids)
        assert len(set(ids)) == 80


def recording_child(recorder: Recorder, out: Path) -> int:
    """Fork a child that records five times and writes the ids to a file. Returns its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        ids = [recorder.record_sync(chat("a?", "child")) for _ in range(5)]
        recorder.close()
        out.write_text("\n".join(ids))
        status = 0
    finally:
        os._exit(status)  # what the parent would do at its end is none of the child's business


def test_a_recorder_made_before_a_fork_works_in_every_child_and_in_the_parent(store: Path, tmp_path: Path) -> None:
    with Recorder("support", store) as recorder:
        ids = [recorder.record_sync(chat("a?", "parent"))]
        files = [tmp_path / f"child-{number}" for number in range(3)]
        children = [recording_child(recorder, file) for file in files]
        ids += [recorder.record_sync(chat("a?", "parent")) for _ in range(5)]
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
        ids += [one for file in files for one in file.read_text().split()]
    with read_store(store) as reader:
        assert {row.id for row in reader.selected(Selection())} == set(ids)
        assert len(ids) == len(set(ids)) == 21
        assert len(reader.runs()) == 4


def test_every_failure_of_the_disk_is_one_sentence(store: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with Recorder("support", blocked / "store") as recorder, pytest.raises(StoreError, match="cannot be used"):
        recorder.record_sync(chat("a", "b"))
    recorder = Recorder("support", store)
    recorder.record_sync(chat("a", "b"))
    shutil.rmtree(store)
    with pytest.raises(StoreDamaged, match="was removed while the store was open"):
        recorder.record_sync(chat("a", "b"))
    kept = recorder.record_sync(chat("a", "b"), experiences=LESSONS)  # a new store is begun
    recorder.close()
    with read_store(store) as reader:
        assert reader.library(reader.trajectory(kept).treatment.library) == LESSONS
    other = tmp_path / "other"
    with Recorder("support", other) as recorder:
        recorder.record_sync(chat("a", "b"))
    shutil.copy(store / "journal.sqlite", other / "journal.sqlite")
    with Recorder("support", other) as recorder, pytest.raises(StoreDamaged, match="belongs to another store"):
        recorder.record_sync(chat("a", "b"))
    (other / "journal.sqlite").write_bytes(b"not a database at all" * 200)
    with Recorder("support", other) as recorder, pytest.raises(StoreDamaged, match="store repair"):
        recorder.record_sync(chat("a", "b"))


ANY_TEXT = st.text(st.characters(codec=None), max_size=40)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)  # many texts a store: opening and checking one takes the time
@given(st.lists(st.tuples(ANY_TEXT.filter(str.strip), ANY_TEXT, ANY_TEXT, st.floats(0, 1)), min_size=16, max_size=24))
def test_any_text_is_recorded_and_a_store_stays_sound(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str, str, str, float]]
) -> None:
    store = tmp_path_factory.mktemp("any")
    ids = list[str]()
    with Recorder("support", store) as recorder:
        for problem, answer, why, reward in said:
            ids.append(recorder.record_sync(chat(problem, answer), task=problem, episode=why))
            recorder.feedback_sync(ids[-1], reward=(reward, why), demonstration=answer)
    with read_store(store) as reader:
        for identity in ids:
            assert reader.trajectory(identity).reward is not None
    assert check_store(store).sound


def test_a_task_of_the_application_keeps_its_answer_and_fields(store: Path) -> None:
    task = Task.of("other", "2+2?", "4", family="sums", fields={"n": 2})
    with Recorder("support", store) as recorder:
        identity = recorder.record_sync(chat("x", "5"), task=task)
    with read_store(store) as reader:
        found = reader.task(reader.trajectory(identity).task)
    assert (found.domain, found.problem, found.answer, found.fields) == ("support", "2+2?", "4", {"n": 2})


def test_the_documented_queries_tell_the_effects_of_versions_and_lessons(store: Path) -> None:
    asked, withheld = chat("a?", "b"), Experiences(LESSONS, masked=(LESSONS.experiences[0].id,))
    with Recorder("support", store) as recorder:
        for shown, reward in ((LESSONS, 1), (LESSONS, 1), (withheld, 0), (None, 0.5)):
            recorder.feedback_sync(recorder.record_sync(asked, experiences=shown), reward=reward)
    with read_store(store) as reader:
        reader.snapshot()
    page = (Path(__file__).parents[3] / "docs" / "live.md").read_text(encoding="utf-8")
    by_version, by_lesson = (part.partition("```")[0] for part in page.split("```sql")[1:])
    folder = store / "snapshots"
    answers = list[set[Any]]()
    for query in (by_version, by_lesson.replace("'ID'", f"'{LESSONS.experiences[0].id}'")):
        for table in ("trajectory", "library_version"):
            query = query.replace(f"'{table}.parquet'", f"'{folder / table}.parquet'")  # noqa: PLW2901
        answers.append(set(duckdb.execute(query).fetchall()))
    assert answers[0] == {(LESSONS.version, 3, 2 / 3), (EMPTY_LIBRARY.version, 1, 0.5)}
    assert answers[1] == {(False, 2, 1.0), (True, 1, 0.0)}


def test_feedback_after_a_restart_looks_into_the_store_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Recorder("support", store) as before:
        rollouts = [before.record_sync(chat("Where is it?", "Here."), episode=f"talk {number}") for number in range(4)]
    looks = list[Path]()

    def counted(directory: Path) -> AbstractContextManager[StoreReader]:
        looks.append(directory)
        return read_store(directory)

    monkeypatch.setattr("agentlearn.store.read_store", counted)

    async def given() -> None:
        async with Recorder("support", store) as after:
            for rollout in rollouts:
                await after.feedback(rollout, reward=1, only_recorded=True)
            await after.feedback(episode="talk 2", reward=0, only_recorded=True)
            with pytest.raises(ConfigError, match="no episode 'talk 9'"):
                await after.feedback(episode="talk 9", reward=0, only_recorded=True)

    asyncio.run(given())
    assert looks == [store, store], "for the first, and for what is not known"
