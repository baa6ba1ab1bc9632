"""Versions that a run left pending: a person publishes or refuses each, and the decision is stored."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from agentlearn.cli.app import run as command_line
from agentlearn.errors import LibraryError
from agentlearn.learning.lessons.pending_versions import (
    Decider,
    pending_lessons,
    pending_versions,
    refused_lessons,
)
from agentlearn.library import LibraryStore
from agentlearn.store import Store, open_store
from agentlearn.types.experience import library_of
from agentlearn.types.ids import RunId
from tests.unit.store import nouns

LEFT = library_of(["When adding, never carry."], kind="add")
BEFORE = library_of(["When counting, check the ends."], kind="add")
LATER = nouns.AT + timedelta(hours=1)
OTHER_RUN = RunId("01je" + "0" * 22)


def report(status: str) -> str:
    """The part of a run's report that is read."""
    selection = {"selected": LEFT.version, "status": status, "reason": "held-out tasks got worse"}
    return json.dumps({"library": {"name": "math", "lessons": len(LEFT)}, "selection": selection})


async def save_run(store: Store, run: RunId = nouns.RUN, status: str = "pending", hours: int = 0) -> None:
    at = nouns.AT + timedelta(hours=hours)
    await store.save_run(nouns.run_event(run=run, at=at))
    await store.save_version(LEFT, run=run)
    await store.save_run(nouns.run_event(run=run, state="done", at=at, report=report(status)))


def within(directory: Path, act: Callable[[Store, LibraryStore], Awaitable[None]], status: str = "pending") -> None:
    """Run a function in a store whose only run left a version in that state."""
    libraries = LibraryStore(directory / "libraries")
    libraries.publish("math", BEFORE)

    async def main() -> None:
        async with open_store(directory) as store:
            await save_run(store, status=status)
            await act(store, libraries)

    asyncio.run(main())


@pytest.mark.parametrize("reference", [f"math@{LEFT.version[:12]}", f"math@{LEFT.version}", LEFT.version[:6]])
def test_an_approved_version_is_published_and_no_longer_listed(tmp_path: Path, reference: str) -> None:
    async def act(store: Store, libraries: LibraryStore) -> None:
        (waiting,) = pending_versions(store, libraries, domain="math", run=nouns.RUN[:8])
        assert (waiting.version, waiting.lessons, waiting.reason) == (LEFT.version, 1, "held-out tasks got worse")
        ada = Decider(store, libraries, "ada", "", LATER)
        done = await ada.approve(reference)
        assert (done.replaced, libraries.load("math").version) == (BEFORE.version, LEFT.version)
        assert pending_versions(store, libraries) == []
        with pytest.raises(LibraryError, match="is published already"):
            await ada.approve(f"math@{LEFT.version}")
        libraries.publish("math", BEFORE)  # the decision still counts
        assert pending_versions(store, libraries) == []

    within(tmp_path, act)


def test_a_refused_version_is_not_listed_until_another_run_leaves_it_again(tmp_path: Path) -> None:
    async def act(store: Store, libraries: LibraryStore) -> None:
        (waiting,) = pending_versions(store, libraries)
        ada = Decider(store, libraries, "ada", "", LATER)
        await ada.reject(waiting.reference)
        assert pending_versions(store, libraries) == []
        assert libraries.load("math").version == BEFORE.version
        with pytest.raises(LibraryError, match="was rejected by 'ada'"):
            await ada.reject(waiting.reference)
        await save_run(store, OTHER_RUN, hours=2)
        assert [one.run for one in pending_versions(store, libraries)] == [OTHER_RUN]
        assert pending_lessons(store) == []
        assert refused_lessons(store, before=LATER + timedelta(hours=9)) == frozenset(), "it refuses no lesson"

    within(tmp_path, act)


def test_only_pending_versions_are_listed_and_the_same_one_once(tmp_path: Path) -> None:
    async def act(store: Store, libraries: LibraryStore) -> None:
        assert pending_versions(store, libraries) == []
        ada = Decider(store, libraries, "ada", "", LATER)
        with pytest.raises(LibraryError, match="no lesson that waits for a decision has an id"):
            await ada.approve(LEFT.version)
        with pytest.raises(LibraryError, match="no version that waits for a decision matches 'math@1234'"):
            await ada.approve("math@1234")
        for n in range(2):
            await save_run(store, RunId(f"01j{n}" + "0" * 22))
        assert len(pending_versions(store, libraries)) == 1

    within(tmp_path, act, status="published")


def test_the_commands_list_publish_and_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def nothing(store: Store, libraries: LibraryStore) -> None: ...

    def said(*arguments: str) -> str:
        assert command_line([*arguments, "--store", str(tmp_path)]) == 0
        return capsys.readouterr().out

    within(tmp_path, nothing)
    listed = said("library", "pending")
    command = f"agentlearn library approve math@{LEFT.version[:12]} --store {tmp_path}"
    assert f"math@{LEFT.version[:12]}  1 lesson  not published" in listed
    assert "held-out tasks got worse" in listed
    assert command in listed
    (one,) = json.loads(said("library", "pending", "--json"))["versions"]
    assert (one["version"], one["run"]) == (LEFT.version, nouns.RUN)
    assert said(*command.split()[1:4]) == (
        f"approved: math@{LEFT.version[:8]} has 1 lesson and replaces version {BEFORE.version[:8]}"
        f"      agentlearn library show math --store {tmp_path}\n"
    )
    assert said("library", "pending") == "nothing waits for a decision\n"
