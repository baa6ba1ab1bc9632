"""Skills of others: what comes in goes out as it was, nothing is run, and no path leaves a folder."""

import os
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.formats import library_format, loss_sentence, write_form
from agentlearn.library.formats.source_files import Form, ImportLimits, SourceFiles
from agentlearn.library.history import MAIN
from agentlearn.library.history.hand_edits import LibraryDiff
from agentlearn.library.import_lessons import ImportedLessons, import_lessons
from agentlearn.pages.lesson_origins import diff_lines
from agentlearn.types.experience import Experience, KeptFile, Library, Origin, library_of
from agentlearn.types.ids import ExperienceId
from agentlearn.types.ranking import Retrieval
from agentlearn.types.rendering import is_section

FRONT = "---\nname: sheets\ndescription: |\n  Reads sheets.\n# a remark\nlicense: MIT\n---\n"
BODY = """
# Sheets

## Reading
Read *all* sheets first:

1. Count the rows.

   ```python
   import openpyxl

   # no heading
   ```

2. Then stop.

| use | library |
|--|--|
| formulas | `openpyxl` |

## Example

> quoted

## Example

> quoted

"""
SCRIPT = b"#!/bin/sh\ntouch /tmp/run-by-agentlearn\n"
SKILLS = {
    "as it is usual": (FRONT + BODY).encode(),
    "without an end": (FRONT + BODY).rstrip().encode(),
    "of Windows": (FRONT + BODY).replace("\n", "\r\n").encode("utf-8-sig"),
    "without a front": BODY.lstrip().encode(),
}


@pytest.fixture
def store(tmp_path: Path) -> LibraryStore:
    return LibraryStore(tmp_path / "store" / "libraries")


