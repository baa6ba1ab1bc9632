"""Schemas go forward only, and a store of any released schema can be read.

A store of each schema is kept in tests/golden. It is made once per schema and then never again:

    python -m tests.unit.store.test_migrate tests/golden/store-v7
"""

import asyncio
import shutil
import sys
import tarfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from agentlearn.errors import SchemaTooNew, StoreDamaged, StoreError
from agentlearn.installed import version
from agentlearn.store import Store, database, open_store, read_store
from agentlearn.store.codec import encode_entry
from agentlearn.store.database import Database
from agentlearn.store.journal_file import JournalFile
from agentlearn.store.live_entries import FeedbackEntry, LiveEntry
from agentlearn.store.migrate import Migration, known_migrations
from agentlearn.types.decision import LessonDecision
from agentlearn.types.experience import Library, library_of
from agentlearn.types.feedback import Feedback
from agentlearn.types.ids import ProposalId, RolloutId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Verdict
from tests.unit.store import nouns

GOLDEN = Path(__file__).parents[2] / "golden"
LIBRARY = library_of(["When adding, carry.", "When counting, check the ends."], tags=("sums",))
WAITING = nouns.call(1, unit="waiting")
NEWEST = known_migrations()[-1].version
CHILD = Library(parent=LIBRARY.version, experiences=LIBRARY.experiences[:1])
DECISION = LessonDecision(
    run=nouns.RUN,
    phase="epoch-1",
    batch=1,
    proposal=ProposalId("p1"),
    verdict="rejected",
    lesson_key="never check",
    who="ana",
    note="no",
    at=datetime(2026, 11, 22, tzinfo=UTC),
    library="math",
)
ASKED = Task.of("support", "How do I reset it?", None, source="live", fields={"plan": "free"})
LIVE = LiveEntry(
    trajectory=nouns.trajectory(
        0, id=RolloutId("ab" * 16), phase="live", task=ASKED.id, verdict=Verdict(status="undecided")
    ),
    messages="[]",
    task=ASKED,
    episode="c1",
)
FEEDBACK = Feedback(
    id=RolloutId("cd" * 16),
    name="support",
    rollout=LIVE.trajectory.id,
    reward=0.5,
    reason="half right",
    demonstration="Use the link.",
    by="ana",
    at=datetime(2026, 11, 22, tzinfo=UTC),
)
PROMPT = PromptRef(name="math:solve", version=1, sha256="ab" * 32)


async def fill(store: Store) -> None:
    """One of everything that the newest schema holds."""
    await store.save_run(nouns.run_event())
    await store.save_run(nouns.run_event(state="done", report="{}"))
    await store.save_tasks([nouns.TASK, nouns.WALK])
    await store.save_version(LIBRARY, run=None)
    await store.save_version(CHILD, run=nouns.RUN)
    await store.save_prompt(PROMPT, "Solve ␛ it.")
    await store.save_trajectory(nouns.trajectory(0), b'[{"kind":"request"}]')
    await store.save_trajectory(nouns.trajectory(1, verdict=None, answer="\ud800\x00"), b"[]")
    await store.record(nouns.call())
    await store.save_summary(nouns.summary(prompts=(PROMPT,)))
    await store.save_proposals(nouns.RUN, "epoch-1", 1, [nouns.applied(prompts=(PROMPT,))])
    await store.save_metrics(nouns.RUN, 1, {"loss": 0.5, "entropy": float("nan")})
    await store.save_decision(DECISION)


def check(directory: Path, schema: int) -> None:
    """Everything that `fill` saved comes back."""
    with read_store(directory) as reader:
        assert [row.state for row in reader.runs()] == ["done"]
        assert reader.task(nouns.TASK.id) == nouns.TASK
        if schema > 2:
            assert reader.task(nouns.WALK.id) == nouns.WALK
        libraries = [reader.library(one.version) for one in reader.versions_made()]
        lessons = [[one.lesson for one in library.experiences] for library in libraries]
        assert sorted(lessons) == sorted([one.lesson for one in each.experiences] for each in (LIBRARY, CHILD))
        assert reader.prompt(PROMPT.sha256) == "Solve ␛ it."
        assert reader.trajectory(nouns.trajectory(0).id) == nouns.trajectory(0)
        assert reader.messages(nouns.trajectory(0).id) == b'[{"kind":"request"}]'
        assert reader.trajectory(nouns.trajectory(1).id) == nouns.trajectory(1, verdict=None, answer="\ud800\x00")
        assert reader.calls(nouns.RUN, "u") == [nouns.call()]
        prompts = (PROMPT,) if schema > 3 else ()
        assert reader.summaries(nouns.RUN) == [nouns.summary(prompts=prompts)]
        assert [one.ended for one in reader.proposals(nouns.RUN)] == [nouns.applied(prompts=prompts)]
        assert reader.calls(nouns.RUN, "waiting") == ([WAITING] if schema > 4 else [])
        assert reader.metrics(nouns.RUN) == ({1: {"loss": 0.5}} if schema > 1 else {})
        assert reader.decisions() == ([DECISION] if schema > 5 else [])
        if schema > 6:
            assert reader.trajectory(LIVE.trajectory.id).verdict == Verdict(
                status="partial", reward=0.5, reason="half right"
            )
            assert reader.feedback(LIVE.trajectory.id) == [FEEDBACK]
            assert reader.task(LIVE.task.id).fields == {"plan": "free"}
            assert reader.trajectory(FEEDBACK.id).answer == "Use the link."


