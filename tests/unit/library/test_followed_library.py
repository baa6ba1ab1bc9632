"""A library that is followed: the next run uses a new version, and nothing unreadable replaces a good one."""

import asyncio
import copy
import logging
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.lessons import lessons
from agentlearn.library.shown import shown_in
from agentlearn.types.experience import EMPTY_LIBRARY, Library

FIRST, SECOND, THIRD = (Library.of([f"When case {number} comes, think."]) for number in range(3))


@pytest.fixture
def store(tmp_path: Path) -> LibraryStore:
    made = LibraryStore(tmp_path / "libraries")
    made.publish("math", FIRST)
    return made


def followed(store: LibraryStore, **options: Any) -> Experiences:
    return Experiences("math", store=store.directory.parent, follow=True, **options)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def test_an_unchanged_library_is_not_read_again(store: LibraryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    load = LibraryStore.load

    def counted(self: LibraryStore, reference: str) -> Library:
        reads.append(reference)
        return load(self, reference)

    monkeypatch.setattr(LibraryStore, "load", counted)
    experiences = followed(store)
    for _ in range(100):
        assert experiences.library == FIRST
    store.publish("math", SECOND)
    for _ in range(100):
        assert experiences.library == SECOND
    assert reads == ["math", "math"]


def test_one_run_sees_one_version_and_the_next_run_the_new_one(store: LibraryStore) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.instructions or "")
        return ModelResponse(parts=[ToolCallPart("learn") if len(messages) == 1 else TextPart("4")])

    seen: list[str] = []
    agent = Agent(FunctionModel(answer), capabilities=[followed(store)])

    @agent.tool_plain
    def learn() -> str:  # pyright: ignore[reportUnusedFunction]
        store.publish("math", SECOND)
        return "published"

    async def run() -> None:
        assert shown_in(await agent.run("?")) == Experiences(FIRST).shown.model_copy(update={"library": "math"})
        assert (shown_in(await agent.run("?")) or Experiences(FIRST).shown).version == SECOND.version

    asyncio.run(run())
    assert seen == [str(FIRST.render())] * 2 + [str(SECOND.render())] * 2


def test_the_first_version_and_the_store_may_come_later(store: LibraryStore, caplog: pytest.LogCaptureFixture) -> None:
    for place in (store.directory.parent, store.directory / "none" / "yet"):
        experiences = Experiences("later", store=place, follow=True, missing="empty")
        fixed = Experiences("later", store=place, missing="empty")
        agent = Agent(TestModel(), capabilities=[experiences])
        assert experiences.library == EMPTY_LIBRARY
        assert experiences.get_instructions() is None
        for library in (FIRST, SECOND, FIRST):
            LibraryStore(place / "libraries").publish("later", library)
            assert experiences.library == library
            assert experiences.get_instructions() == str(library.render())
            first = asyncio.run(agent.run("?")).all_messages()[0]
            assert isinstance(first, ModelRequest)
            assert first.instructions == str(library.render())
        assert fixed.library == EMPTY_LIBRARY, "without follow nothing changes"
    assert warnings(caplog) == []
    with pytest.raises(LibraryError, match="is not in the library store"):
        Experiences("other", store=store.directory.parent, follow=True)


def test_a_conversation_that_loaded_lessons_reads_the_new_version(store: LibraryStore) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        load = ToolCallPart("load_capability", {"id": "experiences"})
        return ModelResponse(parts=[load if len(messages) == 1 else TextPart("4")])

    agent = Agent(FunctionModel(answer), capabilities=[followed(store, defer_loading=True, choose="turn")])

    async def run() -> None:
        first = await agent.run("?")
        store.publish("math", SECOND)
        second = await agent.run("?", message_history=first.all_messages())
        found = [shown_in(first), shown_in(second)]
        assert [one and one.version for one in found] == [FIRST.version, SECOND.version]
        assert SECOND.experiences[0].lesson in str(second.new_messages())

    asyncio.run(run())


def damage_head(folder: Path) -> None:
    write_head(b"\xff nonsense\n")(folder)


def write_head(content: bytes | None) -> Callable[[Path], None]:
    """Lose the log, and have this as HEAD, or a folder in its place."""

    def damage(folder: Path) -> None:
        (folder / "history.jsonl").unlink(missing_ok=True)
        (folder / "HEAD").unlink(missing_ok=True)
        (folder / "HEAD").mkdir() if content is None else (folder / "HEAD").write_bytes(content)

    return damage


def half_published(version: bytes | None) -> Callable[[Path], None]:
    """Have a HEAD that names a version whose file is this, or missing: as a copy that brings HEAD first."""

    def damage(folder: Path) -> None:
        LibraryStore(folder.parent).publish("math", SECOND)
        file = folder / f"{SECOND.version}.json"
        file.unlink() if version is None else file.write_bytes(version)

    return damage


