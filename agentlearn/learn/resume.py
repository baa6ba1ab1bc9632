"""Taking up an interrupted run: which one is meant, and the settings that it was begun with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlearn.config import LearnSettings, learn_settings
from agentlearn.errors import ConfigError
from agentlearn.ids import RunId
from agentlearn.store import read_store

MAY_CHANGE = frozenset({"concurrency", "max_cost_usd", "max_tokens", "max_minutes", "api_key", "otel", "store"})
"""Settings that do not change what is learned; the others stay as the run was begun with."""


def settings_of(prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, LearnSettings]:
    """The run whose id starts so, and its settings under those that are given anew.

    Raises ConfigError for a run that is unknown, done or no learn run, and for a setting that may not change.
    """
    with read_store(store) as reader:
        row = reader.run(prefix)
    if row.kind != "learn":
        raise ConfigError(f"run {row.run!r} is a {row.kind} run; only learn runs can be resumed", code="not_resumable")
    if row.state == "done":
        raise ConfigError(
            f"run {row.run!r} is done; see it with: agentlearn runs show {row.run}", code="nothing_to_resume"
        )
    if fixed := sorted(set(given) - MAY_CHANGE):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in fixed)
        raise ConfigError(
            f"a resumed run keeps its settings; leave out {options}, or begin a new run", code="fixed_setting"
        )
    begun = LearnSettings.model_validate_json(row.settings).model_dump(exclude={"api_key", "otel", "store"})
    return row.run, learn_settings({**begun, "store": store, **given})
