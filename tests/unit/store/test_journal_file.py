"""The journal: acknowledged entries survive crashes and full disks, and every process may append."""

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store import check_store, open_store, read_store
from agentlearn.store import group_commit as group_commit
from agentlearn.store.codec import encode_entry
from agentlearn.store.database import Database, JournalState
from agentlearn.store.journal_file import JournalFile, entry_checksum, intact_entries
from agentlearn.store.store_files import WATERMARK, Acknowledged, Watermark
from tests.unit.store import nouns

batches = st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=8), max_size=4)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    Database(tmp_path, create=True).close()
    return tmp_path


@pytest.fixture
def journal(store: Path) -> Iterator[JournalFile]:
    with closing(JournalFile(store)) as opened:
        yield opened


@settings(max_examples=15)
@given(batches=batches)
def test_what_was_appended_is_read_back_in_order(tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]]):
    store = tmp_path_factory.mktemp("journal")
    Database(store, create=True).close()
    numbers = list[int]()
    for batch in batches:
        with closing(JournalFile(store)) as journal:
            numbers.extend(journal.append(batch))
    contents = [one for batch in batches for one in batch]
    assert numbers == list(range(1, len(contents) + 1))
    with closing(JournalFile(store)) as journal:
        assert journal.last() == len(contents)
        assert journal.read(1, len(contents)) == contents
    state = JournalState.read(store)
    assert (state.last, state.entries, state.problem) == (
        len(contents),
        dict(enumerate(contents, start=1)),
        None,
    )
    assert Acknowledged.read(store / WATERMARK) == (
        state.identity,
        len(contents),
        0,
        (store / "store.duckdb").stat().st_size,
    )


@given(content=st.binary(min_size=1), number=st.integers(1, 2**62), bit=st.integers(0, 7), at=st.integers(0))
def test_a_checksum_notices_a_flipped_bit_and_another_number(content: bytes, number: int, bit: int, at: int) -> None:
    flipped = bytearray(content)
    flipped[at % len(content)] ^= 1 << bit
    wanted = entry_checksum(number, content)
    assert intact_entries([(number, wanted, content)]) == {number: content}
    assert intact_entries([(number, wanted, bytes(flipped))]) == {}
    assert intact_entries([(number + 1, wanted, content)]) == {}


def test_numbers_are_never_used_again(journal: JournalFile) -> None:
    assert list(journal.append([b"a", b"b"])) == [1, 2]
    journal.remove(2)
    assert journal.last() == 2
    assert list(journal.append([b"c"])) == [3]
    with pytest.raises(StoreDamaged, match="lacks 2 of its entries 1 to 3"):
        journal.read(1, 3)


class Unstorable(bytes):
    """Bytes that SQLite fails to store, after it has stored those before them."""

    def __conform__(self, protocol: object) -> object:
        raise RuntimeError("no")


@pytest.mark.parametrize("before", [1, 32, 1_000])
def test_a_failed_append_of_any_size_leaves_nothing_and_uses_no_number(journal: JournalFile, before: int) -> None:
    journal.append([b"first"])
    with pytest.raises(RuntimeError, match="no"):
        journal.append([*[b"second"] * before, Unstorable(b"third")])
    assert list(journal.append([b"%d" % n for n in range(before)])) == list(range(2, before + 2))
    assert journal.read(1, before + 1) == [b"first", *[b"%d" % n for n in range(before)]]


