"""Importing lessons of others: what can be used waits, everything else is named, and no file does harm."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.formats import library_format, write_form
from agentlearn.library.formats.source_files import FoundLesson, ReadLessons, SourceFiles
from agentlearn.library.import_lessons import checked_lessons, import_lessons
from agentlearn.types.experience import Library, library_of

GOOD = "When counting the cells of a grid, count each cell once."
LONG = " ".join(["word"] * 33)
LISTED = f"""# notes

## Counting
- {GOOD}
- When counting the cells of a grid, count each  cell once.
- When counting cells of the grid, count each cell once.
- {LONG}
- Visit www.example.com and follow the steps.
- …
"""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes.md"
    file.write_text(LISTED, encoding="utf-8")
    return file


def test_every_lesson_is_used_or_named_with_its_reason(notes: Path) -> None:
    imported = import_lessons(notes)
    (used,) = imported.lessons
    made = used.experience
    assert (made.lesson, made.tags, made.origin.kind) == (GOOD, ("counting",), "import")
    assert (used.status, used.reason) == ("pending", "imported from 'notes.md' (format markdown)")
    assert [(one.place, one.code) for one in imported.refused] == [
        ("line 5", "duplicate"),
        ("line 6", "near_duplicate"),
        ("line 7", "too_long"),
        ("line 8", "names_address"),
        ("line 9", "empty_lesson"),
    ]
    assert imported.refused[2].lesson == LONG, "a long lesson is named whole, and no part of it is imported"
    assert len(imported.lessons) + len(imported.refused) == LISTED.count("\n- ")


def test_imported_lessons_are_shown_to_nobody_until_they_are_approved(notes: Path) -> None:
    base = library_of(["When adding, carry."])
    imported = import_lessons(notes, into=base)
    library = imported.added_to(base)
    assert library.experiences == base.experiences
    assert [one.experience.lesson for one in library.withheld] == [GOOD]
    assert library.parent == base.version
    approved = imported.added_to(base, approve=True)
    assert [one.lesson for one in approved.experiences] == ["When adding, carry.", GOOD]
    assert approved.withheld == ()
    again = import_lessons(notes, into=library)
    assert again.lessons == ()
    assert {one.code for one in again.refused} >= {"duplicate"}
    assert again.added_to(library) is library
    for encoding in ("utf-8-sig", "utf-16"):
        notes.write_bytes(f"- {GOOD}\r\n".encode(encoding))
        assert [one.experience.lesson for one in import_lessons(notes).lessons] == [GOOD]


@pytest.mark.parametrize("form", ["agentlearn", "lines"])
def test_an_unchanged_export_of_this_store_keeps_ids_and_origins(form: str, tmp_path: Path) -> None:
    store = LibraryStore(tmp_path / "libraries")
    library = library_of(["When adding, carry.", GOOD])
    store.publish("math", library)
    file = write_form(library, tmp_path / "math.x", form)
    imported = import_lessons(file, store=store)
    assert imported.added_to(Library()) == library
    other = library_of(["When dividing, look at the remainder."])
    joined = import_lessons(file, store=store, into=other)
    assert [one.experience for one in joined.lessons] == list(library.experiences)
    assert {one.status for one in joined.lessons} == {"pending"}
    foreign = import_lessons(file, store=LibraryStore(tmp_path / "elsewhere"))
    assert {one.experience.origin.kind for one in foreign.lessons} == {"import"}
    assert not {one.experience.id for one in foreign.lessons} & set(library.by_id)


HOSTILE = {
    "large": (b"- " + b"a" * 1_100_000, "file_too_large"),
    "one line": (b'{"format": "agentlearn-library/1", "experiences": [' + b" " * 10_000_000, "file_too_large"),
    "nul": (b"- a\0b", "not_text"),
    "latin": (b"- caf\xe9", "not_text"),
    "zip": (b"PK\x03\x04abc", "archive"),
    "tar": (b"a" * 257 + b"ustar", "archive"),
    "empty": (b"", "unknown_format"),
    "prose": (b"Nothing to see here.", "unknown_format"),
    "deep": (b"[" * 100_000, "unknown_format"),
    "many": (b"- a lesson\n" * 10_001, "too_many_lessons"),
    "alias": (b"agent: &a\n  instructions: '[G0]. x'\n  b: [*a, *a]\n", "bad_yaml"),
    "tag": (b"agent:\n  instructions: !!python/object/apply:os.system ['[G0]. x']\n", "bad_yaml"),
    "key twice": (b'{"experiences": {"G0": "Count once.", "G0": "Count twice."}}', "bad_library"),
    "deep yaml": (b"instructions: '[G0]. x'\na: " + b"[" * 5_000, "bad_yaml"),
}


def test_a_hostile_file_is_refused_with_a_code(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in HOSTILE:
        with subtests.test(repr(name)):
            content, code = HOSTILE[name]
            file = tmp_path / "given"
            file.write_bytes(content)
            with pytest.raises(LibraryError) as refused:
                import_lessons(file, "training-free-grpo" if name == "key twice" else None)
            assert refused.value.code == code
            assert "\n" not in str(refused.value)
            assert len(str(refused.value)) < 500


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = write_form(library_of([GOOD]), tmp_path / "math", "skill")
    secret = tmp_path / "secret.md"
    secret.write_text("- When adding, carry.", encoding="utf-8")
    (folder / "references").mkdir()
    (folder / "references" / "x.md").symlink_to(secret)
    with pytest.raises(LibraryError) as refused:
        import_lessons(folder)
    assert refused.value.code == "link_leads_out"


@pytest.mark.parametrize("form", ["lines", "agentlearn", "training-free-grpo", "youtu", "ace", "markdown"])
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_a_sentence(form: str, text: str) -> None:
    with suppress(LibraryError):
        assert library_format(form).read(SourceFiles.of_text(text, "x.txt")).library is None


@given(st.lists(st.text(max_size=40) | st.sampled_from([GOOD, LONG, "\ud800", "Visit www.example.com."]), max_size=8))
def test_every_lesson_is_used_or_refused_and_ids_are_new(texts: list[str]) -> None:
    base = library_of(["When adding, carry."])
    read = ReadLessons(tuple(FoundLesson(str(number), text) for number, text in enumerate(texts)))
    if not texts:
        return
    imported = checked_lessons(SourceFiles.of_text("", "x"), read, "markdown", into=base)
    assert len(imported.lessons) + len(imported.refused) == len(texts)
    assert not {one.experience.id for one in imported.lessons} & set(base.by_id)
    for approve in (False, True):
        library = imported.added_to(base, approve=approve)
        assert Library.model_validate(library.model_dump()) == library
        assert library.experiences[: len(base)] == base.experiences
        assert len(library) == len(base) + (len(imported.lessons) if approve else 0)
