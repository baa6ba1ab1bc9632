"""A kill at any moment of an erasure, of a decision on a canary or of an approval leaves nothing half done."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentlearn import Experiences, LibraryStore, read_store
from agentlearn.errors import AgentlearnError
from agentlearn.live.canary import step_canary
from agentlearn.live.forgetting import forget
from agentlearn.live.inbox import Inbox
from agentlearn.store import Selection, check_store
from tests.unit.live.test_canary import NEW, OLD, serve, start
from tests.unit.live.test_forget import SHOWN, fill
from tests.unit.live.test_inbox import inbox, made

pytestmark = pytest.mark.slow
KILLS = 20
WORDS = "Name the order in the first line."
KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from agentlearn.live.inbox import Inbox
from agentlearn.live.canary import step_canary
from agentlearn.live.forgetting import forget

what, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
acts = {
    "erase": lambda store: forget(store, user="ana", lessons="park"),
    "decide": lambda store: step_canary(store / "libraries", store, "desk"),
    "approve": lambda store: Inbox(store / "libraries", store, who="ada").approve(sys.argv[4]),
}

def run(store, at):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    seen, place = 0, str(store)
    def count(event, arguments):
        nonlocal seen
        if event in {"open", "os.rename", "os.remove", "sqlite3.connect"} and str(arguments[0]).startswith(place):
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    acts[what](store)
    (folder / "steps").write_text(str(seen))
    os._exit(0)

assert run(Path(shutil.copytree(folder / "before", folder / "whole")), 0) == 0
steps = int((folder / "steps").read_text())
assert steps > kills, steps
for number in range(kills):
    store, at = folder / f"{number}", 1 + number * steps // kills
    while (ended := run(Path(shutil.copytree(folder / "before", store)), at)) != signal.SIGKILL:
        assert (ended, at > 1) == (0, True), (ended, at)  # on a busy machine it took a step less than it did alone
        shutil.rmtree(store)
        at -= 1
"""


def killed(folder: Path, what: str, *arguments: str) -> list[Path]:
    """Copies of the store `before`, in each of which the same act was killed at another moment; a whole one is last."""
    command = [sys.executable, "-c", KILLED, what, str(folder), str(KILLS), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return [folder / f"{number}" for number in range(KILLS)] + [folder / "whole"]


def done(act: Callable[[], object]) -> None:
    """Do it again; where it was done, a sentence says so."""
    try:
        act()
    except AgentlearnError as error:
        assert error.code in {"bad_config", "decided_already"}, error  # noqa: PT017


def reads(store: Path, name: str, *references: str) -> list[set[str]]:
    """The lessons that agents read."""
    sources = [Experiences(f"{name}{one}", store=store) for one in references]
    sources += [Experiences(name, store=store, canary=True, episode=f"talk {number}") for number in range(6)]
    return [{lesson.lesson for lesson in one.library.experiences} for one in sources]


def test_an_erasure(tmp_path: Path, subtests: pytest.Subtests) -> None:
    before = tmp_path / "before"
    fill(before)
    history = LibraryStore(before / "libraries").history("support")
    history.branch("gold")
    history.edit(SHOWN, "Ask for the order first.")
    history.start_canary(history.stored("gold"), share=0.5)
    old, found = history.changes[0].version, set[bool]()
    for store in killed(tmp_path, "erase"):
        with subtests.test(store.name):
            with read_store(store) as reader:
                erased = len(reader.selected(Selection(domain="support"))) == 3
            shown = reads(store, "support", "", "@gold", f"@{old}")
            there = {"Ask first.", "Ask for the order first."} & set[str]().union(*shown)
            changed = LibraryStore(store / "libraries").history("support")
            assert (bool(there), changed.canary is None) == (not erased, erased)
            assert check_store(store).sound
            found.add(erased)
            done(lambda store=store: forget(store, user="ana", lessons="park"))
            assert all(one == {"Answer last."} for one in reads(store, "support", "", "@gold", f"@{old}"))
            kinds = [one.kind for one in changed.changes[4:]]
            assert kinds == ["end_canary", "park"], "what a kill left open is logged when the library is next read"
    assert found == {False, True}


def test_a_decision_on_a_canary(tmp_path: Path, subtests: pytest.Subtests) -> None:
    before = tmp_path / "before"
    libraries = LibraryStore(before / "libraries")
    libraries.publish("desk", OLD)
    start(libraries)
    serve(before, range(60), lambda canary, _: float(canary))
    for store in killed(tmp_path, "decide"):
        with subtests.test(store.name):
            history = LibraryStore(store / "libraries").history("desk")
            promoted = history.canary is None
            assert history.resolve() == (NEW.version if promoted else OLD.version)
            assert step_canary(store / "libraries", store, "desk").outcome == ("none" if promoted else "promote")
            assert [one.kind for one in history.changes] == ["publish", "canary", "promote"]
            assert (history.resolve(), len(reads(store, "desk"))) == (NEW.version, 6)


def test_an_approval(tmp_path: Path, subtests: pytest.Subtests) -> None:
    left = made(WORDS)
    inbox(tmp_path / "before", versions=[left])
    for store in killed(tmp_path, "approve", left.version):
        with subtests.test(store.name):
            waiting = Inbox(store / "libraries", store, who="ada")
            history = waiting.libraries.history("math")
            shown = WORDS in {one.lesson for one in history.load().experiences}
            assert shown == (history.resolve() == left.version)
            assert [one.version for one in waiting.items()] == ([] if shown else [left.version])
            done(lambda waiting=waiting: waiting.approve(left.version))
            assert [one.kind for one in history.changes] == ["publish", "approve"]
            assert waiting.items() == ()
            decided: list[Any] = []
            with read_store(store) as reader:
                decided += [one.verdict for one in reader.decisions()]
            assert json.dumps(decided) in {'["approved"]', "[]"}
