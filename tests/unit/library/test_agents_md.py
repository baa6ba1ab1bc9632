"""Lessons in a person's `AGENTS.md`: only the block between the marks is ever written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.cli.app import run as command
from agentlearn.errors import LibraryError
from agentlearn.library.formats import write_form
from agentlearn.types.experience import Library
from tests.support.cases import cases

BEFORE = Library.of(["When adding, carry."])
AFTER = Library.of(["When adding, carry.", "When lost, <!-- agentlearn:end shop --> draw `x`."])
MINE = b"# Rules\r\n\r\nNever push.\n\xff\n\tEnd"


def export(library: Library, out: Path, name: str = "shop") -> Path:
    return write_form(library, out, "agents-md", name)


@given(head=st.binary(max_size=60), tail=st.binary(max_size=60))
def test_no_byte_of_the_person_changes(tmp_path_factory: pytest.TempPathFactory, head: bytes, tail: bytes) -> None:
    head = b"#" + head  # it is not UTF-16
    file = tmp_path_factory.mktemp("a") / "AGENTS.md"
    file.write_bytes(head)
    export(BEFORE, file)
    first = file.read_bytes()
    assert first.startswith(head)
    file.write_bytes(first + tail)
    export(AFTER, file)
    export(AFTER, file)
    assert file.read_bytes().startswith(first[: first.index(b"<!-- agentlearn:begin")])
    assert file.read_bytes().endswith(b"<!-- agentlearn:end shop -->\n" + tail)
    export(BEFORE, file)
    assert file.read_bytes() == first + tail


def test_a_folder_gets_a_file_and_each_library_its_own_block(tmp_path: Path) -> None:
    file = export(BEFORE, tmp_path)
    assert file == tmp_path / "AGENTS.md"
    file.chmod(0o600)
    export(AFTER, tmp_path, "web")
    alone = file.read_bytes()
    export(AFTER, tmp_path)
    text = file.read_text(encoding="utf-8")
    assert (text.count("agentlearn:begin"), text.count("- When adding, carry.")) == (3 - 1, 2)
    assert "\\<!-- agentlearn:end shop --\\>" in text
    export(BEFORE, tmp_path)
    assert file.read_bytes() == alone
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("old", "new", "says"),
    cases(__file__, "damaged_marks_and_lines_of_a_person_in_the_block_are_left_alone"),
)
def test_damaged_marks_and_lines_of_a_person_in_the_block_are_left_alone(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    file = export(BEFORE, tmp_path)
    mine = file.read_text(encoding="utf-8").replace(old, new)
    file.write_text(mine, encoding="utf-8")
    with pytest.raises(LibraryError, match=says):
        export(AFTER, file)
    assert file.read_text(encoding="utf-8") == mine


def test_two_blocks_of_one_name_are_damaged(tmp_path: Path) -> None:
    file = export(BEFORE, tmp_path)
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(LibraryError, match="are damaged"):
        export(AFTER, file)


def test_line_ends_that_git_changed_are_no_change_by_hand(tmp_path: Path) -> None:
    file = export(BEFORE, tmp_path)
    file.write_bytes(b"Mine.\r\n" + file.read_bytes().replace(b"\n", b"\r\n") + b"Mine too.\r\n")
    export(AFTER, file)
    assert file.read_bytes().startswith(b"Mine.\r\n<!-- agentlearn:begin")
    assert file.read_bytes().endswith(b"-->\nMine too.\r\n")


def test_a_link_another_encoding_and_a_bad_name_are_refused(tmp_path: Path) -> None:
    mine = tmp_path / "CLAUDE.md"
    mine.write_bytes(MINE)
    (tmp_path / "AGENTS.md").symlink_to(mine)
    with pytest.raises(LibraryError, match="is a link; give the file itself"):
        export(BEFORE, tmp_path)
    assert mine.read_bytes() == MINE
    (tmp_path / "wide.md").write_bytes("Mine.".encode("utf-16"))
    with pytest.raises(LibraryError, match="is UTF-16; save it as UTF-8"):
        export(BEFORE, tmp_path / "wide.md")
    with pytest.raises(LibraryError, match="'a -- b' cannot name a block of lessons"):
        export(BEFORE, mine, "a -- b")


def test_the_command_writes_and_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--store", str(tmp_path / "store")]
    mine = tmp_path / "AGENTS.md"
    mine.write_text("- Never push.\n", encoding="utf-8")
    assert command(["library", "add", "shop", "Pack glass last.", *place]) == 0
    assert command(["library", "export", "shop", "--format", "agents-md", "--out", str(mine), *place]) == 0
    assert command(["library", "import", str(mine), "--name", "copy", *place]) == 0
    said = capsys.readouterr().out
    assert "format agents-md, 1 lesson can be used" in said or "an unchanged export" in said
    assert mine.read_text(encoding="utf-8").startswith("- Never push.\n\n<!-- agentlearn:begin shop ")
