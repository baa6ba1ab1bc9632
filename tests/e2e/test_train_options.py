"""Whole training runs with dynamic sampling, several rewards and the newer losses."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.store import read_store
from tests.support.letters_training import (
    WORDS,
    letters_fields,
    one_word_tasks,
    trained,
)
from tests.support.tiny_model import saved, tiny_network

pytestmark = pytest.mark.slow

BREVITY = "tests.support.letters:brevity"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=1024))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *WORDS[:6])


@pytest.mark.parametrize(
    "gradient",
    [
        {"rewards": {BREVITY: 0.5}, "reward_combination": "normalise_then_sum"},
        {
            "loss": "vespo",
            "advantages": "leave_one_out",
            "entropy_coef": 0.01,
            "entropy_target": 4.0,
            "off_policy_mask_threshold": 0.1,
        },
    ],
    ids=["several rewards", "newer options"],
)
def test_a_run_with_every_newer_option_ends(
    weights: Path, tasks: Path, tmp_path: Path, gradient: dict[str, Any]
) -> None:
    report = trained(letters_fields(weights, tasks, tmp_path / "store", gradient=gradient))
    assert report.weights.sha256_before != report.weights.sha256_after
    assert report.skipped == 0
    with read_store(tmp_path / "store") as reader:
        kept = reader.metrics(report.run).values()
    if "rewards" in gradient:
        assert all(0 < values[f"rewards/{BREVITY}/mean"] < 1 for values in kept)
        assert all(values[f"rewards/{BREVITY}/failed"] == 0 for values in kept)
