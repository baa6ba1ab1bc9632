"""Published libraries: their history, the current version, and references to them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore, Publication
from agentlearn.library.formats import changes_text, parse_library
from agentlearn.types.experience import (
    EMPTY_LIBRARY,
    Experience,
    Library,
    Origin,
    Withheld,
    experience_id,
    held_lessons,
    library_of,
)
from agentlearn.types.ids import LibraryVersion

FIRST = library_of(["When adding, carry.", "When counting, check the ends."], tags=("sums",))
SECOND = Library(
    parent=FIRST.version, experiences=(FIRST.experiences[0], *library_of(["When dividing, look for zero."]).experiences)
)


@pytest.fixture
def library_store(tmp_path: Path) -> LibraryStore:
    made = LibraryStore(tmp_path / "libraries")
    made.publish("math", FIRST)
    made.publish("math", SECOND)
    made.publish("web.v2", EMPTY_LIBRARY)
    return made


def test_a_reference_is_a_name_a_prefix_of_a_version_or_a_file(
    library_store: LibraryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert library_store.load("math") == library_store.load(f"math@{SECOND.version}") == SECOND
    assert library_store.load(f"math@{FIRST.version[:6]}") == FIRST
    assert library_store.load("web.v2") == LibraryStore(Path("nowhere")).load("none") == EMPTY_LIBRARY
    before = library_store.log("math")
    library_store.publish("math", SECOND)
    assert library_store.log("math") == before, "publishing the current version again changes nothing"
    file = library_store.publish("math", FIRST)
    assert library_store.load("math") == library_store.load(str(file)) == FIRST
    assert [one.version for one in library_store.log("math")] == [FIRST.version, SECOND.version, FIRST.version]
    names = {one.name for one in file.parent.iterdir()}
    assert names == {"HEAD", "history.jsonl", "history.lock", f"{FIRST.version}.json", f"{SECOND.version}.json"}
    monkeypatch.chdir(file.parent)
    assert library_store.load(file.name) == FIRST


def test_libraries_are_listed_by_name(library_store: LibraryStore) -> None:
    found = library_store.list()
    assert [(one.name, one.version, one.lessons, one.tokens) for one in found] == [
        ("math", SECOND.version, 2, SECOND.tokens),
        ("web.v2", EMPTY_LIBRARY.version, 0, 0),
    ]
    assert LibraryStore(library_store.directory / "nowhere").list() == []


def test_the_log_lists_changes_newest_first(library_store: LibraryStore) -> None:
    newest, oldest = library_store.log("math")
    assert newest == Publication(SECOND.version, FIRST.version, 2, SECOND.tokens, added=1, removed=1, at=newest.at)
    assert oldest == Publication(FIRST.version, None, 2, FIRST.tokens, added=2, removed=0, at=oldest.at)
    assert oldest.at <= newest.at == library_store.list()[0].at


def test_a_publication_that_fails_half_way_leaves_the_current_version(
    library_store: LibraryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(LibraryError, match=r"library 'math' could not be published: .*No space left"):
            library_store.publish("math", FIRST.model_copy(update={"parent": SECOND.version}))
    assert library_store.load("math") == SECOND
    assert len(list((library_store.directory / "math").iterdir())) == 5


def test_an_export_in_the_original_form_is_what_the_original_reads(library_store: LibraryStore, tmp_path: Path) -> None:
    many = library_of([f"When case {number} comes, think." for number in range(12)])
    library_store.publish("many", many)
    library_store.export("many", tmp_path / "out.json", format="training-free-grpo")
    written = json.loads((tmp_path / "out.json").read_text())
    assert list(written["experiences"]) == [f"G{number}" for number in range(12)]
    assert written["experiences"]["G11"] == "When case 11 comes, think."
    assert written["next_id"] == 12


def test_an_unknown_form_or_place_is_refused(library_store: LibraryStore, tmp_path: Path) -> None:
    with pytest.raises(LibraryError) as unknown:
        library_store.export("math", tmp_path / "out", format="yaml")  # pyright: ignore[reportArgumentType]
    assert str(unknown.value) == (
        "unknown library format 'yaml' (known: 'agentlearn', 'lines', 'training-free-grpo', 'youtu', 'ace', 'markdown',"
        " 'agents-md', 'skill', 'document')"
    )
    with pytest.raises(LibraryError, match="could not be written to"):
        library_store.export("math", tmp_path / "no" / "such" / "folder.json")


def test_an_unknown_name_lists_the_known_ones(library_store: LibraryStore) -> None:
    for ask in (library_store.load, library_store.log):
        with pytest.raises(LibraryError) as unknown:
            ask("mth")
        assert str(unknown.value) == (
            f"library 'mth' is not in the library store {str(library_store.directory)!r} (found: 'math', 'web.v2');"
            " did you mean 'math'?"
        )
        assert unknown.value.code == "unknown_library"


@pytest.mark.parametrize("prefix", ["", "zz", "*", "0123456789"])
def test_an_unknown_version_lists_the_known_ones(library_store: LibraryStore, prefix: str) -> None:
    with pytest.raises(LibraryError) as unknown:
        library_store.load(f"math@{prefix}")
    assert f"library 'math' has no version starting with {prefix!r} (found: " in str(unknown.value)
    assert repr(FIRST.version[:8]) in str(unknown.value)


def test_a_prefix_of_several_versions_is_refused(library_store: LibraryStore) -> None:
    versions = [FIRST.version, SECOND.version]
    library = SECOND
    while len({version[0] for version in versions}) == len(versions):
        library = Library(parent=library.version, experiences=library.experiences)
        library_store.publish("math", library)
        versions.append(library.version)
    with pytest.raises(LibraryError, match="has 2 versions starting with"):
        library_store.load(f"math@{library.version[0]}")


@pytest.mark.parametrize(
    "name", ["", "..", ".", "../math", "a/b", "Math", "-x", "x" * 65, "none", "lib.json", "a b", "a\n", "ａ", "a@b"]
)
def test_a_name_cannot_lead_out_of_the_store(library_store: LibraryStore, name: str) -> None:
    before = sorted(library_store.directory.parent.rglob("*"))
    with pytest.raises(LibraryError) as refused:
        library_store.publish(name, FIRST)
    assert refused.value.code == "bad_library"
    assert sorted(library_store.directory.parent.rglob("*")) == before


def test_a_file_in_another_version_s_place_is_noticed(library_store: LibraryStore) -> None:
    folder = library_store.directory / "math"
    (folder / f"{SECOND.version}.json").write_bytes((folder / f"{FIRST.version}.json").read_bytes())
    with pytest.raises(LibraryError, match=f"holds version '{FIRST.version[:8]}'; publish the library again"):
        library_store.load("math")


def test_a_missing_or_binary_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"library file .*none.json' cannot be read: .*No such file"):
        LibraryStore(tmp_path).load(str(tmp_path / "none.json"))
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    with pytest.raises(LibraryError, match="cannot be read"):
        LibraryStore(tmp_path).load(str(tmp_path / "bytes.json"))


def _with(library: Library, place: int, number: int) -> Library:
    """The library with a new lesson in a place, a lesson less at the end, and one withheld."""
    lessons = list(library.experiences)
    origin = Origin(kind="modify", parents=(lessons[place].id,), library=library.version)
    identity = experience_id(library.version, ["modify", number], 0)
    lessons[place] = Experience(id=identity, lesson=f"When case {number} comes, think.", tags=("t",), origin=origin)
    waiting = Withheld(experience=lessons.pop(), status="parked", reason=f"It lost in {number}.")
    return Library(parent=library.version, experiences=tuple(lessons), withheld=(*library.withheld, waiting))


@pytest.fixture
def many(tmp_path: Path) -> tuple[LibraryStore, list[Library]]:
    """A store, and the versions of its library `many`, oldest first."""
    store, made = LibraryStore(tmp_path / "libraries"), [library_of(f"When {n} come, count them." for n in range(60))]
    for number in range(24):
        made.append(_with(made[-1], 7 * number % 30, number))
    for one in made:
        store.publish("many", one)
    return store, made


def test_a_version_on_disk_holds_what_changed_and_is_read_whole(many: tuple[LibraryStore, list[Library]]) -> None:
    store, made = many
    assert [store.load(f"many@{one.version}", stored=True) for one in made] == made
    assert [one for _, one in store.history("many").load_each(one.version for one in reversed(made))] == made[::-1]
    sizes = [(store.head("many").parent / f"{one.version}.json").stat().st_size for one in made]
    assert sum(sizes) < 6 * sizes[0]
    assert [(one.lessons, one.added, one.removed) for one in store.log("many")[:2]] == [(36, 1, 2), (37, 1, 2)]


def test_a_version_is_refused_where_a_file_that_it_builds_on_was_changed(
    many: tuple[LibraryStore, list[Library]], tmp_path: Path
) -> None:
    store, made = many
    folder = store.head("many").parent
    first, second = (folder / f"{one.version}.json" for one in made[:2])
    assert held_lessons(store.load(str(second))).keys() == held_lessons(made[1]).keys()
    (tmp_path / second.name).write_bytes(second.read_bytes())
    with pytest.raises(LibraryError, match=f"{made[0].version}.json' cannot be read"):
        store.load(str(tmp_path / second.name))
    whole = first.read_text()
    first.write_text(whole.replace('"tags": []', '"tags": ["t"]', 1))  # no part of the hash of a version
    for reference in (f"many@{made[1].version}", str(second)):
        with pytest.raises(LibraryError, match=rf"{made[0].version}.json' was changed after "):
            store.load(reference)
    next_one = _with(made[1], 3, 99)  # is written whole, because nothing can build on a version that cannot be read
    store.publish("many", next_one)
    assert store.load("many") == next_one
    first.unlink()
    with pytest.raises(LibraryError, match=r"library file .* cannot be read"):
        store.load(f"many@{made[1].version}")
    first.write_text(whole)
    assert store.load(f"many@{made[1].version}", stored=True) == made[1]
    document = json.loads(second.read_text())
    wrongs = ({"base": {"version": "../../etc", "file": "0"}}, {"base": 1}, {"experiences": [[0, 99]]}, {"withheld": 1})
    for wrong in wrongs:
        second.write_text(json.dumps({**document, **wrong}))
        with pytest.raises(LibraryError):
            store.load(f"many@{made[1].version}")


@given(st.lists(st.integers(0, 19), unique=True), st.lists(st.integers(0, 19), unique=True), st.integers(0, 9))
def test_what_changed_and_the_base_are_the_library(before: list[int], after: list[int], held: int) -> None:
    known = library_of(f"When {n} come, count them." for n in range(20)).experiences

    def library(places: list[int], parent: LibraryVersion | None) -> Library:
        withheld = tuple(Withheld(experience=known[one], status="pending") for one in places[:held])
        return Library(parent=parent, experiences=tuple(known[one] for one in places[held:]), withheld=withheld)

    base = library(before, None)
    changed, asked = library(after, base.version), list[tuple[str, str]]()

    def load(version: LibraryVersion, hash_of_file: str) -> Library:
        asked.append((version, hash_of_file))
        return base

    assert parse_library(changes_text(changed, base, "abc"), "x", load) == changed
    assert asked == [(base.version, "abc")]
