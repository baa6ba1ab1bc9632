"""A lesson that is parked, or rests on erased records, is shown by no way to open its library."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentlearn import Experiences, Library, LibraryStore, lessons, open_store
from agentlearn.cli.app import run as command_line
from agentlearn.config import LearnSettings
from agentlearn.errors import AgentlearnError, LibraryError
from agentlearn.learning.lessons.run_learning import start_library
from agentlearn.library.history import MAIN, History
from agentlearn.library.retrieval import Retrieval
from agentlearn.library.shown import ERASED_FILE, in_canary
from agentlearn.library.tenants import tenant_store
from agentlearn.live.canary import step_canary
from agentlearn.live.forgetting import forget
from agentlearn.live.gateway.admission import GatewaySettings
from agentlearn.live.gateway.gateway import Gateway
from agentlearn.live.inbox import Inbox
from agentlearn.live.several_stores import merge_stores
from agentlearn.pages.lesson_origins import find_library
from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.settings import TrainSettings
from agentlearn.train.update.sequences import library_to_distil
from agentlearn.types.experience import Experience, Origin
from agentlearn.types.ids import ExperienceId, RunId, content_hash
from agentlearn.types.run_event import RunInputs
from agentlearn_evals.arms import ArmReader
from tests.unit.live.test_forget import SHOWN, fill
from tests.unit.store import nouns

LESSON, KEPT, NEW = "Ask first.", "Answer last.", "Name the order in the first line."
EDITED = "Ask for the order first."
EPISODES = [f"talk {number}" for number in range(12)]


@dataclass(frozen=True)
class Desk:
    """A store whose library `support` showed a lesson once, and files that were written before it was taken back."""

    store: Path

    @property
    def libraries(self) -> LibraryStore:
        return LibraryStore(self.store / "libraries")

    @property
    def history(self) -> History:
        return self.libraries.history("support")

    @property
    def old(self) -> str:
        """The first version, which shows the lesson."""
        return self.history.changes[0].version

    @property
    def folder(self) -> Path:
        """Where files outside of the store lie."""
        return self.store.parent

    def read(self, reference: str = "support", **options: Any) -> str:
        """What an agent with these lessons reads."""
        return Experiences(reference, store=self.store, **options).get_instructions() or ""

    def command(self, *arguments: str) -> int:
        return command_line([*arguments, "--store", str(self.store)])


# Each door: what an agent reads that comes in by it.
Door = Callable[[Desk], str]


def refused(act: Callable[[], object]) -> None:
    """Do something that may be refused in a sentence."""
    with suppress(AgentlearnError):
        act()


def of_canary(desk: Desk) -> str:
    return "".join(desk.read(canary=True, episode=one) for one in EPISODES)


def promoted(desk: Desk) -> str:
    refused(lambda: desk.history.end_canary(promote=True))
    return desk.read()


def started_again(desk: Desk) -> str:
    refused(desk.history.end_canary)
    refused(lambda: desk.history.start_canary(desk.libraries.load("support@gold", stored=True), share=0.5))
    return of_canary(desk)


def stepped(desk: Desk) -> str:
    assert step_canary(desk.libraries, desk.store, "support").outcome in {"none", "collect"}
    return of_canary(desk)


def rolled_back(desk: Desk, branch: str = MAIN) -> str:
    refused(lambda: desk.history.rollback(desk.old, branch=branch))
    return desk.read(f"support@{branch}")


def branched(desk: Desk) -> str:
    desk.history.branch("newer", reference=desk.old)
    return desk.read("support@newer")


def published(desk: Desk) -> str:
    desk.libraries.publish("support", desk.libraries.load("support@gold", stored=True))
    return desk.read() + desk.read(f"support@{desk.history.resolve()}")


def imported(desk: Desk, file: str, name: str = "support") -> str:
    assert desk.command("library", "import", str(desk.folder / file), "--name", name, "--approve") in {0, 2}
    return desk.read(name)


def exported(desk: Desk, form: str, reference: str = "support@gold") -> str:
    out = desk.folder / ("out.json" if form == "agentlearn" else f"out-{form}.md")
    more = ("--description", "Lessons.") if form == "skill" else ()
    assert desk.command("library", "export", reference, "--out", str(out), "--format", form, *more) == 0
    if form == "agentlearn":
        return str([one["lesson"] for one in json.loads(out.read_text())["experiences"]])
    text = "\n".join(one.read_text() for one in (out.rglob("*") if out.is_dir() else [out]) if one.is_file())
    return "\n".join(line for line in text.splitlines() if '"status": "parked"' not in line)


def found(desk: Desk) -> str:
    """What `library show`, `audit` and `card` take."""
    return str(find_library(desk.store, "support@gold").library.render())


def bundle(desk: Desk) -> str:
    assert desk.command("view", "support", "--bundle", str(desk.folder / "pages")) == 0
    page = (desk.folder / "pages" / "index.html").read_text()
    return page.partition("Kept, and shown to no agent")[0]


def gateway(desk: Desk, *names: str, path: str = "", **headers: str) -> str:
    """The lessons that the gateway adds to a request, or what it answers itself."""
    made = Gateway(GatewaySettings("http://127.0.0.1:9/v1", libraries=names, store=desk.store, name=""))
    tenant = made._tenants[""]  # pyright: ignore[reportPrivateUsage]
    if path:
        from agentlearn.live.gateway.admission import skill_file

        return skill_file({name: one.library for name, one in tenant.lessons.items() if name in names}, path)[
            0
        ].decode()
    body = {"model": headers.pop("model", "m"), "messages": [{"role": "user", "content": "where is it?"}]}
    call = made._call(tenant, "/v1/chat/completions", json.dumps(body).encode(), headers)  # pyright: ignore[reportPrivateUsage]
    return call.content.decode() if call else ""


def mcp(desk: Desk, tool: str) -> str:
    pytest.importorskip("mcp", reason="pip install 'agentlearn-lib[mcp]'")
    from agentlearn.pages.web_app.mcp_server import McpTools  # pyright: ignore[reportPrivateUsage]

    tools = McpTools(["support"], desk.store)
    if tool == "search":
        return tools.search_lessons(LESSON).model_dump_json()
    held = desk.history.stored("gold").by_id
    answers = list[str]()
    for one in held:
        try:
            answers.append(tools.get_lesson(one).model_dump_json())
        except Exception as error:
            answers.append(str(error))
    return "".join(answers)


def started(desk: Desk) -> str:
    settings = LearnSettings(domain="support", model="sim:novice", store=desk.store, library=f"support@{desk.old}")
    return str(start_library(settings, desk.libraries).render())


def given_to_a_run(desk: Desk) -> str:
    settings = LearnSettings(domain="support", model="sim:novice", store=desk.store)
    return str(start_library(settings, desk.libraries, desk.history.stored("gold")).render())


def arms(desk: Desk) -> str:
    reader = ArmReader([("m", "sim:novice")], None, desk.libraries)
    return "".join(str(one.library.render()) for one in reader.arms((f"support@{desk.old}",), fewest=1))


def distilled(desk: Desk) -> str:
    settings = TrainSettings(
        domain="support",
        model="m",
        store=desk.store,
        distill="support@gold",
        gradient=gradient_arguments({"distillation.coef": 1.0, "reference": "copy"}),
    )
    try:
        library = library_to_distil(settings, desk.libraries)
    except AgentlearnError:
        return ""
    return str(library.render()) if library else ""


def approved(desk: Desk) -> str:
    """A run left a version that holds the lesson and another one, and a person approves it."""
    before = desk.history.stored("gold")
    made = Experience(id=ExperienceId(content_hash("made")), lesson=NEW, origin=Origin(kind="add"))
    left = Library(parent=before.version, experiences=(*before.experiences, made))
    asyncio.run(_pending(desk.store, before, left))
    waiting = Inbox(desk.libraries.directory, desk.store, who="ada")
    waiting.approve(f"support@{left.version[:12]}")
    assert NEW in desk.read()
    assert NEW in desk.read(f"support@{desk.history.resolve(MAIN)}")
    return desk.read()


async def _pending(store: Path, start: Library, left: Library) -> None:
    run = RunId("01jz" + "0" * 22)
    async with open_store(store) as opened:
        await opened.save_version(start, run=run)
        await opened.save_version(left, run=run)
        settings = json.dumps({"name": "support"})
        await opened.save_run(nouns.run_event(run=run, kind="learn", settings=settings))
        await opened.save_run_inputs(run, RunInputs(train=(), test=(), library=start.version))
        selection = {"status": "pending", "reason": "a person decides", "selected": left.version}
        report = {"library": {"name": "support", "version": left.version, "lessons": len(left)}, "selection": selection}
        done = nouns.run_event(run=run, kind="learn", state="done", report=json.dumps(report), settings=settings)
        await opened.save_run(done)


def waiting_exported(desk: Desk) -> str:
    before = desk.history.stored("gold")
    made = Experience(id=ExperienceId(content_hash("made")), lesson=NEW, origin=Origin(kind="add"))
    left = Library(parent=before.version, experiences=(*before.experiences, made))
    asyncio.run(_pending(desk.store, before, left))
    return exported(desk, "agentlearn", f"support@{left.version[:12]}")


def merged(desk: Desk) -> str:
    """Another machine has the library under a name that is free here."""
    other = desk.folder / "other"
    asyncio.run(_opened(other))
    shutil.copytree(desk.folder / "libraries before" / "support", other / "libraries" / "theirs")
    merge_stores([other], desk.store)
    return desk.read("theirs")


async def _opened(store: Path) -> None:
    async with open_store(store):
        pass


def chosen(desk: Desk) -> str:
    """Chosen for a task by its words, from a library that is too large to show all."""
    few = lessons("support@gold", store=desk.store, retrieval=Retrieval(max_shown_tokens=1, shown_lessons=1))
    return few.for_query(LESSON).text


def of_tenant(desk: Desk) -> str:
    own = LibraryStore(tenant_store(desk.store, "acme") / "libraries").history("support")
    own.add(NEW)
    return desk.read(tenant="acme")


ALWAYS: dict[str, Door] = {
    "the name": lambda desk: desk.read(),
    "a branch of the old version": lambda desk: desk.read("support@gold"),
    "a version": lambda desk: desk.read(f"support@{desk.old}"),
    "the start of a version": lambda desk: desk.read(f"support@{desk.old[:9]}"),
    "a branch": lambda desk: desk.read("support@beta"),
    "a canary": of_canary,
    "a canary, promoted": promoted,
    "a canary, started again": started_again,
    "a canary, decided on": stepped,
    "a new branch": branched,
    "a rollback": rolled_back,
    "a rollback of a branch": lambda desk: rolled_back(desk, "beta"),
    "a publication": published,
    "an import of an old file": lambda desk: imported(desk, "old.json"),
    "an import of an old file without ids": lambda desk: imported(desk, "old.jsonl"),
    "an import into another library": lambda desk: imported(desk, "old.json", "fresh"),
    "an import of words into another library": lambda desk: imported(desk, "old.jsonl", "fresh"),
    "an import of a skill": lambda desk: imported(desk, "old-skill", "fresh"),
    "an old file": lambda desk: desk.read(str(desk.folder / "old.json")),
    "a file without ids": lambda desk: desk.read(str(desk.folder / "words.json")),
    "an export": lambda desk: exported(desk, "agentlearn"),
    "an export as lines": lambda desk: exported(desk, "lines"),
    "an export as a skill": lambda desk: exported(desk, "skill"),
    "an export for AGENTS.md": lambda desk: exported(desk, "agents-md"),
    "what a card shows": found,
    "a bundle of pages": bundle,
    "lessons as text": lambda desk: lessons("support@gold", store=desk.store).text,
    "lessons of a canary": lambda desk: "".join(
        lessons("support", store=desk.store, canary=True, episode=one).text for one in EPISODES
    ),
    "lessons that are chosen": chosen,
    "a tenant": of_tenant,
    "the gateway": lambda desk: gateway(desk, "support"),
    "the gateway, by a header": lambda desk: gateway(
        desk, "support", "support@gold", **{"x-agentlearn-library": "support@gold"}
    ),
    "the gateway, by the name of the model": lambda desk: gateway(desk, "other", "support", model="m@support"),
    "the gateway, a canary": lambda desk: "".join(
        gateway(desk, "support", **{"x-agentlearn-episode": one}) for one in EPISODES
    ),
    "the gateway, a skill": lambda desk: gateway(desk, "support", path="support/SKILL.md"),
    "MCP, a search": lambda desk: mcp(desk, "search"),
    "MCP, one lesson": lambda desk: mcp(desk, "get"),
    "the start of a run": started,
    "the start of a run, in memory": given_to_a_run,
    "an arm of a comparison": arms,
    "a distillation": distilled,
    "a version that waited, approved": approved,
    "a version that waits, exported": waiting_exported,
    "a store that is merged": merged,
}
BEFORE = (
    "a branch of the old version",
    "a version",
    "a branch",
    "a canary",
    "an old file",
    "an export",
    "a bundle of pages",
    "what a card shows",
)
"""Some of those that showed the lesson before, to see that the others look in the right place."""


def running(desk: Desk) -> dict[str, Callable[[], str]]:
    """Programs that run when the lesson is taken back, and follow the library."""
    named = {
        "the name": Experiences("support", store=desk.store, follow=True),
        "a branch": Experiences("support@beta", store=desk.store, follow=True),
        "a canary": Experiences("support", store=desk.store, follow=True, canary=True, episode=EPISODES[0]),
        "lessons": lessons("support", store=desk.store, follow=True),
        "a file": Experiences(str(desk.folder / "old.json"), store=desk.store, follow=True),
    }
    return {f"{name}, followed": lambda one=one: str(one.library.render()) for name, one in named.items()}


# How the lesson is taken back.


def parked(desk: Desk) -> None:
    desk.history.park(SHOWN, reason="It costs points.")


def erased(desk: Desk) -> None:
    forget(desk.store, user="ana", lessons="park")


def erased_after_an_edit(desk: Desk) -> None:
    desk.history.edit(SHOWN, EDITED)
    start_canary(desk)
    erased(desk)
    assert EDITED not in desk.read()


def erased_after_a_removal(desk: Desk) -> None:
    desk.history.remove(SHOWN)
    start_canary(desk)
    erased(desk)


def erased_and_killed(desk: Desk) -> None:
    """The records are gone, and the process ended before it wrote into the library."""
    (desk.libraries.directory / ERASED_FILE).write_text(f"{SHOWN}\n")


def parked_and_rolled_back(desk: Desk) -> None:
    desk.history.park(SHOWN)
    desk.history.rollback(desk.old)


STATES: dict[str, Callable[[Desk], None]] = {
    one.__name__: one
    for one in (
        parked, parked_and_rolled_back, erased, erased_after_an_edit, erased_after_a_removal,
        erased_and_killed,
    )
}  # fmt: skip


def start_canary(desk: Desk) -> None:
    desk.history.start_canary(desk.history.stored("gold"), share=0.5)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store before, with what was written from it."""
    folder = tmp_path_factory.mktemp("desk")
    fill(folder / "store")
    desk = Desk(folder / "store")
    desk.history.branch("gold")
    desk.history.branch("beta")
    desk.history.add(NEW + " Always.")
    desk.libraries.publish("other", Library.of([KEPT]))
    for form, file in (("agentlearn", "old.json"), ("lines", "old.jsonl"), ("skill", "old-skill")):
        desk.libraries.export("support", folder / file, form)
    (folder / "words.json").write_text(json.dumps({"experiences": {"G0": LESSON, "G1": KEPT}, "next_id": 2}))
    shutil.copytree(desk.libraries.directory, folder / "libraries before")
    start_canary(desk)
    return folder


