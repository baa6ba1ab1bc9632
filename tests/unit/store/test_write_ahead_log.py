"""The journal file: acknowledged entries survive crashes and damage at the end of the file."""

import asyncio
import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store import check_store, open_store, read_store
from agentlearn.store import group_commit as group_commit
from agentlearn.store.write_ahead_log import WriteAheadLog, sound_entries
from tests.unit.store import nouns

ROOT = Path(__file__).parents[3]
HEADER_BYTES = 16
entries = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=8)


def written(path: Path, batches: list[list[bytes]]) -> None:
    write_ahead_log = WriteAheadLog(path)
    for batch in batches:
        write_ahead_log.append(batch)
    write_ahead_log.close()


def recovered(path: Path) -> list[bytes]:
    write_ahead_log = WriteAheadLog(path)
    try:
        return write_ahead_log.recover()
    finally:
        write_ahead_log.close()


@given(batches=st.lists(entries, max_size=4))
def test_what_was_appended_is_recovered(tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    written(path, batches)
    assert recovered(path) == [one for batch in batches for one in batch]


@given(batch=entries, torn=st.binary(min_size=1, max_size=60), cut=st.integers(1, 60))
def test_a_torn_end_that_was_never_acknowledged_is_left_out_and_written_over(
    tmp_path_factory: pytest.TempPathFactory, batch: list[bytes], torn: bytes, cut: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    written(path, [batch])
    whole = path.read_bytes()
    path.write_bytes(whole + (struct.pack("<II", len(torn), 7) + torn)[:cut])  # 7 is not its checksum
    write_ahead_log = WriteAheadLog(path)
    assert write_ahead_log.recover() == batch
    write_ahead_log.append([b"next"])
    write_ahead_log.close()
    assert recovered(path) == [*batch, b"next"]


@given(batch=entries, where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_in_what_was_acknowledged_is_never_silent(
    tmp_path_factory: pytest.TempPathFactory, batch: list[bytes], where: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    written(path, [batch])
    content = bytearray(path.read_bytes())
    content[HEADER_BYTES + where % (len(content) - HEADER_BYTES)] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match="store repair"):
        recovered(path)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"something else entirely")
    with pytest.raises(StoreDamaged, match="does not start with the header of a journal file"):
        recovered(path)


def test_a_failed_append_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal"
    write_ahead_log = WriteAheadLog(path)
    write_ahead_log.append([b"first"])

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", full)
        with pytest.raises(OSError, match="No space"):
            write_ahead_log.append([b"second"])
    assert sound_entries(path.read_bytes())[0] == [b"first"]
    write_ahead_log.append([b"third"])
    write_ahead_log.close()
    assert recovered(path) == [b"first", b"third"]


def test_a_full_disk_fails_the_write_and_the_next_record_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "RETRY_PAUSES_S", (0.0, 0.0))

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        async with open_store(tmp_path) as store:
            with monkeypatch.context() as patched:
                patched.setattr(os, "fdatasync", full)
                with pytest.raises(StoreError, match="No space left on device") as told:
                    await store.record(nouns.call(0))
            assert told.value.code == "store_write"
            await store.record(nouns.call(1))
            assert [one.ordinal for one in store.calls(nouns.RUN, nouns.call(1).unit)] == [1]

    asyncio.run(main())


def test_queries_find_records_that_are_still_in_the_journal_file(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            record = nouns.call(0)
            await store.record(record)
            assert sound_entries((tmp_path / "store.journal").read_bytes())[0]
            assert store.calls(nouns.RUN, record.unit) == [record]
            assert not sound_entries((tmp_path / "store.journal").read_bytes())[0]

    asyncio.run(main())


def test_what_a_crash_left_in_the_file_and_in_the_database_is_there_once(tmp_path: Path) -> None:
    file = tmp_path / "store.journal"

    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_trajectory(nouns.trajectory(0), b"[]")
            await store.record(nouns.call(0))
            before = file.read_bytes()
            assert store.counts(nouns.RUN).rollouts == {"ok": 1}  # the query flushes them
        file.write_bytes(before)  # as if the process had died between the commit and the truncation

    asyncio.run(main())
    with read_store(tmp_path) as reader:
        assert reader.counts(nouns.RUN).rollouts == {"ok": 1}
        assert reader.counts(nouns.RUN).calls == 1
        assert reader.trajectory(nouns.trajectory(0).id) == nouns.trajectory(0)
    assert check_store(tmp_path).sound
    assert check_store(tmp_path).tables["trajectory_body"] == 1


RECORD_AND_DIE = """
import asyncio, os, signal, sys
from pathlib import Path
from agentlearn.store import open_store
from tests.unit.store import nouns

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        for ordinal in range(40):
            await store.record(nouns.call(ordinal))
            await store.save_trajectory(nouns.trajectory(ordinal), b"[]")
            await store.save_summary(nouns.summary(f"s{ordinal}"))
            os.write(1, b"%d\\n" % ordinal)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_acknowledged_records_survive_a_sudden_death(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RECORD_AND_DIE, str(tmp_path)]
    died = subprocess.run(command, capture_output=True, text=True, check=False, timeout=480, cwd=ROOT)
    assert died.returncode == -9, died.stderr
    assert len(died.stdout.split()) == 40
    assert check_store(tmp_path).journal_entries == 120  # none of them is in the database yet
    with read_store(tmp_path) as reader:
        assert [one.ordinal for one in reader.calls(nouns.RUN, nouns.call(0).unit)] == list(range(40))
        assert reader.trajectory(nouns.trajectory(39).id) == nouns.trajectory(39)
    with read_store(tmp_path) as reader:  # and only once
        counts = reader.counts(nouns.RUN)
        assert (counts.calls, counts.rollouts, counts.summaries) == (40, {"ok": 40}, 40)
