"""Planting faults one at a time, in copies of the project, and running the tests that should notice them."""

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.planted_faults.fault import PACKAGE, Fault, check_anchors, with_fault

ROOT = Path(__file__).parents[3]
COPIED = ("agentlearn", "domains", "evals", "tests", "pyproject.toml")
EVERY_TEST = ("-m", "not slow", "tests/unit/train", "tests/unit/lab")
"""Run for a fault that its own tests do not notice."""
LIMIT_S = 100.0
"""A single test that takes longer waits for what never comes: the fault is noticed."""

NOTICED_BY = Path(__file__).with_name("noticed_by.json")
"""The test that noticed each fault last time, by name of the fault. It is run first, which saves most of the time."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one planted fault."""

    fault: Fault
    killed_by: str
    """The first test that failed; empty when none did."""
    took_s: float
    hung: bool = False
    """Whether that test did not end within LIMIT_S, instead of failing."""

    @property
    def state(self) -> str:
        """`killed`, `equivalent` when no test can notice it, or `SURVIVED`."""
        if self.killed_by:
            return "killed"
        return "equivalent" if self.fault.equivalent else "SURVIVED"


def noticed_by() -> dict[str, str]:
    """Read the test that noticed each fault last time, by name of the fault."""
    return json.loads(NOTICED_BY.read_text(encoding="utf-8")) if NOTICED_BY.is_file() else {}


def remember(tried: Iterable[Tried], names: Iterable[str]) -> None:
    """Write the tests that noticed these faults. names: of all faults; others are forgotten."""
    kept = noticed_by() | {one.fault.name: one.killed_by for one in tried if "::" in one.killed_by}
    known = {name: kept[name] for name in sorted(set(names) & kept.keys())}
    NOTICED_BY.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


class BrokenTests(Exception):
    """Tests fail without a fault, so they would say nothing about faults. The message names the first one."""


def try_faults(faults: Sequence[Fault], *, jobs: int, quick: bool, done: Callable[[Tried], None]) -> list[Tried]:
    """Plant each fault alone and run its tests, then, if they pass, all tests of the package.

    jobs: number of copies that are used at once. quick: run only the fault's own tests. done: called after each fault.
    Raises LostAnchors, BrokenTests.
    """
    check_anchors(faults, ROOT)
    waiting: queue.SimpleQueue[Fault] = queue.SimpleQueue()
    for fault in faults:
        waiting.put(fault)
    tried: list[Tried] = []
    errors: list[Exception] = []

    def work(number: int) -> None:
        try:
            with _worker() as run:
                if number == 0:
                    _check_tests(faults, run, quick)
                while not errors:
                    fault = waiting.get_nowait()
                    source = with_fault(fault, ROOT)
                    one = try_one(fault, source, run, known=noticed_by().get(fault.name), quick=quick)
                    tried.append(one)
                    done(one)
        except queue.Empty:
            return
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(max(1, min(jobs, len(faults))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    order = {fault.name: at for at, fault in enumerate(faults)}
    return sorted(tried, key=lambda one: order[one.fault.name])


Run = Callable[[str, str, Sequence[str]], dict[str, Any]]
"""Runs pytest with a source file changed: takes the file, its source and the arguments of pytest."""


def try_one(fault: Fault, source: str, run: Run, *, known: str | None, quick: bool) -> Tried:
    """Run the tests with a fault. source: the file with the fault. known: a test to run first.

    quick: run only the fault's own tests. Raises BrokenTests when pytest itself fails.
    """
    took_s = 0.0
    own = [f"tests/{one}" for one in fault.tests]
    first = [[known]] if known else []
    for arguments in (*first, own) if quick else (*first, own, EVERY_TEST):
        found = run(fault.file, source, arguments)
        took_s += found["took_s"]
        if found["status"] is None or found["status"] == 1 or (found["status"] == 2 and found["failed"]):
            return Tried(fault, found["failed"], took_s, hung=found["status"] is None)
        if arguments in first and found["status"] in (4, 5):
            continue  # the test has another name by now
        if found["status"] != 0:
            raise BrokenTests(f"pytest ended with status {found['status']} for {fault.name!r}:\n{found['log']}")
    return Tried(fault, "", took_s)


def _check_tests(faults: Iterable[Fault], run: Run, quick: bool) -> None:
    """Raise BrokenTests when a test fails without a fault."""
    file = next(iter(faults)).file
    source = (ROOT / PACKAGE / file).read_text(encoding="utf-8")
    known = noticed_by()
    named = sorted({known.get(fault.name) or f"tests/{fault.tests[0]}" for fault in faults})
    for arguments in (named,) if quick else (named, EVERY_TEST):
        found = run(file, source, arguments)
        if found["status"] != 0:
            raise BrokenTests(f"without a fault, {found['failed'] or 'pytest'} fails:\n{found['log']}")


@contextmanager
def _worker() -> Generator[Run]:
    """Start a worker process in a new copy of the project; yields a function that gives it a job."""
    with tempfile.TemporaryDirectory(prefix="agentlearn-mutants-") as temporary:
        folder = Path(temporary)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, folder / name)
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": temporary}
        command = [sys.executable, "-W", "ignore", "-m", "tests.bench.planted_faults.worker"]
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            given, answers = process.stdin, process.stdout
            if not answers.readline():
                raise BrokenTests("the worker process did not start; see the error above")

            def run(file: str, source: str, arguments: Sequence[str]) -> dict[str, Any]:
                job = {"file": file, "source": source, "arguments": list(arguments), "limit_s": LIMIT_S}
                given.write(json.dumps(job) + "\n")
                given.flush()
                answer = answers.readline()
                if not answer:
                    raise BrokenTests("the worker process ended; see the error above")
                return json.loads(answer)

            try:
                yield run
            finally:
                given.close()
