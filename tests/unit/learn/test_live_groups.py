"""Groups of live traffic: the same task, else near neighbours, and never what was treated differently."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn import Groups, LearnSettings, Recorder, library_of, read_store, run_learning
from agentlearn.data.overlap import nearest_groups, same_text
from agentlearn.errors import ConfigError
from agentlearn.learning.stored_groups import StoredGroups
from tests.support.cases import cases
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


@given(st.lists(st.tuples(WORDS, st.integers(0, 1), st.sampled_from([0.0, 1.0])), max_size=30), st.integers(2, 5))
def test_grouping_is_a_partition_that_keeps_kinds_apart_and_sizes_small(
    rows: list[tuple[list[str], int, float]], max_size: int
) -> None:
    texts, kinds = [" ".join(words) for words, _, _ in rows], [kind for _, kind, _ in rows]
    rewards = [reward for _, _, reward in rows]
    groups = nearest_groups(texts, kinds, rewards, max_size=max_size)
    assert sorted(place for group in groups for place in group) == list(range(len(rows)))
    assert groups == nearest_groups(texts, kinds, rewards, max_size=max_size)
    for group in groups:
        assert len(group) <= max_size
        assert len({kinds[place] for place in group}) == 1
        for place in group:
            mine = set(texts[place].split())
            assert all(mine & set(texts[other].split()) for other in group if other != place)


@given(st.text())
def test_same_text_ignores_case_and_spaces_only(text: str) -> None:
    assert same_text(f"  {text} ") == same_text(text)
    assert same_text(same_text(text)) == same_text(text)


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
