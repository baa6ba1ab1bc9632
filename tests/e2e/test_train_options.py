"""Whole training runs with dynamic sampling, several rewards and the newer losses."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.store import read_store
from tests.support.letters_training import WORDS, Stopping, letters_fields, one_word_tasks, resumed, stopped, trained
from tests.support.tiny_model import saved, tiny_network

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=1024))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *WORDS[:6])


def test_dynamic_sampling_that_was_stopped_while_groups_wait_ends_with_the_same_weights(
    weights: Path, tasks: Path, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"reward": "tests.support.letters:mostly_early_letters", "epochs": 4, "group_size": 2}
    changes |= {"save_every": 2, "gradient": {"dynamic_sampling_limit": 3}, "concurrency": 1}
    whole = trained(letters_fields(weights, tasks, tmp_path / "whole", **changes))
    with read_store(tmp_path / "whole") as reader:
        kept = reader.metrics(whole.run)
    updated = [update for update, values in sorted(kept.items()) if "loss" in values]
    assert len(kept) == 12
    assert all(values["optimiser_steps"] <= update for update, values in kept.items())
    stop = next(update for update in sorted(kept.keys() - {*updated}) if update > updated[0])  # a later one waits
    stopped(letters_fields(weights, tasks, tmp_path / "stopped", **changes), Stopping(stop))
    report = resumed(tmp_path / "stopped")
    assert report.weights.sha256_after == whole.weights.sha256_after
    assert report.groups == whole.groups
