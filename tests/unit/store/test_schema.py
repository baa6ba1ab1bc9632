"""The schema of a store: what was written can be read, and a store of another schema is refused.

The golden store was written once with the schema of today. A change of the schema before the first release makes a new
one in its place; a change after it gets a new number and a golden store of its own:

    python -m tests.unit.store.test_schema tests/golden/store-v1
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

from agentlearn.errors import AgentlearnError, StoreError, UnknownSchema
from agentlearn.pages.runs import stored_report
from agentlearn.plugins import version
from agentlearn.store import Store, check_store, database, open_store, read_store, repair_store
from agentlearn.store.codec import DecisionEntry, FeedbackEntry, LiveEntry, encode_entry
from agentlearn.store.database import SCHEMA, Database, open_read_only
from agentlearn.store.journal_file import JournalFile
from agentlearn.store.store_files import Acknowledged
from agentlearn.types.experience import Library, library_of
from agentlearn.types.ids import ProposalId, RolloutId
from agentlearn.types.operation import Feedback, LessonDecision
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Verdict
from tests.support.learn_records import learn_record
from tests.unit.store import nouns

GOLDEN = Path(__file__).parents[2] / "golden" / f"store-v{SCHEMA}" / "store.tar.xz"
LIBRARY = library_of(["When adding, carry.", "When counting, check the ends."], tags=("sums",))
WAITING = nouns.call(1, unit="waiting")
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
    """One of everything that a store holds."""
    await store.save_run(nouns.run_event())
    await store.save_run(nouns.run_event(state="done", report=learn_record().report.model_dump_json()))
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
    with closing(JournalFile(store.directory)) as journal:  # as another process does
        journal.append([encode_entry(DecisionEntry(decision=DECISION))])


def check(directory: Path) -> None:
    """Everything that `fill` saved comes back."""
    with read_store(directory) as reader:
        (row,) = reader.runs()
        assert (row.state, stored_report(row).run) == ("done", learn_record().report.run)
        assert reader.task(nouns.TASK.id) == nouns.TASK
        assert reader.task(nouns.WALK.id) == nouns.WALK
        libraries = [reader.library(one.version) for one in reader.versions_made()]
        assert sorted(one.version for one in libraries) == sorted([LIBRARY.version, CHILD.version])
        assert reader.prompt(PROMPT.sha256) == "Solve ␛ it."
        assert reader.trajectory(nouns.trajectory(0).id) == nouns.trajectory(0)
        assert reader.messages(nouns.trajectory(0).id) == b'[{"kind":"request"}]'
        assert reader.trajectory(nouns.trajectory(1).id) == nouns.trajectory(1, verdict=None, answer="\ud800\x00")
        assert reader.calls(nouns.RUN, "u") == [nouns.call()]
        assert reader.summaries(nouns.RUN) == [nouns.summary(prompts=(PROMPT,))]
        assert [one.ended for one in reader.proposals(nouns.RUN)] == [nouns.applied(prompts=(PROMPT,))]
        assert reader.calls(nouns.RUN, "waiting") == [WAITING]
        assert reader.metrics(nouns.RUN) == {1: {"loss": 0.5}}
        assert reader.decisions() == [DECISION]
        judged = Verdict(status="partial", reward=0.5, reason="half right")
        assert reader.trajectory(LIVE.trajectory.id).verdict == judged
        assert reader.feedback(LIVE.trajectory.id) == [FEEDBACK]
        assert reader.task(LIVE.task.id).fields == {"plan": "free"}
        assert reader.trajectory(FEEDBACK.id).answer == "Use the link."


def unpack(directory: Path) -> None:
    with tarfile.open(GOLDEN) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        packed.extractall(directory)


def columns(directory: Path) -> list[tuple[str, str, str]]:
    with open_read_only(directory / "store.duckdb") as connection:
        return connection.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = 'store'"
            " ORDER BY table_name, column_index"
        ).fetchall()


def test_the_golden_store_is_read_and_written_on(tmp_path: Path) -> None:
    unpack(tmp_path)
    check(tmp_path)
    assert check_store(tmp_path).sound

    async def write_on() -> None:
        async with open_store(tmp_path) as store:
            await store.save_trajectory(nouns.trajectory(2), b"[]")
            await store.save_proposals(nouns.RUN, "epoch-1", 1, [nouns.applied("p2", evidence=(RolloutId("r9"),))])

    asyncio.run(write_on())
    with read_store(tmp_path) as reader:
        assert len(reader.trajectories(nouns.RUN)) == 5
        assert len(reader.proposals(nouns.RUN)) == 2


def test_the_golden_store_has_the_schema_of_today(tmp_path: Path) -> None:
    unpack(tmp_path / "golden")
    Database(tmp_path / "golden", create=False).close()  # adds the columns that older stores lack
    Database(tmp_path / "new", create=True).close()
    assert columns(tmp_path / "golden") == columns(tmp_path / "new")


def test_a_new_store_says_what_made_it(tmp_path: Path) -> None:
    with closing(Database(tmp_path, create=True)) as opened, opened.cursor() as cursor:
        assert cursor.execute("SELECT version, agentlearn, duckdb FROM schema_version").fetchall() == [
            (SCHEMA, version(), duckdb.__version__)
        ]


def refused(directory: Path) -> str:
    """The sentence with which every door refuses a store, which stays as it is."""
    before = {file.name: file.read_bytes() for file in directory.iterdir() if file.name != "store.lock"}
    said = set[str]()
    for door in (lambda: Database(directory, create=True), lambda: repair_store(directory)):
        with pytest.raises(UnknownSchema) as error:
            door()
        said.add(str(error.value))
    try:
        said |= {one.words for one in check_store(directory).findings}
    except AgentlearnError as error:
        said.add(str(error))
    assert {file.name: file.read_bytes() for file in directory.iterdir() if file.name != "store.lock"} == before
    (sentence,) = said
    return sentence


def test_a_store_of_another_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(database, "SCHEMA", SCHEMA + 1)
        Database(tmp_path, create=True).close()
    assert refused(tmp_path) == (
        f"the store {str(tmp_path)!r} has schema {SCHEMA + 1}, written by agentlearn {version()}; this agentlearn"
        f" {version()} reads schema {SCHEMA} only: open it with the agentlearn that wrote it, or pass another --store"
        " DIR"
    )


def test_tables_without_a_number_are_an_unknown_schema(tmp_path: Path) -> None:
    Database(tmp_path, create=True).close()
    with closing(Database(tmp_path, create=False)) as opened, opened.cursor() as cursor:
        cursor.execute("DROP TABLE schema_version")
    assert refused(tmp_path).startswith(f"the store {str(tmp_path)!r} has an unknown schema; this agentlearn ")


def test_a_watermark_of_another_form_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(tmp_path, create=True).close()
    with monkeypatch.context() as patch:
        patch.setattr("agentlearn.store.store_files.MARK", b"ALSMARK9")
        Acknowledged("ab" * 16, 0, 0).write(tmp_path / "store.hwm")
    assert "was written by another version of agentlearn; open the store with that version" in refused(tmp_path)


def test_a_schema_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(database, "version", lambda: 1 / 0)  # after the tables, in the same transaction
        with pytest.raises(ZeroDivisionError):
            Database(tmp_path, create=True)
    Database(tmp_path, create=True).close()
    assert check_store(tmp_path).sound


async def _make(directory: Path) -> None:
    async with open_store(directory) as store:
        await fill(store)
    with closing(JournalFile(directory)) as journal:
        journal.append([encode_entry(one) for one in (WAITING, FeedbackEntry(feedback=FEEDBACK), LIVE)])


def make_golden(directory: Path) -> None:
    """Write the golden store into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    unpacked = directory / "unpacked"
    asyncio.run(_make(unpacked))
    (unpacked / "store.lock").unlink()
    with tarfile.open(directory / "store.tar.xz", "w:xz") as packed:
        for file in sorted(unpacked.iterdir()):
            packed.add(file, arcname=file.name)
    shutil.rmtree(unpacked)


@pytest.mark.parametrize("found", ["1.5.6", "0.10.0"])
def test_an_old_duckdb_is_refused_with_the_reason(found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdb.__version__", found)
    with pytest.raises(StoreError, match=f"needs DuckDB 2 or newer, .* found '{found}': pip install") as caught:
        Database(tmp_path / "store", create=True)
    assert caught.value.code == "store"
    assert not (tmp_path / "store").exists()


if __name__ == "__main__":
    make_golden(Path(sys.argv[1]))
