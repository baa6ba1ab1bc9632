"""`forget`: nothing of what is erased stays, all else does, and after a kill at any moment the store opens."""

import asyncio
import hashlib
import io
import json
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentlearn import Recorder, open_store, read_store
from agentlearn.cli.app import run as command_line
from agentlearn.errors import StoreLocked
from agentlearn.library import LibraryStore
from agentlearn.library.retrieval import EMBEDDINGS_FILE, EmbeddingFile, unit_vector
from agentlearn.live.forgetting import STARTED, forget
from agentlearn.store import Selection, check_store
from agentlearn.store.database import Database
from agentlearn.store.erasure_intent import INTENT, LessonChoice
from agentlearn.types.experience import Experience, Library, Origin
from agentlearn.types.group import SummaryStep
from agentlearn.types.ids import CallId, ExperienceId, RolloutId, RunId, content_hash
from agentlearn.types.operation import Add, Dropped, Ended
from agentlearn.types.run_event import RunFailure
from tests.unit.store import nouns

ANA, BOB = "Zebulon-77-Quagga", "Yonder-55-Okapi"
"""What stands in every text of the user ana, and of the user bob."""
SHOWN, OTHER, UNPUBLISHED = (ExperienceId(content_hash("lesson", n)) for n in range(3))


def chat(mark: str) -> list[dict[str, Any]]:
    """A conversation with a tool."""
    call = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": f'{{"of": "{mark}"}}'}}
    return [
        {"role": "user", "content": f"{mark}: where is my order?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": f"{mark} found"},
        {"role": "assistant", "content": f"{mark} is on its way"},
    ]


def lesson(identity: ExperienceId, words: str, *parents: ExperienceId) -> Experience:
    return Experience(id=identity, lesson=words, origin=Origin(kind="modify" if parents else "add", parents=parents))


async def learned(store: Path, mark: str, rollouts: list[RolloutId], experience: ExperienceId) -> RunId:
    """What a run that learned from these rollouts stores: replies, summaries, proposals, and why it failed."""
    run = RunId(content_hash("run", mark)[:26])
    async with open_store(store) as opened:
        await opened.save_run(nouns.run_event(run=run, kind="learn", state="done", report="{}"))
        for stage in ("summarise", "compare", "judge"):
            unit = f"epoch-1/1/{stage}"
            response = f'{{"parts": ["{mark}"]}}'
            identity, asked = CallId(content_hash(stage, run)), f'[{{"parts": ["{mark}"]}}]'
            await opened.record(
                nouns.call(id=identity, run=run, stage=stage, unit=unit, response=response, asked=asked)
            )
        await opened.save_summary(
            nouns.summary(id=f"s-{run}", run=run, rollout=rollouts[0], steps=(SummaryStep(text=mark),), raw=mark)
        )
        made = nouns.applied(f"p-{run}", experience, evidence=tuple(rollouts), raw=mark)
        refused = nouns.proposal(f"q-{run}", evidence=tuple(rollouts), operation=Add(lesson=f"Say {mark}."))
        ends = [made, Ended(proposal=refused, end=Dropped(reason=mark))]
        await opened.save_proposals(run, "epoch-1", 1, ends)
        await opened.save_run_failure(run, RunFailure(at=nouns.AT, code="x", message=mark))
    return run


def fill(store: Path) -> None:
    """Fill a store with the traffic of two users, and with what runs made of it."""
    rollouts = dict[str, list[RolloutId]]()
    with Recorder("support", store) as recorder:
        for user, mark in (("ana", ANA), ("bob", BOB)):
            rollouts[user] = [
                recorder.record_sync(
                    chat(mark), task={"problem": f"{mark}?", "answer": mark}, user=user, episode=f"talk-{user}"
                )
                for _ in range(2)
            ]
            recorder.feedback_sync(
                rollouts[user][0], reward=(0.0, f"{mark} was wrong"), demonstration=f"{mark} is right"
            )
            recorder.feedback_sync(episode=f"talk-{user}", comment=f"{mark} comment")
    asyncio.run(learned(store, ANA, rollouts["ana"], SHOWN))
    run = asyncio.run(learned(store, BOB, rollouts["bob"], OTHER))
    library = Library(experiences=(lesson(SHOWN, "Ask first."), lesson(OTHER, "Answer last.")))
    asyncio.run(save(store, library, run))
    LibraryStore(store / "libraries").publish("support", library)
    EmbeddingFile(store / EMBEDDINGS_FILE).keep("e", {"Ask first.": unit_vector([1.0, 2.0])})
    (store / "reports").mkdir()
    (store / STARTED).mkdir()
    for mark in (ANA, BOB):
        named = RunId(content_hash("run", mark)[:26])
        (store / "reports" / f"{named}.html").write_text(f"<p>{named} {mark}</p>")
        (store / STARTED / f"{named}.json").write_text(f'{{"run": "{named}", "said": "{mark}"}}')
    (store / "journal.sqlite.damaged-1").write_text(ANA)


