"""Stores are merged by id: twice is once, in any order, nothing erased comes back; archives hold what left a store."""

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from agentlearn import Recorder, open_store, read_store
from agentlearn.cli.app import run as command_line
from agentlearn.errors import AgentlearnError, ConfigError, StoreDamaged, StoreMissing, UnknownSchema
from agentlearn.library import LibraryStore
from agentlearn.live.forgetting import forget
from agentlearn.live.several_stores import archive_store, merge_stores
from agentlearn.store import check_store
from agentlearn.store.archive import ARCHIVE
from agentlearn.store.database import DATABASE, Database
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.journal_file import JOURNAL
from agentlearn.store.store_files import WATERMARK
from agentlearn.types.experience import Experience, Library, Origin
from agentlearn.types.ids import ExperienceId, RolloutId, RunId, content_hash
from tests.unit.live.test_forget import ANA, BOB, digests, fill, tables
from tests.unit.store import nouns

LATER = datetime.now(UTC) + timedelta(days=1)


def rows(store: Path) -> dict[str, list[str]]:
    """The rows of each table as texts, sorted, without the commits that they came with."""
    found = dict[str, list[str]]()
    with closing(Database(store, create=False)) as database, database.cursor() as cursor:
        GroupCommit(database).close()
        for (table,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            if table not in {"commit_log", "schema_version", "store_identity"}:
                own = "WHERE kind <> 'merged'" if table == "blob" else ""  # how far other stores were read
                query = f"SELECT t::VARCHAR FROM (SELECT * EXCLUDE (seq) FROM {table} {own}) t"
                of_table = cursor.execute(query).fetchall()
                found[table] = sorted(one for (one,) in of_table)
    return found


def segment(folder: Path, name: str, *texts: str) -> list[RolloutId]:
    """What a recorder of another machine writes: a journal without a database."""
    with Recorder("support", folder) as recorder:
        return [
            recorder.record_sync(
                [{"role": "user", "content": text}, {"role": "assistant", "content": f"{name} {text}"}]
            )
            for text in texts
        ]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "store"
    fill(folder)
    return folder


def copy(filled: Path, to: Path) -> Path:
    return Path(shutil.copytree(filled, to))


@pytest.mark.slow
def test_segments_and_a_whole_store_come_together_and_merging_twice_changes_nothing(
    filled: Path, tmp_path: Path
) -> None:
    first, second, target = tmp_path / "a", tmp_path / "b", tmp_path / "target"
    ids = [*segment(first, "a", "x", "y"), *segment(second, "b", "x")]
    with Recorder("support", second) as recorder:  # feedback on what another machine recorded
        recorder.feedback_sync(ids[0], reward=(0.0, "wrong"), demonstration="right")
    before = digests(filled) | digests(first) | digests(second)
    done = merge_stores([second, first, filled], target, libraries=True)
    assert [one.added.get("trajectory") for one in done] == [1, 2, 4]
    assert digests(filled) | digests(first) | digests(second) == before
    with read_store(target) as reader:
        assert sorted(one.reward for one in reader.live("support")) == [*[0.0] * 3, *[1.0] * 3]  # with demonstrations
    again, known = rows(target), LibraryStore(target / "libraries")
    assert (known.names(), known.load("support")) == (("support",), LibraryStore(filled / "libraries").load("support"))
    assert check_store(target).sound
    repeated = merge_stores([first, second, filled], target)
    assert [(one.added, one.libraries, one.differing) for one in repeated] == [({}, (), ())] * 3
    assert rows(target) == again
    other = tmp_path / "other order"
    merge_stores([filled, first, second], other, libraries=True)
    assert rows(other) | {"library_version": []} == again | {"library_version": []}  # one saved time of three stays


def test_a_recorder_goes_on_and_the_rest_is_taken_in_later(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with Recorder("support", source) as recorder:
        for part in range(2):
            recorder.record_sync([{"role": "user", "content": f"{part}?"}, {"role": "assistant", "content": "yes"}])
            assert merge_stores([source], target)[0].added["trajectory"] == 1


@pytest.mark.slow
def test_a_source_is_read_on_from_where_it_was_read_and_anew_when_it_or_this_store_lost_something(
    tmp_path: Path,
) -> None:
    source, target, earlier, empty = (tmp_path / name for name in ("source", "target", "earlier", "empty"))

    def taken_in(sources: Path = source) -> int:
        (done,) = merge_stores([sources], target)
        return done.added.get("trajectory", 0)

    def back(backup: Path, store: Path) -> None:
        shutil.rmtree(store)
        copy(backup, store)

    Database(empty, create=True).close()
    copy(empty, target)
    first = segment(source, "a", "x", "y")
    copy(source, earlier)
    assert (taken_in(), taken_in()) == (2, 0)
    segment(source, "a", "z")
    assert (taken_in(), taken_in()) == (1, 0)
    back(empty, target)
    assert taken_in() == 3, "this store was restored from a backup"
    back(earlier, source)
    segment(source, "b", "other")
    assert (taken_in(), taken_in()) == (1, 0), "the source was restored, and went on in another way"
    with read_store(source) as reader:
        assert reader.live_without_reward("support") == 3
    segment(source, "c", "p", "q")
    assert (taken_in(), taken_in()) == (2, 0), "it has a database now"
    forget(source, rollout=first[0], lessons="park")
    segment(source, "d", "r")
    forget(target, rollout=first[1], lessons="park")
    assert (taken_in(), taken_in()) == (1, 0), "nothing that was erased comes back"
    shutil.rmtree(source)
    segment(source, "e", "another store")
    assert (taken_in(), taken_in()) == (1, 0)


def test_what_was_erased_does_not_come_back(filled: Path, tmp_path: Path) -> None:
    target, backup, third = copy(filled, tmp_path / "target"), copy(filled, tmp_path / "backup"), tmp_path / "third"
    forget(target, user="ana", lessons="park")
    left = rows(target)
    merge_stores([backup], target)
    assert (tables(target).count(ANA), rows(target)) == (0, left)
    merge_stores([target, backup], third)  # the receipts come along
    assert (tables(third).count(ANA), tables(third).count(BOB)) == (0, tables(target).count(BOB))


def test_two_records_of_one_id_are_refused(filled: Path, tmp_path: Path) -> None:
    target, other = copy(filled, tmp_path / "target"), copy(filled, tmp_path / "other")
    with closing(Database(other, create=False)) as database, database.cursor() as cursor:
        cursor.execute("UPDATE trajectory_body SET messages = '[]' WHERE rollout = (SELECT min(rollout) FROM live)")
    before = rows(target)
    with pytest.raises(ConfigError, match=r"has another trajectory_body '[0-9a-f]{32}' than this store") as refused:
        merge_stores([other], target)
    assert (refused.value.code, rows(target)) == ("bad_config", before)


def damage(store: Path) -> None:
    with (store / JOURNAL).open("r+b") as file:
        file.write(b"x" * 100)


def newer(store: Path) -> None:
    with duckdb.connect(str(store / DATABASE)) as connection:
        connection.execute("UPDATE schema_version SET version = 99")


def empty(store: Path) -> None:
    for file in store.iterdir():
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    (store / "notes.txt").write_text("mine")


@pytest.mark.parametrize(("harm", "error"), [(damage, StoreDamaged), (newer, UnknownSchema), (empty, StoreMissing)])
def test_a_bad_source_is_refused_by_its_name_and_changes_nothing(
    filled: Path, tmp_path: Path, harm: Callable[[Path], None], error: type[AgentlearnError]
) -> None:
    target, source = tmp_path / "target", copy(filled, tmp_path / "source")
    segment(target, "t", "x")
    harm(source)
    before = rows(target)
    with pytest.raises(error, match=str(source)):
        merge_stores([source], target)
    assert rows(target) == before
    with pytest.raises(ConfigError, match="merged into"):
        merge_stores([target], target)


def test_lessons_of_another_store_wait_for_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "theirs", tmp_path / "mine"
    segment(source, "a", "x")
    LibraryStore(source / "libraries").publish("shop", Library.of(["Send the codes to the desk.", "Greet them."]))
    assert command_line(["store", "merge", str(source), "--store", str(target)]) == 0
    assert "lessons of shop wait for you: agentlearn review" in capsys.readouterr().out
    held = LibraryStore(target / "libraries").load("shop")
    assert held.experiences == ()
    assert {one.status for one in held.withheld} == {"pending"}
    assert all(one.experience.origin.strangers for one in held.withheld)
    (again,) = merge_stores([source], target, libraries=True)
    assert (again.added, again.libraries, again.waiting, again.differing) == ({}, (), (), ())


def test_a_library_of_the_same_name_stays_and_the_command_says_what_to_do(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    own = Library(
        experiences=(Experience(id=ExperienceId(content_hash("own")), lesson="Be kind.", origin=Origin(kind="add")),)
    )
    LibraryStore(target / "libraries").publish("support", own)
    assert command_line(["store", "merge", str(filled), "--store", str(target)]) == 0
    assert LibraryStore(target / "libraries").load("support") == own
    assert "agentlearn library export support --out support.json" in capsys.readouterr().out


async def evaluated(store: Path) -> None:
    """A run that measured, with a call of each rollout; and one that was interrupted and can go on."""
    async with open_store(store) as opened:
        other = RunId(content_hash("interrupted")[:26])
        await opened.save_run(nouns.run_event(run=other, kind="eval", state="interrupted"))
        await opened.save_trajectory(nouns.trajectory(run=other, phase="eval"), b"[]")
        await opened.save_tasks([nouns.TASK])
        await opened.save_run(nouns.run_event(kind="eval", state="done", report="{}"))
        for g in range(3):
            one = nouns.trajectory(g, phase="eval")
            await opened.save_trajectory(one, b"[]")
            await opened.record(nouns.call(g, unit=one.id))


@pytest.mark.slow
def test_an_archive_holds_what_leaves_the_store_and_gives_it_back(filled: Path, tmp_path: Path) -> None:
    store, to = copy(filled, tmp_path / "store"), tmp_path / "archives"
    asyncio.run(evaluated(store))
    ids = segment(store, "old", "u", "v")
    with Recorder("support", store) as recorder:
        recorder.feedback_sync(ids[0], reward=(0.0, "wrong"), demonstration="right")
    before = rows(store)
    kept = archive_store(store, LATER, to, keep=True)
    assert kept is not None
    assert rows(store) == before
    done = archive_store(store, LATER, to)  # the same rows, so the same archive
    assert done is not None
    assert (done.archive, done.removed["trajectory"]) == (kept.archive, 6)
    after = rows(store)
    assert check_store(store).sound
    for table in ("proposal", "experience", "library_version", "decision", "run_event"):
        assert after[table] == before[table]
    with read_store(store) as here, read_store(to) as there:
        lessons = [one.id for one in here.learned_lessons()]
        assert here.learned_on(lessons)  # lessons still know their tasks
        assert (there.counts(nouns.RUN).rollouts, here.counts(nouns.RUN).rollouts) == ({"ok": 3}, {})
        assert there.trajectory(nouns.trajectory(1, phase="eval").id).reward == 1.0
        assert [one.run for one in there.runs()] == [one.run for one in here.runs() if one.run in done.runs]
        assert there.live("support")
    assert archive_store(store, LATER, to) is None
    assert [one for one in forget(store, user="ana", dry_run=True).unreached if done.archive in one]
    with pytest.raises(ConfigError, match=f"not searched: '{done.archive}'"):
        forget(store, user="nobody", dry_run=True)
    assert merge_stores([to], store)[0].added["trajectory"] == 5  # a demonstration is made again
    assert rows(store) == before


def test_a_damaged_archive_and_a_second_copy_are_refused(filled: Path, tmp_path: Path) -> None:
    store, to = copy(filled, tmp_path / "store"), tmp_path / "archives"
    segment(store, "old", "u")
    done = archive_store(store, LATER, to, keep=True)
    assert done is not None
    segment(store, "late", "z")
    with pytest.raises(ConfigError, match="would count twice"):
        archive_store(store, LATER, to)
    assert check_store(store).sound
    file = Path(done.archive, "step.parquet")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StoreDamaged, match="not as it was written"):
        merge_stores([done.archive], tmp_path / "target")
    Path(done.archive, ARCHIVE).write_text("{")
    with pytest.raises(StoreDamaged, match="cannot be read"):
        merge_stores([to], tmp_path / "target")
    assert (tmp_path / "target" / WATERMARK).exists()


KILLED = """
import os, signal, sys
from datetime import datetime, timezone
from pathlib import Path
from agentlearn.live.several_stores import archive_store, merge_stores
what, source, target, at, seen = *sys.argv[1:4], int(sys.argv[4]), 0

def count(frame, event, called):
    global seen
    if event == "c_call" and called.__name__ in {"execute", "commit", "fsync", "rename", "replace", "unlink"}:
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)

sys.setprofile(count)
if what == "merge":
    merge_stores([source], target)
else:
    archive_store(target, datetime(2100, 1, 1, tzinfo=timezone.utc), target + "-archives")
print(seen)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["merge", "archive"])
def test_a_kill_at_any_step_loses_nothing_and_the_same_command_completes_it(
    filled: Path, tmp_path: Path, subtests: pytest.Subtests, what: str
) -> None:
    begun = tmp_path / "begun"
    asyncio.run(evaluated(begun))
    segment(begun, "t", "x")
    start = rows(begun)

    def run(at: int) -> tuple[Path, int, str]:
        target = copy(begun, tmp_path / f"{at}")
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, what, filled, target, str(at)], capture_output=True, text=True, check=False
        )
        return target, ended.returncode, ended.stdout

    whole, status, steps = run(0)
    assert (status, int(steps) > 40) == (0, True)
    end, seen = rows(whole), set[bool]()
    for at in range(7, int(steps) + 1, int(steps) // 6):
        with subtests.test(str(at)):
            target, status, _ = run(at)
            assert status == -signal.SIGKILL
            left = rows(target)
            assert left in (start, end)
            assert check_store(target).sound
            seen.add(left == end)
            if what == "merge":
                merge_stores([filled], target)
                assert LibraryStore(target / "libraries").names() == ("support",)
            else:
                archive_store(target, datetime(2100, 1, 1, tzinfo=UTC), f"{target}-archives")
                with read_store(f"{target}-archives") as reader:
                    assert len(reader.live("support")) + reader.live_without_reward("support") == 1
            assert rows(target) == end
    assert seen == {False, True}