@pytest.mark.parametrize(
    "damage",
    [damage_head, write_head(None), write_head(b""), half_published(b"{"), half_published(None), shutil.rmtree],
)
@pytest.mark.parametrize("missing", ["error", "empty"])
def test_what_cannot_be_read_keeps_the_last_version_and_warns_once(
    damage: Any, missing: str, store: LibraryStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiences = followed(store, missing=missing)
    monkeypatch.setattr("agentlearn.library.store.RETRY_S", 0.0)
    damage(store.directory / "math")
    for _ in range(5):
        assert experiences.library == FIRST
    (warning,) = warnings(caplog)
    assert warning.startswith(f"library.kept name='math' version={FIRST.version[:8]!r} code=")
    shutil.rmtree(store.directory / "math", ignore_errors=True)
    store.publish("math", THIRD)
    assert experiences.library == THIRD


def test_a_half_published_version_is_used_when_it_is_whole(
    store: LibraryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiences = followed(store)
    file = store.publish("math", SECOND)
    text = file.read_bytes()
    file.unlink()
    assert experiences.library == FIRST
    file.write_bytes(text)
    assert experiences.library == FIRST, "it is tried again after a second"
    monkeypatch.setattr("time.monotonic", lambda: float("inf"))
    assert experiences.library == SECOND


def test_a_damaged_library_at_the_start_is_an_error_unless_it_may_be_empty(
    store: LibraryStore, caplog: pytest.LogCaptureFixture
) -> None:
    damage_head(store.directory / "math")
    with pytest.raises(LibraryError, match="is damaged"):
        followed(store)
    experiences = followed(store, missing="empty")
    assert experiences.library == EMPTY_LIBRARY
    assert len(warnings(caplog)) == 1
    shutil.rmtree(store.directory / "math")
    store.publish("math", SECOND)
    assert experiences.library == SECOND


def test_a_file_is_followed_as_well(store: LibraryStore, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "mine.json"
    experiences = Experiences(file, follow=True, missing="empty")
    store.export("math", file)
    assert experiences.library.version == FIRST.version
    file.write_text("{", encoding="utf-8")
    assert experiences.library.version == FIRST.version
    store.publish("math", SECOND)
    file.unlink()
    store.export("math", file)
    assert experiences.library.version == SECOND.version
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("fixed", ["none", "math@ab", FIRST, ["When adding, carry."]])
def test_what_never_changes_cannot_be_followed(fixed: Any, store: LibraryStore) -> None:
    if fixed == "math@ab":
        fixed = f"math@{FIRST.version[:6]}"
    with pytest.raises(LibraryError) as refused:
        Experiences(fixed, store=store.directory.parent, follow=True)
    assert refused.value.code == "bad_library"
    assert str(refused.value).startswith("follow=True needs a library that is published under a name, and ")


def test_a_copy_follows_on_its_own(store: LibraryStore) -> None:
    experiences = followed(store)
    twins = [copy.deepcopy(experiences), pickle.loads(pickle.dumps(experiences))]
    store.publish("math", SECOND)
    assert [one.library for one in (*twins, experiences)] == [SECOND] * 3


def test_a_block_of_lessons_has_the_version_of_its_start(store: LibraryStore) -> None:
    found = lessons("math", store=store.directory.parent, follow=True)
    with found as advice:
        store.publish("math", SECOND)
        assert advice.version == FIRST.version
        with found as inner:
            assert inner.version == SECOND.version


@given(steps=st.lists(st.sampled_from(["publish", "damage", "delete", "restore"]), max_size=12))
def test_it_always_gives_the_last_version_that_could_be_read(
    steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = LibraryStore(tmp_path_factory.mktemp("store") / "libraries")
    store.publish("math", FIRST)
    experiences, expected = followed(store), FIRST
    for number, step in enumerate(steps):
        folder = store.directory / "math"
        match step:
            case "publish" | "restore":
                shutil.rmtree(folder, ignore_errors=True) if step == "restore" else None
                if (folder / "HEAD").exists() and (folder / "HEAD").read_bytes().startswith(b"\xff"):
                    continue
                expected = Library.of([f"When step {number} comes, think."])
                store.publish("math", expected)
            case "damage":
                folder.mkdir(exist_ok=True)
                damage_head(folder)
            case _:
                shutil.rmtree(folder, ignore_errors=True)
        assert experiences.library == expected


def test_threads_with_loops_of_their_own_see_only_published_versions(store: LibraryStore) -> None:
    libraries = [FIRST, *(Library.of([f"When version {number} comes, think."]) for number in range(20))]
    texts = {str(library.render()) for library in libraries}
    agent = Agent(TestModel(), capabilities=[followed(store)])
    seen: list[str] = []

    async def run() -> None:
        for _ in range(20):
            first = (await agent.run("?")).all_messages()[0]
            assert isinstance(first, ModelRequest)
            seen.append(first.instructions or "")

    threads = [threading.Thread(target=asyncio.run, args=(run(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for library in libraries:
        store.publish("math", library)
    for thread in threads:
        thread.join()
    assert len(seen) == 80
    assert set(seen) <= texts
