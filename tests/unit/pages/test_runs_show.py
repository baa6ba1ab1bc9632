"""`runs show`: how a run ended and what it found, why it ended early, and the next step."""

import asyncio
import io
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentlearn.cli.app import run
from agentlearn.cli.progress import LearnProgress
from agentlearn.config import LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.store import open_store
from agentlearn.types.ids import new_run_id
from agentlearn.types.run_event import RunEvent, RunFailure
from tests.support.command import output, result
from tests.support.learn_records import learn_record
from tests.support.small_math import few_math_tasks
from tests.unit.store import nouns


def latest(capsys: pytest.CaptureFixture[str], store: Path) -> dict[str, Any]:
    return result(capsys, store, "runs", "list")["runs"][0]


@pytest.mark.slow
def test_a_learn_run_is_shown_and_its_values_are_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "s"
    options = ["--limit", "3", "--epochs", "1", "--eval-rollouts", "1", "--model", "sim:novice"]
    with few_math_tasks():
        assert run(["learn", "math", *options, "--store", str(store)]) == 0
    shown = latest(capsys, store)["run"]
    words = output(capsys, store, "runs", "show", shown)
    assert "library    " in words
    assert "max_deletes" not in words
    assert result(capsys, store, "runs", "show", shown)["run"]["settings"]["max_deletes"] > 0


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


def test_a_run_is_shown_as_its_end_was_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, printed = learn_record().report, io.StringIO()
    LearnProgress(LearnSettings(domain="math", store=tmp_path), Console(file=printed, width=300)).done(report)

    async def keep() -> None:
        async with open_store(tmp_path) as store:
            await store.save_run(nouns.run_event(state="done", report=report.model_dump_json()))

    asyncio.run(keep())
    *end, show = (line[2:].rstrip() for line in printed.getvalue().splitlines())
    assert show == f"show       agentlearn runs show {report.run} --store {tmp_path}"
    assert "\n".join(end) in output(capsys, tmp_path, "runs", "show", nouns.RUN)
    assert " ".join(str(report).split()).startswith(" ".join(" ".join(end[:5]).split()))
