"""`library import`, `export`, `audit` and `card`: what a user types, sees and gets as exit status."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.library import LibraryStore
from agentlearn.types.experience import library_of
from tests.support.hostile import POISON, assert_harmless

GOOD = "When counting the cells of a grid, count each cell once."
LIST = f"- {GOOD}\n- Be careful and double-check your work.\n- Visit www.example.com first.\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text(LIST, encoding="utf-8")


def said(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What a command printed on stdout."""
    assert run([*arguments, "--store", "st"]) == status
    return capfd.readouterr().out


def printed(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    """The JSON that a command printed."""
    return json.loads(said(capfd, *arguments, "--json", status=status))


def stored() -> Any:
    return LibraryStore("st/libraries").load("new")


def test_an_import_waits_for_approval(capfd: pytest.CaptureFixture[str]) -> None:
    words = said(capfd, "library", "import", "notes.md", "--name", "new")
    assert "notes.md: format markdown, 2 lessons can be used" in words
    assert "keeps 2 lessons that no agent sees until you approve them" in words
    assert "  line 3  names_address: " in words
    assert (len(stored()), len(stored().withheld)) == (0, 2)
    again = printed(capfd, "library", "import", "notes.md", "--name", "new", "--approve")
    assert again["changed"] is False
    assert [one["code"] for one in again["refused"]] == ["duplicate", "duplicate", "names_address"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.md", "--name", "new"), "there is no file or folder 'none.md'"),
        (("notes.md", "--name", "Bad Name"), "is not a valid library name"),
        (("notes.md", "--name", "new", "--max-mb", "0"), "--max-mb 0.0 cannot be used"),
        (("notes.md", "--name", "new", "--max-mb", "0.00001"), "larger than the limit of 10 bytes"),
        (("notes.md", "--name", "new", "--format", "lines"), "is not JSON"),
    ],
)
def test_what_cannot_be_imported_changes_nothing(
    arguments: tuple[str, ...], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["library", "import", *arguments, "--store", "st"]) == 2
    assert words in capfd.readouterr().err
    assert not Path("st").exists()


def test_a_library_goes_out_as_a_skill_and_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    LibraryStore("st/libraries").publish("new", library_of([GOOD], tags=("grids",)))
    words = said(capfd, "library", "export", "new", "--format", "skill", "--out", "skills")
    assert words == "wrote skills/new\nthe format 'skill' does not keep: ids and versions, origins\n"
    found = printed(capfd, "library", "import", "skills/new", "--name", "other")
    assert [(one["experience"]["lesson"], one["experience"]["tags"]) for one in found["withheld"]] == [
        (GOOD, ["grids"])
    ]
    version = LibraryStore("st/libraries").load("new").version
    written = printed(capfd, "library", "export", "new", "--format", "markdown", "--out", "new-list.md")
    lost = "the format 'markdown' does not keep: ids and versions, origins"
    told = {"version": version, "lessons": 1, "format": "markdown", "path": "new-list.md", "left_out": lost}
    assert written == told
    assert Path("new-list.md").read_text(encoding="utf-8") == f"# new\n\n## grids\n\n- {GOOD}\n"


def test_an_audit_fails_below_the_threshold(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "audit", "notes.md", "--store", "st"]) == 1
    shown = capfd.readouterr()
    assert "too_short -30: it has 3 words; say when, and what to do" in shown.out
    assert "notes.md: score 66 of 100; 3 lessons, 1 with findings, 1 below 60" in shown.out
    assert "1 lesson of 'notes.md' below 60: line 3; correct it, give a lower --threshold, or remove" in shown.err
    assert printed(capfd, "library", "audit", "notes.md", "--threshold", "0")["failing"] == []
    assert printed(capfd, "library", "audit", "notes.md", status=1)["failing"] == ["line 3"]


def test_hostile_text_reaches_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    Path("poison.json").write_text(json.dumps({"experiences": {POISON: POISON, "G1": POISON + GOOD}}), encoding="utf-8")
    for command, status in (("import poison.json --name new", 0), ("audit poison.json", 1)):
        assert run(["library", *command.split(), "--store", "st"]) == status
        shown = capfd.readouterr()
        assert_harmless(shown.out)
        assert_harmless(shown.err)


