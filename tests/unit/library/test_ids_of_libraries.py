"""An experience id belongs to one library: equal words and equal operations elsewhere have other ids."""

from pathlib import Path

import pytest

from agentlearn.cli.app import run as command_line
from agentlearn.library import LibraryStore
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import ExperienceId, ProposalId
from agentlearn.types.operation import Add, Proposal

CARRY = "When adding, carry."


def learned(library: str) -> ExperienceId:
    proposal = Proposal(id=ProposalId("p"), stage="consolidate", ordinal=0, operation=Add(lesson=CARRY))
    made = next_version([proposal], EMPTY_LIBRARY, CheckContext(library=library)).library
    return made.experiences[0].id


def test_the_same_operation_has_the_same_id_again_in_its_library_and_another_one_elsewhere(tmp_path: Path) -> None:
    libraries = LibraryStore(tmp_path / "libraries")
    first, second = (libraries.history(name) for name in ("first", "second"))
    first.add(CARRY)
    second.add(CARRY)
    assert first.load().experiences[0].id != second.load().experiences[0].id
    assert learned("first") == learned("first") != learned("second")


@pytest.mark.parametrize("form", ["agentlearn", "lines", "markdown"])
def test_an_import_makes_ids_of_its_library_and_says_what_they_are_copies_of(form: str, tmp_path: Path) -> None:
    libraries, out = LibraryStore(tmp_path / "libraries"), tmp_path / "first-lessons"
    libraries.history("first").add(CARRY)
    source = libraries.load("first").experiences[0].id
    place = ("--store", str(tmp_path))
    assert command_line(["library", "export", "first", "--out", str(out), "--format", form, *place]) == 0
    assert command_line(["library", "import", str(out), "--format", form, "--name", "copy", "--approve", *place]) == 0
    copy = libraries.history("copy")
    (one,) = copy.load().experiences
    assert (one.lesson, copy.changes[-1].copied) == (CARRY, {one.id: (source,)})
    assert one.id != source


def test_an_export_that_comes_back_keeps_its_ids(tmp_path: Path) -> None:
    libraries, out = LibraryStore(tmp_path / "libraries"), tmp_path / "first.json"
    history = libraries.history("first")
    before = history.load(history.add(CARRY).version)
    libraries.export("first", out)
    history.remove(before.experiences[0].id)
    place = ("--store", str(tmp_path))
    assert command_line(["library", "import", str(out), "--name", "first", "--approve", *place]) == 0
    assert list(history.load().by_id) == [before.experiences[0].id]
