"""What was saved can be asked for, from both ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agentlearn.errors import ConfigError, StoreDamaged, StoreError
from agentlearn.store import ProposalRow, StageTotals, Store, open_store, read_store
from agentlearn.store.database import Database
from agentlearn.store.page_queries import PageQuery
from agentlearn.store.queries import Exposure, RunCounts
from agentlearn.types.experience import EMPTY_LIBRARY, Library, library_of
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, RunId, TaskId
from agentlearn.types.operation import Dropped, Ended, Folded, Rejected
from agentlearn.types.trajectory import PromptRef, Treatment, Verdict
from tests.support.cases import cases
from tests.unit.store import nouns

T = TypeVar("T")
OTHER_RUN = RunId("01jd" + "1" * 22)


def within(directory: Path, act: Callable[[Store], Awaitable[T]]) -> T:
    """Do something with the store that is open for it alone."""

    async def main() -> T:
        async with open_store(directory) as store:
            return await act(store)

    return asyncio.run(main())


def test_the_latest_event_is_the_state_of_a_run_and_one_whose_process_died_is_interrupted(tmp_path: Path) -> None:
    done = nouns.run_event(state="done", at=nouns.AT + timedelta(minutes=5), report='{"cost_usd": 1}')

    async def act(store: Store) -> None:
        await store.save_run(nouns.run_event())
        await store.save_run(done)
        await store.save_run(nouns.run_event(run=OTHER_RUN, at=nouns.AT + timedelta(minutes=1)))
        newest, oldest = store.runs()
        assert (newest.run, newest.state) == (OTHER_RUN, "running")
        assert (oldest.run, oldest.state, oldest.started_at, oldest.at) == (nouns.RUN, "done", nouns.AT, done.at)
        assert json.loads(oldest.report) == {"cost_usd": 1}
        assert store.runs(limit=1) == [newest]
        assert store.run(str(OTHER_RUN)[:6]) == newest

    within(tmp_path, act)
    with read_store(tmp_path) as reader:
        assert reader.run(OTHER_RUN).state == "interrupted"
        assert [row.state for row in reader.runs()] == ["interrupted", "done"]


def test_an_id_that_names_nothing_or_too_much_is_refused_with_the_prefix_and_the_next_step(tmp_path: Path) -> None:
    async def act(store: Store) -> None:
        await store.save_run(nouns.run_event())
        await store.save_run(nouns.run_event(run=OTHER_RUN))
        for question, prefix, code in cases(__file__, "ids_that_name_nothing_or_too_much"):
            with pytest.raises(ConfigError) as refused:
                getattr(store, question)(prefix)
            assert (refused.value.code, prefix in str(refused.value)) == (code, True)
        with pytest.raises(ConfigError) as unknown:
            store.run("zzz")
        assert str(unknown.value) == (
            f"the store {str(tmp_path)!r} has no run whose id starts with 'zzz';"
            f" `agentlearn runs list --store {tmp_path}` shows the stored runs"
        )
        with pytest.raises(ConfigError, match=r"^run '01jd' is ambiguous \('.*', '.*'\); give more of the id$"):
            store.run("01jd")

    within(tmp_path, act)


def test_light_rows_come_phase_by_phase_and_in_order(tmp_path: Path) -> None:
    undecided = Verdict(status="undecided", reward=None)

    async def act(store: Store) -> None:
        await store.save_trajectory(nouns.trajectory(1, phase="after", started_at=nouns.AT + timedelta(hours=1)), b"[]")
        await store.save_trajectory(nouns.trajectory(1, verdict=undecided), b"[]")
        await store.save_trajectory(nouns.trajectory(0), b"[]")
        await store.save_trajectory(nouns.trajectory(0, run=OTHER_RUN), b"[]")
        rows = store.trajectories(nouns.RUN)
        assert [(row.phase, row.g, row.outcome, row.reward) for row in rows] == [
            ("epoch-1", 0, "ok", 1.0),
            ("epoch-1", 1, "undecided", None),
            ("after", 1, "ok", 1.0),
        ]
        assert store.trajectories(nouns.RUN, "after") == rows[2:]
        assert (rows[0].task, rows[0].tokens_in, rows[0].tokens_out, rows[0].seconds) == (nouns.TASK.id, 230, 12, 1.25)

    within(tmp_path, act)


def test_a_rollout_is_stored_once(tmp_path: Path) -> None:
    async def act(store: Store) -> None:
        await store.save_trajectory(nouns.trajectory(), b"[]")
        with pytest.raises(StoreError) as refused:
            await store.save_trajectory(nouns.trajectory(answer="5"), b"[]")
        assert refused.value.code == "row_refused"
        assert store.trajectory(nouns.trajectory().id) == nouns.trajectory()

    within(tmp_path, act)


def test_tasks_versions_and_prompts_may_be_saved_again(tmp_path: Path) -> None:
    first = library_of(["When adding, carry.", "When counting, check the ends."])
    smaller = Library(parent=first.version, experiences=first.experiences[1:])
    ref = PromptRef(name="math:solve", version=1, sha256="ab" * 32)

    async def act(store: Store) -> None:
        for _ in range(2):
            await store.save_tasks([nouns.TASK, nouns.TASK])
            await store.save_tasks([])
            await store.save_version(EMPTY_LIBRARY, run=None)
            await store.save_version(first, run=nouns.RUN)
            await store.save_version(smaller, run=nouns.RUN)
            await store.save_prompt(ref, "Solve.")
        assert store.task(nouns.TASK.id[:6]) == nouns.TASK
        assert store.library(first.version[:6]) == first
        assert store.library(smaller.version) == smaller
        assert store.library(EMPTY_LIBRARY.version) == EMPTY_LIBRARY
        assert store.prompt("abab") == "Solve."

    within(tmp_path, act)


def test_proposals_come_back_with_their_ends_and_the_last_save_counts(tmp_path: Path) -> None:
    ended = [
        nouns.applied("p1", "e1"),
        Ended(
            proposal=nouns.proposal("p2", ordinal=1), end=Folded(into=(ProposalId("q1"),)), flags=("mentions_answer",)
        ),
        Ended(proposal=nouns.proposal("p3", ordinal=2), end=Dropped(reason="nobody took it up")),
        Ended(
            proposal=nouns.proposal(
                "p4", ordinal=3, operation=None, refusal=Rejected(code="unparsed", reason="no JSON"), raw="???"
            ),
            end=Rejected(code="unparsed", reason="no JSON"),
        ),
    ]

    async def act(store: Store) -> None:
        await store.save_proposals(
            nouns.RUN, "epoch-1", 1, [Ended(proposal=ended[0].proposal, end=Dropped(reason="-"))]
        )
        await store.save_proposals(nouns.RUN, "epoch-1", 1, ended)
        await store.save_proposals(nouns.RUN, "epoch-1", 2, ended[:1])
        await store.save_proposals(nouns.RUN, "epoch-1", 3, [])
        assert store.proposals(nouns.RUN) == [
            *(ProposalRow("epoch-1", 1, one, nouns.RUN) for one in ended),
            ProposalRow("epoch-1", 2, ended[0], nouns.RUN),
        ]

    within(tmp_path, act)


def test_summaries_come_back_and_the_last_save_counts(tmp_path: Path) -> None:
    async def act(store: Store) -> None:
        await store.save_summary(nouns.summary(raw="a first try"))
        await store.save_summary(nouns.summary())
        await store.save_summary(nouns.summary("s0", rollout=RolloutId("r0")))
        assert store.summaries(nouns.RUN) == [nouns.summary("s0", rollout=RolloutId("r0")), nouns.summary()]

    within(tmp_path, act)


def test_an_experience_knows_the_rollouts_it_was_made_from(tmp_path: Path) -> None:
    compared = [
        Ended(
            proposal=nouns.proposal(f"p{n}", evidence=(RolloutId(f"r{n}"),)),
            end=Folded(into=(ProposalId("q1"),)) if n == 1 else Dropped(reason="-"),
        )
        for n in (1, 2, 3)
    ]
    consolidated = nouns.applied(
        "q1", "made", stage="consolidate", evidence=(), task=None, rests_on=(ProposalId("p2"),)
    )

    async def act(store: Store) -> None:
        await store.save_proposals(nouns.RUN, "epoch-1", 1, [*compared, consolidated])
        # the same ids in another batch are other proposals
        await store.save_proposals(nouns.RUN, "epoch-1", 2, [nouns.applied("p2", "else", evidence=(RolloutId("r9"),))])
        assert store.made_by(ExperienceId("made")) == ["r1", "r2"]
        assert store.made_by(ExperienceId("else")) == ["r9"]
        assert store.made_by(ExperienceId("nothing")) == []

    within(tmp_path, act)


def test_an_experience_knows_the_rollouts_that_saw_it(tmp_path: Path) -> None:
    library = library_of(["When adding, carry."])
    (lesson,) = library.by_id
    shown = Treatment(model="sim:novice", library=library.version)
    masked = Treatment(model="sim:novice", library=library.version, masked=(lesson,))

    async def act(store: Store) -> None:
        await store.save_version(library, run=nouns.RUN)
        for g, treatment in enumerate((shown, masked, nouns.trajectory().treatment)):
            await store.save_trajectory(nouns.trajectory(g, treatment=treatment), b"[]")
        assert store.seen_by(lesson) == [Exposure(nouns.trajectory(0).id, 1.0)]

    within(tmp_path, act)


def test_the_journal_comes_back_by_unit_and_the_first_record_of_an_id_counts(tmp_path: Path) -> None:
    tool = nouns.call(0, kind="tool", name="python", response="4")

    async def act(store: Store) -> None:
        await store.record(tool)
        await store.record(nouns.call(1))
        await store.record(nouns.call(0))
        await store.record(nouns.call(0, response="a later answer"))
        await store.record(nouns.call(0, unit="another", name="expert"))
        assert store.calls(nouns.RUN, "u") == [nouns.call(0), nouns.call(1), tool]
        assert store.calls(OTHER_RUN, "u") == []

    within(tmp_path, act)


def test_stage_totals_cover_model_calls_only_and_each_once(tmp_path: Path) -> None:
    async def act(store: Store) -> None:
        await store.record(nouns.call(0))
        await store.record(nouns.call(0))
        await store.record(nouns.call(1, attempts=3, cost_usd=None))
        await store.record(nouns.call(0, kind="tool"))
        await store.record(nouns.call(0, unit="v", stage="compare", tokens_in=5, tokens_out=6, cost_usd=None))
        assert store.stage_totals(nouns.RUN) == [
            StageTotals("compare", 1, 5, 0, 6, cost_usd=0.0, unpriced=1, seconds=0.5, retried=0),
            StageTotals("rollout", 2, 200, 0, 20, cost_usd=0.25, unpriced=1, seconds=1.0, retried=2),
        ]
        assert store.stage_totals(OTHER_RUN) == []

    within(tmp_path, act)


def test_costs_by_day_count_each_call_once_also_one_that_was_written_again_after_a_crash(tmp_path: Path) -> None:
    async def act(store: Store) -> None:
        for one in (nouns.call(0), nouns.call(1, cost_usd=None), nouns.call(0, unit="v", run=OTHER_RUN)):
            await store.record(one)
            await store.record(one.model_copy(update={"at": one.at + timedelta(days=1)}))
        costs = [(one["run"], one["calls"], one["cost_usd"], one["unpriced"], one["tokens_in"])
                 for one in store.rows(PageQuery.COSTS, None, 10, 0)]  # fmt: skip
        assert costs == [(OTHER_RUN, 1, 0.25, 0, 100), (nouns.RUN, 2, 0.25, 1, 200)]
        assert len(store.rows(PageQuery.COSTS, OTHER_RUN, 10, 0)) == 1

    within(tmp_path, act)


def test_counts_of_a_run(tmp_path: Path) -> None:
    async def act(store: Store) -> None:
        await store.save_trajectory(nouns.trajectory(0), b"[]")
        await store.save_trajectory(nouns.trajectory(1, verdict=None), b"[]")
        await store.record(nouns.call())
        await store.save_summary(nouns.summary())
        await store.save_proposals(nouns.RUN, "epoch-1", 1, [nouns.applied()])
        assert store.counts(nouns.RUN) == RunCounts({"ok": 1, "undecided": 1}, {"applied": 1}, summaries=1, calls=1)
        assert store.counts(OTHER_RUN) == RunCounts({}, {}, summaries=0, calls=0)

    within(tmp_path, act)


def test_what_cannot_be_stored_is_refused_in_a_sentence(tmp_path: Path) -> None:
    refused_changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"verdict": Verdict(status="partial", reward=float("nan"))}, "reward of a trajectory is nan; store a finite"),
        ({"verdict": Verdict(status="partial", reward=float("inf"))}, "reward of a trajectory is inf; store a finite"),
        (
            {"started_at": nouns.AT.replace(tzinfo=None)},
            "started_at of a trajectory is '2026-01-02T03:04:05.678901' without a time zone; use datetime.now(UTC)",
        ),
        ({}, "are not UTF-8"),
    )

    async def act(store: Store) -> None:
        for changes, sentence in refused_changes:
            with pytest.raises(StoreError) as refused:
                await store.save_trajectory(nouns.trajectory(**changes), b"[]" if changes else b"\xff")
            assert sentence in str(refused.value)
        assert store.trajectories(nouns.RUN) == []

    within(tmp_path, act)


def test_reading_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as missing, read_store(tmp_path / "none"):
        pass
    assert missing.value.code == "no_store"
    assert not (tmp_path / "none").exists()


def test_a_task_that_cannot_be_read_is_named_with_its_store(tmp_path: Path) -> None:
    with closing(Database(tmp_path, create=True)) as database, database.cursor() as cursor:
        cursor.execute("INSERT INTO task (id, domain, problem) VALUES ('t1', 'math', '1 + 1')")
    with read_store(tmp_path) as reader:
        for ask in (lambda: reader.task("t1"), lambda: reader.tasks([TaskId("t1")])):
            with pytest.raises(StoreDamaged, match=f"{str(tmp_path)!r} has a task 't1' that cannot be read: "):
                ask()
