"""The clock of the machine jumps by hours while a run goes on: its result is the same, and no duration is negative."""

import asyncio
import itertools
import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from agentlearn.config import LearnSettings
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.report import LearnReport
from agentlearn.store import read_store
from tests.support.small_math import few_math_tasks

pytestmark = pytest.mark.slow


def learned(store: Path) -> LearnReport:
    fields = {"domain": "math", "model": "sim:novice", "limit": 6, "epochs": 1, "batch_size": 6, "store": store}
    with few_math_tasks():
        return asyncio.run(run_learning(LearnSettings.model_validate({**fields, "max_minutes": 30})))


def test_a_clock_that_jumps_by_hours_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = learned(tmp_path / "plain")
    jumps = itertools.cycle((5, -9, 30, -48, 0))

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(hours=next(jumps))

    for name, module in list(sys.modules.items()):
        if name.startswith("agentlearn") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Jumping)
    jumped = learned(tmp_path / "jumped")
    assert jumped.library == plain.library
    assert (jumped.groups, jumped.proposals, jumped.rollouts) == (plain.groups, plain.proposals, plain.rollouts)
    assert jumped.wall_s >= 0
    assert all(line.seconds >= 0 for line in jumped.epochs)
    with read_store(tmp_path / "jumped") as reader:
        (row,) = reader.runs()
        assert row.state == "done"
        assert all((one.seconds or 0) >= 0 for one in reader.trajectories(row.run))