@pytest.mark.parametrize("schema", [1, 2, 3, 4, 5, 6, 7])
def test_a_store_of_every_schema_is_read_and_written_on(tmp_path: Path, schema: int) -> None:
    with tarfile.open(GOLDEN / f"store-v{schema}" / "store.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    check(tmp_path, schema)

    async def write_on() -> None:
        async with open_store(tmp_path) as store:
            await store.save_trajectory(nouns.trajectory(2), b"[]")
            await store.save_proposals(nouns.RUN, "epoch-1", 1, [nouns.applied("p2", evidence=(RolloutId("r9"),))])

    asyncio.run(write_on())
    with read_store(tmp_path) as reader:
        assert len(reader.trajectories(nouns.RUN)) == (3 if schema < 7 else 5)
        assert len(reader.proposals(nouns.RUN)) == 2


def test_there_is_a_golden_store_for_every_schema() -> None:
    assert [f"store-v{migration.version}" for migration in known_migrations()] == sorted(
        folder.name for folder in GOLDEN.glob("store-v*")
    )


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [migration.version for migration in known_migrations()] == list(range(1, len(known_migrations()) + 1))


def test_each_migration_is_recorded_with_its_checksum(tmp_path: Path) -> None:
    opened = Database(tmp_path, create=True)
    with opened.cursor() as cursor:
        recorded = cursor.execute("SELECT version, name, checksum, agentlearn, duckdb FROM schema_migration").fetchall()
    opened.close()
    assert recorded == [
        (one.version, one.name, one.checksum, version(), duckdb.__version__) for one in known_migrations()
    ]


def next_schema(number: int, sql: str) -> tuple[Migration, ...]:
    return (*known_migrations(), Migration(number, f"{number:04}_next.sql", sql))


def test_a_store_of_a_newer_agentlearn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = known_migrations()[-1].version + 1
    with monkeypatch.context() as patch:
        patch.setattr(database, "known_migrations", lambda: next_schema(newer, "CREATE TABLE later (a INTEGER)"))
        Database(tmp_path, create=True).close()
    with pytest.raises(SchemaTooNew) as refused:
        Database(tmp_path, create=True)
    assert str(refused.value) == (
        f"the store {str(tmp_path)!r} has schema {newer}, written by agentlearn {version()}; this agentlearn"
        f" {version()} reads schemas up to {newer - 1}: pip install --upgrade agentlearn-lib"
    )


def test_an_older_store_is_brought_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_make(tmp_path))
    newer = known_migrations()[-1].version + 1
    sql = "ALTER TABLE task ADD COLUMN difficulty DOUBLE; CREATE TABLE later (a INTEGER)"
    monkeypatch.setattr(database, "known_migrations", lambda: next_schema(newer, sql))
    opened = Database(tmp_path, create=True)
    assert not (tmp_path / "store.duckdb.wal").exists()  # the change of schema is not left in the log
    with opened.cursor() as cursor:
        assert set(cursor.execute("SELECT difficulty FROM task").fetchall()) == {(None,)}
    opened.close()
    check(tmp_path, NEWEST)


def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_make(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(
            database, "known_migrations", lambda: next_schema(NEWEST + 1, "CREATE TABLE later (a INTEGER); nonsense")
        )
        with pytest.raises(StoreDamaged, match="cannot be opened: Parser Error"):
            Database(tmp_path, create=True)
    check(tmp_path, NEWEST)


def test_an_edited_migration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(tmp_path, create=True).close()
    (first, *rest) = known_migrations()
    edited = (Migration(first.version, first.name, first.sql + "-- edited"), *rest)
    monkeypatch.setattr(database, "known_migrations", lambda: edited)
    with pytest.raises(StoreError) as refused:
        Database(tmp_path, create=True)
    assert refused.value.code == "changed_migration"
    assert "'0001_first.sql' differs from the one that was applied" in str(refused.value)


async def _make(directory: Path) -> None:
    async with open_store(directory) as store:
        await fill(store)
    with closing(JournalFile(directory)) as journal:
        journal.append([encode_entry(one) for one in (WAITING, FeedbackEntry(feedback=FEEDBACK), LIVE)])


def make_golden(directory: Path) -> None:
    """Write the golden store of today's schema into `directory`."""
    unpacked = directory / "unpacked"
    asyncio.run(_make(unpacked))
    (unpacked / "store.lock").unlink()
    with tarfile.open(directory / "store.tar.xz", "w:xz") as packed:
        for file in sorted(unpacked.iterdir()):
            packed.add(file, arcname=file.name)
    shutil.rmtree(unpacked)


if __name__ == "__main__":
    make_golden(Path(sys.argv[1]))
