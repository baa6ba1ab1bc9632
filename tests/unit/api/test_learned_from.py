"""No verdict on the tasks that an arm was learned from, whatever was done to its lessons since."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from agentlearn import LibraryStore, read_store
from agentlearn.cli.app import run as command_line
from agentlearn.learning.lessons.run_learning import learn_sync
from agentlearn.library.formats.source_files import Form
from agentlearn.rollout.learned_from import LearnedFrom
from agentlearn.types.experience import Library
from tests.support.desk import LESSON, TICKETS, desk_agent, right_team

OWN = "When a letter comes, read all of it before you answer."


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose library `desk` was learned from all tickets; a person then wrote one lesson into it."""
    store = tmp_path_factory.mktemp("learned")
    fields: dict[str, Any] = {"evaluate": False, "epochs": 1, "group_size": 3, "validation_rollouts": 0}
    learn_sync(desk_agent(), TICKETS, reward=right_team, library="desk", store=store, **fields)
    LibraryStore(store / "libraries").history("desk").add(OWN)
    return store


@pytest.fixture
def store(learned: Path, tmp_path: Path) -> Path:
    """The learned store, to be changed: its libraries are a copy."""
    import shutil

    shutil.copytree(learned, tmp_path / "store")
    return tmp_path / "store"


def count(store: Path, library: Library) -> int:
    """The number of tasks that a library was learned from."""
    with read_store(store) as reader:
        return len(LearnedFrom(reader, LibraryStore(store / "libraries")).tasks(library))


def edited(store: Path, _: Path) -> Library:
    history = LibraryStore(store / "libraries").history("desk")
    for one in history.load().experiences:
        history.edit(one.id, f"{one.lesson.rstrip('.')}, always.")
    return history.load()


def rewritten(store: Path, _: Path) -> Library:
    history = LibraryStore(store / "libraries").history("desk")
    history.edit(history.load().experiences[0].id, "Money goes to billing.")
    return history.load()


def on_a_branch(store: Path, _: Path) -> Library:
    history = LibraryStore(store / "libraries").history("desk")
    history.branch("try-2")
    history.add("When stuck, ask a colleague.", branch="try-2")
    return history.load("try-2")


def parked_and_back(store: Path, _: Path) -> Library:
    history = LibraryStore(store / "libraries").history("desk")
    first = history.load().experiences[0].id
    history.park(first)
    history.unpark(first)
    return history.load()


def rolled_back_twice(store: Path, _: Path) -> Library:
    history = LibraryStore(store / "libraries").history("desk")
    version = history.load().version
    history.rollback(history.changes[0].version)
    history.rollback(version)
    return history.load()


def removed_and_written_again(store: Path, _: Path) -> Library:
    history = LibraryStore(store / "libraries").history("desk")
    first = history.load().experiences[0]
    history.remove(first.id)
    history.add(f"{first.lesson.rstrip('.')}, as a rule.")
    return history.load()


def in_words(store: Path, _: Path) -> Library:
    return Library.of([f"{LESSON.rstrip('.')} each time."])


def copied_by_hand(store: Path, folder: Path) -> Library:
    document = {"format": "agentlearn-library/1", "version": "hand-written", "experiences": [{"lesson": LESSON}]}
    (folder / "mine.json").write_text(json.dumps(document))
    return LibraryStore(store / "libraries").load(str(folder / "mine.json"))


WAYS = (
    edited,
    rewritten,
    on_a_branch,
    parked_and_back,
    rolled_back_twice,
    removed_and_written_again,
    in_words,
    copied_by_hand,
)


@pytest.mark.parametrize("way", WAYS)
def test_the_tasks_behind_lessons_are_known_after(
    way: Callable[[Path, Path], Library], store: Path, tmp_path: Path
) -> None:
    assert count(store, way(store, tmp_path)) == len(TICKETS)


@pytest.mark.parametrize("form", [form for form in get_args(Form) if form != "document"])
def test_the_tasks_behind_lessons_are_known_after_an_export_and_an_import(
    form: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, place = tmp_path / "desk-lessons", ("--store", str(store))
    assert command_line(["library", "export", "desk", "--out", str(out), "--format", form, *place]) == 0
    assert command_line(["library", "import", str(out), "--format", form, "--name", "copy", "--approve", *place]) == 0
    copy = LibraryStore(store / "libraries").history("copy")
    assert count(store, copy.load()) == len(TICKETS)
    for one in copy.load().experiences:
        copy.edit(one.id, f"{one.lesson.rstrip('.')}, always and everywhere.")
    assert count(store, copy.load()) == len(TICKETS)


def test_what_no_run_learned_is_free_of_it(store: Path) -> None:
    libraries = LibraryStore(store / "libraries")
    history = libraries.history("desk")
    assert count(store, Library.of(["When stuck, ask a colleague."])) == 0
    for one in history.load().experiences:
        if not one.by_person:
            history.remove(one.id)
    assert [one.lesson for one in history.load().experiences] == [OWN]
    assert count(store, history.load()) == 0, "only what a person wrote is left"
