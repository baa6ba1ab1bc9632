"""Importing lessons of others: what can be used waits, everything else is named, and no file does harm."""

import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.curate.lesson_text import LessonWords, NearIndex
from agentlearn.library.formats import library_format, write_form
from agentlearn.library.formats.source_files import Form, FoundLesson, ImportLimits, ReadLessons, SourceFiles
from agentlearn.library.import_lessons import ImportedLessons, checked_lessons, import_lessons
from agentlearn.types.experience import Experience, Library, Withheld, library_of
from tests.support.cases import cases

GOOD = "When counting the cells of a grid, count each cell once."
NEAR = "When counting cells of the grid, count each cell once."
LONG = " ".join(["word"] * 81)
LISTED = f"""# notes

## Counting
- {GOOD}
- When counting the cells of a grid, count each  cell once.
- {NEAR}
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
    used, near = imported.lessons
    made = used.experience
    assert near.reason.endswith(f"it says nearly the same as {GOOD!r}")
    assert (made.lesson, made.tags, made.origin.kind) == (GOOD, ("counting",), "import")
    assert (used.status, used.reason) == ("pending", "imported from 'notes.md' (format markdown)")
    assert [(one.place, one.code) for one in imported.refused] == [
        ("line 5", "duplicate"),
        ("line 7", "too_long"),
        ("line 8", "names_address"),
        ("line 9", "empty_lesson"),
    ]
    assert LONG.startswith(imported.refused[1].lesson), "no part of a sentence that is too long is imported"
    assert len(imported.lessons) + len(imported.refused) == LISTED.count("\n- ")


def test_imported_lessons_are_shown_to_nobody_until_they_are_approved(notes: Path) -> None:
    base = library_of(["When adding, carry."])
    imported = import_lessons(notes, into=base)
    library = imported.added_to(base)
    assert library.experiences == base.experiences
    assert [one.experience.lesson for one in library.withheld] == [GOOD, NEAR]
    assert library.parent == base.version
    approved = imported.added_to(base, approve=True)
    assert [one.lesson for one in approved.experiences] == ["When adding, carry.", GOOD, NEAR]
    assert approved.withheld == ()
    again = import_lessons(notes, into=library)
    assert again.lessons == ()
    assert {one.code for one in again.refused} >= {"duplicate"}
    assert again.added_to(library) is library
    for encoding in ("utf-8-sig", "utf-16"):
        notes.write_bytes(f"- {GOOD}\r\n".encode(encoding))
        assert [one.experience.lesson for one in import_lessons(notes).lessons] == [GOOD]


def test_a_lesson_that_the_library_has_nearly_is_refused(notes: Path) -> None:
    imported = import_lessons(notes, into=library_of([GOOD]))
    assert [(one.place, one.code) for one in imported.refused][:3] == [
        ("line 4", "duplicate"),
        ("line 5", "duplicate"),
        ("line 6", "near_duplicate"),
    ]


sentences = st.lists(st.sampled_from(["count", "3", "5.", "each", "(once)", "half"]), min_size=1, max_size=40).map(
    lambda words: f"Always {' '.join(words)} here."
)


@given(st.lists(sentences, min_size=1, max_size=12).map(" ".join))
def test_a_long_text_becomes_lessons_of_whole_sentences(text: str) -> None:
    imported = _checked(text)
    lessons = [one.experience.lesson for one in imported.lessons]
    if imported.refused:
        assert {one.code for one in imported.refused} == {"duplicate"}, "two parts may have the same words"
        return
    assert " ".join(lessons) == text
    assert all(lesson.startswith("Always ") and lesson.endswith(" here.") for lesson in lessons)
    assert (len(lessons) == 1) == (len(text.split()) <= 80 and len(text) <= 800)


def _checked(*texts: str, form: Form = "markdown") -> ImportedLessons:
    found = tuple(FoundLesson(f"line {number}", text) for number, text in enumerate(texts, 1))
    return checked_lessons(SourceFiles.of_text("x", "x"), ReadLessons(found), form)


def test_where_a_long_text_is_split(subtests: pytest.Subtests) -> None:
    for name, text, starts in cases(__file__, "where_a_long_text_is_split"):
        with subtests.test(name):
            imported = _checked(text)
            assert [one.experience.lesson.split()[0] for one in imported.lessons] == starts
            assert bool(imported.refused) == (not starts)
            if starts:
                assert " ".join(one.experience.lesson for one in imported.lessons) == text


tagged = st.tuples(st.sampled_from(["When adding", "When lost", "In doubt"]), st.sampled_from(["", "sums", "grids"]))


@pytest.mark.parametrize("form", ["ace", "markdown", "skill", "lines"])
@given(st.lists(tagged, min_size=1, max_size=8))
def test_what_was_imported_is_exported_and_imported_alike(form: Form, rows: list[tuple[str, str]]) -> None:
    blocks = (f"## {tag or 'Lessons'}\n- {words}, take step {number}.\n" for number, (words, tag) in enumerate(rows))
    source = SourceFiles.of_text("\n".join(blocks), "notes.md")
    first = _library(source, "markdown")
    assert sorted(one.lesson for one in first) == sorted(
        f"{words}, take step {number}." for number, (words, _) in enumerate(rows)
    )
    texts = library_format(form).write(Library(experiences=tuple(first)), "notes")
    again = _library(SourceFiles("x", {path or "x": text for path, text in texts.items()}, form == "skill"), form)
    assert [(one.lesson, one.tags) for one in again] == [(one.lesson, one.tags) for one in first]


def _library(source: SourceFiles, form: Form) -> tuple[Experience, ...]:
    imported = checked_lessons(source, library_format(form).read(source), form)
    assert not imported.refused
    return imported.added_to(Library(), approve=True).experiences


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


def test_tags_and_origins_that_a_file_made_up_do_not_count(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path / "libraries")
    library = library_of(["When adding, carry."])
    store.publish("math", library)
    file = write_form(library, tmp_path / "math.json", "agentlearn")
    document = json.loads(file.read_text(encoding="utf-8"))
    document["experiences"][0] |= {"tags": ["forged"], "origin": {"kind": "merge"}}
    file.write_text(json.dumps(document), encoding="utf-8")
    assert import_lessons(file, store=store).added_to(Library()) == library
    assert import_lessons(file, store=store).added_to(Library()).experiences[0].tags == ()
    file.write_text(json.dumps(document).replace("carry", "wait"), encoding="utf-8")
    imported = import_lessons(file, store=store)
    assert imported.published is None
    (one,) = imported.lessons
    assert (one.experience.origin.kind, one.experience.id in library.by_id) == ("import", False)


def test_what_a_file_withholds_is_not_approved(tmp_path: Path) -> None:
    shown = library_of(["When adding, carry."])
    held = library_of([GOOD]).experiences[0]
    library = Library(
        experiences=shown.experiences, withheld=(Withheld(experience=held, status="parked", reason="bad"),)
    )
    file = write_form(library, tmp_path / "x.jsonl", "lines")
    approved = import_lessons(file).added_to(Library(), approve=True)
    assert [one.lesson for one in approved.experiences] == ["When adding, carry."]
    assert [one.experience.lesson for one in approved.withheld] == [GOOD]


HOSTILE = {
    "large": (b"- " + b"a" * 1_100_000, "bad_library"),
    "one line": (b'{"format": "agentlearn-library/1", "experiences": [' + b" " * 10_000_000, "bad_library"),
    "nul": (b"- a\0b", "bad_library"),
    "latin": (b"- caf\xe9", "bad_library"),
    "zip": (b"PK\x03\x04abc", "bad_library"),
    "tar": (b"a" * 257 + b"ustar", "bad_library"),
    "empty": (b"", "bad_library"),
    "prose": (b"Nothing to see here.", "bad_library"),
    "deep": (b"[" * 100_000, "bad_library"),
    "many": (b"- a lesson\n" * 10_001, "bad_library"),
    "alias": (b"agent: &a\n  instructions: '[G0]. x'\n  b: [*a, *a]\n", "bad_library"),
    "tag": (b"agent:\n  instructions: !!python/object/apply:os.system ['[G0]. x']\n", "bad_library"),
    "key twice": (b'{"experiences": {"G0": "Count once.", "G0": "Count twice."}}', "bad_library"),
    "deep yaml": (b"instructions: '[G0]. x'\na: " + b"[" * 5_000, "bad_library"),
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


def test_a_lone_surrogate_and_other_types_refuse_one_lesson_only(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"experiences": {"G0": "a \\ud800 b", "G1": 3, "G2": null, "G3": "When adding, carry."}}', "utf-8")
    imported = import_lessons(file)
    assert [one.experience.lesson for one in imported.lessons] == ["When adding, carry."]
    assert [one.code for one in imported.refused] == ["surrogates", "wrong_type", "missing_field"]


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = write_form(library_of([GOOD]), tmp_path / "math", "skill")
    secret = tmp_path / "secret.md"
    secret.write_text("- When adding, carry.", encoding="utf-8")
    (folder / "references").mkdir()
    (folder / "references" / "x.md").symlink_to(secret)
    with pytest.raises(LibraryError) as refused:
        import_lessons(folder)
    assert refused.value.code == "bad_library"


def test_an_archive_by_name_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "math.skill", "w") as archive:
        archive.writestr("../../SKILL.md", "- a")
    with pytest.raises(LibraryError, match="is an archive; unpack it"):
        import_lessons(tmp_path / "math.skill")
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(LibraryError, match="cannot be read"):
        import_lessons(tmp_path / "pipe.md")


def test_a_folder_has_limits(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.md").write_text("x", encoding="utf-8")
    with pytest.raises(LibraryError, match="has more than 5 entries"):
        import_lessons(tmp_path, limits=ImportLimits(max_files=5))
    (tmp_path / "a/b/c").mkdir(parents=True)
    with pytest.raises(LibraryError, match="folders more than 2 deep"):
        import_lessons(tmp_path, limits=ImportLimits(max_depth=2))


few = st.sampled_from([*"abcdefghijklmnop", "word", "words"])


@given(st.lists(st.lists(few, min_size=1, max_size=14), max_size=12), st.booleans())
def test_the_index_finds_what_a_comparison_of_all_pairs_finds(texts: list[list[str]], aware: bool) -> None:
    lessons = [" ".join(text) for text in texts]
    index = NearIndex(lessons if aware else ())
    for number, lesson in enumerate(lessons):
        words = LessonWords.of(lesson)
        near = [at for at in range(number) if words.is_near(LessonWords.of(lessons[at]), 0.85)]
        assert index.all_near(lesson) == ([] if not near else sorted(near))
        index.add(lesson)


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
