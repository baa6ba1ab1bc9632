"""No command replaces a file that it did not write: one line per command with `--out`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.cli.app import run as command_line
from agentlearn.config.outputs import Outputs
from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.types.experience import library_of
from agentlearn_evals.write_results import refuse_unknown

TASKS = "question,answer\n1 + 1?,2\n"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    libraries = LibraryStore(tmp_path / "store" / "libraries")
    libraries.publish("math", library_of(["When adding, carry."]))
    libraries.publish("other", library_of(["When lost, draw."]))
    return tmp_path / "store"


def export(store: Path, out: Path) -> int:
    return command_line(["library", "export", "math", "--out", str(out), "--store", str(store)])


def card(store: Path, out: Path) -> int:
    return command_line(["library", "card", "math", "--out", str(out), "--store", str(store)])


@pytest.mark.parametrize("write", [export, card])
def test_a_file_of_a_person_stays_and_one_of_ours_is_written_again(
    write: Callable[[Path, Path], int], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "odd.csv"
    out.write_text(TASKS)
    assert write(store, out) == 2
    assert out.read_text() == TASKS
    assert f"{str(out)!r} exists, and it is not" in capsys.readouterr().err
    out.unlink()
    assert write(store, out) == 0
    LibraryStore(store / "libraries").history("math").add("When stuck, ask.")
    assert write(store, out) == 0
    out.write_text(f"{out.read_text()} ")
    assert write(store, out) == 2


def test_another_library_is_not_replaced(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "lessons.json"
    assert command_line(["library", "export", "other", "--out", str(out), "--store", str(store)]) == 0
    assert export(store, out) == 2


def test_a_link_and_a_folder_are_no_files_of_ours(store: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text(TASKS)
    link.symlink_to(target)
    outputs = Outputs(store)
    outputs.remember(target)
    outputs.refuse_others(target, tmp_path / "new")
    for other in (link, tmp_path):
        with pytest.raises(ConfigError, match="give another name, or move it away"):
            outputs.refuse_others(other)


def test_a_comparison_is_refused_before_it_would_replace_tasks(store: Path, tmp_path: Path) -> None:
    tasks, report = tmp_path / "tasks.csv", tmp_path / "r.json"
    tasks.write_text(TASKS)
    report.write_text("{}")
    for out in (tasks, report):
        with pytest.raises(ConfigError, match="exists, and it is not as agentlearn wrote it"):
            refuse_unknown([out], store)
