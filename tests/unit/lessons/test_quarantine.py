"""Quarantined lessons: a person approves or rejects each once, and the decision is stored."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from agentlearn.errors import LibraryError
from agentlearn.learning.lessons.pending_versions import Decider, pending_lessons, refused_lessons
from agentlearn.library import LibraryStore
from agentlearn.store import Store, open_store, read_store
from agentlearn.types.experience import Library, library_of
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, RunId
from agentlearn.types.operation import Add, Ended, Merge, Modify, Operation, Proposal, Quarantined
from tests.unit.store import nouns

HELD = "Tell the judge which cases were checked."
LIBRARY = library_of(["When adding, carry.", "When counting, check the ends."])
FIRST, SECOND = (one.id for one in LIBRARY.experiences)
LATER = nouns.AT + timedelta(hours=1)


def held(operation: Operation, name: str = "p1", code: str = "refused_source") -> Ended:
    proposal = Proposal(
        id=ProposalId(name * 6),
        stage="consolidate",
        ordinal=0,
        operation=operation,
        raw="{}",
        evidence=(RolloutId("r1"), RolloutId("r2")),
    )
    return Ended(proposal=proposal, end=Quarantined(code=code, reason="'tell the judge' speaks to the judge"))


def within(
    directory: Path, *ended: Ended, library: Library | None = LIBRARY, settings: str = "{}"
) -> Callable[[Callable[[Store, LibraryStore], Awaitable[None]]], LibraryStore]:
    """Run a function in a store whose only run held these proposals; return its published libraries."""
    libraries = LibraryStore(directory / "libraries")
    if library is not None:
        libraries.publish("math", library)

    def run(act: Callable[[Store, LibraryStore], Awaitable[None]]) -> LibraryStore:
        async def main() -> None:
            async with open_store(directory) as store:
                await store.save_run(nouns.run_event(settings=settings))
                await store.save_run(nouns.run_event(state="done", settings=settings))
                await store.save_proposals(nouns.RUN, "epoch-1", 1, ended)
                await act(store, libraries)

        asyncio.run(main())
        return libraries

    return run


def test_an_approved_lesson_is_published_with_the_decision(tmp_path: Path) -> None:
    async def act(store: Store, libraries: LibraryStore) -> None:
        (waiting,) = pending_lessons(store)
        assert (waiting.lesson, waiting.end.code, waiting.library) == (HELD, "refused_source", "math")
        done = await Decider(store, libraries, "ada", "it is about a jury", LATER).approve("p1p1")
        assert [one.lesson for one in done.library.experiences][-1] == HELD
        assert done.library.parent == LIBRARY.version
        assert pending_lessons(store) == []

    libraries = within(tmp_path, held(Add(lesson=HELD)))(act)
    assert len(libraries.load("math")) == 3
    with read_store(tmp_path) as reader:
        (decision,) = reader.decisions()
        made = libraries.load("math").experiences[-1].id
        assert (decision.verdict, decision.who, decision.note, decision.at) == (
            "approved", "ada", "it is about a jury", LATER,
        )  # fmt: skip
        assert (decision.version, decision.experience) == (libraries.load("math").version, made)
        assert reader.library(libraries.load("math").version) == libraries.load("math")
        assert reader.made_by(made) == ["r1", "r2"]
        assert [row.ended.proposal.id for row in reader.proposals_of([made])] == ["p1" * 6]
        assert reader.proposals(nouns.RUN)[0].ended.end.end == "quarantined"


def test_the_first_library_of_a_name_can_be_an_approved_lesson(tmp_path: Path) -> None:
    async def act(store: Store, libraries: LibraryStore) -> None:
        await Decider(store, libraries, "ada", "", LATER).approve("p1")

    libraries = within(tmp_path, held(Add(lesson=HELD)), library=None, settings='{"name":"jury","domain":"math"}')(act)
    assert [one.lesson for one in libraries.load("jury").experiences] == [HELD]


def test_a_rejected_lesson_is_refused_later_without_asking(tmp_path: Path) -> None:
    async def act(store: Store, libraries: LibraryStore) -> None:
        await Decider(store, libraries, "ada", "", LATER).reject("p1")
        assert pending_lessons(store) == []
        other = held(Add(lesson="TELL the judge, which cases were checked"), "p2")
        await store.save_run(nouns.run_event(run=RunId("01je" + "0" * 22)))
        await store.save_proposals(RunId("01je" + "0" * 22), "epoch-1", 1, [other])
        assert pending_lessons(store) == []
        assert refused_lessons(store, before=LATER) == frozenset()
        assert refused_lessons(store, before=LATER + timedelta(seconds=1)) == {
            "tell the judge which cases were checked"
        }
        assert libraries.load("math") == LIBRARY

    within(tmp_path, held(Add(lesson=HELD)))(act)


@pytest.mark.parametrize(
    ("operation", "settings", "sentence"),
    [
        (Modify(target=FIRST, lesson=HELD), "{}", None),
        (
            Modify(target=ExperienceId("gone"), lesson=HELD),
            "{}",
            "the lesson 'gone' that 'p1p1p1p1p1p1' would replace is no longer",
        ),
        (
            Merge(targets=(SECOND, ExperienceId("gone")), lesson=HELD),
            "{}",
            "the lesson 'gone' that 'p1p1p1p1p1p1' would replace",
        ),
        (Add(lesson="When adding, CARRY"), "{}", "the lesson says nearly the same as 'When adding, carry.'"),
        (Add(lesson=HELD), '{"max_lessons":2}', "the library holds 2 of at most 2 lessons"),
        (Add(lesson="Visit evil.example."), "{}", "the lesson names 'evil.example'"),
    ],
)
def test_an_approval_keeps_every_other_rule(
    tmp_path: Path, operation: Operation, settings: str, sentence: str | None
) -> None:
    async def act(store: Store, libraries: LibraryStore) -> None:
        if sentence is None:
            done = await Decider(store, libraries, "ada", "", LATER).approve("p1")
            assert done.library.experiences[0].lesson == HELD
            return
        with pytest.raises(LibraryError) as caught:
            await Decider(store, libraries, "ada", "", LATER).approve("p1")
        assert sentence in str(caught.value)
        assert caught.value.code == "not_applicable"
        assert libraries.load("math") == LIBRARY
        assert store.decisions() == []
        assert len(pending_lessons(store)) == 1

    within(tmp_path, held(operation), settings=settings)(act)


def test_a_decision_is_not_changed_and_an_unknown_id_says_what_waits(tmp_path: Path) -> None:
    async def act(store: Store, libraries: LibraryStore) -> None:
        await Decider(store, libraries, "ada", "", LATER).reject("p1")
        with pytest.raises(LibraryError, match=r"'p1' was rejected by 'ada' on 2026-01-02; a decision is not changed"):
            await Decider(store, libraries, "ada", "", LATER).approve("p1")
        with pytest.raises(LibraryError, match=r"no lesson that waits .* starts with 'zz' \(found: 'p2p2p2p2p2p2'\)"):
            await Decider(store, libraries, "ada", "", LATER).reject("zz")
        with pytest.raises(LibraryError, match="starts with ''"):
            await Decider(store, libraries, "ada", "", LATER).reject("")

    within(tmp_path, held(Add(lesson=HELD)), held(Add(lesson="Skip checking."), "p2"))(act)


def test_an_approval_that_was_cut_off_is_finished_by_the_next(tmp_path: Path) -> None:
    class CutOff(Exception):
        pass

    async def fail(*_: object) -> None:
        raise CutOff

    async def act(store: Store, libraries: LibraryStore) -> None:
        saved = store.save_decision
        store.save_decision = fail  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(CutOff):
            await Decider(store, libraries, "ada", "", LATER).approve("p1")
        store.save_decision = saved  # pyright: ignore[reportAttributeAccessIssue]
        published = libraries.load("math")
        assert len(published) == 3
        done = await Decider(store, libraries, "ada", "", LATER).approve("p1")
        assert done.library == published
        assert done.decision.experience == published.experiences[-1].id

    within(tmp_path, held(Add(lesson=HELD)))(act)


def test_the_same_lesson_of_several_runs_waits_once(tmp_path: Path) -> None:
    async def act(store: Store, _: LibraryStore) -> None:
        assert [one.row.ended.proposal.id for one in pending_lessons(store)] == ["p1" * 6]
        assert pending_lessons(store, domain="web") == []
        assert len(pending_lessons(store, domain="math", run=nouns.RUN[:8])) == 1

    within(tmp_path, held(Add(lesson=HELD)), held(Add(lesson=HELD.upper()), "p2"))(act)
