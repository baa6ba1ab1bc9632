"""Over any history, no library shows a lesson that a stranger could have shaped without consent of a person."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from agentlearn.learning.lessons.trust import unapproved, waiting_lessons
from agentlearn.library import LibraryStore
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.formats import write_form
from agentlearn.library.import_lessons import import_lessons
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library
from agentlearn.types.ids import ExperienceId, ProposalId
from agentlearn.types.operation import Add, Delete, Merge, Modify, Operation, Proposal
from agentlearn.types.value import Author, strangers

AUTHORS = (
    Author(kind="sandbox"),
    Author(kind="model"),
    Author(kind="pages", name="example.org"),
    Author(kind="tools", name="search"),
    Author(kind="traffic", name="support"),
    Author(kind="reasons", name="own"),
)
NAMES = st.sampled_from(["one", "two"])
TRUST = st.lists(st.sampled_from(["pages", "tools:search", "traffic", "reasons"]), max_size=2)
READ = st.lists(st.sampled_from(AUTHORS), max_size=2)
WORDS = "apple bread cloud drift eagle field grape house island jacket kettle lemon mango night ocean paper".split()  # noqa: SIM905


class TrustHistory(RuleBasedStateMachine):
    """Runs, persons and files change two libraries of a store."""

    pending = Bundle("pending")
    files = Bundle("files")

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.store = LibraryStore(self.root / "store" / "libraries")
        self.consented: set[ExperienceId] = set()
        self.count = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def lesson(self) -> str:
        """A lesson that is like no other one."""
        self.count += 1
        at = self.count
        first, second, third = (WORDS[place % 16] for place in (at, at // 16 + 7 * at, 5 * at + 3))
        return f"When {first} meets {second} number {at}, count {third}."

    def current(self, name: str) -> Library:
        history = self.store.history(name)
        return history.load("main") if history.exists else EMPTY_LIBRARY

    @initialize()
    def begin(self) -> None:
        self.store.history("one").add(self.lesson())

    @rule(target=pending, name=NAMES, read=READ, trust=TRUST, data=st.data(), resumed=st.booleans())
    def learn(
        self, name: str, read: list[Author], trust: list[str], data: st.DataObject, resumed: bool
    ) -> tuple[str, Library] | None:
        """A run of two batches: the second batch reads the lessons of the first one, too."""
        start = library = self.current(name)
        accepted = self.store.shown_lessons()
        for batch in (read, [AUTHORS[0]]):
            context = CheckContext(strangers=strangers((*batch, *unapproved(library, accepted))), library=name)
            library = next_version([self.proposal(library, data)], library, context).library
        if resumed:
            accepted = self.store.shown_lessons()
        if waiting_lessons(library, accepted, trust=trust):
            return name, library
        self.consented.update(
            one.id for one in library.experiences if all(author.is_trusted(trust) for author in one.origin.strangers)
        )
        self.store.publish(name, library, kind="learn", base=start.version)
        return None

    def proposal(self, library: Library, data: st.DataObject) -> Proposal:
        ids = list(library.by_id)
        kinds = ["add", *(["modify", "delete"] if ids else []), *(["merge"] if len(ids) > 1 else [])]
        kind, lesson = data.draw(st.sampled_from(kinds)), self.lesson()
        operation: Operation = Add(lesson=lesson)
        if kind == "modify":
            operation = Modify(target=data.draw(st.sampled_from(ids)), lesson=lesson)
        elif kind == "delete":
            operation = Delete(target=data.draw(st.sampled_from(ids)))
        elif kind == "merge":
            two = data.draw(st.lists(st.sampled_from(ids), min_size=2, max_size=2, unique=True))
            operation = Merge(targets=tuple(two), lesson=lesson)
        return Proposal(id=ProposalId(f"{self.count}"), stage="consolidate", ordinal=0, operation=operation)

    @rule(waiting=pending)
    def approve(self, waiting: tuple[str, Library] | None) -> None:
        """A person approves a version."""
        if waiting is not None:
            name, library = waiting
            self.consented.update(library.by_id)
            self.store.publish(name, library, kind="approve")

    @rule(target=files, name=NAMES, change=st.booleans())
    def export(self, name: str, change: bool) -> Path | None:
        """A file of a library, unchanged or with a lesson that claims to be a person's."""
        library = self.current(name)
        if change:
            library = next_version(
                [Proposal(id=ProposalId("p"), stage="consolidate", ordinal=0, operation=Add(lesson=self.lesson()))],
                library,
                CheckContext(by_person=True),
            ).library
        if not len(library):
            return None
        file = self.root / f"{self.count}-{len(list(self.root.iterdir()))}.json"
        write_form(library, file, "agentlearn")
        return file

    @rule(name=NAMES, file=files)
    def take(self, name: str, file: Path | None) -> None:
        """A person imports a file without approving it."""
        if file is not None and self.store.history(name).exists:
            self.store.history(name).update(
                lambda library: import_lessons(file, into=library, name=name, store=self.store).added_to(library),
                kind="import",
            )

    @rule(target=pending, name=NAMES, file=files, trust=TRUST, data=st.data())
    def learn_from_file(
        self, name: str, file: Path | None, trust: list[str], data: st.DataObject
    ) -> tuple[str, Library] | None:
        """A run starts from a file."""
        if file is None:
            return None
        start, accepted = self.store.read_file(file), self.store.shown_lessons()
        context = CheckContext(strangers=unapproved(start, accepted), library=name)
        library = next_version([self.proposal(start, data)], start, context).library
        if waiting_lessons(library, accepted, trust=trust):
            return name, library
        self.store.publish(name, library, kind="learn")
        return None

    @rule(name=NAMES, data=st.data(), approve=st.booleans())
    def decide(self, name: str, data: st.DataObject, approve: bool) -> None:
        """A person approves or refuses a single lesson."""
        history = self.store.history(name)
        waiting = [one.experience for one in self.current(name).withheld if one.status == "pending"]
        if not waiting:
            return
        one: Experience = data.draw(st.sampled_from(waiting))
        if approve:
            self.consented.add(one.id)
            history.approve(one.id, accept=["near_duplicate", "near_parked", "refused_by_person"])
        else:
            history.reject(one.id)

    @rule(name=NAMES)
    def branch(self, name: str) -> None:
        """A branch begins with the newest version, and is no approval."""
        history = self.store.history(name)
        if history.exists:
            history.branch(f"v-{len(history.changes)}")

    @invariant()
    def no_stranger_is_shown_without_consent(self) -> None:
        for name in self.store.names():
            for one in self.current(name).experiences:
                assert not one.origin.strangers or one.id in self.consented, one


TrustHistory.TestCase.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTrustHistory = TrustHistory.TestCase
