"""A run that is stopped, by whatever, goes on where it stopped: nothing is lost, and nothing is asked twice."""

import asyncio
import json
import resource
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlearn import LearnReport, LearnSettings
from agentlearn.cli.app import run as command_line
from agentlearn.errors import BudgetExceeded, ConfigError
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.open_run import settings_of
from agentlearn.models.call_context import CallRecord
from agentlearn.store import Store, check_store, read_store
from agentlearn.store import journal_file as journal_file
from tests.support.command import AGENTLEARN
from tests.support.openai_script import Reply, Request, Script, Solver
from tests.support.openai_stub import OpenAIStub

PROBLEMS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(11, 19)}
IN_FLIGHT = 4
Plain = tuple[LearnReport, int, Path]


class Tripwire:
    """The usual answers; at the given requests, counted from 1, it calls `trip` first."""

    def __init__(self, *at: int) -> None:
        self.solver: Script = Solver(answers=PROBLEMS, success_rate=0.5, final="{0}".format)
        self.at = set(at)
        self.trip: Callable[[], object] = lambda: None
        self.asked = 0
        self.lock = threading.Lock()

    def __call__(self, request: Request) -> Reply:
        with self.lock:
            self.asked += 1
            tripped = self.asked in self.at
        if tripped:
            self.trip()
        return self.solver(request)


def written(folder: Path) -> Path:
    path = folder / "dots.jsonl"
    path.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in PROBLEMS.items()))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path)


def settings(data: Path, base_url: str, store: str, **changes: Any) -> LearnSettings:
    fields: dict[str, Any] = {
        "domain": "dots",
        "reward": "number",
        "model": f"{base_url}#any",
        "data": str(data),
        "evaluate": False,
        "epochs": 2,
        "batch_size": 4,
        "group_size": 4,
        "stop_after": 2,
        "validation_rollouts": 1,
        "concurrency": IN_FLIGHT,
        "store": data.parent / store,
    }
    return LearnSettings(**fields | changes)


def run(chosen: LearnSettings, resume: str | None = None, **given: Any) -> LearnReport:
    if resume is None:
        return asyncio.run(run_learning(chosen))
    identity, again = settings_of(resume, chosen.store, given)
    return asyncio.run(run_learning(again, resume=identity))


def command_of(chosen: LearnSettings) -> list[str]:
    """The same run as a command."""
    names = ("model", "reward", "epochs", "batch_size", "group_size", "stop_after", "validation_rollouts")
    names += ("concurrency", "store")
    options = [word for name in names for word in (f"--{name.replace('_', '-')}", str(getattr(chosen, name)))]
    return [str(AGENTLEARN), "learn", str(chosen.data), *options, "--no-eval"]


def calls(report: LearnReport) -> dict[str, int]:
    return {stage: line.calls for stage, line in report.stages.items()}


def asked_more_than_once(requests: list[Request]) -> int:
    """Requests that repeat an earlier one."""
    bodies = Counter(json.dumps(request, sort_keys=True) for request in requests)
    return sum(count - 1 for count in bodies.values())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """The run that nothing disturbs, how many requests it made, and its store."""
    with OpenAIStub(Tripwire()) as stub:
        chosen = settings(written(tmp_path_factory.mktemp("plain")), stub.base_url, "plain")
        return run(chosen), len(stub.requests), chosen.store


def interrupted(store: Path) -> str:
    with read_store(store) as reader:
        (row,) = reader.runs()
        assert row.state == "interrupted"
        return row.run


