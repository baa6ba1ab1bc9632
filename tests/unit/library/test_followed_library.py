"""A library that is followed: the next run uses a new version, and nothing unreadable replaces a good one."""

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
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
