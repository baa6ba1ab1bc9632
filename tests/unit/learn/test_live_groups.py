"""Groups of live traffic: the same task, else near neighbours, and never what was treated differently."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn import Groups, LearnSettings, Recorder, library_of, read_store, run_learning
from agentlearn.data.overlap import same_text
from agentlearn.errors import ConfigError
from agentlearn.learning.live_groups import Grouping, KeptGroups, read_groups
from agentlearn.learning.stored_groups import StoredGroups
from agentlearn.live.forgetting import forget
from agentlearn.store import LiveRow
from agentlearn.types.group import LiveGroup
from agentlearn.types.ids import RolloutId, TaskId
from agentlearn.types.task import Task
from tests.support.cases import cases
from tests.support.grouped_at_once import grouped_at_once
from tests.support.openai_script import Solver, stage_of, user_text
from tests.support.openai_stub import OpenAIStub

LESSONS = library_of(["Ask for the order number first."])


def recorded(recorder: Recorder, asked: str, said: str, reward: float | None, **options: Any) -> str:
    chat = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
    identity = recorder.record_sync(chat, **options)
    if reward is not None:
        recorder.feedback_sync(identity, reward=reward)
    return identity


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder("support", tmp_path / "store")


def members(groups: Groups) -> list[set[str]]:
    return [set(group.rollouts) for group in groups.groups]


def test_the_same_task_is_one_group_across_runs_and_spellings(recorder: Recorder) -> None:
    one = recorded(recorder, "How do I reset my password?", "Call us.", 0)
    recorder.close()
    again = Recorder("support", recorder.store)
    two = recorded(again, "how do I reset  my password?", "Use the link.", 1)
    recorded(again, "how do I reset my password?", "Undecided.", None)
    groups = again.groups()
    assert members(groups) == [{one, two}]
    assert groups.groups[0].mixed
    assert Recorder("billing", recorder.store).groups().groups == ()


@pytest.mark.parametrize("treated", [{"experiences": LESSONS}, {"model": "openai:gpt-5-mini"}])
def test_rollouts_that_were_treated_differently_are_never_compared(recorder: Recorder, treated: dict[str, Any]) -> None:
    recorded(recorder, "How do I reset my password?", "Call us.", 0)
    recorded(recorder, "How do I reset my password?", "Use the link.", 1, **treated)
    assert recorder.groups().groups == ()
    assert recorder.groups().single == 2


def test_a_persons_answer_joins_the_rollout_that_it_corrects_whatever_that_was_shown(recorder: Recorder) -> None:
    wrong = recorded(recorder, "How do I pay?", "No idea.", 0, experiences=LESSONS, model="openai:gpt-5-mini")
    right = recorder.feedback_sync(wrong, demonstration="By card.")
    assert members(recorder.groups()) == [{wrong, right}]


def test_a_group_that_is_too_large_keeps_what_can_teach(recorder: Recorder) -> None:
    wrong = recorded(recorder, "How do I pay?", "No idea.", 0)
    for number in range(12):
        recorded(recorder, "How do I pay?", f"By card {number}.", 1)
    (group,) = recorder.groups(max_size=4).groups
    assert len(group.rollouts) == 4
    assert wrong in group.rollouts
    assert [len(one.rollouts) for one in recorder.groups(min_size=9, max_size=9).groups] == [9]


def test_a_wrong_rollout_with_a_comment_needs_no_right_one(recorder: Recorder) -> None:
    said = {
        text: recorded(recorder, text, "…", None) for text in ("How do I pay?", "Where is my parcel?", "No comment")
    }
    recorder.feedback_sync(said["How do I pay?"], reward=0.4, comment="leave out the old bank")
    recorder.feedback_sync(said["Where is my parcel?"], reward=1, comment="well said")
    recorder.feedback_sync(said["No comment"], reward=0)
    again = recorded(recorder, "how do I pay?", "By cheque.", None)
    recorder.feedback_sync(again, reward=0.4, comment="nobody takes cheques")
    late = recorded(recorder, "How do I pay?", "By cheque?", 0.4)
    groups = recorder.groups()
    assert members(groups) == [{said["How do I pay?"], again, late}]
    assert (groups.groups[0].explained, groups.groups[0].mixed, groups.single) == (True, False, 2)
    assert "0 can teach because their rewards differ, and 1 because feedback says what was wrong" in groups.summary
    assert members(recorder.groups(max_size=2)) == [{said["How do I pay?"], again}], "those with a comment come first"
    assert [len(one.rollouts) for one in recorder.groups(min_size=4).groups] == [1]


UNLIKE = cases(__file__, "unlike")


def test_single_rollouts_join_near_neighbours_and_unlike_tasks_never_do(recorder: Recorder) -> None:
    for text in UNLIKE:
        recorded(recorder, text, "…", 1)
    one = recorded(recorder, "How do I change the billing address of my company account?", "You cannot.", 0)
    two = recorded(recorder, "How can I change the billing address of a company account?", "In settings.", 1)
    groups = recorder.groups()
    assert members(groups) == [{one, two}]
    assert len(groups.groups[0].others) == 1
    assert groups.single == len(UNLIKE)
    with read_store(recorder.store) as reader:
        group = StoredGroups.given(groups).group(groups.tasks[0], reader)
        assert {group.task_of(one).problem for one in group.trajectories} == {
            "How do I change the billing address of my company account?",
            "How can I change the billing address of a company account?",
        }
        assert sorted(one.g for one in group.trajectories) == [0, 1]


WORDS = st.lists(
    st.sampled_from(["reset", "password", "order", "refund", "address", "card", "late", "broken", "my", "the", "a"]),
    max_size=6,
)
SAID = st.tuples(WORDS, st.integers(0, 1), st.sampled_from([0.0, 0.5, 1.0]), st.booleans())
Said = list[tuple[list[str], int, float, bool]]


def rows_of(said: Said, first: int = 0) -> tuple[list[LiveRow], dict[TaskId, Task]]:
    """Recorded rollouts with these words, of one of two models, with a reward and perhaps a comment."""
    tasks = [Task.of("support", " ".join(words) or "?", None) for words, *_ in said]
    rows = [
        LiveRow(RolloutId(f"{at:032x}"), "live", task.id, f"m{kind}", LESSONS.version, (), reward, told, at, at, 0)
        for at, ((_, kind, reward, told), task) in enumerate(zip(said, tasks, strict=True), start=first)
    ]
    return rows, {task.id: task for task in tasks}


@given(st.lists(SAID, max_size=30), st.integers(2, 5), st.integers(2, 5))
def test_rollouts_are_grouped_as_if_all_were_in_memory(said: Said, min_size: int, max_size: int) -> None:
    rows, tasks = rows_of(said)
    grouping = Grouping(min_size, max_size)
    grouping.take(rows, tasks)
    grouping.regroup()
    wanted = grouped_at_once(rows, tasks, min_size=min_size, max_size=max_size)
    assert tuple(grouping.found(grouping.led, lambda _: tasks)) == wanted.groups
    counted = grouping.numbers
    assert (counted["single"], counted["rollouts"] - counted["grouped"]) == (
        wanted.single,
        wanted.single + wanted.set_aside,
    )


@given(st.lists(SAID, max_size=20), st.lists(SAID, max_size=10), st.lists(st.integers(0, 19), max_size=5))
def test_what_comes_later_keeps_kinds_apart_and_leaves_nobody_out(said: Said, later: Said, judged: list[int]) -> None:
    rows, tasks = rows_of(said)
    more, new = rows_of(later, len(said))
    again = [replace(rows[at], reward=1 - rows[at].reward) for at in judged if at < len(rows)]
    tasks |= new
    grouping = Grouping(2, 4)
    for part in (rows, [*again, *more]):
        grouping.take(part, tasks)
        grouping.regroup()
    now = {row.id: row for row in [*rows, *again, *more]}
    assert grouping.numbers["rollouts"] == len(now)
    leads = {task for task, numbers in grouping.leads.items() if numbers}
    groups = [*grouping.found(leads, lambda _: tasks)]
    assert grouping.numbers["grouped"] == sum(len(group.rollouts) for group in groups)
    assert grouping.numbers["single"] == sum(not one[0] for one in grouping.standing.values() if one)
    for group in groups:
        found = [now[one] for one in group.rollouts]
        assert len({row.model for row in found}) == 1
        assert [row.reward for row in found] == [*group.rewards]
        assert len(found) <= 4
    buckets = {(row.model, same_text(tasks[row.task].problem)) for row in now.values()}
    placed = {one for group in grouping.groups.values() for one in group}
    assert {(now[one.id].model, same_text(tasks[one.task].problem)) for one in placed} == buckets, "each once"
    assert grouping.numbers["members"] == len(placed)


@given(st.text())
def test_same_text_ignores_case_and_spaces_only(text: str) -> None:
    assert same_text(f"  {text} ") == same_text(text)
    assert same_text(same_text(text)) == same_text(text)


ASKED = ("How do I pay?", "Where is my parcel?", "How do I change the billing address of my company account?")


def test_a_later_look_reads_what_is_new_and_finds_what_a_whole_one_finds(recorder: Recorder, tmp_path: Path) -> None:
    kept = KeptGroups(tmp_path / "groups.sqlite", "support", min_size=2)
    known = set[str]()

    def look() -> list[set[str]]:
        """What is new; all of it is known from then on."""
        with read_store(recorder.store) as reader:
            found = kept.new(reader, lambda group: not known.issuperset(group.rollouts))
            every = {group.task.id: group.rollouts for group in read_groups(recorder.store, "support").groups}
            assert kept.every() == dict(sorted(every.items()))
        known.update(one for group in found.groups for one in group.rollouts)
        counted = read_groups(recorder.store, "support")
        assert found == counted.model_copy(update={"groups": found.groups})
        return members(found)

    recorded(Recorder("sales", recorder.store), ASKED[0], "…", 0)
    assert look() == look() == [], "nobody has asked here yet"
    wrong = [recorded(recorder, text, "…", 0) for text in ASKED]
    assert look() == []
    right = recorded(recorder, ASKED[0].upper(), "By card.", 1)
    assert look() == [{wrong[0], right}]
    near = recorded(recorder, "How can I change the billing address of a company account?", "In settings.", 1)
    undecided = recorded(recorder, ASKED[1], "Soon.", None)
    assert look() == [{wrong[2], near}], "an old rollout that was alone has found a neighbour"
    assert look() == []
    recorder.feedback_sync(undecided, reward=0.5)
    assert look() == [{wrong[1], undecided}], "late feedback on an old record"
    recorder.feedback_sync(wrong[1], reward=(0, "never say that"))
    explained = list[bool]()

    def all_of(group: LiveGroup) -> bool:
        explained.append(group.explained)
        return True

    with read_store(recorder.store) as reader:
        assert members(kept.new(reader, all_of)) == [{wrong[1], undecided}], "only what changed is asked about"
    assert explained == [True]
    forget(recorder.store, rollout=right, lessons="park")
    assert look() == []
    (tmp_path / "groups.sqlite").write_bytes(b"no database at all" * 99)
    assert look() == []


def test_records_that_are_erased_while_a_pass_reads_come_back_in_no_group(recorder: Recorder, tmp_path: Path) -> None:
    rollouts = [recorded(recorder, ASKED[0], f"{number}", number % 2) for number in range(4)]
    kept = KeptGroups(tmp_path / "groups.sqlite", "support", min_size=2)
    with read_store(recorder.store) as reader:
        part, erased = reader.tasks, list[str]()

        def erasing(ids: Any) -> Any:
            """The tasks, after somebody erased one of the rollouts in between."""
            found = part(ids)
            if not erased:
                erased.append(rollouts[0])
                forget(recorder.store, rollout=rollouts[0], lessons="park")
            return found

        reader.tasks = erasing
        assert members(kept.new(reader, lambda _: True)) == [set(rollouts[1:])]


def learn(stub: OpenAIStub, recorder: Recorder, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "domain": "support", "model": f"{stub.base_url}#any", "from_store": True, "epochs": 1,
        "store": recorder.store, "name": "support",
    }  # fmt: skip
    return asyncio.run(run_learning(LearnSettings(**fields | changes)))


def test_live_traffic_teaches_without_an_installed_domain_and_each_attempt_shows_its_own_problem(
    recorder: Recorder,
) -> None:
    wrong = recorded(recorder, "How do I pay?", "No idea.", 0)
    recorder.feedback_sync(wrong, demonstration="By card.")
    recorded(recorder, "How do I change the billing address of my company account?", "You cannot.", 0)
    recorded(recorder, "How can I change the billing address of a company account?", "In settings.", 1)
    with OpenAIStub(Solver()) as stub:
        report = learn(stub, recorder)
        assert stub.counts["solve"] == 0
    assert report.groups["mixed"] == 2
    assert report.library.lessons > 0
    assert any(note.startswith("learned from live traffic: 2 groups of 4") for note in report.notes)
    assert any("the lessons were not measured" in note for note in report.notes)
    compared = [user_text(one) for one in stub.requests if stage_of(one) == "compare"]
    with read_store(recorder.store) as reader:
        assert wrong in {one for row in reader.proposals(report.run) for one in row.ended.proposal.evidence}
    neighbours = next(text for text in compared if "billing address of my company" in text)
    attempts = neighbours.partition("<attempts>")[2]
    assert "billing address of my company account?" in attempts
    assert "billing address of a company account?" in attempts


@pytest.mark.slow
def test_recorded_tasks_are_held_out_only_when_asked(recorder: Recorder) -> None:
    for number in range(12):
        wrong = recorded(recorder, f"What is the fee of tariff {number} {'xyzuvwabcdef'[number] * 9}?", "1", 0)
        recorder.feedback_sync(wrong, demonstration=f"{number} euros")
    with OpenAIStub(Solver()) as stub:
        report = learn(stub, recorder, evaluate=True, eval_rollouts=1)
        assert report.tasks["test"] >= 1
        assert report.tasks["train"] + report.tasks["test"] == 12
    plain = Recorder("plain", recorder.store)
    recorded(plain, "How do I pay?", "No.", 0)
    recorded(plain, "How do I pay?", "By card.", 1)
    with OpenAIStub(Solver()) as stub, pytest.raises(ConfigError, match="has a right answer; leave out --eval"):
        learn(stub, plain, domain="plain", evaluate=True)
    with OpenAIStub(Solver()) as stub, pytest.raises(ConfigError, match="'nobody' is not installed"):
        learn(stub, plain, domain="nobody")