async def save(store: Path, library: Library, run: RunId) -> None:
    async with open_store(store) as opened:
        await opened.save_version(library, run=run)
        unpublished = lesson(UNPUBLISHED, f"Never say {ANA}.", SHOWN)
        await opened.save_version(
            Library(parent=library.version, experiences=(*library.experiences, unpublished)), run=run
        )


def tables(store: Path) -> str:
    """All that the database says, as one text."""
    database = Database(store, create=False)
    try:
        with database.cursor() as cursor:
            names = [one for (one,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
            return "\n".join(str(cursor.execute(f"SELECT t::VARCHAR FROM {one} t").fetchall()) for one in names)
    finally:
        database.close()


def holding(mark: str, *folders: Path) -> list[str]:
    """The files that hold the text in their bytes."""
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return sorted(file.name for file in files if mark.encode() in file.read_bytes())


def digests(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "store"
    fill(folder)
    return folder


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "store"))


def test_nothing_of_a_user_stays_and_all_of_another_does(store: Path, tmp_path: Path) -> None:
    out, place = tmp_path / "out", ("--store", str(store))
    out.mkdir()
    assert command_line(["store", "snapshot", *place]) == 0
    assert command_line(["store", "snapshot", "--out", str(out / "tables"), *place]) == 0
    for name in ("all.jsonl", "moved.jsonl"):
        assert command_line(["store", "export", "--format", "trl-sft", "--out", str(out / name), *place]) == 0
    moved = (out / "moved.jsonl").rename(tmp_path / "elsewhere.jsonl")
    before = tables(store)
    assert {"all.jsonl", "feedback.parquet", "store.duckdb", "journal.sqlite.damaged-1"} <= {*holding(ANA, store, out)}
    receipt = forget(store, user="ana", lessons="park")
    after = tables(store)
    assert (before.count(ANA) > 30, after.count(ANA), holding(ANA, store, out)) == (True, 0, [])
    assert (after.count(BOB), BOB in moved.read_text()) == (before.count(BOB), True)
    assert (len(receipt.rollouts), len(receipt.tasks), len(receipt.feedback)) == (3, 1, 2)
    assert [one for one in receipt.unreached if str(out / "moved.jsonl") in one]
    assert f"the words of lessons that you keep, shown or not: {SHOWN[:12]}" in receipt.unreached
    assert ANA not in receipt.model_dump_json()
    assert check_store(store).sound
    assert not [one for one in forget(store, user="bob").unreached if "all.jsonl" in one]  # it was removed before
    assert (tables(store).count(BOB), holding(BOB, store)) == (0, [])


def test_lessons_that_rest_on_it_are_named_and_kept_or_parked(store: Path) -> None:
    receipt = forget(store, user="ana", lessons="keep", dry_run=True)
    assert {one.id: (one.shown, len(one.versions)) for one in receipt.lessons} == {
        SHOWN: (("support@main",), 1),
        UNPUBLISHED: ((), 0),
    }
    forget(store, user="ana", lessons="keep")
    assert tables(store).count(f"Never say {ANA}.") == 1  # a kept lesson keeps its words
    libraries = LibraryStore(store / "libraries")
    assert [*libraries.load("support").by_id] == [SHOWN, OTHER]
    forget(store, user="bob", lessons="park")
    library = libraries.load("support")
    assert ([*library.by_id], [one.experience.id for one in library.withheld]) == ([SHOWN], [OTHER])


@pytest.mark.parametrize(
    ("what", "rollouts"),
    [({"episode": "talk-bob"}, 3), ({"user": "bob"}, 3), ({"before": datetime.now(UTC) + timedelta(days=1)}, 6)],
)
def test_records_are_named_by_episode_user_or_date(store: Path, what: dict[str, Any], rollouts: int) -> None:
    assert len(forget(store, **what, dry_run=True).rollouts) == rollouts


def test_one_rollout_goes_and_its_task_stays_while_another_has_it(store: Path) -> None:
    with read_store(store) as reader:
        (first, *_), *_ = [[row.id for row in reader.selected(Selection(domain="support", phase="live"))]]
    found = forget(store, rollout=first[:20])
    assert first in found.rollouts
    assert (found.tasks, found.by) == ((), "rollout")
    assert check_store(store).sound
    with Recorder("support", store) as recorder:
        late = recorder.feedback_sync(first, reward=(0, "too late"))
    assert forget(store, rollout=first).feedback == (late,)


def test_rollouts_on_a_forgotten_task_go_with_it(store: Path) -> None:
    """A run that measured lessons on tasks of traffic repeats what the user asked."""

    async def evaluated() -> RolloutId:
        async with open_store(store) as opened:
            (task,) = {
                row.task for row in opened.selected(Selection(domain="support")) if opened.episode(row.id) == "talk-ana"
            }
            report = json.dumps({"tasks": [{"task": task, "problem": f'{ANA} "quoted"'}]})
            await opened.save_run(nouns.run_event(kind="eval", state="done", report=report))
            made = nouns.trajectory(
                task=task, run=RunId("01jd" + "1" * 22), id=RolloutId("ee" * 16), phase="before", answer=ANA
            )
            await opened.save_trajectory(made, b"[]")
            await opened.record(nouns.call(unit=made.id, response=ANA))
            return made.id

    made = asyncio.run(evaluated())
    assert made in forget(store, user="ana", lessons="park").rollouts
    assert tables(store).count(ANA) == 0


def test_a_trial_changes_no_byte(filled: Path) -> None:
    before = digests(filled)
    assert forget(filled, user="ana", dry_run=True).removed["trajectory"] == 3
    assert command_line(["store", "forget", "--user", "ana", "--dry-run", "--store", str(filled)]) == 0
    assert digests(filled) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "needs one of --rollout, --episode, --user and --before, such as --user ana, and was given none"),
        (["--user", "ana", "--episode", "x"], "and was given --episode, --user"),
        (["--user", "eve", "--yes"], "holds no record of this user"),
        (["--rollout", "ffff", "--yes"], "holds no record of this rollout"),
        (["--user", "ana"], "nothing was erased; add --yes --lessons park|keep|list to allow it"),
        (["--user", "ana", "--yes"], "add --lessons park|keep|list to allow it"),
    ],
)
def test_what_is_not_asked_clearly_erases_nothing(
    filled: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    before = tables(filled)
    assert command_line(["store", "forget", *options, "--store", str(filled)]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert tables(filled) == before


def test_a_store_that_another_process_has_open_is_refused(store: Path) -> None:
    async def opened() -> None:
        async with open_store(store):
            for dry_run in (True, False):
                with pytest.raises(StoreLocked, match="is in use by process"):
                    forget(store, user="ana", dry_run=dry_run)

    asyncio.run(opened())


def test_what_is_recorded_meanwhile_is_not_lost(store: Path) -> None:
    """The intent is written, and a recorder goes on before the journal is emptied."""
    with Recorder("support", store) as recorder:
        said = list[RolloutId]()

        def decide(*_: object) -> LessonChoice:
            said.append(recorder.record_sync(chat("meanwhile"), user="eve"))
            return "park"

        forget(store, user="ana", lessons=decide)
        said.append(recorder.record_sync(chat("afterwards"), user="eve"))
    assert holding(ANA, store) == []
    with read_store(store) as reader:
        assert {*said} <= {row.id for row in reader.selected(Selection(domain="support"))}


def test_an_intent_that_somebody_put_there_removes_nothing_outside_the_store(store: Path, tmp_path: Path) -> None:
    outside = tmp_path / "mine.txt"
    outside.write_text("mine")
    planted = forget(store, user="ana", dry_run=True)
    files = (str(outside), "../mine.txt", "reports/../../mine.txt")
    (store / INTENT).write_text(planted.model_copy(update={"files": files, "file": "x.json"}).model_dump_json())
    with read_store(store) as reader:
        assert len(reader.selected(Selection(domain="support"))) == 6
    assert (outside.read_text(), (store / INTENT).exists()) == ("mine", False)


KILLED = """
import os, signal, sys
from agentlearn.live.forgetting import forget
store, at, seen = sys.argv[1], int(sys.argv[2]), 0

def count(event, arguments):
    global seen
    if event in {"open", "os.rename", "os.remove", "sqlite3.connect"} and str(arguments[0]).startswith(store):
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
forget(store, user="ana", lessons="park")
print(seen)
"""


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_a_store_that_opens(filled: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Each time before another one of its accesses to files: nothing was erased, or the next opening finishes it."""

    def run(at: int) -> tuple[Path, int, str]:
        store = Path(shutil.copytree(filled, tmp_path / f"{at}"))
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, store, str(at)], capture_output=True, text=True, check=False
        )
        return store, ended.returncode, ended.stdout

    _, status, steps = run(0)
    assert (status, int(steps) > 40) == (0, True)
    finished = set[bool]()
    for at in range(3, int(steps) + 1, 5):
        with subtests.test(str(at)):
            store, status, _ = run(at)
            intent = (store / INTENT).exists()
            assert status == -signal.SIGKILL
            with read_store(store) as reader:
                left = len(reader.selected(Selection(domain="support")))
            assert (left, tables(store).count(ANA) > 0) in {(3, False), (6, True)}
            assert left == 6 or not (store / INTENT).exists()
            assert left == 6 or holding(ANA, store) == []
            assert check_store(store).sound
            finished.add(intent and left == 3)
    assert finished == {False, True}