def test_a_commit_is_acknowledged_on_disk(journal: JournalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[int]()
    monkeypatch.setattr(os, "fdatasync", synced.append)
    journal.append([b"first", b"second"])
    before = len(synced)
    journal.acknowledge(commit=7, journal=2)
    assert len(synced) == before + 1
    assert journal.acknowledged()[1:3] == (2, 7)
    journal.acknowledge(commit=6, journal=1)
    assert journal.acknowledged()[1:3] == (2, 7)


def test_a_journal_that_goes_back_in_time_is_refused(store: Path, journal: JournalFile) -> None:
    journal.append([b"first"])
    with closing(Watermark(store / WATERMARK)) as mark:
        mark.lift(journal=5)
    with pytest.raises(StoreDamaged, match="ends with entry 1, but 5 were acknowledged"):
        journal.append([b"second"])


def test_a_journal_of_another_store_is_refused(store: Path) -> None:
    known = Acknowledged.read(store / WATERMARK)
    assert isinstance(known, Acknowledged)
    known._replace(identity="0" * 32).write(store / WATERMARK)
    with pytest.raises(StoreDamaged, match="belongs to another store"):
        JournalFile(store)


@given(marks=st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)), min_size=1))
def test_a_watermark_only_rises(tmp_path_factory: pytest.TempPathFactory, marks: list[tuple[int, int]]) -> None:
    path = tmp_path_factory.mktemp("mark") / WATERMARK
    Acknowledged("ab" * 16, 0, 0).write(path)
    with closing(Watermark(path)) as mark:
        for journal, commit in marks:
            mark.lift(journal=journal, commit=commit)
    assert Acknowledged.read(path) == ("ab" * 16, max(one for one, _ in marks), max(one for _, one in marks), 0)


def test_a_forked_child_is_refused(journal: JournalFile) -> None:
    told_r, told_w = os.pipe()
    if (child := os.fork()) == 0:
        try:
            journal.append([b"mine"])
        except StoreError as error:
            os.write(told_w, error.code.encode())
        journal.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(told_r, 99) == b"store"
    assert list(journal.append([b"ours"])) == [1]


def test_queries_find_records_that_wait_in_the_journal(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            record = nouns.call(0)
            await store.record(record)
            assert list(JournalState.read(tmp_path).entries) == [1]
            assert store.calls(nouns.RUN, record.unit) == [record]
            assert list(JournalState.read(tmp_path).entries) == [1]  # the database has it in its log alone
            await store.checkpoint()
            assert not JournalState.read(tmp_path).entries

    asyncio.run(main())


def test_entries_of_other_processes_are_found_by_the_next_query(tmp_path: Path) -> None:
    rollout = nouns.trajectory(0)

    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.record(nouns.call(0))
            with closing(JournalFile(tmp_path)) as other:
                other.append([encode_entry(nouns.call(1)), encode_entry(nouns.call(2))])
            await store.record(nouns.call(3))
            assert [one.ordinal for one in store.calls(nouns.RUN, nouns.call(1).unit)] == [0, 1, 2, 3]
            await store.save_trajectory(rollout, b"[]")
            assert store.counts(nouns.RUN).rollouts == {"ok": 1}

    asyncio.run(main())
    assert check_store(tmp_path).sound


def test_entries_that_a_crash_left_in_the_journal_and_in_the_database_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_trajectory(nouns.trajectory(0), b"[]")
            await store.record(nouns.call(0))
            assert store.counts(nouns.RUN).rollouts == {"ok": 1}

    with monkeypatch.context() as patched:
        patched.setattr(JournalFile, "remove", lambda *_: None)  # pyright: ignore[reportUnknownLambdaType]
        asyncio.run(main())
    assert len(JournalState.read(tmp_path).entries) == 2
    with read_store(tmp_path) as reader:
        assert reader.counts(nouns.RUN).rollouts == {"ok": 1}
        assert reader.counts(nouns.RUN).calls == 1
        assert reader.trajectory(nouns.trajectory(0).id) == nouns.trajectory(0)
    report = check_store(tmp_path)
    assert report.sound
    assert (report.tables["trajectory_body"], report.tables["journal"]) == (1, 1)


def append_many(store: Path, name: int, count: int) -> None:
    with closing(JournalFile(store)) as journal:
        for n in range(count):
            journal.append([f"{name}/{n}".encode()])


@pytest.mark.slow
def test_eight_processes_append_at_once_and_none_is_refused(store: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=append_many, args=(store, name, 100)) for name in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert [worker.exitcode for worker in workers] == [0] * 8
    state = JournalState.read(store)
    assert state.last == 800
    assert sorted(state.entries.values()) == sorted(f"{name}/{n}".encode() for name in range(8) for n in range(100))
