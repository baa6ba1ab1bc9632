"""Nothing in a store is opened or made through a link, and nothing in it is for other users."""

import os
import shutil
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

from agentlearn import Recorder
from agentlearn.cli.app import run as command
from agentlearn.errors import AgentlearnError
from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from agentlearn.types.experience import library_of

LESSON = "When adding, carry."


def made(directory: Path) -> Path:
    """A store with a run, a library and a report."""
    assert command(["solve", "math", "Compute 2 + 3.", "--model", "sim:novice", "--store", str(directory)]) == 0
    LibraryStore(directory / "libraries").publish("math", library_of([LESSON]))
    LibraryStore(directory / "libraries").history("math").add("When subtracting, borrow.")
    return directory


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("store") / "s")


def places(store: Path) -> list[Path]:
    """Every file and folder of a store, and files that it may get later."""
    found = [path.relative_to(store) for path in store.rglob("*")]
    later = ("store.duckdb.wal", "journal.sqlite-wal", "reports", "spill", "staging", "embeddings.sqlite")
    return sorted({*found, *map(Path, later)})


def use(store: Path) -> list[tuple[str, BaseException | None]]:
    """Do with a store what reads and writes its files, and return what each use raised."""

    def record() -> None:
        with Recorder("support", store) as recorder:
            recorder.record_sync([{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}])

    def read() -> None:
        with read_store(store) as reader:
            reader.runs()

    def publish() -> None:
        libraries = LibraryStore(store / "libraries")
        libraries.publish("math", library_of(["When multiplying, shift."]))
        libraries.load("math")

    done: list[tuple[str, BaseException | None]] = []
    for act in (record, read, publish):
        try:
            act()
        except (AgentlearnError, OSError) as error:
            done.append((act.__name__, error))
        else:
            done.append((act.__name__, None))
    return done


@pytest.mark.parametrize(
    "target", ["file", pytest.param("folder", marks=pytest.mark.slow), pytest.param("device", marks=pytest.mark.slow)]
)
def test_no_file_of_a_store_is_used_through_a_link(
    store: Path, target: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for number, place in enumerate(places(store)):
        with subtests.test(place=str(place)):
            copy = tmp_path / f"{number}"
            shutil.copytree(store, copy)
            aim = {"file": tmp_path / "aim.txt", "folder": tmp_path / "aim", "device": Path("/dev/null")}[target]
            if target == "file":
                aim.write_text("precious")
            elif target == "folder":
                aim.mkdir(exist_ok=True)
            at = copy / place
            if at.is_dir():
                shutil.rmtree(at)
            at.unlink(missing_ok=True)
            at.symlink_to(aim)
            errors = [error for _, error in use(copy) if error is not None]
            assert errors, "nothing said that there is a link"
            assert any("symbolic link" in str(error) for error in errors)
            if target == "file":
                assert aim.read_text() == "precious"
            elif target == "folder":
                assert list(aim.iterdir()) == []


@pytest.fixture
def umask() -> Generator[None]:
    """The umask that protects nothing."""
    before = os.umask(0o000)
    yield
    os.umask(before)


@pytest.mark.slow
@pytest.mark.usefixtures("umask")
def test_only_the_owner_can_read_or_change_what_is_in_a_store(tmp_path: Path) -> None:
    given = ["learn", "math", "--model", "sim:novice", "--limit", "2", "--epochs", "1", "--no-eval", "--select", "last"]
    store = made(tmp_path / "s")
    assert command([*given, "--group-size", "2", "--store", str(store)]) == 0
    modes = {str(path.relative_to(store)): stat.S_IMODE(path.stat().st_mode) for path in (store, *store.rglob("*"))}
    assert any(name.startswith("reports/") for name in modes)
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
