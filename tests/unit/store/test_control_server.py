"""While a process has the store open, other processes of the same user can read it and do nothing else."""

import asyncio
import itertools
import json
import os
import socket
import stat
import struct
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run as command_line
from agentlearn.errors import ConfigError, StoreDamaged, StoreError, StoreLocked
from agentlearn.store import Selection, Store, StoreReader, open_store, read_store, trajectory_store
from agentlearn.store import control_server as wire
from agentlearn.store.queries import Query
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId
from tests.unit.store import nouns

HOSTILE = "lone \ud800, zero \x00, sign \u241b, 🙂"


def while_held(directory: Path, act: Callable[[Store], Awaitable[None]]) -> None:
    """Open a store with one run in progress, and act."""

    async def main() -> None:
        async with open_store(directory) as store:
            await store.save_run(nouns.run_event())
            await store.save_tasks([nouns.TASK])
            await store.save_version(EMPTY_LIBRARY, run=nouns.RUN)
            await store.save_trajectory(nouns.trajectory(0, answer=HOSTILE), b"[1]")
            await store.record(nouns.call())
            await act(store)

    asyncio.run(main())


def everything(reader: StoreReader) -> list[Any]:
    run = nouns.RUN
    one = reader.trajectories(run)[0].id
    return [
        reader.runs(),
        reader.run(run[:4]),
        reader.trajectories(run, "epoch-1"),
        reader.trajectory(one[:8]),
        reader.finished(run, "epoch-1", 1),
        reader.selected(Selection(domain="math", min_reward=0.5)),
        reader.whole([one]),
        reader.messages(one),
        reader.task(nouns.TASK.id),
        reader.library(EMPTY_LIBRARY.version),
        reader.run_inputs(run),
        reader.calls(run, "u"),
        reader.unfinished_calls(run),
        reader.stage_totals(run),
        reader.counts(run),
        reader.summaries(run),
        reader.proposals(run),
    ]


def test_a_reader_elsewhere_sees_the_same_as_the_holder(tmp_path: Path) -> None:
    async def act(store: Store) -> None:
        with read_store(tmp_path) as reader:
            assert everything(reader) == everything(store)
            assert reader.run(nouns.RUN).state == "running"
            assert reader.trajectories(nouns.RUN)[0].outcome == "ok"
            assert reader.trajectory(reader.trajectories(nouns.RUN)[0].id).answer == HOSTILE
            await store.save_trajectory(nouns.trajectory(1), b"[]")
            assert len(reader.trajectories(nouns.RUN)) == 2  # as it grows
            with pytest.raises(ConfigError, match="has no task whose id starts with 'zz'"):
                reader.task("zz")

    while_held(tmp_path, act)


def test_commands_answer_while_another_process_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def act(store: Store) -> None:
        async def write() -> None:
            for g in itertools.count(1):
                await store.save_trajectory(nouns.trajectory(g), b"[]")

        there, rollout = ["--store", str(tmp_path), "--json"], store.trajectories(nouns.RUN)[0].id
        writing = asyncio.create_task(write())
        for words in (["runs", "list"], ["trace", rollout], ["runs", "show", nouns.RUN]):
            assert await asyncio.to_thread(command_line, [*words, *there]) == 0
        assert not writing.done()
        writing.cancel()
        await asyncio.wait({writing})

    while_held(tmp_path, act)
    runs, trace, run = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [(row["run"], row["state"]) for row in runs["runs"]] == [(nouns.RUN, "running")]
    assert trace["task"]["problem"] == nouns.TASK.problem
    assert trace["trajectory"]["answer"] == HOSTILE
    assert run["rollouts"]


def test_a_run_that_begins_or_ends_while_it_is_read_is_not_called_interrupted(tmp_path: Path) -> None:
    seen, over = set[str](), threading.Event()

    def look() -> None:
        with read_store(tmp_path) as reader:
            while not over.is_set():
                seen.update(row.state for row in reader.runs(limit=2))

    async def act(store: Store) -> None:
        looking = asyncio.create_task(asyncio.to_thread(look))
        for number in range(150):
            run = RunId(f"01jl{number:04}" + "0" * 18)
            await store.save_run(nouns.run_event(run=run))
            await store.save_run(nouns.run_event(run=run, state="done"))
        over.set()
        await looking

    while_held(tmp_path, act)
    assert seen == {"running", "done"}


def test_the_socket_is_private_takes_its_place_and_goes_with_the_store(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100) / ("e" * 100)  # a long path makes no difference
    directory.mkdir(parents=True)
    (directory / wire.SOCKET).write_text("left behind")

    async def act(_: Store) -> None:
        mode = (directory / wire.SOCKET).stat().st_mode
        assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)
        with read_store(directory) as reader:
            assert len(reader.runs()) == 1

    while_held(directory, act)
    assert not (directory / wire.SOCKET).exists()
    assert all(not one.name.startswith("agentlearn-control") for one in threading.enumerate())


