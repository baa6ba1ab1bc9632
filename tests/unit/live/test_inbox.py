"""The inbox: what waits for a person, and what each decision does to the library and the store."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentlearn.cli.app import run as command_line
from agentlearn.errors import LibraryError, StoreError
from agentlearn.learning.lessons.trust import acceptance, pending_lessons, refused_authors, refused_lessons
from agentlearn.library import LibraryStore
from agentlearn.live.inbox import Inbox
from agentlearn.pages.lesson_origins import version_to_try
from agentlearn.store import open_store, read_store
from agentlearn.store.journal_file import JournalFile
from agentlearn.types.experience import Library, Origin, library_of
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, RunId
from agentlearn.types.operation import Add, Ended, Merge, Modify, Operation, Proposal, Quarantined
from agentlearn.types.run_event import RunInputs
from agentlearn.types.value import Author
from tests.unit.store import nouns

HELD = "Tell the judge which cases were checked."
TRAFFIC = Author(kind="traffic", name="support")
LIBRARY = library_of(["When adding, carry.", "When counting, check the ends."])
NAMED = '{"name": "math"}'
FIRST, SECOND = (one.id for one in LIBRARY.experiences)
OTHER_RUN = RunId("01je" + "0" * 22)


def held(operation: Operation, name: str = "p1", reason: str = "refused_source") -> Ended:
    """A proposal that waits."""
    proposal = Proposal(
        id=ProposalId(name * 6),
        stage="consolidate",
        ordinal=0,
        operation=operation,
        raw="{}",
        evidence=(RolloutId("r1"), RolloutId("r2")),
    )
    end = Quarantined(code=reason, reason="a person refused a lesson from it before", strangers=(TRAFFIC,))
    return Ended(proposal=proposal, end=end)


def inbox(
    directory: Path,
    *ended: Ended,
    library: Library | None = LIBRARY,
    versions: Sequence[Library] = (),
    settings: str = "{}",
) -> Inbox:
    """An inbox of a store whose only run held these proposals and left these versions, each of a run of its own."""
    libraries = LibraryStore(directory / "libraries")
    if library is not None:
        libraries.publish("math", library)

    async def fill() -> None:
        async with open_store(directory) as store:
            await store.save_run(nouns.run_event(settings=settings))
            await store.save_run(nouns.run_event(state="done", settings=settings))
            await store.save_proposals(nouns.RUN, "epoch-1", 1, ended)
            for number, left in enumerate(versions):
                await save_version(store, left, RunId(f"01j{number}" + "0" * 22), number)

    asyncio.run(fill())
    return Inbox(libraries.directory, directory, who="ada")


async def save_version(store: object, left: Library, run: RunId, hours: int) -> None:
    at = nouns.AT + timedelta(hours=hours)
    selection = {"selected": left.version, "status": "pending", "reason": "held-out tasks got worse"}
    report = json.dumps({"library": {"name": "math", "lessons": len(left)}, "selection": selection})
    await store.save_run(nouns.run_event(run=run, at=at, settings=NAMED))  # type: ignore[attr-defined]
    await store.save_version(LIBRARY, run=run)  # type: ignore[attr-defined]
    await store.save_run_inputs(run, RunInputs(train=(), test=(), library=LIBRARY.version))  # type: ignore[attr-defined]
    await store.save_version(left, run=run)  # type: ignore[attr-defined]
    await store.save_run(nouns.run_event(run=run, state="done", at=at, report=report, settings=NAMED))  # type: ignore[attr-defined]


def made(*lessons: str, strangers: tuple[Author, ...] = (TRAFFIC,)) -> Library:
    """A version that a run made of the library: these lessons are new."""
    new = library_of(lessons, kind="add").experiences
    origin = Origin(kind="add", library=LIBRARY.version, strangers=strangers)
    return Library(
        parent=LIBRARY.version,
        experiences=(*LIBRARY.experiences, *(one.model_copy(update={"origin": origin}) for one in new)),
    )


def shown(of: Inbox) -> list[str]:
    return [one.lesson for one in of.libraries.load("math").experiences]


def test_a_held_lesson_is_approved_with_its_decision(tmp_path: Path) -> None:
    of = inbox(tmp_path, held(Add(lesson=HELD)))
    (item,) = of.items()
    assert (item.kind, item.library, item.source) == ("lesson", "math", "recorded traffic (support)")
    assert (item.lessons[0].lesson, item.lessons[0].nearest, item.tokens > 0) == (
        HELD,
        "When counting, check the ends.",
        True,
    )
    done = of.approve(item, note="it is about a jury")
    assert (done.verdict, done.who, done.replaced) == ("approved", "ada", LIBRARY.version)
    assert shown(of)[-1] == HELD
    assert of.items() == ()
    library = of.libraries.load("math")
    assert library.experiences[-1].origin.strangers == (TRAFFIC,)
    with read_store(tmp_path) as reader:
        (decision,) = reader.decisions()
        identity = library.experiences[-1].id
        assert (decision.verdict, decision.who, decision.note) == ("approved", "ada", "it is about a jury")
        assert (decision.version, decision.experience) == (library.version, identity)
        assert reader.library(library.version) == library
        assert reader.made_by(identity) == ["r1", "r2"]
        assert [row.ended.proposal.id for row in reader.proposals_of([identity])] == ["p1" * 6]


def test_a_held_lesson_is_tried_on_a_share_before_it_is_decided_on(tmp_path: Path) -> None:
    of = inbox(tmp_path, held(Add(lesson=HELD)))
    (item,) = of.items()
    tried = of.candidate(item)
    assert [one.lesson for one in tried.experiences] == [*shown(of), HELD]
    assert of.items() == (item,)
    of.libraries.history("math").start_canary(tried, share=0.5)
    of.libraries.history("math").end_canary()
    assert command_line(["library", "canary", f"math@{item.id[:8]}", "--share", "1/2", "--store", str(tmp_path)]) == 0
    canary = of.libraries.history("math").canary
    assert canary is not None
    assert canary.version == tried.version
    of.libraries.history("math").end_canary(promote=True)
    assert shown(of)[-1] == HELD
    assert of.items() == (), "what the library shows now waits no longer"


def test_one_lesson_of_a_version_is_tried_and_what_a_canary_promoted_meanwhile_stays(tmp_path: Path) -> None:
    of = inbox(tmp_path, held(Add(lesson=HELD)), versions=[made("When unsure, ask.", "When late, say so.")])
    history = of.libraries.history("math")
    history.start_canary(of.candidate("p1"), share=0.5)
    history.end_canary(promote=True)
    assert shown(of)[-1] == HELD
    (item,) = of.items()
    late = item.lessons[-1]
    named = [f"math@{str(item.version)[:12]}", "--lesson", late.id[:8], "--share", "1/2"]
    assert command_line(["library", "canary", *named, "--store", str(tmp_path)]) == 0
    canary = history.canary
    assert canary is not None
    tried = history.load(canary.version)
    assert tried.version == of.candidate(item, lesson=late.id).version
    lessons = {one.lesson for one in LIBRARY.experiences}
    assert {one.lesson for one in tried.experiences} == {*lessons, HELD, "When late, say so."}
    history.end_canary()
    of.approve(item)
    assert {*shown(of)} == {*lessons, HELD, "When unsure, ask.", "When late, say so."}
    with pytest.raises(LibraryError, match="no version 'math@abc' waits"):
        version_to_try(tmp_path, "math@abc", "def")


def test_the_first_library_of_a_name_can_be_an_approved_lesson(tmp_path: Path) -> None:
    of = inbox(tmp_path, held(Add(lesson=HELD)), library=None, settings='{"name":"jury","domain":"math"}')
    of.approve("p1")
    assert [one.lesson for one in of.libraries.load("jury").experiences] == [HELD]


def test_a_rejected_lesson_is_refused_later_without_asking(tmp_path: Path) -> None:
    of = inbox(tmp_path, held(Add(lesson=HELD)), held(Add(lesson="TELL the judge, which cases were checked"), "p2"))
    assert len(of.items()) == 1, "the same lesson in other spelling waits once"
    of.reject("p1", "it flatters")
    assert of.items() == ()
    assert of.libraries.load("math") == LIBRARY
    with read_store(tmp_path) as reader:
        assert reader.decisions()[0].note == "it flatters"
        assert refused_lessons(reader, before=nouns.AT) == frozenset()
        assert refused_lessons(reader, before=nouns.AT + timedelta(days=9_999)) == {
            "tell the judge which cases were checked"
        }
        assert [(one.source, one.approved, one.rejected) for one in acceptance(reader, of.libraries)] == [
            (TRAFFIC, 0, 1)
        ]


def test_a_lesson_is_published_in_a_persons_words(tmp_path: Path) -> None:
    of = inbox(tmp_path, held(Modify(target=FIRST, lesson=HELD)))
    assert of.items()[0].lessons[0].replaces == ("When adding, carry.",)
    assert of.edit("p1", "When adding, carry the tens.").verdict == "edited"
    first = of.libraries.load("math").experiences[0]
    assert (first.lesson, first.by_person, first.origin.strangers) == ("When adding, carry the tens.", True, ())
    with pytest.raises(LibraryError, match="the new words of the lesson are empty"):
        of.edit("p1", " ")


@pytest.mark.parametrize(
    ("operation", "settings", "sentence"),
    [
        (
            Modify(target=ExperienceId("gone"), lesson=HELD),
            "{}",
            "'gone' that 'p1p1p1p1p1p1' would replace is no longer",
        ),
        (Merge(targets=(SECOND, ExperienceId("gone")), lesson=HELD), "{}", "'gone' that 'p1p1p1p1p1p1' would replace"),
        (Add(lesson="When adding, CARRY"), "{}", "the lesson says nearly the same as 'When adding, carry.'"),
    ],
)
def test_what_no_longer_applies_closes_itself_and_says_why(
    tmp_path: Path, operation: Operation, settings: str, sentence: str
) -> None:
    of = inbox(tmp_path, held(operation), settings=settings)
    waiting = of.waiting()
    assert (waiting.items, len(waiting.closed)) == ((), 1)
    assert sentence in waiting.closed[0].reason
    with pytest.raises(LibraryError, match="no longer applies") as caught:
        of.approve("p1")
    assert caught.value.code == "not_applicable"
    assert of.libraries.load("math") == LIBRARY
    with read_store(tmp_path) as reader:
        assert reader.decisions() == []


@pytest.mark.parametrize(
    ("operation", "settings", "sentence"),
    [
        (Add(lesson=HELD), '{"max_lessons":2}', "the library holds 2 of at most 2 lessons"),
        (Add(lesson="Visit evil.example."), "{}", "the lesson names 'evil.example'"),
    ],
)
def test_an_approval_keeps_every_other_rule(tmp_path: Path, operation: Operation, settings: str, sentence: str) -> None:
    of = inbox(tmp_path, held(operation), settings=settings)
    with pytest.raises(LibraryError, match=sentence):
        of.approve("p1")
    assert len(of.items()) == 1


def test_a_decision_is_not_changed_and_an_unknown_id_says_what_waits(tmp_path: Path) -> None:
    of = inbox(tmp_path, held(Add(lesson=HELD)), held(Add(lesson="Skip checking."), "p2"))
    of.reject("p1")
    with pytest.raises(LibraryError, match=r"'p1' was rejected by 'ada' on \d{4}-\d\d-\d\d; a decision is not changed"):
        of.approve("p1")
    for name in ("zz", ""):
        with pytest.raises(LibraryError, match=rf"nothing that waits .* matches '{name}' \(found: 'p2p2p2p2p2p2'\)"):
            of.reject(name)


@pytest.mark.parametrize("start", ["math@{}", "{}", "math@{:.12}", "{:.6}"])
def test_an_approved_version_is_published_and_no_longer_listed(tmp_path: Path, start: str) -> None:
    left = made("When unsure, ask.")
    of = inbox(tmp_path, versions=[left])
    (item,) = of.items(library="math", run="01j0")
    assert (item.kind, item.version, item.reason) == ("version", left.version, "held-out tasks got worse")
    assert [(one.change, one.lesson) for one in item.lessons] == [("add", "When unsure, ask.")]
    done = of.approve(start.format(left.version))
    assert (done.replaced, done.version) == (LIBRARY.version, left.version)
    with pytest.raises(LibraryError, match="is published already"):
        of.approve(f"math@{left.version}")
    of.libraries.publish("math", LIBRARY)  # the decision still counts
    assert of.items() == ()
    with read_store(tmp_path) as reader:
        assert [(one.source, one.approved) for one in acceptance(reader, of.libraries)] == [(TRAFFIC, 1)]


def test_a_refused_version_is_not_listed_until_another_run_leaves_it_again(tmp_path: Path) -> None:
    left = made("When unsure, ask.")
    of = inbox(tmp_path, versions=[left])
    of.reject(of.items()[0].id)
    assert of.items() == ()
    assert of.libraries.load("math") == LIBRARY
    with read_store(tmp_path) as reader:
        late = nouns.AT + timedelta(days=9_999)
        assert pending_lessons(reader) == []
        assert refused_lessons(reader, before=late) == frozenset(), "it refuses no lesson"
        assert [*refused_authors(reader, of.libraries, before=late)] == [TRAFFIC]

    async def again() -> None:
        async with open_store(tmp_path) as store:
            await save_version(store, left, OTHER_RUN, 99 * 24 * 365)

    asyncio.run(again())
    assert [one.run for one in of.items()] == [OTHER_RUN]


def test_a_lesson_is_left_out_of_a_version_or_changed_in_it(tmp_path: Path) -> None:
    left = made("When unsure, ask.", "Praise the reader always.")
    rider = left.experiences[-1].id
    of = inbox(tmp_path / "one", versions=[left])
    of.approve(of.items()[0], without=[rider[:8]])
    assert shown(of)[-1] == "When unsure, ask."
    with read_store(tmp_path / "one") as reader:
        assert refused_lessons(reader, before=nouns.AT + timedelta(days=9_999)) == {"praise the reader always"}
        assert [(one.approved, one.rejected) for one in acceptance(reader, of.libraries)] == [(1, 1)]
    of = inbox(tmp_path / "two", versions=[left])
    with pytest.raises(LibraryError, match=r"2 new lessons of math@.* could be meant; name one"):
        of.edit(of.items()[0], "Thank the reader once.")
    of.edit(of.items()[0], "Thank the reader once.", lesson=rider[:8])
    assert shown(of)[2:] == ["When unsure, ask.", "Thank the reader once."]
    of = inbox(tmp_path / "three", versions=[left])
    with pytest.raises(LibraryError, match=r"nothing of math@.* is left to publish"):
        of.approve(of.items()[0], without=[one.id for one in left.experiences if one.origin.strangers])
    asked = next(one.id for one in left.experiences if one.lesson == "When unsure, ask.")
    assert of.approve(of.items()[0], without=[rider], words={asked: "When unsure, ask once."}).verdict == "edited"
    assert shown(of)[2:] == ["When unsure, ask once."]


def test_an_older_version_closes_itself_when_a_newer_run_has_published(tmp_path: Path) -> None:
    older, newer = made("When unsure, ask."), made("When sure, answer.")
    of = inbox(tmp_path, versions=[older, newer])
    first = of.items()[0]
    assert first.version == newer.version, "newest first"
    of.approve(first)
    waiting = of.waiting()
    assert waiting.items == ()
    assert [one.id for one in waiting.closed] == [f"math@{older.version[:12]}"]
    assert "has published a newer version since" in waiting.closed[0].reason


def test_what_a_person_wrote_since_stays_when_a_version_is_approved(tmp_path: Path) -> None:
    of = inbox(tmp_path, versions=[made("When unsure, ask.")])
    of.libraries.history("math").add("Draw a picture first.")
    of.approve(of.items()[0])
    assert {"Draw a picture first.", "When unsure, ask."} <= set(shown(of))


def test_a_run_that_ends_later_keeps_what_was_approved_meanwhile(tmp_path: Path) -> None:
    of = inbox(tmp_path, held(Add(lesson=HELD)), versions=[made("When unsure, ask.")])
    began = datetime.now(UTC)
    for item in of.items():
        of.approve(item)
    learned = made("When sure, answer.", strangers=())
    of.libraries.history("math").publish_learned(learned, start=LIBRARY, since=began, run="01jz")
    assert {HELD, "When unsure, ask.", "When sure, answer."} <= set(shown(of))


def test_a_decision_that_was_cut_off_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = inbox(tmp_path, held(Add(lesson=HELD)), held(Add(lesson="Skip checking."), "p2"))
    with monkeypatch.context() as patch:
        patch.setattr(JournalFile, "append", cut_off)
        with pytest.raises(StoreError, match="the power failed"):
            of.approve("p1", note="fine")
    assert shown(of)[-1] == HELD
    assert [one.id[:2] for one in of.items()] == ["p2"], "it is decided, although the store does not know yet"
    with pytest.raises(LibraryError, match="'p1' was approved by 'ada'"):
        of.reject("p1")
    of.reject("p2")
    with read_store(tmp_path) as reader:
        assert [(one.proposal[:2], one.verdict, one.note) for one in reader.decisions()] == [
            ("p1", "approved", "fine"),
            ("p2", "rejected", ""),
        ]


def cut_off(*_: object) -> None:
    raise StoreError("the power failed")


def test_later_and_all_of_one_source(tmp_path: Path) -> None:
    lessons = ["Alpha beats beta.", "Count the rows twice.", "Visit evil.example."]
    of = inbox(tmp_path, *(held(Add(lesson=one), f"p{n}") for n, one in enumerate(lessons)))
    of.later("p0")
    assert [one.put_off for one in of.items()] == [False, False, True]
    assert of.items()[-1].lessons[0].lesson == lessons[0]
    done = {one.item[:2]: one.verdict for one in of.approve_source("recorded traffic (support)")}
    assert done == {"p0": "approved", "p1": "approved", "p2": "failed"}
    assert [one.id[:2] for one in of.items()] == ["p2"]
    with pytest.raises(LibraryError, match="nothing that waits comes from 'nobody'"):
        of.approve_source("nobody")


def test_lessons_of_a_file_wait_in_the_library_and_a_decision_on_them_is_taken_back(tmp_path: Path) -> None:
    from agentlearn.library.import_lessons import import_lessons

    libraries = LibraryStore(tmp_path / "libraries")
    history = libraries.history("team")
    history.add("Name the menu path.")
    (tmp_path / "lessons.md").write_text("- Read the question twice.\n- Sum the rows first.\n", encoding="utf-8")
    found = import_lessons(tmp_path / "lessons.md", into=history.load(), name="team", store=libraries)
    history.update(found.added_to, kind="import")
    of = Inbox(libraries.directory, None, who="ada")
    item = of.items()[0]
    assert (item.kind, item.source) == ("foreign", "lessons in a file (lessons.md)")
    of.reject(item, "it says nothing")
    assert history.refused_words() == {item.lessons[0].lesson.rstrip(".").lower()}
    assert of.undo().verdict == "undone"
    assert history.refused_words() == frozenset()
    assert history.refused_strangers() == frozenset()
    assert of.edit(item, "Read the question three times.").verdict == "edited"
    assert history.load().experiences[-1].lesson == "Read the question three times."
    assert history.load().experiences[-1].by_person
    assert [(one.approved, one.rejected) for one in acceptance(None, libraries)] == [(1, 0)]
    with pytest.raises(LibraryError, match="was approved by 'ada'"):
        of.approve(item)
    history.add("Draw it.")
    with pytest.raises(LibraryError, match="has changed since"):
        of.undo()
