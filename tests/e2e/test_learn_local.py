"""`learn` with a local model that never stops by itself: a limit by default, cut answers counted, and signs of life."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

torch = pytest.importorskip("torch")

from agentlearn.cli.progress import LearnProgress  # noqa: E402
from agentlearn.config import learn_settings  # noqa: E402
from agentlearn.learning.lessons.run_learning import run_learning  # noqa: E402
from agentlearn.store import read_store  # noqa: E402
from agentlearn.types.trajectory import ModelTurn  # noqa: E402
from tests.support.tiny_model import saved, tiny_network  # noqa: E402

pytestmark = pytest.mark.slow


class Slow(LearnProgress):
    """Its clock says that every rollout took 40 seconds."""

    def __init__(self, *given: Any) -> None:
        self.now = 0.0
        super().__init__(*given, lambda: self.now)

    def rollout_done(self, phase: str, trajectory: Any) -> None:
        super().rollout_done(phase, trajectory)
        self.now += 40.0
        self.heartbeat.beat()


def test_a_local_model_that_does_not_stop_is_cut_counted_and_reported_on(tmp_path: Path) -> None:
    file = tmp_path / "words.jsonl"
    file.write_text("".join(json.dumps({"problem": f"Say {n}.", "answer": str(n)}) + "\n" for n in range(2)))
    model = saved(tmp_path / "tiny", tiny_network(context=512))
    fields = {
        "domain": "words",
        "data": str(file),
        "reward": "exact",
        "model": f"local:{model}",
        "reflector": "sim:reflector",
        "epochs": 1,
        "group_size": 2,
        "evaluate": False,
        "test_share": 0.0,
        "validation_rollouts": 0,
        "store": tmp_path / "store",
    }
    settings, text = learn_settings(fields), io.StringIO()
    report = asyncio.run(run_learning(settings, Slow(settings, Console(file=text, width=200))))
    assert "answers    at most 128 tokens each" in text.getvalue()  # a quarter of the context
    assert "epoch 1/1: 4 of 4 rollouts" in text.getvalue()
    assert text.getvalue().count("so far") == 4
    with read_store(settings.store) as reader:
        turns = [
            step
            for row in reader.trajectories(report.run)
            for step in reader.trajectory(row.id).steps
            if isinstance(step, ModelTurn)
        ]
    assert max(turn.usage.tokens_out for turn in turns) <= 128
    cut = sum(turn.finish == "length" for turn in turns)
    assert cut > 0
    assert report.services[0].cut_off == {"rollout": cut}
    assert f"{cut} of {len(turns)} replies" in " ".join(report.notes)
    assert "raise --max-output-tokens" in " ".join(report.notes)
