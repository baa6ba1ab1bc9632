"""Reviewers in several processes, some of them killed, beside a learner: each decision counts, and counts once."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from agentlearn.library import LibraryStore
from agentlearn.library.import_lessons import import_lessons
from agentlearn.live.inbox import Inbox
from agentlearn.store import open_store, read_store
from agentlearn.types.experience import library_of
from agentlearn.types.ids import ProposalId, RunId
from agentlearn.types.operation import Add, Ended, Proposal, Quarantined
from tests.unit.store import nouns

pytestmark = pytest.mark.slow

EACH = 12
REVIEWER = """
import random, sys
from pathlib import Path
from agentlearn.errors import AgentlearnError
from agentlearn.live.inbox import Inbox
store, seed = Path(sys.argv[1]), int(sys.argv[2])
draw, inbox = random.Random(seed), Inbox(store / "libraries", store, who=f"reviewer-{seed}")
while items := inbox.items():
    one = draw.choice(items)
    try:
        made = inbox.approve(one) if draw.random() < 0.5 else inbox.reject(one, f"because {seed}")
    except AgentlearnError as error:
        assert error.code in {"decided_already", "not_applicable", "unknown_lesson", "near_duplicate"}, error
        continue
    print(made.item, made.verdict, flush=True)  # acknowledged
"""
LEARNER = """
import asyncio, sys, time
from pathlib import Path
import pytest

from agentlearn.library import LibraryStore
from agentlearn.store import open_store
from agentlearn.types.ids import RunId
from tests.unit.store import nouns
store = Path(sys.argv[1])
async def main():
    async with open_store(store) as opened:  # a run holds the store
        print("open", flush=True)
        for number in range(20):
            run = RunId(f"01jl{number:04}" + "0" * 18)
            await opened.save_run(nouns.run_event(run=run))
            if number % 4 == 0:
                history = LibraryStore(store / "libraries").history("math")
                history.add(f"Learned rule {number}: compare table {number} with year {number}.")
            await asyncio.sleep(0.25)
asyncio.run(main())
"""


def fill(store: Path) -> set[str]:
    """Lessons that wait in a library, and lessons that a run held back."""
    libraries = LibraryStore(store / "libraries")
    history = libraries.history("math")
    history.publish(library_of(["Say what you checked."]))
    words = "apple bread cloud drift eagle field grape house island jacket kettle lemon".split()  # noqa: SIM905
    lines = [f"- When you meet {word} number {n}, weigh {words[n - 5]} first.\n" for n, word in enumerate(words)]
    (store.parent / "lessons.md").write_text("".join(lines), encoding="utf-8")
    found = import_lessons(store.parent / "lessons.md", into=history.load(), name="math", store=libraries)
    history.update(found.added_to, kind="import")

    async def held() -> None:
        async with open_store(store) as opened:
            await opened.save_run(nouns.run_event())
            await opened.save_run(nouns.run_event(state="done"))
            ended = [
                Ended(
                    proposal=Proposal(
                        id=ProposalId(f"{n:02}" * 16), stage="consolidate", ordinal=n, raw="{}",
                        operation=Add(lesson=f"For {word} of kind {n}, sort {words[n - 3]} before {words[n - 7]}."),
                    ),
                    end=Quarantined(code="refused_source", reason="a person decides"),
                )
                for n, word in enumerate(words)
            ]  # fmt: skip
            await opened.save_proposals(RunId(nouns.RUN), "epoch-1", 1, ended)

    asyncio.run(held())
    return {one.id for one in Inbox(libraries.directory, store).items()}


def child(program: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_no_decision_is_lost_or_applied_twice(tmp_path: Path) -> None:
    store = tmp_path / "store"
    things = fill(store)
    assert len(things) == 2 * EACH
    learner = child(LEARNER, store)
    assert learner.stdout is not None
    assert learner.stdout.readline() == "open\n"
    draw, acknowledged = random.Random(7), list[tuple[str, str]]()
    for seed in range(3):
        killed = child(REVIEWER, store, seed)
        assert killed.stdout is not None
        first = killed.stdout.readline()
        time.sleep(draw.uniform(0.0, 0.6))
        killed.send_signal(signal.SIGKILL)
        acknowledged += said(first + killed.communicate()[0])
    both = [child(REVIEWER, store, seed) for seed in (10, 11)]
    for one in both:
        text, _ = one.communicate(timeout=300)
        acknowledged += said(text)
        assert one.returncode == 0
    learner.communicate(timeout=120)
    assert Inbox(store / "libraries", store).items() == ()
    with read_store(store) as reader:
        rows = reader.decisions()
    history = LibraryStore(store / "libraries").history("math")
    verdicts = Counter((one.proposal, one.verdict) for one in rows)
    assert all(count == 1 for count in verdicts.values()), verdicts
    by_thing = {str(one.proposal): str(one.verdict) for one in rows}
    by_thing |= {str(op.target): {"approve": "approved", "reject": "rejected"}[op.op] for _, op in history.decisions()}
    assert by_thing.keys() == things, "each thing is decided on, once"
    assert len(history.decisions()) + len(rows) == len(things)
    assert {item: verdict for item, verdict in acknowledged if by_thing[item] != verdict} == {}
    lessons = Counter(one.lesson for one in history.load().experiences)
    assert max(lessons.values()) == 1
    approved = sum(verdict == "approved" for verdict in by_thing.values())
    assert len(lessons) == 1 + 5 + approved, "what a learner wrote meanwhile is there as well"


def said(text: str) -> list[tuple[str, str]]:
    """The decisions that a reviewer was told are done; the last line of a killed one may be cut."""
    return [(item, verdict) for item, _, verdict in (line.partition(" ") for line in text.split("\n")[:-1])]
