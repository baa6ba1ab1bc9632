"""Taking up an interrupted run: which one is meant, and the settings that it was begun with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlearn.config import LearnSettings, learn_settings
from agentlearn.errors import ConfigError
from agentlearn.store import read_store
from agentlearn.types.ids import RunId
from agentlearn.types.run import RunKind

MAY_CHANGE = frozenset({"concurrency", "max_cost_usd", "max_tokens", "max_minutes", "api_key", "otel", "store"})
"""Settings that do not change what is learned; the others stay as the run was begun with."""
NOT_KEPT = {"api_key", "otel", "store"}
"""Settings that belong to a start and not to the run."""


def settings_of(prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, LearnSettings]:
    """The learn run whose id starts so, and its settings under those that are given anew.

    Raises ConfigError for a run that is unknown, done or no learn run, and for a setting that may not change.
    """
    run, begun = begun_with("learn", prefix, store, given)
    fields = LearnSettings.model_validate_json(begun).model_dump(exclude=NOT_KEPT)
    return run, learn_settings({**fields, "store": store, **given})


def begun_with(kind: RunKind, prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, str]:
    """The run of that kind whose id starts so, and the settings it was begun with, as JSON. Raises likewise."""
    with read_store(store) as reader:
        row = reader.run(prefix)
    if row.kind != kind:
        can = f"; resume it with: agentlearn {row.kind} --resume {row.run}" if row.kind in {"learn", "train"} else ""
        raise ConfigError(f"run {row.run!r} is a {row.kind} run, no {kind} run{can}", code="not_resumable")
    if row.state == "done":
        raise ConfigError(
            f"run {row.run!r} is done; see it with: agentlearn runs show {row.run}", code="nothing_to_resume"
        )
    if fixed := sorted(set(given) - MAY_CHANGE):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in fixed)
        raise ConfigError(
            f"a resumed run keeps its settings; leave out {options}, or begin a new run", code="fixed_setting"
        )
    return row.run, row.settings
