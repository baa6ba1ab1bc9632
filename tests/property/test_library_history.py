"""Any order of changes, joins, crashes and imports keeps the promises of a library's history."""

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.formats import write_form
from agentlearn.library.history import History
from agentlearn.library.history.change_log import MAIN, LibraryState
from agentlearn.pages.lesson_origins import change_lines
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId
from agentlearn.types.operation import Add, Delete, Merge, Modify, Operation, Proposal
from tests.property.strategies import lessons
from tests.support.cases import cases

ACCEPT = ("near_duplicate", "near_parked", "refused_by_person")
BRANCHES = (MAIN, "other", "third")
WITHHOLD = ("remove", "park", "unpark")
OTHER = "bought"
"""Name of a second library."""


class LibraryHistoryMachine(RuleBasedStateMachine):
    """One library with three branches, and a second library, in a folder of their own."""

    versions = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="history-"))
        self.store = LibraryStore(self.folder / "libraries")
        self.words: dict[ExperienceId, str] = {}
        """Every lesson that any version ever held."""
        self.made: dict[tuple[str, LibraryVersion], Library] = {}
        """Every version ever made, by the library's name."""
        self.logs: dict[str, bytes] = {}
        self.often = patch("agentlearn.library.history.change_log.CACHED_EVERY", 3)
        self.often.start()
        self.history.add("When a game begins, read the rules.", at=None)
        for branch in BRANCHES[1:]:
            self.history.branch(branch)

    @property
    def history(self) -> History:
        return self.store.history("math")

    def teardown(self) -> None:
        self.often.stop()
        shutil.rmtree(self.folder)

    def lesson(self, branch: str, number: int, *statuses: str) -> str | None:
        library = self.history.load(branch)
        held = [(one.id, "shown") for one in library.experiences]
        held += [(one.experience.id, one.status) for one in library.withheld]
        found = [identity for identity, status in held if status in statuses]
        return found[number % len(found)] if found else None

    @rule(target=versions, branch=st.sampled_from(BRANCHES), lesson=lessons)
    def add(self, branch: str, lesson: str) -> str:
        try:
            return self.history.add(lesson, branch=branch, accept=ACCEPT).version
        except LibraryError:
            return self.history.resolve(branch)

    @rule(target=versions, branch=st.sampled_from(BRANCHES), number=st.integers(0, 9), lesson=lessons)
    def edit(self, branch: str, number: int, lesson: str) -> str:
        target = self.lesson(branch, number, "shown", "parked", "pending")
        try:
            return self.history.edit(target or "", lesson, branch=branch, accept=ACCEPT).version
        except LibraryError:
            return self.history.resolve(branch)

    @rule(
        branch=st.sampled_from(BRANCHES), number=st.integers(0, 9), kind=st.sampled_from(["remove", "park", "unpark"])
    )
    def withhold(self, branch: str, number: int, kind: str) -> None:
        target = self.lesson(branch, number, "parked" if kind == "unpark" else "shown")
        if target is None:
            return
        match kind:
            case "remove":
                self.history.remove(target, branch=branch)
            case "park":
                self.history.park(target, branch=branch)
            case _:
                try:
                    self.history.unpark(target, branch=branch, accept=ACCEPT)
                except LibraryError as error:
                    assert error.code in {"library_full", "over_token_budget"}  # noqa: PT017

    @rule(
        branch=st.sampled_from(BRANCHES),
        lesson=lessons,
        other=lessons,
        kind=st.sampled_from(["add", "modify", "merge", "delete"]),
    )
    def learn(self, branch: str, lesson: str, other: str, kind: str) -> None:
        library = self.history.load(branch)
        shown = list(library.by_id)
        asked: dict[str, Operation | None] = {
            "add": Add(lesson=lesson),
            "modify": Modify(target=shown[0], lesson=lesson) if shown else None,
            "merge": Merge(targets=tuple(shown[-2:]), lesson=lesson) if len(shown) > 1 else None,
            "delete": Delete(target=shown[-1]) if shown else None,
        }
        operations = [one for one in (asked[kind], Add(lesson=other)) if one is not None]
        proposals = [
            Proposal(id=ProposalId(str(place)), stage="consolidate", ordinal=place, operation=one)
            for place, one in enumerate(operations)
        ]
        after, _ = next_version(proposals, library, CheckContext())
        by_hand = {one.id for one in library.experiences if one.origin.kind == "person"}
        assert by_hand <= set(after.by_id)
        self.history.publish(after, kind="learn", base=library.version, branch=branch)

    @rule(branch=st.sampled_from(BRANCHES), version=versions)
    def rollback(self, branch: str, version: str) -> None:
        if self.history.resolve(branch) != version:
            self.history.rollback(version, branch=branch)

    @rule(branch=st.sampled_from(BRANCHES))
    def export_and_import(self, branch: str) -> None:
        library, file = self.history.load(branch), self.folder / "out.json"
        file.unlink(missing_ok=True)
        write_form(library, file, "agentlearn")
        assert self.store.read_file(file) == library
        self.store.history(OTHER).publish(self.store.read_file(file), kind="import")

    @rule(lesson=lessons, share=st.floats(0, 1), head_too=st.booleans())
    def crash(self, lesson: str, share: float, head_too: bool) -> None:
        """The process ends after any byte of an append."""
        log, head = self.store.directory / "math" / "history.jsonl", self.store.head("math")
        before, shown, changes = self.logs["math"], head.read_bytes(), self.history.changes
        try:
            self.history.add(lesson, accept=ACCEPT)
        except LibraryError:
            return
        appended = log.read_bytes()[len(before) :]
        kept = int(len(appended) * share)
        log.write_bytes(before + appended[:kept])
        if kept < len(appended) or not head_too:
            head.write_bytes(shown)
        assert len(self.history.changes) == len(changes) + (kept == len(appended))

    @invariant()
    def ids_always_mean_the_same_words_and_versions_stay(self) -> None:
        for name in self.store.names():
            history = self.store.history(name)
            for version in history.versions():
                if (name, version) not in self.made:
                    library = history.stored(version)
                    self.made[name, version] = library
                    for identity, words in held(library).items():
                        assert self.words.setdefault(identity, words) == words

        # every version ever made is there and has its hash
        for name, version in list(self.made)[-8:] + list(self.made)[:2]:
            assert self.store.load(f"{name}@{version}", stored=True) == self.made[name, version]
        for change in self.history.changes:
            assert ("math", change.version) in self.made

    @invariant()
    def what_main_keeps_parked_is_shown_by_no_version(self) -> None:
        for name in self.store.names():
            history = self.store.history(name)
            parked = {one.experience.id for one in history.stored(MAIN).withheld if one.status == "parked"}
            for reference in (None, *history.state.branches, *history.versions()[-8:]):
                shown = history.load(reference)
                assert parked.isdisjoint(shown.by_id)
                assert set(held(shown)) == set(held(history.stored(reference)))

    @invariant()
    def the_log_only_grows(self) -> None:
        for name in self.store.names():
            content = (self.store.directory / name / "history.jsonl").read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            assert whole.startswith(self.logs.get(name, b""))
            self.logs[name] = whole

    @invariant()
    def head_is_what_the_name_means(self) -> None:
        history = self.history
        last = self.store.head("math").read_text().splitlines()[-1]
        assert history.state == LibraryState.of(history.changes)
        assert last.split(" ")[0] == history.resolve() == self.store.load("math", stored=True).version