def test_an_audit_compares_with_given_tasks(capfd: pytest.CaptureFixture[str]) -> None:
    LibraryStore("st/libraries").publish("new", library_of([GOOD]))
    assert printed(capfd, "library", "audit", "new")["score"] == 100
    task = {"problem": f"A teacher says: {GOOD.lower()} What is 7/243 of 486?", "answer": "14"}
    Path("test.jsonl").write_text(json.dumps(task) + "\n", encoding="utf-8")
    found = printed(capfd, "library", "audit", "new", "--against", "test.jsonl", status=1)
    assert [one["code"] for one in found["lessons"][0]["findings"]] == ["copies_task"]


SKILL = "---\nname: sheets\ndescription: Reads sheets.\n---\n\n# Sheets\n\n```sh\nscripts/read.sh \\\n  x\n```\n"


def test_a_skill_of_others_says_what_it_keeps_and_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    Path("in/scripts").mkdir(parents=True)
    Path("in/SKILL.md").write_text(SKILL, encoding="utf-8")
    Path("in/scripts/read.sh").write_bytes(b"echo \xff\n")
    Path("in/scripts/old.zip").write_bytes(b"PK\x03\x04")
    words = said(capfd, "library", "import", "in", "--name", "new", "--approve")
    assert "in: format skill, 1 lesson can be used" in words
    assert "2 files of the skill kept as they are; none is run\nnot read: 1 file\n  file: scripts/old.zip (" in words
    again = printed(capfd, "library", "import", "in", "--name", "new")
    assert again["changed"] is False
    assert again["files"] == ["SKILL.md", "scripts/read.sh"]
    assert [(one["what"], one["place"]) for one in again["not_read"]] == [("file", "scripts/old.zip")]
    shown = said(capfd, "library", "show", "new")
    assert "[G1] # Sheets\n      \n      ```sh\n      scripts/read.sh \\\n        x\n      ```\n" in shown
    assert "files beside it: SKILL.md, scripts/read.sh" in shown
    told = "the format 'skill' does not keep: ids and versions, origins"
    words = said(capfd, "library", "export", "new", "--format", "skill", "--out", "skills")
    assert words == f"wrote skills/sheets\n{told}\n"
    for name in ("SKILL.md", "scripts/read.sh"):
        assert Path("skills/sheets", name).read_bytes() == Path("in", name).read_bytes()
    said(capfd, "library", "export", "new", "--format", "skill", "--out", "skills", "--name", "mine")
    assert Path("skills/mine/SKILL.md").read_text("utf-8") == SKILL.replace("name: sheets", "name: mine")
    kept = ("library", "export", "new", "--format", "skill", "--out", "x", "--description", "Mine.")
    assert run([*kept, "--store", "st"]) == 2
    assert "keeps the description that it came with" in capfd.readouterr().err


def test_a_list_says_what_it_leaves_unread_and_how_to_keep_it(capfd: pytest.CaptureFixture[str]) -> None:
    code = "```\ncode\n```\n" * 9
    Path("notes.md").write_text(f"Words.\n\n{code}\n- {GOOD}\n", encoding="utf-8")
    words = said(capfd, "library", "import", "notes.md", "--name", "new")
    assert "not read: 1 paragraph, 9 code blocks\n  paragraph: line 1\n  code block: line 3, line 6" in words
    assert ", line 24, and 1 more\nto keep all of it, import it as whole sections: --format document\n" in words
    whole = printed(capfd, "library", "import", "notes.md", "--name", "whole", "--format", "document")
    assert [one["experience"]["lesson"] for one in whole["withheld"]] == [Path("notes.md").read_text("utf-8")]
    Path("notes.md").write_text("# A\n\n```\ncode\n```\n", encoding="utf-8")
    assert run(["library", "import", "notes.md", "--name", "other", "--store", "st"]) == 2
    assert "or name another format with --format: 'document' keeps all of it" in capfd.readouterr().err
