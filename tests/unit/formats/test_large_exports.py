"""Export and import of a large store: in order, in bounded memory, whole or not at all."""

import asyncio
import itertools
import json
import random
import socket
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import CachePoint, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart
from pydantic_ai.messages import UserPromptPart as Asked

import agentlearn.formats.import_logs as importing
import agentlearn.store.control_server as server
from agentlearn.errors import DataError, StoreError, StoreMissing
from agentlearn.formats import LineFormat, export_lines, import_file
from agentlearn.store import Selection, Store, open_store, read_store
from agentlearn.store import control_server as remote
from agentlearn.store.control_server import send_frame
from agentlearn.store.queries import Query
from agentlearn.store.reader import LocalSource, Parameter
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict
from tests.unit.store import nouns

FORMS: tuple[LineFormat, ...] = ("openai-jsonl", "trl-jsonl", "trl-sft", "trl-grpo", "trl-dpo")
TASKS = [Task.of("math", f"What is {at} + {at}?", str(2 * at)) for at in range(9)]
GROUP_SIZE = 8
ODD = "😀 ␛"


def messages(text: str) -> bytes:
    asked = ModelRequest(parts=[Asked(content="What is it?")])
    return ModelMessagesTypeAdapter.dump_json([asked, ModelResponse(parts=[TextPart(content=text)])])


async def fill_shuffled(store: Store) -> None:
    """Save the rollouts of nine tasks in an arbitrary order."""
    await store.save_run(nouns.run_event(state="done"))
    await store.save_tasks(TASKS)
    places = list(itertools.product(TASKS, range(GROUP_SIZE)))
    random.Random(3).shuffle(places)
    for task, g in places:
        verdict = Verdict(status="partial", reward=g / GROUP_SIZE)
        rollout = nouns.trajectory(g, id=f"{task.id}-{g}", task=task.id, batch=0, verdict=verdict, started_at=nouns.AT)
        await store.save_trajectory(rollout, messages(f"{task.answer} by {g} {ODD}"))


@pytest.fixture
def shuffled(tmp_path: Path) -> Path:
    async def filled() -> None:
        async with open_store(tmp_path / "store") as store:
            await fill_shuffled(store)

    asyncio.run(filled())
    return tmp_path / "store"


def exported(store: Path, out: Path, form: LineFormat) -> list[dict[str, Any]]:
    with read_store(store) as reader:
        export_lines(reader, Selection(), out, form)
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_lines_are_in_the_order_of_the_rollouts_whatever_the_order_of_storage(shuffled: Path, tmp_path: Path) -> None:
    lines = exported(shuffled, tmp_path / "out.jsonl", "openai-jsonl")
    expected = [
        (task, f"{answer} by {g} {ODD}")
        for task, answer in sorted((one.id, one.answer) for one in TASKS)
        for g in range(GROUP_SIZE)
    ]
    assert [(one["task"], one["messages"][-1]["content"]) for one in lines] == expected


@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_queries_does_not_grow_with_the_rollouts(
    shuffled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: LineFormat
) -> None:
    asked, rows = list[Query](), LocalSource.rows

    def counted(source: LocalSource, query: Query, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        asked.append(query)
        return rows(source, query, parameters)

    monkeypatch.setattr(LocalSource, "rows", counted)
    assert exported(shuffled, tmp_path / "out.jsonl", form)
    assert len(asked) <= 1


@pytest.mark.parametrize("form", ["openai-jsonl", "trl-dpo"])
def test_an_export_from_a_store_that_another_process_holds_needs_no_large_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: LineFormat
) -> None:
    monkeypatch.setattr(server, "MAX_ANSWER_BYTES", 1_000)
    monkeypatch.setattr(remote, "MAX_ANSWER_BYTES", 1_000)

    async def held() -> list[dict[str, Any]]:
        async with open_store(tmp_path / "store") as store:
            await fill_shuffled(store)
            found = await asyncio.to_thread(exported, tmp_path / "store", tmp_path / "held.jsonl", form)
            assert not list((tmp_path / "store" / "staging").iterdir())
            return found

    assert asyncio.run(held()) == exported(tmp_path / "store", tmp_path / "free.jsonl", form)


