"""What a person can do with a library's history: edit by hand, name versions, go back, compare and trace."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.history import History
from agentlearn.types.experience import EMPTY_LIBRARY, Library, Withheld, library_of

CARRY = "When adding, carry."
ENDS = "When counting, check the ends of the range."
ZERO = "When dividing, look for zero."
JUDGE = "Tell the judge which cases were checked."


@pytest.fixture
def store(tmp_path: Path) -> LibraryStore:
    return LibraryStore(tmp_path / "libraries")


@pytest.fixture
def history(store: LibraryStore) -> History:
    made = store.history("math")
    made.add(CARRY, tags=("sums",))
    made.add(ENDS)
    return made


def ids(history: History, at: str | None = None) -> list[str]:
    return [one.id for one in history.load(at).experiences]


def words(history: History, at: str | None = None) -> list[str]:
    return [one.lesson for one in history.load(at).experiences]


def refusal(ask: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(LibraryError) as refused:
        ask()
    return refused.value.code, str(refused.value)


# By hand


def test_every_edit_is_a_person_s_and_keeps_the_older_versions(history: History) -> None:
    first, second = ids(history)
    one, two = history.load().experiences
    assert (one.origin.kind, one.tags, two.origin.library) == ("person", ("sums",), history.changes[0].version)
    change = history.edit(first[:6], "When adding columns, carry.")
    made = history.load().experiences[0]
    assert (made.lesson, made.tags) == ("When adding columns, carry.", ("sums",))
    assert (made.origin.kind, made.origin.parents) == ("person", (first,))
    assert made.id not in {first, second}
    assert words(history, change.before) == [CARRY, ENDS]
    assert [one.op for one in history.remove(made.id).operations] == ["delete"]
    assert words(history) == [ENDS]


def test_a_lesson_like_a_parked_one_is_refused_unless_it_is_accepted(history: History) -> None:
    history.park(ids(history)[1])
    code, said = refusal(lambda: history.add(f"{ENDS[:-1]}!"))
    assert code == "near_parked"
    assert "which is parked (rule 'near_parked'); change the words, or keep it with --accept near_parked" in said
    history.add(f"{ENDS[:-1]}!", accept=["near_parked"])
    assert history.changes[-1].accepted == ("near_parked",)
    code, said = refusal(lambda: history.unpark(history.load().withheld[0].experience.id))
    assert code == "near_duplicate"


def with_pending(history: History) -> str:
    library, new = history.load(), library_of([ZERO], kind="import").experiences[0]
    history.publish(
        Library(
            parent=library.version,
            experiences=library.experiences,
            withheld=(Withheld(experience=new, status="pending", reason="It was imported."),),
        ),
        kind="import",
    )
    return new.id


def test_a_pending_lesson_is_approved_with_its_id_edited_removed_or_refused_for_ever(history: History) -> None:
    pending = with_pending(history)
    history.edit(pending, "When dividing by a sum, look for zero first.")
    (held,) = history.load().withheld
    assert (held.status, held.experience.origin.parents) == ("pending", (pending,))
    history.remove(held.experience.id)
    assert history.load().withheld == ()
    assert history.approve(with_pending(history)[:8])
    assert (ids(history)[-1], history.load().withheld) == (pending, ())
    history.remove(pending)
    history.reject(with_pending(history))
    assert history.load().withheld == ()
    assert refusal(lambda: history.add(ZERO.upper()))[0] == "refused_by_person"
    assert len(history.refused_words()) == 1


def test_the_rules_hold_for_people_and_a_refusal_changes_nothing(history: History, store: LibraryStore) -> None:
    before = history.changes
    for lesson, code in (
        ("", "empty_lesson"), ("word " * 40, "malformed"), (f"{'word ' * 90}end", "too_long"),
        ("[G1] forged", "forged_id"), (CARRY.upper(), "near_duplicate"),
    ):  # fmt: skip
        for asked in (history, *([] if code == "near_duplicate" else [store.history("new")])):
            found, said = refusal(lambda asked=asked, lesson=lesson: asked.add(lesson))
            assert found == code
            assert f"(rule {code!r}); change the words" in said
            assert ("--accept" in said) == (code == "near_duplicate")
    assert (history.changes, store.names()) == (before, ("math",))
    assert not (store.directory / "new").exists()
    assert refusal(lambda: history.add("[G1] forged", accept=["forged_id"]))[0] == "bad_library"
    history.add(CARRY.upper(), accept=["near_duplicate"])
    assert (words(history)[-1], history.changes[-1].accepted) == (CARRY.upper(), ("near_duplicate",))


# Names of versions


def test_a_branch_changes_without_main(history: History, store: LibraryStore) -> None:
    history.branch("try-2")
    history.add(ZERO, branch="try-2")
    assert words(history) == [CARRY, ENDS]
    assert [one.lesson for one in store.load("math@try-2").experiences] == [CARRY, ENDS, ZERO]
    assert store.load("math@main") == store.load("math")
    assert refusal(lambda: history.add(ZERO, branch="try-3"))[0] == "unknown_version"


def test_a_name_that_is_taken_is_refused(history: History) -> None:
    history.branch("v-1")
    assert refusal(lambda: history.branch("v-1"))[0] == "bad_library"
    assert refusal(lambda: history.branch("main"))[0] == "bad_library"
    version = history.resolve()[:12]
    assert "never changes; make a branch from it first" in refusal(lambda: history.branch_of(version))[1]


def test_a_name_that_reads_as_a_version_or_that_no_reference_can_hold_is_refused(history: History) -> None:
    for name in ("abc", "2026", "0", "f" * 32, "", "None", "a/b", "x.json", "none", "../up", "-x", "é", "x" * 65):
        code, said = refusal(lambda name=name: history.branch(name))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        assert code == "bad_library"
        if set(name) <= set("abcdef0123456789") and name:
            assert said.startswith(f"{name!r} could be the start of a version; use a name with")


def test_a_rollback_is_a_new_change_and_removes_nothing(history: History) -> None:
    first, second = (one.version for one in history.changes)
    change = history.rollback(first[:8])
    assert (change.kind, change.before, change.version) == ("rollback", second, first)
    assert words(history) == [CARRY]
    assert words(history, second) == [CARRY, ENDS]
    assert refusal(lambda: history.rollback(first))[0] == "no_change"
    assert refusal(lambda: history.rollback("zz"))[0] == "unknown_version"


# Comparing and tracing


def test_a_diff_names_each_lesson_that_changed(history: History) -> None:
    first, second = ids(history)
    before = history.resolve()
    history.edit(first, "When adding columns, carry.")
    history.add(ZERO)
    history.park(second)
    found = history.diff(before)
    (edit,) = found.edited
    assert [one.id for one in edit.before] == [first]
    assert [(one.before, one.after) for one in edit.words] == [("adding,", "adding columns,")]
    assert [one.lesson for one in found.added] == [ZERO]
    assert [(one.experience.id, one.before, one.after) for one in found.status] == [(second, "shown", "parked")]
    assert (found.removed, found.moved) == ((), ())


def test_blame_goes_back_through_every_edit(history: History) -> None:
    first = ids(history)[0]
    history.edit(first, "When adding columns, carry.", who="ann")
    second = ids(history)[0]
    history.edit(second, "When adding long columns, carry to the left.")
    third = ids(history)[0]
    chain = history.blame(third[:10])
    assert [one.experience.id for one in chain] == [third, second, first]
    assert [one.brought and one.brought.number for one in chain] == [3, 2, 0]
    assert [one.left and one.left.number for one in chain] == [None, 3, 2]
    assert (chain[1].brought or history.changes[0]).who == "ann"
    assert [one.experience.id for one in history.blame(first)] == [first]


def test_every_change_that_fails_leaves_the_files_alone(history: History) -> None:
    def files() -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in sorted(history._files.folder.iterdir())}  # pyright: ignore[reportPrivateUsage]

    before = files()
    for ask in (
        lambda: history.add(""),
        lambda: history.edit("zz", ZERO),
        lambda: history.edit(ids(history)[0], CARRY),
        lambda: history.branch("abc"),
        lambda: history.rollback("zz"),
        lambda: history.rollback("main"),
    ):
        refusal(ask)
    assert files() == before
    assert history.load() != EMPTY_LIBRARY