def raw(directory: Path, sent: bytes) -> bytes:
    """The server's reply to these bytes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        with wire.socket_address(directory) as address:
            connection.connect(address)
        connection.sendall(sent)
        return wire.receive_frame(connection, wire.MAX_ANSWER_BYTES)


def framed(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def asked(**changes: Any) -> bytes:
    values = {"kind": "query", "dialect": wire.DIALECT, "query": "RUNS", "parameters": [50]}
    return framed(json.dumps(values | changes).encode())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (framed(b"no json"), "bad_question"),
        (framed(b"{}"), "bad_question"),
        (asked(kind="commit"), "bad_question"),
        (asked(sql="DROP TABLE task"), "bad_question"),
        (asked(parameters=[{"a": 1}]), "bad_question"),
        (asked(parameters=[1] * 9), "bad_question"),
        (asked(query="SELECT 1"), "unknown_query"),
        (asked(query="__class__"), "unknown_query"),
        (asked(dialect="other"), "other_dialect"),
        (asked(parameters=["x", "y", "z"]), "store"),
        (struct.pack("<I", wire.MAX_QUESTION_BYTES + 1), "bad_frame"),
    ],
)
def test_what_is_no_question_gets_a_typed_refusal_and_the_next_one_an_answer(
    tmp_path: Path, sent: bytes, code: str
) -> None:
    async def act(_: Store) -> None:
        assert wire.ControlReply.model_validate_json(raw(tmp_path, sent)).code == code
        assert wire.ControlReply.model_validate_json(raw(tmp_path, asked())).rows

    while_held(tmp_path, act)


def test_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(_: Store) -> None:
        monkeypatch.setattr(wire, "peer_uid", lambda _: os.geteuid() + 1)
        assert wire.ControlReply.model_validate_json(raw(tmp_path, asked())).code == "other_user"
        with pytest.raises(StoreLocked), read_store(tmp_path):
            pass

    while_held(tmp_path, act)


def test_an_answer_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(_: Store) -> None:
        with read_store(tmp_path) as reader:
            monkeypatch.setattr(wire, "MAX_ANSWER_BYTES", 200)
            with pytest.raises(StoreError) as refused:
                reader.runs()
            assert refused.value.code == "too_large"

    while_held(tmp_path, act)


def test_damage_is_reported_as_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(store: Store) -> None:
        def damaged(*_: object) -> list[dict[str, Any]]:
            raise StoreDamaged("a block is damaged")

        with read_store(tmp_path) as reader:
            monkeypatch.setattr(type(store._local), "rows", damaged)
            with pytest.raises(StoreDamaged, match="a block is damaged"):
                reader.runs()

    while_held(tmp_path, act)


def test_a_holder_that_does_not_answer_is_named_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "FIRST_ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(trajectory_store, "HANDOVER_S", 0.1)

    async def act(_: Store) -> None:
        (tmp_path / wire.SOCKET).unlink()
        silent = socket.socket(socket.AF_UNIX)
        for there in (False, True):  # no socket at all, and one where nobody listens to what is said
            if there:
                with wire.socket_address(tmp_path) as address:
                    silent.bind(address)
                silent.listen(1)
            with pytest.raises(StoreLocked, match=f"is in use by process {os.getpid()} on "), read_store(tmp_path):
                pass
        silent.close()

    while_held(tmp_path, act)


def test_a_reader_opens_the_store_itself_when_the_holder_ends(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_run(nouns.run_event())
            reading = read_store(tmp_path)
            reader = reading.__enter__()
        assert [row.run for row in reader.runs()] == [nouns.RUN]
        reading.__exit__(None, None, None)

    asyncio.run(main())


def test_a_caller_who_never_asks_does_not_keep_the_store_open(tmp_path: Path) -> None:
    callers: list[socket.socket] = []

    async def act(_: Store) -> None:
        for _ in range(6):  # more than are served at once
            caller = socket.socket(socket.AF_UNIX)
            with wire.socket_address(tmp_path) as address:
                caller.connect(address)
            callers.append(caller)

    while_held(tmp_path, act)
    for caller in callers:
        with caller:
            caller.settimeout(60)
            with suppress(ConnectionResetError):  # one who never got a turn
                assert caller.recv(1) == b""  # one who was being served, cut off when the store was closed
    assert not (tmp_path / wire.SOCKET).exists()


def test_a_store_works_where_there_can_be_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory_store, "HANDOVER_S", 0.1)
    (tmp_path / wire.SOCKET).mkdir()

    async def act(store: Store) -> None:
        assert len(store.runs()) == 1
        with pytest.raises(StoreLocked), read_store(tmp_path):
            pass

    while_held(tmp_path, act)


def test_every_query_only_reads() -> None:
    for query in Query:
        assert query.value.split()[0] in {"FROM", "SELECT", "WITH"}
        assert ";" not in query.value
