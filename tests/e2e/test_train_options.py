"""Whole training runs with dynamic sampling, several rewards and the newer losses."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentlearn.errors import Interrupted  # noqa: E402
from agentlearn.store import read_store  # noqa: E402
from agentlearn.train.run_training import run_training, run_training_sync  # noqa: E402
from agentlearn.train.settings import (  # noqa: E402
    TrainSettings,
    resumed_train_settings,
    train_settings,
)
from tests.support.letters_training import Stopping, one_word_tasks  # noqa: E402
from tests.support.tiny_model import saved, tiny_network  # noqa: E402

pytestmark = pytest.mark.slow
BREVITY = "tests.support.letters:brevity"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=1024))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = ("plum", "fig", "date", "pear", "lime", "kiwi")
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *words)


def settings_of(weights: Path, tasks: Path, store: Path, gradient: dict[str, Any], **changes: Any) -> TrainSettings:
    fields: dict[str, Any] = {
        "domain": "letters",
        "reward": "tests.support.letters:mostly_early_letters",
        "data": str(tasks),
        "test_share": 0.0,
        "evaluate": False,
        "model": str(weights),
        "epochs": 4,
        "batch_size": 2,
        "group_size": 2,
        "max_output_tokens": 8,
        "save_every": 2,
        "store": store,
        "gradient": {"learning_rate": 1e-2} | gradient,
    }
    return train_settings(fields | changes)


@pytest.mark.parametrize("reproducible", [True, False])
def test_a_run_with_dynamic_sampling_that_was_stopped_while_groups_wait_ends_with_the_same_weights(
    weights: Path, tasks: Path, tmp_path: Path, reproducible: bool
) -> None:
    gradient = {"dynamic_sampling_limit": 3}
    common = {"reproducible": reproducible, "concurrency": 1}
    whole = run_training_sync(settings_of(weights, tasks, tmp_path / "whole", gradient, **common))
    with read_store(tmp_path / "whole") as reader:
        kept = reader.metrics(whole.run)
    waited = [update for update, values in sorted(kept.items()) if "loss" not in values]
    trained = [update for update, values in sorted(kept.items()) if "loss" in values]
    assert len(kept) == 12
    assert waited
    assert len(trained) > 1
    assert all(values["optimiser_steps"] <= update for update, values in kept.items())
    assert max(int(name.partition("/")[2]) for values in kept.values() for name in values if "staleness/" in name) == 0
    stop = next(update for update in waited if update > trained[0])  # a later update waits in this batch

    store = tmp_path / "stopped"
    with pytest.raises(Interrupted):
        asyncio.run(run_training(settings_of(weights, tasks, store, gradient, **common), Stopping(stop)))
    with read_store(store) as reader:
        (begun,) = reader.runs()
    resumed, again = resumed_train_settings(begun.run, store, {})
    report = asyncio.run(run_training(again, resume=resumed))
    if reproducible:
        assert report.weights.sha256_after == whole.weights.sha256_after
        assert [line.loss for line in report.updates] == [line.loss for line in whole.updates]
    assert report.groups == whole.groups or not reproducible
    assert len(report.updates) == 12


def test_several_rewards_train_and_show_their_means(weights: Path, tasks: Path, tmp_path: Path) -> None:
    gradient = {"rewards": {BREVITY: 0.5}, "reward_combination": "normalise_then_sum"}
    report = run_training_sync(settings_of(weights, tasks, tmp_path / "store", gradient, epochs=1))
    with read_store(tmp_path / "store") as reader:
        kept = reader.metrics(report.run)
    assert all(0 < values[f"rewards/{BREVITY}/mean"] < 1 for values in kept.values())
    assert all(values[f"rewards/{BREVITY}/failed"] == 0 for values in kept.values())
    assert report.weights.sha256_before != report.weights.sha256_after


@pytest.mark.parametrize(
    "gradient",
    [
        {"loss": "vespo", "advantages": "leave_one_out"},
        {"entropy_target": 4.0, "entropy_coef": 0.01, "top_entropy_quantile": 0.5},
        {"off_policy_mask_threshold": 0.1, "importance_floor": 0.5, "importance_sampling": "token_mask"},
    ],
    ids=lambda gradient: next(iter(gradient.values())),
)
def test_a_run_with_every_newer_option_ends(
    weights: Path, tasks: Path, tmp_path: Path, gradient: dict[str, Any]
) -> None:
    changes = {"epochs": 1, "group_size": 4, "reward": "tests.support.letters:share_of_early_letters"}
    report = run_training_sync(settings_of(weights, tasks, tmp_path / "store", gradient, **changes))
    assert report.weights.sha256_before != report.weights.sha256_after
    assert report.skipped == 0
