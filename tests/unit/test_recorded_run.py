"""Every kind of run ends in the store as done, failed or interrupted."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from agentlearn.errors import BudgetExceeded, ConfigError
from agentlearn.formats import import_file
from agentlearn.learning.solve import SolveSettings, run_solving
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.runner import Rollouts
from agentlearn.store import Store, open_store, read_store
from agentlearn.types.ids import new_run_id
from agentlearn.types.run_event import RunEvent, RunKind
from agentlearn.types.value import Value

ENDS: list[tuple[Callable[[], BaseException | None], str]] = [
    (lambda: None, "done"),
    (lambda: ConfigError("x"), "failed"),
    (lambda: KeyError("x"), "failed"),
    (lambda: BaseExceptionGroup("all", [KeyError("x"), BudgetExceeded("y")]), "interrupted"),
    (asyncio.CancelledError, "interrupted"),
]
KINDS = get_args(RunKind)


class Report(Value):
    lessons: int


def event(kind: RunKind) -> RunEvent:
    return started_event(
        new_run_id(), kind, domain="toy", model="sim:novice", simulated=True, seed=3, settings='{"a": 1}'
    )


def run(directory: Path, started: RunEvent, error: BaseException | None) -> None:
    async def work() -> None:
        async with open_store(directory) as store, recorded_run(store, started) as running:
            assert store.run(started.run).state == "running"
            if error is not None:
                raise error
            running.report = Report(lessons=2)

    asyncio.run(work())


def test_every_kind_ends_as_done_failed_or_interrupted(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (ending, state) in enumerate(ENDS):
        kind, error = KINDS[number % len(KINDS)], ending()
        started = event(kind)
        with subtests.test(kind=kind, error=repr(error)):
            if error is None:
                run(tmp_path, started, None)
            else:
                wanted = BudgetExceeded if isinstance(error, BaseExceptionGroup) else type(error)
                with pytest.raises(wanted):
                    run(tmp_path, started, error)
            with read_store(tmp_path) as reader:
                row = reader.run(started.run)
            assert (row.kind, row.state, row.domain, row.settings) == (kind, state, "toy", '{"a": 1}')
            assert row.report == ('{"lessons":2}' if state == "done" else "")


def import_one(directory: Path) -> None:
    log = directory / "log.jsonl"
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    log.write_text(json.dumps({"messages": messages}))
    import_file(log, "toy", directory / "store")


def solve_one(directory: Path) -> None:
    asyncio.run(run_solving(SolveSettings(domain="math", problem="What is 2 + 2?", store=directory / "store")))


@pytest.mark.parametrize(
    ("one", "owner", "method", "error", "state"),
    [
        (import_one, Store, "save_import", ConfigError, "failed"),
        (solve_one, Rollouts, "one", BudgetExceeded, "interrupted"),
    ],
)
def test_an_import_or_a_solve_that_breaks_is_stored_as_such(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    one: Callable[[Path], None],
    owner: type,
    method: str,
    error: type[Exception],
    state: str,
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise error("x")

    monkeypatch.setattr(owner, method, broken)
    with pytest.raises(error):
        one(tmp_path)
    with read_store(tmp_path / "store") as reader:
        assert [row.state for row in reader.runs()] == [state]