def skill(folder: Path, main: bytes = SKILLS["as it is usual"]) -> Path:
    """A folder with a skill of somebody else."""
    for name, content in {
        "SKILL.md": main,
        "scripts/run.sh": SCRIPT,
        "assets/a.png": b"\x89PNG\x00\xff",
        "references/lessons-2.md.txt": b"x",
        "references/more.md": "# More\n\ncaf\u00e9\n".encode("latin-1"),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def taken(folder: Path, store: LibraryStore, **limits: int) -> tuple[Library, ImportedLessons]:
    """The library that shows all of a skill, and what the import found."""
    history = store.history("sheets")
    imported = import_lessons(folder, name="sheets", store=store, limits=ImportLimits(**limits))
    kept = imported.files.values()
    history.update(lambda now: imported.added_to(now, approve=True), kind="import", files=kept, who="test")
    return history.load(MAIN), imported


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.parametrize("case", SKILLS)
def test_a_skill_of_others_comes_back_byte_for_byte(case: str, tmp_path: Path, store: LibraryStore) -> None:
    library, imported = taken(skill(tmp_path / "in", SKILLS[case]), store)
    assert not imported.refused
    assert not imported.unread
    assert all(is_section(one.lesson) for one in library.experiences)
    assert sum("> quoted" in one.lesson for one in library.experiences) == 2, "a document may say something twice"
    out = write_form(library, tmp_path / "sheets", "skill", content=store.content)
    assert files_in(out) == files_in(tmp_path / "in")
    write_form(library, out, "skill", content=store.content)  # an unchanged export is replaced
    assert not (Path("/tmp") / "run-by-agentlearn").exists()


@pytest.mark.parametrize("case", SKILLS)
def test_only_what_was_changed_differs(case: str, tmp_path: Path, store: LibraryStore) -> None:
    original = skill(tmp_path / "in", SKILLS[case]) / "SKILL.md"
    library, _ = taken(tmp_path / "in", store)
    first, *others = library.experiences
    words = first.lesson.replace("Then stop.", "Then go on.")
    changed = first.model_copy(update={"id": ExperienceId("new"), "lesson": words})
    added = library_of(["When lost, draw."]).experiences
    after = library.next((changed, *others, *added))
    out = write_form(after, tmp_path / "sheets", "skill", content=store.content)
    expected = original.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("Then stop.", "Then go on.")
    expected = f"{expected.rstrip()}\n\n- When lost, draw.\n"
    found = (out / "SKILL.md").read_bytes()
    assert (b"\r\n" in found) == (b"\r\n" in original.read_bytes())
    assert found.decode().replace("\r\n", "\n") == expected
    assert write_form(after, out, "skill", known=[library], content=store.content) == out
    lines = list(diff_lines(LibraryDiff.of(library, library.next((_replacing(changed, first), *others)))))
    assert "    -2. Then stop." in lines
    assert "    +2. Then go on." in lines
    assert sum(line.startswith(("    -", "    +")) for line in lines) == 2


def _replacing(made: Experience, before: Experience) -> Experience:
    return made.model_copy(update={"origin": Origin(kind="person", parents=(before.id,))})


def test_hostile_files_beside_a_skill_are_named_and_not_kept(tmp_path: Path, store: LibraryStore) -> None:
    folder = skill(tmp_path / "in")
    os.mkfifo(folder / "scripts/pipe")
    (folder / "scripts/pack.zip").write_bytes(b"PK\x03\x04")
    (folder / "scripts/large.bin").write_bytes(b"a" * 40_001)
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x", encoding="utf-8")
    (folder / "scripts/.env").write_text("KEY=1", encoding="utf-8")
    (folder / "scripts/a\\b").write_text("x", encoding="utf-8")
    (folder / "scripts/a\nb").write_text("x", encoding="utf-8")
    (folder / os.fsdecode(b"scripts/\xff")).write_text("x", encoding="utf-8")
    (folder / "loop").symlink_to(folder / "scripts")
    (folder / "copy.sh").symlink_to(folder / "scripts/run.sh")
    library, imported = taken(folder, store, max_bytes=4_000)
    assert {one.path for one in library.files} == {
        *("SKILL.md", "assets/a.png", "copy.sh", "references/lessons-2.md.txt", "references/more.md", "scripts/run.sh")
    }
    named = {one.place: one.reason for one in imported.unread}
    hidden = "it is hidden, or a link to a folder"
    assert {one: named[one] for one in (".git/", "loop/", "scripts/.env")} == dict.fromkeys(
        (".git/", "loop/", "scripts/.env"), hidden
    )
    assert named["scripts/pipe"].startswith("it is a pipe")
    assert "is an archive" in named["scripts/pack.zip"]
    assert "larger than the limit" in named["scripts/large.bin"]
    assert [named[one] for one in ("scripts/a\\b", "scripts/a\nb", "scripts/?")] == ["its name cannot be kept"] * 3
    assert len(named) == 9


def test_a_hostile_folder_is_refused(tmp_path: Path, store: LibraryStore) -> None:
    folder = skill(tmp_path / "in")
    (folder / "scripts/out").symlink_to("/etc/passwd")
    with pytest.raises(LibraryError, match="is a link that leads out of the folder"):
        import_lessons(folder)
    (folder / "scripts/out").unlink()
    (folder / "a/b/c/d/e/f/g").mkdir(parents=True)
    with pytest.raises(LibraryError, match="folders more than 6 deep"):
        import_lessons(folder)
    (folder / "SKILL.md").write_bytes(b"# a\0b")
    with pytest.raises(LibraryError, match="NUL"):
        import_lessons(folder / "SKILL.md", "skill")


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a\\x", ".git/hooks/x", "a//x", "a/.", "a\nb", "~/\0"])
def test_no_library_names_a_file_outside_of_its_folder(path: str) -> None:
    with pytest.raises(ValidationError):
        KeptFile(path=path, sha256="0" * 64)


def test_an_export_follows_no_link_and_leaves_other_files_alone(tmp_path: Path, store: LibraryStore) -> None:
    library, _ = taken(skill(tmp_path / "in"), store)
    out = write_form(library, tmp_path / "sheets", "skill", content=store.content)
    elsewhere = tmp_path / "elsewhere"
    (out / "scripts").rename(elsewhere)
    (out / "scripts").symlink_to(elsewhere)
    with pytest.raises(LibraryError, match="symbolic link"):
        write_form(library, out, "skill", content=store.content)
    assert files_in(elsewhere) == {"run.sh": SCRIPT}
    (out / "scripts").unlink()
    elsewhere.rename(out / "scripts")
    (out / "mine.txt").write_text("mine", encoding="utf-8")
    shorter = library.model_copy(update={"files": library.files[:-1]})
    shorter = Library.model_validate(shorter.model_dump())
    write_form(shorter, out, "skill", known=[library], content=store.content)
    assert {*files_in(tmp_path / "in")} - {*files_in(out)} == {"scripts/run.sh"}
    (out / "scripts").mkdir(exist_ok=True)
    (out / "scripts/run.sh").write_text("mine", encoding="utf-8")
    with pytest.raises(LibraryError, match="is not an unchanged export"):
        write_form(library, out, "skill", known=[shorter], content=store.content)


def test_bytes_that_are_lost_or_changed_are_not_written(tmp_path: Path, store: LibraryStore) -> None:
    library, _ = taken(skill(tmp_path / "in"), store)
    (script,) = (one for one in library.files if one.path == "scripts/run.sh")
    kept = store.directory / "sheets" / "files" / script.sha256
    assert kept.read_bytes() == SCRIPT
    assert kept.stat().st_mode & 0o177 == 0
    kept.chmod(0o600)
    kept.write_bytes(b"#!/bin/sh\nrm -rf /\n")
    with pytest.raises(LibraryError, match=r"the bytes of 'scripts/run.sh' \(sha256 \w+\) are not in this store"):
        store.export("sheets", tmp_path / "sheets", "skill")
    assert not (tmp_path / "sheets").exists()
    text = store.directory.parent / "sheets.json"
    store.export("sheets", text)
    assert (
        loss_sentence(library, "agentlearn")
        == "the format 'agentlearn' does not keep: the bytes of the 5 files beside it"
    )
    foreign = import_lessons(text, store=LibraryStore(tmp_path / "other"))
    assert {one.place for one in foreign.unread} == {one.path for one in library.files}
    assert not foreign.files


lines = st.sampled_from(
    ["# A", "", "text", "- item", "```", "    code", "| a | b |", "<!-- x -->", "1. one", "---", "\\*"]
)
sections = st.lists(lines, min_size=2, max_size=8).map(lambda found: "\n".join((*found, "word", "")))
one_line = st.sampled_from(["When adding, carry.", "When lost, *draw*.", "# no heading"])
tags = st.sampled_from([(), ("sums",), ("sums", "grids")])


@pytest.mark.parametrize("form", ["markdown", "agents-md", "skill", "lines", "agentlearn"])
@given(rows=st.lists(st.tuples(sections | one_line, tags), max_size=5))
def test_sections_are_read_again_as_they_were(form: Form, rows: list[tuple[str, tuple[str, ...]]]) -> None:
    library = Library(
        experiences=tuple(
            Experience(id=ExperienceId(str(number)), lesson=lesson, tags=of, origin=Origin(kind="person"))
            for number, (lesson, of) in enumerate(rows)
        )
    )
    texts = library_format(form).write(library, "math")
    read = library_format(form).read(
        SourceFiles("x", {path or "x.md": text for path, text in texts.items()}, form == "skill")
    )
    found = [(str(one.text), tuple(cast("tuple[str, ...]", one.tags))) for one in read.lessons]
    assert sorted(one for one in found if is_section(one[0])) == sorted(row for row in rows if is_section(row[0]))
    assert sorted(str(one.text) for one in read.lessons) == sorted(lesson for lesson, _ in rows)
    assert not read.unread


@pytest.mark.parametrize("form", ["ace", "youtu", "training-free-grpo"])
def test_other_formats_hold_a_section_on_one_line_and_say_so(form: Form) -> None:
    library = library_of(["## Reading\n\n1. Count the rows.\n", "When lost, draw."])
    (text,) = library_format(form).write(library, "math").values()
    read = library_format(form).read(SourceFiles.of_text(text)).lessons
    assert [one.text for one in read] == ["## Reading 1. Count the rows.", "When lost, draw."]
    assert "the line breaks of 1 section" in loss_sentence(library, form)


def test_a_block_in_agents_md_holds_any_section(tmp_path: Path) -> None:
    hostile = "## Marks\n\n<!-- agentlearn:begin other -->\n<!-- agentlearn:end math -->\n"
    library = library_of([hostile, "When lost, draw."])
    out = write_form(library, tmp_path / "AGENTS.md", "agents-md", "math")
    write_form(library_of(["When lost, draw."]), out, "agents-md", "math")
    assert out.read_text("utf-8").count("agentlearn:") == 2


def test_what_a_list_does_not_read_is_named_with_its_line() -> None:
    text = "# T\n\nSome words.\n\n- Count once.\n\n  ```\n  code\n  ```\n\n"
    text += "> > quoted\n> - no\n\n| a |\n|---|\n| b |\n\n    code\n"
    read = library_format("markdown").read(SourceFiles.of_text(text, "notes.md"))
    assert [one.text for one in read.lessons] == ["Count once."]
    assert [(one.what, one.place) for one in read.unread] == [
        ("paragraph", "line 3"),
        ("code block", "line 7"),
        ("quotation", "line 11"),
        ("table", "line 14"),
        ("code block", "line 18"),
    ]
    ours = library_format("skill").write(library_of(["When lost, draw."] * 300), "math")
    assert not library_format("skill").read(SourceFiles("x", ours, is_folder=True)).unread


def test_long_sections_are_chosen_by_their_words_within_the_limit() -> None:
    library = library_of([f"## Kind {n}\n\n" + f"word{n} " * 590 + "\n" for n in range(30)])
    retrieval = Retrieval()
    shown = library.render("How is word17 done?", retrieval=retrieval)
    assert "word17" in shown.text
    assert sum(library.by_id[one].tokens for one in shown.labels.values()) <= retrieval.max_shown_tokens