def held(library: Library) -> dict[ExperienceId, str]:
    every = (*library.experiences, *(one.experience for one in library.withheld))
    return {one.id: one.lesson for one in every}


TestLibraryHistory = LibraryHistoryMachine.TestCase
TestLibraryHistory.settings = settings(
    max_examples=12,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_a_fixed_history_has_the_same_hashes_on_every_machine(tmp_path: Path) -> None:
    """With every kind of version: made by a person, by a run, with withheld lessons, joined, and made current again."""
    history = LibraryStore(tmp_path).history("math")
    signed: dict[str, Any] = {"who": "ann", "at": datetime(2026, 1, 2, tzinfo=UTC)}
    first = history.add("When a game begins, read the rules.", tags=["games"], **signed)
    history.branch("other", **signed)
    history.park(history.load().experiences[0].id[:8], reason="It costs points.", **signed)
    history.add("Wenn Brüche addiert werden, suche den Hauptnenner.", branch="other", note="❤", **signed)
    ours, theirs = history.load(), history.load("other")
    joined = Library(
        parent=ours.version,
        joined=theirs.version,
        experiences=(*ours.experiences, *theirs.experiences),
        withheld=ours.withheld,
    )
    history.publish(joined, kind="join", **signed)  # as an older agentlearn wrote it
    proposal = Proposal(id=ProposalId("0"), stage="consolidate", ordinal=0, operation=Add(lesson="Check small cases."))
    history.publish(next_version([proposal], history.load(), CheckContext()).library, kind="learn", run="r", **signed)
    history.branch("v-1", **signed)
    history.rollback(first.version, **signed)
    assert [one.version for one in history.changes] == GOLDEN_VERSIONS
    assert history.tip == GOLDEN_TIP
    assert any("join by ann" in line for line in change_lines(history, None))


GOLDEN_VERSIONS = cases(__file__, "golden_versions")
GOLDEN_TIP = "5c9c78622b9a215c41b1fd66c0c92f99"