@pytest.mark.slow
def test_killed_again_and_again_it_ends_as_if_nothing_had_happened(plain: Plain, data: Path) -> None:
    undisturbed, requests, _ = plain
    times, script = 2, Tripwire(5, requests * 9 // 10)  # the second is in the comparison of versions
    with OpenAIStub(script) as stub:
        begun = settings(data, stub.base_url, "killed")
        command = command_of(begun)
        for _ in range(times):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
                script.trip = child.kill
                _, complaints = child.communicate(timeout=1200)
            assert child.returncode == -signal.SIGKILL, complaints
            command = [str(AGENTLEARN), "learn", "--resume", interrupted(begun.store), "--store", str(begun.store)]
        report = run(begun, resume=interrupted(begun.store))
        assert asked_more_than_once(stub.requests) <= times * IN_FLIGHT
        assert len(stub.requests) <= requests + times * IN_FLIGHT
    assert report.library == undisturbed.library
    assert calls(report) == calls(undisturbed)
    assert (report.proposals, report.groups, report.rollouts) == (
        undisturbed.proposals,
        undisturbed.groups,
        undisturbed.rollouts,
    )
    assert report.allocated == undisturbed.allocated
    assert (report.selection, report.versions) == (undisturbed.selection, undisturbed.versions)
    assert undisturbed.allocated.stopped
    assert sum(line.replayed for line in report.stages.values()) > 0
    assert any(note.startswith("resumed: ") for note in report.notes)


@pytest.mark.slow
def test_a_signal_loses_no_call_and_the_last_line_says_how_to_go_on(plain: Plain, data: Path) -> None:
    number = signal.SIGTERM
    undisturbed, requests, _ = plain
    script = Tripwire(requests // 3)
    with OpenAIStub(script, latency_s=0.05) as stub:
        begun = settings(data, stub.base_url, f"stopped-{number}")
        command = command_of(begun)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            script.trip = lambda: child.send_signal(number)
            said, complaints = child.communicate(timeout=1200)
        assert child.returncode == 128 + number, complaints
        assert complaints == "agentlearn: interrupted; what was finished is stored\n"
        identity = interrupted(begun.store)
        assert said.splitlines()[-1].endswith(f"agentlearn learn --resume {identity} --store {begun.store}")
        report = run(begun, resume=identity)
        assert len(stub.requests) == requests
        assert asked_more_than_once(stub.requests) == 0
    assert report.library == undisturbed.library


@pytest.mark.slow
def test_a_budget_stops_within_one_call_and_a_larger_one_goes_on(plain: Plain, data: Path) -> None:
    undisturbed, requests, _ = plain
    half = sum(line.tokens_in + line.tokens_out for line in undisturbed.stages.values()) // 2
    with OpenAIStub(Tripwire()) as stub:
        begun = settings(data, stub.base_url, "budget", max_tokens=half)
        with pytest.raises(BudgetExceeded, match="--max-tokens") as reached:
            run(begun)
        assert reached.value.exit_status == 3
        identity = interrupted(begun.store)
        with read_store(begun.store) as reader:
            totals = reader.stage_totals(reader.run(identity).run)
            assert sum(one.calls for one in totals) == len(stub.requests)  # what was in flight is on record
        assert 0.75 * half <= sum(one.tokens_in + one.tokens_out for one in totals) <= 1.05 * half
        with pytest.raises(BudgetExceeded):  # what was spent before counts
            run(begun, resume=identity)
        report = run(begun, resume=identity, max_tokens=10 * half)
        assert len(stub.requests) == requests
    assert report.library == undisturbed.library


@pytest.mark.slow
def test_what_cannot_be_resumed_is_said(
    plain: Plain, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    report, _, store = plain
    for words, sentence in {
        ("--resume", "nope"): "has no run whose id starts with 'nope'",
        ("--resume", report.run): "is done; show it with: agentlearn runs show",
        ("math", "--resume", report.run): "leave out 'math'",
        (): "say what to learn",
    }.items():
        with subtests.test(sentence):
            assert command_line(["learn", *words, "--store", str(store)]) == 2
            assert sentence in capsys.readouterr().err


def test_a_resumed_run_keeps_its_settings_and_its_tasks(data: Path) -> None:
    with OpenAIStub(Tripwire()) as stub:
        begun = settings(data, stub.base_url, "changed", max_tokens=2_000)
        with pytest.raises(BudgetExceeded):
            run(begun)
        identity = interrupted(begun.store)
        with pytest.raises(ConfigError, match="leave out --epochs"):
            run(begun, resume=identity, epochs=3)
        data.write_text("\n".join(data.read_text().splitlines()[:-1]))
        with pytest.raises(ConfigError, match=r"have changed \(8 to learn from and 0 held out then, 7"):
            run(begun, resume=identity, max_tokens=10**9)


def no_room(limit_bytes: int) -> None:
    """Files of this process may not grow past that size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.fixture
def room_again() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def acknowledged(monkeypatch: pytest.MonkeyPatch) -> list[CallRecord]:
    """The records that stores have acknowledged, in order."""
    kept, store = list[CallRecord](), Store.record

    async def record(self: Store, one: CallRecord) -> None:
        await store(self, one)
        kept.append(one)

    monkeypatch.setattr(Store, "record", record)
    return kept


@pytest.mark.slow
@pytest.mark.usefixtures("room_again")
def test_a_full_disk_ends_the_run_in_one_sentence_and_nothing_acknowledged_is_lost(
    plain: Plain,
    data: Path,
    acknowledged: list[CallRecord],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    undisturbed, requests, _ = plain
    monkeypatch.setattr(journal_file, "RETRY_PAUSES_S", (0.0, 0.0))
    script = Tripwire(requests // 2)
    with OpenAIStub(script) as stub:
        begun = settings(data, stub.base_url, "full")
        log = begun.store / "store.duckdb.wal"
        # Neither the log nor the database file can grow, the checkpoint at the end included.
        script.trip = lambda: no_room(log.stat().st_size)
        assert command_line(command_of(begun)[1:]) == 1
        no_room(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        (complaint,) = capsys.readouterr().err.splitlines()
        assert complaint.startswith("agentlearn: the store could not be written: ")
        answered = len(stub.requests)
        assert requests // 2 <= answered < requests
        assert check_store(begun.store).sound
        with read_store(begun.store) as reader:
            (row,) = reader.runs()
        report = run(begun, resume=row.run)
        assert len({one.id for one in acknowledged}) == len(acknowledged)  # what is acknowledged is not asked again
    assert report.library == undisturbed.library
    assert calls(report) == calls(undisturbed)
    assert report.rollouts == undisturbed.rollouts
