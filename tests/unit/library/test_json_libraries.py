"""A library as text: readable, checked, and open to what other programs and people write."""

import json
from typing import Any

import pytest

from agentlearn.errors import LibraryError
from agentlearn.library.formats import library_text, parse_library
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Origin, library_of
from agentlearn.types.ids import ExperienceId

LIBRARY = library_of(["When adding, carry.", "Wenn zwei Züge sich treffen, zeichne."], tags=("sums",))
SAME = '"version": "hand-written"'


def changed(**changes: Any) -> str:
    """The library's text with top-level fields replaced."""
    return json.dumps(json.loads(library_text(LIBRARY)) | changes)


def test_our_form_is_sorted_readable_and_ends_with_a_line() -> None:
    text = library_text(LIBRARY)
    assert text.startswith('{\n  "experiences": [\n')
    assert text.endswith('"}\n'.replace('"}', f'"version": "{LIBRARY.version}"\n}}'))
    assert "Wenn zwei Züge" in text
    document = json.loads(text)
    assert document["format"] == "agentlearn-library/1"
    assert list(document) == sorted(document)


def test_a_changed_lesson_is_noticed_and_the_error_says_how_to_fix_it() -> None:
    text = library_text(LIBRARY).replace("carry", "do not carry")
    with pytest.raises(LibraryError) as refused:
        parse_library(text, "math.json")
    assert str(refused.value).startswith("'math.json' was changed: its lessons make version '")
    assert str(refused.value).endswith(
        f"but it says {LIBRARY.version[:8]!r}; set {SAME} to read it as a new library, or export the library again"
    )


def test_a_file_marked_hand_written_is_read_as_a_new_library() -> None:
    text = library_text(LIBRARY).replace("carry", "do not carry")
    library = parse_library(text.replace(LIBRARY.version, "hand-written"), "math.json")
    assert library.experiences[0].lesson == "When adding, do not carry."
    assert [one.tags for one in library.experiences] == [("sums",), ("sums",)]
    assert {one.origin.kind for one in library.experiences} == {"person"}
    assert library.parent is None


def test_a_hand_written_file_needs_no_more_than_lessons() -> None:
    lessons = [{"lesson": "When adding, carry."}, {"lesson": "When counting, check the ends."}]
    text = json.dumps({"format": "agentlearn-library/1", "version": "hand-written", "experiences": lessons})
    assert parse_library(text, "x") == library_of([one["lesson"] for one in lessons])


def test_the_original_s_form_is_imported_in_its_order() -> None:
    text = json.dumps({"experiences": {"G1": " When adding,\n carry. ", "G0": "When counting, stop."}, "next_id": 2})
    assert parse_library(text, "x") == library_of(["When adding, carry.", "When counting, stop."], kind="import")
    assert parse_library('{"experiences": {}, "next_id": 0}', "x") == EMPTY_LIBRARY


def test_an_imported_lesson_that_breaks_the_rules_is_named() -> None:
    long = " ".join(["word"] * 81)
    with pytest.raises(LibraryError) as refused:
        parse_library(json.dumps({"experiences": {"G0": "When adding, carry.", "G7": long}, "next_id": 8}), "old.json")
    assert str(refused.value) == (
        "experience G7 of 'old.json' cannot be used: lesson: a lesson has at most 80 words and 800 characters;"
        f" correct it in the file: {long[:60] + '…'!r}"
    )


def test_an_invalid_library_file_is_refused_in_a_sentence(subtests: pytest.Subtests) -> None:
    for text, sentence in [
        ("{", "'x' is not JSON: "),
        ("[1]", "'x' is not a library file: expected an object with"),
        ('{"experiences": 3}', "'x' is not a library file"),
        ('{"experiences": {"G0": 3}}', "experience G0 of 'x' cannot be used: lesson: "),
        ('{"experiences": {"G0": ""}}', "a lesson must not be empty"),
        (
            '{"format": "agentlearn-library/2"}',
            "'x' has the library format 'agentlearn-library/2'; this agentlearn reads",
        ),
        ('{"format": "agentlearn-library/1"}', "'x' needs \"experiences\", a list of objects"),
        ('{"format": "agentlearn-library/1", "experiences": [3]}', "'x' needs \"experiences\", a list of objects"),
        (
            '{"format": "agentlearn-library/1", "version": "hand-written", "experiences": [{"lesson": "a"}, {}]}',
            "experience #2 of 'x' cannot be used: lesson: ",
        ),
        (changed(experiences=[{"lesson": "a"}]), "'x' was changed and cannot be read: id: Field required; set"),
        (changed(parent=3), "'x' was changed and cannot be read: parent: "),
        (changed(parent="0" * 32), "'x' was changed: its lessons make version"),
        (changed(version=None), "but it says 'None'"),
    ]:
        with subtests.test(repr((text, sentence))):
            with pytest.raises(LibraryError) as refused:
                parse_library(text, "x")
            assert sentence in str(refused.value)
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize("odd", ["", "\x00", "\x1b[31m", "\ud800", "x" * 65, "a b"])
def test_an_id_that_agentlearn_never_makes_is_refused(odd: str) -> None:
    made = Experience(id=ExperienceId(odd), lesson="When adding, carry.", origin=Origin(kind="add"))
    with pytest.raises(LibraryError, match="which agentlearn never makes"):
        parse_library(library_text(Library(experiences=(made,))), "odd.json")
    origin = Origin(kind="modify", parents=(ExperienceId(odd),))
    child = made.model_copy(update={"id": ExperienceId("ab" * 16), "origin": origin})
    with pytest.raises(LibraryError, match="which agentlearn never makes"):
        parse_library(library_text(Library(experiences=(child,))), "odd.json")
