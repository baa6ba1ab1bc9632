"""`runs show`: every stored value, why a run ended early, and the next step."""

import asyncio
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.cli.app import run
from agentlearn.errors import ConfigError
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.store import RunRow, TrajectoryRow, open_store
from agentlearn.text import visible
from agentlearn.types.ids import RolloutId, TaskId, new_run_id
from agentlearn.types.run_event import RunEvent, RunFailure
from agentlearn.views.runs import RunRecord, _leaf_lines, plain  # pyright: ignore[reportPrivateUsage]
from tests.support.command import output, result
from tests.support.small_math import few_math_tasks

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def latest(capsys: pytest.CaptureFixture[str], store: Path) -> dict[str, Any]:
    return result(capsys, store, "runs", "list")["runs"][0]


def assert_whole(capsys: pytest.CaptureFixture[str], store: Path, shown: str) -> None:
    """Every value of the JSON is a word, or several, of the text."""
    words = " ".join(output(capsys, store, "runs", "show", shown).split())
    document = result(capsys, store, "runs", "show", shown)
    missing = [one for one in leaves(document) if one is not None and " ".join(plain(one).split()) not in words]
    assert missing == []


@given(value=JSON)
def test_every_value_has_its_line(value: Any) -> None:
    lines = "\n".join(_leaf_lines(value))
    for one in leaves(value):
        for part in visible(plain(one)).split("\n"):
            assert part in lines


@pytest.mark.slow
def test_a_learn_run_is_shown_with_every_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "s"
    options = ["--limit", "3", "--epochs", "1", "--eval-rollouts", "1", "--model", "sim:novice"]
    with few_math_tasks():
        assert run(["learn", "math", *options, "--store", str(store)]) == 0
    shown = latest(capsys, store)["run"]
    assert_whole(capsys, store, shown)
    short = output(capsys, store, "runs", "show", shown, "--short")
    assert "max_deletes" not in short
    assert "library    " in short


@pytest.mark.slow
def test_a_comparison_is_shown_with_every_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "s"
    arms = ["none", "none,temperature=0.9", "--domain", "math"]
    assert run(["compare", *arms, "--model", "sim:novice", "--limit", "4", "-k", "2", "--store", str(store)]) == 0
    assert_whole(capsys, store, latest(capsys, store)["run"])


def started() -> RunEvent:
    return started_event(new_run_id(), "learn", domain="math", model="m", simulated=False, seed=0, settings="{}")


def test_a_failed_run_says_why_and_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = started()

    async def fail() -> None:
        async with open_store(tmp_path) as store, recorded_run(store, event):
            raise ConfigError("the file 'x.csv' is empty; \ud800 give tasks", code="no_task")

    with pytest.raises(ConfigError):
        asyncio.run(fail())
    words = output(capsys, tmp_path, "runs", "show", event.run)
    assert "state      failed" in words
    assert "why        no_task: the file 'x.csv' is empty; " in words
    assert f"next       correct the cause, then  agentlearn learn --resume {event.run} --store {tmp_path}" in words
    document = result(capsys, tmp_path, "runs", "show", event.run)
    assert document["reason"].startswith("no_task: ")


def test_the_reason_of_an_earlier_end_is_not_shown_for_a_later_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run fails, is resumed, and then its process is killed."""
    event = started()

    async def fail_and_start_again() -> None:
        async with open_store(tmp_path) as store:
            await store.save_run_failure(event.run, RunFailure(at=datetime.now(UTC), code="stale", message="stale"))
            await store.save_run(event)

    asyncio.run(fail_and_start_again())
    words = output(capsys, tmp_path, "runs", "show", event.run)
    assert "state      interrupted" in words
    assert "why        its process ended before it could say why" in words
    assert "stale" not in words


@pytest.mark.slow
def test_the_next_step_of_a_run_that_reached_its_limit_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "a store"
    options = ["--limit", "4", "--epochs", "1", "--no-eval", "--model", "sim:novice", "--max-tokens", "2000"]
    with few_math_tasks():
        assert run(["learn", "math", *options, "--store", str(store)]) == 3
    words = output(capsys, store, "runs", "show", latest(capsys, store)["run"])
    assert "why        budget: " in words
    (command,) = [line.removeprefix("next       ") for line in words.splitlines() if line.startswith("next ")]
    program, *arguments = shlex.split(command)
    assert program == "agentlearn"
    with few_math_tasks():
        assert run([*arguments, "--max-tokens", "100000000"]) == 0
    assert latest(capsys, store)["state"] == "done"


def test_of_many_rollouts_whole_groups_are_printed_those_that_differ_first(tmp_path: Path) -> None:
    event = started_event(new_run_id(), "learn", domain="math", model="mock", simulated=False, seed=0, settings="{}")
    row = RunRow(
        run=event.run, domain="math", kind="learn", state="done", model="mock", simulated=False, seed=0, settings="{}",
        package_version="0", report="", started_at=event.at, at=event.at,
    )  # fmt: skip
    rollouts = [
        TrajectoryRow(RolloutId(f"r{n}-{g}"), "epoch-1", 0, TaskId(f"t{n}"), g, 0, "ok", reward, 1, 1, None, 1.0)
        for n in range(60)
        for g, reward in enumerate([1.0] * 9 + [0.0 if n == 59 else 1.0])
    ]
    record = RunRecord(row, rollouts, (), "", "", (), tmp_path / "s")
    lines = [str(line) for line in record.lines(short=False)]
    begins = lines.index("rollouts (400 of 600)")
    assert lines[begins + 2].split()[:5] == ["agentlearn", "trace", row.run, "--store", str(tmp_path / "s")]
    ids = [line.split()[0] for line in lines[begins + 4 :]]
    assert (len(ids), ids[0], ids[10]) == (400, "r59-0", "r0-0")
    few = RunRecord(row, rollouts[:400], (), "", "", (), tmp_path / "s")
    assert "rollouts" in [str(line) for line in few.lines(short=False)]
