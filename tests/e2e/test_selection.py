"""A learn run never publishes what makes you worse: whole runs in simulated worlds, also stopped and resumed."""

import asyncio
import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from agentlearn_demo.sim.reflector import ReflectorParameters
from agentlearn_demo.sim.server import World
from agentlearn_demo.sim.skills import installed_skills
from tests.support.command import agentlearn_here
from tests.support.small_math import few_math_tasks

pytestmark = pytest.mark.slow

INVERTED = ReflectorParameters(useless=0, over_specific=0, over_long=0, duplicate=0, harmful=1, leaking=0, malformed=0)
SMALL = ("--limit", "16", "--epochs", "1", "--batch-size", "4", "--group-size", "4", "--validation-rollouts", "2")


@pytest.fixture(autouse=True)
def few_tasks() -> Iterator[None]:
    """A third of the tasks that measure."""
    with few_math_tasks(every=3):
        yield


@contextmanager
def served(parameters: ReflectorParameters) -> Generator[str]:
    """Serve a world on a thread; yields the name of its model."""
    ready, done = threading.Event(), threading.Event()
    found: list[str] = []

    async def serve() -> None:
        async with World(installed_skills(), seed=1, parameters=parameters).serve() as url:
            found.append(url)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield f"{found[0]}#novice"
    finally:
        done.set()
        thread.join()


def learn(folder: Path, model: str, *options: str) -> tuple[str, dict[str, Any]]:
    """What `learn math` prints, and the report that it stores."""
    reflector = model.replace("#novice", "#reflector")
    done = agentlearn_here("learn", "math", "--model", model, "--reflector", reflector, *SMALL, *options, cwd=folder)
    with read_store(folder / ".agentlearn") as reader:
        return done.stdout, json.loads(reader.runs(limit=1)[0].report)


def published(folder: Path) -> list[str]:
    return [one.version for one in LibraryStore(folder / ".agentlearn" / "libraries").list()]


def line_of(said: str, label: str) -> str:
    return next(line for line in said.splitlines() if line.strip().startswith(label))


def test_a_reflector_that_inverts_every_lesson_publishes_nothing_and_the_run_says_so(tmp_path: Path) -> None:
    with served(INVERTED) as model:
        said, report = learn(tmp_path, model)
    assert published(tmp_path) == []
    assert report["selection"]["status"] == "unchanged"
    assert report["selection"]["last"] != report["selection"]["selected"]
    assert report["proposals"]["rejected"]["no_better"] > 0
    assert report["library"]["lessons"] == 0
    assert "the library at the start: it has the best evidence" in line_of(said, "selection")
    assert "nothing was published" in line_of(said, "library")
    assert "nothing was published" in agentlearn_here("runs", "show", report["run"], cwd=tmp_path).stdout
    assert {one["role"] for one in report["versions"]} >= {"selected", "finalist"}