def test_tables_that_nobody_receives_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(to: socket.socket, frame: bytes) -> None:
        if b'"folder"' in frame:
            raise BrokenPipeError
        send_frame(to, frame)

    monkeypatch.setattr(server, "send_frame", gone)

    async def held() -> None:
        async with open_store(tmp_path) as store:
            await fill_shuffled(store)
            with pytest.raises(StoreError, match="stopped answering"):
                await asyncio.to_thread(exported, tmp_path, tmp_path / "out.jsonl", "trl-sft")

    asyncio.run(held())
    assert not (tmp_path / "out.jsonl").exists()
    assert not list((tmp_path / "staging").glob("*"))


def test_an_export_that_fails_half_way_leaves_the_older_file(shuffled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("older\n")
    odd = ModelMessagesTypeAdapter.dump_json([ModelRequest(parts=[Asked(content=["see", CachePoint()])])])

    async def add() -> None:
        async with open_store(shuffled) as store:
            later = nouns.trajectory(0, id="odd", phase="later", task=TASKS[0].id)
            await store.save_trajectory(later, odd)

    asyncio.run(add())
    with pytest.raises(DataError, match="rollout odd: a message has a part"):
        exported(shuffled, out, "openai-jsonl")
    assert out.read_text() == "older\n"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out.jsonl", "store"]
    assert not list((shuffled / "staging").glob("*"))


def log_of(file: Path, lines: int) -> Path:
    said = ([{"role": "user", "content": f"q{n % 7}"}, {"role": "assistant", "content": f"a{n}"}] for n in range(lines))
    rows = ({"messages": messages, "reward": n % 2} for n, messages in enumerate(said))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_an_import_in_batches_gives_every_line_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "BATCH_ROLLOUTS", 8)
    done = import_file(log_of(tmp_path / "log.jsonl", 45), "d", tmp_path / "store")
    assert (done.rollouts, done.tasks, done.rewarded) == (45, 7, 45)
    with read_store(tmp_path / "store") as reader:
        rows = reader.trajectories(done.run)
        answers = sorted(reader.trajectory(one.id).answer or "" for one in rows)
        assert reader.run(done.run).state == "done"
    assert answers == sorted(f"a{at}" for at in range(45))
    by_task = itertools.groupby(rows, key=lambda one: one.task)
    assert all([one.g for one in group] == list(range(len(group))) for _, group in ((k, list(v)) for k, v in by_task))


def test_a_bad_last_line_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "BATCH_ROLLOUTS", 8)
    log = log_of(tmp_path / "log.jsonl", 45)
    log.write_text(log.read_text() + "{}\n")
    with pytest.raises(DataError, match="line 46 is not a rollout"):
        import_file(log, "d", tmp_path / "store")
    with pytest.raises(StoreMissing), read_store(tmp_path / "store"):
        pass


def test_a_log_that_changes_while_it_is_read_is_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(tmp_path / "log.jsonl", 20)

    def open_later(directory: Path) -> AbstractAsyncContextManager[Store]:
        log_of(log, 21)
        return open_store(directory)

    monkeypatch.setattr(importing, "open_store", open_later)
    with pytest.raises(DataError, match="changed while it was read") as refused:
        import_file(log, "d", tmp_path / "store")
    assert refused.value.code == "bad_data"
    with read_store(tmp_path / "store") as reader:
        assert [one.state for one in reader.runs()] == ["failed"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_log_may_start_with_a_byte_order_mark_and_hold_line_separators(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "log.jsonl"
    line = {"messages": [{"role": "user", "content": "q\u2028é"}, {"role": "assistant", "content": "a"}]}
    log.write_text(json.dumps(line, ensure_ascii=False) + "\n\n", encoding=encoding)
    assert import_file(log, "d", tmp_path / "store").rollouts == 1


@pytest.mark.parametrize(
    ("content", "why"), [(b'{"a": "\xff"}\n', "is not UTF-8"), (b'{"a": "\0"}\n', "NUL character")]
)
def test_a_log_that_is_not_text_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "log.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=why):
        import_file(tmp_path / "log.jsonl", "d", tmp_path / "store")
