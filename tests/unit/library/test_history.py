"""What a person can do with a library's history: edit by hand, name versions, go back, compare, trace and join."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.history import History
from agentlearn.library.history.change_log import Change
from agentlearn.library.store import open_source
from agentlearn.types.author import Author
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Origin, Withheld, library_of
from agentlearn.types.ids import ExperienceId
from tests.support.cases import cases

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
        ("two\nlines", "multi_line"), ("[G1] forged", "forged_id"), (CARRY.upper(), "near_duplicate"),
    ):  # fmt: skip
        for asked in (history, *([] if code == "near_duplicate" else [store.history("new")])):
            found, said = refusal(lambda asked=asked, lesson=lesson: asked.add(lesson))
            assert found == code
            assert f"(rule {code!r}); change the words" in said
            assert ("--accept" in said) == (code == "near_duplicate")
    assert (history.changes, store.names()) == (before, ("math",))
    assert not (store.directory / "new").exists()
    assert refusal(lambda: history.add("[G1] forged", accept=["forged_id"]))[0] == "bad_accept"
    history.add(CARRY.upper(), accept=["near_duplicate"])
    assert (words(history)[-1], history.changes[-1].accepted) == (CARRY.upper(), ("near_duplicate",))


# Names of versions


def test_a_branch_changes_without_main(history: History, store: LibraryStore) -> None:
    history.branch("try-2")
    history.add(ZERO, branch="try-2")
    assert words(history) == [CARRY, ENDS]
    assert [one.lesson for one in store.load("math@try-2").experiences] == [CARRY, ENDS, ZERO]
    assert store.load("math@main") == store.load("math")
    assert refusal(lambda: history.add(ZERO, branch="try-3"))[0] == "unknown_branch"


def test_a_tag_never_means_another_version(history: History) -> None:
    first = history.tag("v-1")
    history.add(ZERO)
    assert words(history, "v-1") == [CARRY, ENDS]
    assert history.tag("v-1", reference=first.version) == first
    code, said = refusal(lambda: history.tag("v-1"))
    assert code == "label_taken"
    assert "a tag never changes; choose another name" in said
    assert refusal(lambda: history.branch("v-1"))[0] == "label_taken"
    assert refusal(lambda: history.branch("main"))[0] == "label_taken"
    assert refusal(lambda: history.branch_of("v-1"))[0] == "not_a_branch"


def test_a_name_that_reads_as_a_version_or_that_no_reference_can_hold_is_refused(history: History) -> None:
    for name in ("abc", "2026", "0", "f" * 32, "", "None", "a/b", "x.json", "none", "../up", "-x", "é", "x" * 65):
        for ask in (history.tag, history.branch):
            code, said = refusal(lambda ask=ask, name=name: ask(name))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            assert code == "bad_label"
            if set(name) <= set("abcdef0123456789") and name:
                assert said.startswith(f"{name!r} could be the start of a version; use a name with")


def test_a_pinned_name_goes_on_meaning_one_version_while_main_grows(history: History, store: LibraryStore) -> None:
    source = open_source("math", store=store.directory.parent, follow=True)
    history.pin(history.changes[0].version)
    assert [one.lesson for one in source.current().experiences] == [CARRY]
    store.publish("math", library_of([ZERO]), kind="learn", run="r1")
    assert words(history) == [CARRY]
    assert words(history, "main") == [ZERO]
    assert [one.lesson for one in source.current().experiences] == [CARRY]
    assert store.head("math").read_text().splitlines()[-1].startswith(history.changes[0].version)
    history.unpin()
    assert [one.lesson for one in source.current().experiences] == [ZERO]
    assert refusal(history.unpin)[0] == "no_change"


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


# Joining


def joined(history: History, ours: Callable[[], Any], theirs: Callable[[], Any], prefer: Any = None) -> Any:
    """Join what two branches of one library did."""
    history.branch("other")
    ours()
    theirs()
    return history.join(history.load("other"), prefer=prefer)


def test_a_join_takes_each_lesson_from_the_side_that_changed_it(history: History) -> None:
    first, second = ids(history)
    base = history.resolve()
    done = joined(
        history,
        lambda: (history.edit(first, "When adding columns, carry."), history.add(ZERO)),
        lambda: (history.remove(second, branch="other"), history.add("When stuck, draw.", branch="other")),
    )
    assert words(history) == ["When adding columns, carry.", ZERO, "When stuck, draw."]
    library = history.load()
    assert (library.joined, library.parent, done.join.base.version) == (done.theirs, history.changes[-1].before, base)
    assert done.join.conflicts == ()
    assert history.changes[-1].kind == "join"
    assert history.join(history.load("other")).change is None


@pytest.mark.parametrize(
    ("ours", "theirs", "kind", "left", "right"), cases(__file__, "a_lesson_that_both_changed_is_a_conflict")
)
def test_a_lesson_that_both_changed_is_a_conflict(
    history: History, ours: str, theirs: str, kind: str, left: str | None, right: str | None
) -> None:
    texts = {"a": "When adding columns, carry left.", "b": "Before adding rows of fractions, align denominators."}
    first, before = ids(history)[0], len(history.changes)

    def act(what: str, branch: str) -> Change:
        if what == "remove":
            return history.remove(first, branch=branch)
        return history.edit(first, texts[what[-1]], branch=branch)

    done = joined(history, lambda: act(ours, "main"), lambda: act(theirs, "other"))
    assert (done.change, done.open_conflicts) == (None, True)
    assert len(history.changes) == before + 3
    (conflict,) = done.join.conflicts
    assert (conflict.kind, [one.lesson for one in conflict.base]) == (kind, [CARRY])
    expected = {"ours": left, "theirs": right}
    assert [[one.lesson for one in side] for side in (conflict.ours, conflict.theirs)] == [
        [texts[side]] if side else [] for side in (left, right)
    ]
    version = history.resolve("main")
    for prefer in ("ours", "theirs"):
        history.branch(f"take-{prefer}", reference=version)
        history.join(history.load("other"), prefer=prefer, branch=f"take-{prefer}")
        taken = expected[prefer]
        assert words(history, f"take-{prefer}") == [*([texts[taken]] if taken else []), ENDS]


def test_a_merge_against_an_edit_of_one_of_its_lessons_loses_nothing(history: History) -> None:
    first, second = history.load().experiences
    merged = first.model_copy(
        update={
            "id": "m" * 32,
            "lesson": "When adding or counting, write each step.",
            "origin": first.origin.model_copy(update={"kind": "merge", "parents": (first.id, second.id)}),
        }
    )
    done = joined(
        history,
        lambda: history.publish(Library(parent=history.resolve(), experiences=(merged,)), kind="learn"),
        lambda: history.edit(first.id, "When adding columns, carry left.", branch="other"),
    )
    assert [one.kind for one in done.join.conflicts] == ["both_edited"]
    history.join(history.load("other"), prefer="theirs")
    assert words(history) == ["When adding columns, carry left.", ENDS]


def test_an_id_for_two_different_lessons_is_refused(history: History) -> None:
    forged = history.load().experiences[0].model_copy(update={"lesson": ZERO})
    assert refusal(lambda: history.join(Library(experiences=(forged,))))[0] == "reused_id"


def test_lessons_that_strangers_wrote_wait_for_a_person_and_replace_none_of_ours(history: History) -> None:
    stranger, first = Author(kind="library", name="given.json"), history.load().experiences[0]
    made = [
        Experience(id=ExperienceId("a" * 32), lesson=ZERO, origin=Origin(kind="import", strangers=(stranger,))),
        Experience(
            id=ExperienceId("b" * 32),
            lesson=JUDGE,
            origin=Origin(kind="import", parents=(first.id,), strangers=(stranger,)),
        ),
    ]
    before = words(history)
    history.join(Library(parent=history.load().version, experiences=tuple(made)), prefer="theirs")
    waiting = {one.experience.lesson: one for one in history.load().withheld}
    assert {one.status for one in waiting.values()} == {"pending"}
    assert set(waiting) == {ZERO, JUDGE}
    assert first.lesson in words(history)
    history.approve(waiting[ZERO].experience.id)
    assert words(history)[-1] == ZERO
    assert set(words(history)) <= {*before, ZERO}


def test_every_change_that_fails_leaves_the_files_alone(history: History) -> None:
    def files() -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in sorted(history._files.folder.iterdir())}  # pyright: ignore[reportPrivateUsage]

    before = files()
    for ask in (
        lambda: history.add(""),
        lambda: history.edit("zz", ZERO),
        lambda: history.edit(ids(history)[0], CARRY),
        lambda: history.tag("abc"),
        lambda: history.pin("zz"),
        lambda: history.rollback("main"),
        history.unpin,
    ):
        refusal(ask)
    assert files() == before
    assert history.load() != EMPTY_LIBRARY
