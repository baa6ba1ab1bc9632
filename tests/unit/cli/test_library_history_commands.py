"""The commands that change, compare, name and trace the versions of a library."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.library import LibraryStore
from agentlearn.types.experience import Library, Withheld, library_of

CARRY = "When adding, carry."
ENDS = "When counting, check the ends of the range."
ZERO = "When dividing, look for zero."


@pytest.fixture
def store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    for lesson in (CARRY, ENDS):
        assert run(["library", "add", "math", lesson, "--store", str(tmp_path / "store")]) == 0
    capsys.readouterr()
    return tmp_path / "store"


@pytest.fixture
def said(store: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command and return what it prints; on stderr where it fails."""

    def run_it(*arguments: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run([*arguments, "--store", str(store)]) == status
        captured = capsys.readouterr()
        return captured.out if status == 0 else captured.err

    return run_it


def ids(store: Path, reference: str = "math") -> list[str]:
    return [one.id for one in LibraryStore(store / "libraries").load(reference).experiences]


def test_every_change_says_how_to_see_and_undo_it(said: Any, store: Path) -> None:
    first = ids(store)[0]
    printed = said("library", "edit", "math", first[:8], "When adding columns, carry.", "--note", "clearer")
    hinted = [line.split(":  " if ":  " in line else ": ", 1)[1].strip() for line in printed.splitlines()[1:]]
    assert [shlex.split(one)[:3] for one in hinted] == [
        ["agentlearn", "library", "diff"],
        ["agentlearn", "library", "rollback"],
    ]
    for one in hinted:
        assert run(shlex.split(one)[1:]) == 0
    assert ids(store)[0] == first
    log = said("library", "log", "math")
    assert "edit by " in log
    assert ": clearer" in log
    assert log.splitlines()[0].split("  ")[-1].startswith("rollback")


def test_versions_by_branch_are_shown_compared_and_exported(said: Any, store: Path, tmp_path: Path) -> None:
    said("library", "branch", "math", "v-1")
    said("library", "branch", "math", "try-2")
    said("library", "add", "math@try-2", ZERO, "--tag", "sums")
    assert ZERO in said("library", "show", "math@try-2")
    assert ZERO not in said("library", "show", "math@v-1")
    diff = json.loads(said("library", "diff", "math@v-1", "math@try-2", "--json"))
    assert [(one["lesson"], one["tags"]) for one in diff["added"]] == [(ZERO, ["sums"])]
    out = tmp_path / "out.json"
    said("library", "export", "math@try-2", "--out", str(out))
    assert f"+ {ids(store, 'math@try-2')[2][:12]}  {ZERO}" in said("library", "diff", "math", str(out))


def test_parked_lessons_are_shown_apart(said: Any, store: Path) -> None:
    first = ids(store)[0]
    said("library", "park", "math", first[:8], "--reason", "It costs points.")
    shown = said("library", "show", "math")
    assert f"[parked] {CARRY}" in shown
    assert "It costs points." in shown
    said("library", "unpark", "math", first[:8])
    said("library", "remove", "math", first[:8])
    assert CARRY not in said("library", "show", "math")


def test_a_refused_lesson_names_the_rule_and_what_to_do(said: Any) -> None:
    error = said("library", "add", "math", CARRY.upper(), status=2)
    assert "(rule 'near_duplicate'); change the words, or keep it with --accept near_duplicate" in error
    said("library", "add", "math", CARRY.upper(), "--accept", "near_duplicate")
    assert "accepted near_duplicate" in said("library", "log", "math")


def test_a_branch_comes_into_main_by_export_and_import(said: Any, store: Path, tmp_path: Path) -> None:
    first = ids(store)[0]
    said("library", "branch", "math", "try-2")
    said("library", "add", "math@try-2", ZERO)
    said("library", "remove", "math", first)
    said("library", "export", "math@try-2", "--out", str(tmp_path / "try-2.json"))
    branch = list(LibraryStore(store / "libraries").load("math@try-2").by_id)
    said("library", "import", str(tmp_path / "try-2.json"), "--name", "math", "--approve")
    assert ids(store) == [*branch[1:-1], branch[0], branch[-1]], "every lesson keeps its id"


def test_a_pending_lesson_of_a_library_is_listed_approved_and_rejected(said: Any, store: Path) -> None:
    history = LibraryStore(store / "libraries").history("math")
    library, new = history.load(), library_of([ZERO, "When stuck, draw."], kind="import").experiences
    withheld = tuple(Withheld(experience=one, status="pending", reason="It was imported.") for one in new)
    history.publish(Library(parent=library.version, experiences=library.experiences, withheld=withheld), kind="import")
    listed = json.loads(said("library", "pending", "--json"))["items"]
    assert sorted((one["id"], one["library"]) for one in listed) == sorted((one.id, "math") for one in new)
    assert "It was imported." in said("library", "pending")
    assert said("library", "approve", new[0].id[:8]).startswith(f"approved: {new[0].id[:12]}; math@")
    assert said("library", "reject", new[1].id[:8]).startswith(f"rejected: {new[1].id[:12]}; math@")
    assert ids(store)[2:] == [new[0].id]
    assert "nothing waits for a decision" in said("library", "pending")


def test_blame_names_what_a_lesson_goes_back_to(said: Any, store: Path) -> None:
    first = ids(store)[0]
    said("library", "edit", "math", first, "When adding columns, carry.")
    blamed = said("library", "blame", "math", ids(store)[0][:8])
    assert re.search(r"brought by change 2 of \S+ \S+ \(edit by ", blamed)
    assert f"replaces {first[:12]}" in blamed
    assert "left with change 2" in blamed
    found = json.loads(said("library", "blame", "math", first[:8], "--json"))["lessons"]
    assert [(one["experience"]["id"], one["status"]) for one in found] == [(first, None)]
    assert "give a library and the start of a lesson's id" in said("library", "blame", status=2)
    assert "only one of them" in said("library", "blame", "math", first, "--task", "t", status=2)


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("blame") / "store"
    options = ["--limit", "6", "--epochs", "2", "--no-eval", "--model", "sim:novice", "--store", str(store)]
    assert run(["learn", "math", *options]) == 0
    return store


@pytest.mark.slow
def test_a_lesson_is_traced_to_its_rollouts_and_back(
    taught: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    shutil.copytree(taught, store)

    def found(*arguments: str) -> Any:
        capsys.readouterr()
        assert run([*arguments, "--store", str(store), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    (change,) = found("library", "log", "math")["changes"]
    assert (change["kind"], change["run"] != "", change["base"] is not None) == ("learn", True, True)
    lesson = ids(store)[0]
    blamed = found("library", "blame", "math", lesson)
    (origin,) = blamed["origins"][lesson]
    assert origin["run"] == change["run"]
    run_id, _, rest = origin["groups"][0].partition("/")
    task = rest.partition("@")[0]
    assert lesson in {one["experience"]["id"] for one in found("library", "blame", "--task", task)["lessons"]}
    rollouts = found("runs", "show", run_id)["rollouts"]
    of_task = next(one["id"] for one in rollouts if one["task"].startswith(task))
    taught_by = found("library", "blame", "--rollout", of_task)["lessons"]
    assert any(f"math@{change['version']}" in one["versions"] for one in taught_by)


def test_a_procedure_of_a_file_is_added_edited_and_compared_line_by_line(
    said: Any, store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "sheets.md"
    file.write_text("## Reading a sheet\r\n\r\n1. Open it.\r\n2. Count the rows, and stop.\r\n", encoding="utf-8")
    said("library", "add", "math", "--file", str(file))
    section = LibraryStore(store / "libraries").load("math").experiences[-1]
    assert (section.lesson, section.origin.kind) == (
        "## Reading a sheet\n\n1. Open it.\n2. Count the rows, and stop.\n",
        "person",
    )
    file.write_text(section.lesson.replace("and stop", "and go on"), encoding="utf-8")
    said("library", "edit", "math", section.id[:8], "--file", str(file))
    diff = said("library", "diff", "math")
    assert "    -2. Count the rows, and stop.\n    +2. Count the rows, and go on.\n" in diff
    assert "TOO_LONG" not in said("library", "audit", "math").upper()
    file.write_text("## Long\n\n" + "word " * 601, encoding="utf-8")
    assert "at most 600 words" in said("library", "add", "math", "--file", str(file), status=2)
    assert "only one of them" in said("library", "add", "math", "words", "--file", str(file), status=2)
    assert "give the words of the lesson" in said("library", "add", "math", status=2)
