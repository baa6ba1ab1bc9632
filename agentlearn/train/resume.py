"""Taking up an interrupted training run: which one is meant, and the settings that it was begun with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlearn.learn.resume import NOT_KEPT, started_with
from agentlearn.train.settings import TrainSettings, train_settings
from agentlearn.types.ids import RunId


def settings_of(prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, TrainSettings]:
    """The training run whose id starts so, and its settings under those that are given anew.

    Raises ConfigError for a run that is unknown, done or no training run, and for a setting that may not change.
    """
    run, begun = started_with("train", prefix, store, given)
    fields = TrainSettings.model_validate_json(begun).model_dump(exclude=NOT_KEPT)
    return run, train_settings({**fields, "store": store, **given})
