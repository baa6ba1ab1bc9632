"""Published libraries: their history, the current version, and references to them."""

from pathlib import Path

import pytest

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.types.experience import EMPTY_LIBRARY, Library, library_of

FIRST = library_of(["When adding, carry.", "When counting, check the ends."], tags=("sums",))
SECOND = Library(
    parent=FIRST.version,
    experiences=(FIRST.experiences[0], *library_of(["When dividing, look for zero."]).experiences),
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


def test_an_unknown_name_lists_the_known_ones(library_store: LibraryStore) -> None:
    for ask in (library_store.load, library_store.log):
        with pytest.raises(LibraryError) as unknown:
            ask("mth")
        assert str(unknown.value) == (
            f"library 'mth' is not in the library store {str(library_store.directory)!r} (found: 'math', 'web.v2');"
            " did you mean 'math'?"
        )
        assert unknown.value.code == "unknown_library"


@pytest.mark.parametrize(
    "name",
    ["", "..", ".", "../math", "a/b", "Math", "-x", "x" * 65, "none", "lib.json", "a b", "a\n", "ａ", "a@b"],
)
def test_a_name_cannot_lead_out_of_the_store(library_store: LibraryStore, name: str) -> None:
    before = sorted(library_store.directory.parent.rglob("*"))
    with pytest.raises(LibraryError) as refused:
        library_store.publish(name, FIRST)
    assert refused.value.code == "bad_library_name"
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