@pytest.fixture
def desk(filled: Path, tmp_path: Path) -> Desk:
    return Desk(Path(shutil.copytree(filled, tmp_path / "desk")) / "store")


def test_some_doors_show_the_lesson_before(desk: Desk) -> None:
    assert any(in_canary("support", desk.history.resolve("gold"), one, share=0.5) for one in EPISODES)
    for name in BEFORE:
        assert LESSON in ALWAYS[name](desk), name


def copies(desk: Desk) -> Iterator[tuple[str, Door, Desk]]:
    for number, (name, door) in enumerate(ALWAYS.items()):
        folder = desk.folder.with_name(f"{desk.folder.name}-{number}")
        shutil.copytree(desk.folder, folder)
        yield name, door, Desk(folder / "store")
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_no_door_shows_it(state: str, desk: Desk, subtests: pytest.Subtests) -> None:
    programs = running(desk)
    STATES[state](desk)
    for name, program in programs.items():
        with subtests.test(name):
            assert LESSON not in program()
    for name, door, copy in copies(desk):
        with subtests.test(name):
            assert LESSON not in door(copy)


def test_a_person_sees_it_marked_and_shows_it_again(
    desk: Desk, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    parked(desk)
    assert desk.command("library", "show", "support@gold") == 0
    shown = capsys.readouterr()
    assert f"[parked] {LESSON}" in shown.out
    assert "support@gold is used without lessons that no version may show" in caplog.text
    assert desk.command("library", "log", "support") == 0
    assert "park by" in (log := capsys.readouterr().out)
    assert ": It costs points." in log
    assert desk.command("library", "diff", f"support@{desk.old}", "support") == 0
    assert f"! {SHOWN[:12]}  shown -> parked: {LESSON}" in capsys.readouterr().out
    desk.history.unpark(SHOWN)
    assert all(LESSON in desk.read(one) for one in ("support", "support@gold", f"support@{desk.old}"))


def test_it_is_shown_again_where_a_person_unparks_it_after_an_erasure(desk: Desk) -> None:
    erased_and_killed(desk)
    assert LESSON not in desk.read()
    assert [(one.kind, one.why) for one in desk.history.changes[-2:]] == [
        ("end_canary", "it shows lessons that rest on erased records"),
        ("park", "it rests on erased records"),
    ]
    desk.history.unpark(SHOWN)
    assert LESSON in desk.read("support@gold")


def test_a_damaged_version_does_not_bring_it_back(desk: Desk) -> None:
    parked(desk)
    (desk.history.folder / f"{desk.history.resolve(MAIN)}.json").write_text("{")
    assert LESSON not in desk.read("support@gold")
    with pytest.raises(LibraryError):
        desk.read()
