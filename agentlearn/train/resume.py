"""Settings of a training run that is resumed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlearn.learning.resume import NOT_KEPT, of_this_version, started_with
from agentlearn.train.settings import TrainSettings, train_settings
from agentlearn.types.ids import RunId


def resumed_train_settings(prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, TrainSettings]:
    """Return the interrupted training run whose id starts with `prefix`, and its settings.

    given: settings that replace the stored ones. Raises ConfigError for a run that is unknown, finished or not a
    training run, and for a setting that may not change.
    """
    run, begun = started_with("train", prefix, store, given)
    with of_this_version(run):
        fields = TrainSettings.model_validate_json(begun).model_dump(exclude=NOT_KEPT)
    return run, train_settings({**fields, "store": store, **given})
