"""Resuming an interrupted run: which run it is, the settings it was started with, and the rollouts it finished."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from agentlearn.config import LearnSettings, OptionGroup, learn_settings
from agentlearn.config.endpoint_address import credentials_of, endpoint_name, same_model
from agentlearn.errors import AllFailed, ConfigError, StoreMissing
from agentlearn.store import StoreReader, read_store
from agentlearn.store.queries import RunRow
from agentlearn.text import short_repr
from agentlearn.types.ids import RunId, TaskId
from agentlearn.types.run_event import RunKind
from agentlearn.types.trajectory import Trajectory

_MAY_CHANGE = frozenset(
    {"concurrency", "max_attempts", "max_outage_minutes", "served_at"}
    | {"max_cost_usd", "max_tokens", "max_minutes", "api_key", "otel", "store"}
)
"""Settings that may differ when a run is resumed, because they do not change what is learned."""
ENDPOINTS = frozenset({"model", "reflector", "user_model"})
"""Settings that a resumed run may be given again, with the credentials that are not stored."""
_RESUMABLE = frozenset({"learn", "train"})
"""Kinds of runs that have a command with `--resume`."""
_RUNS = 10_000
"""Number of runs that are searched for one with given settings."""
NOT_KEPT = {"api_key", "otel", "store", "private_addresses"}
"""Settings that are given at each start and are not taken from the interrupted run."""

TaskRollout = tuple[TaskId, int]
"""A task, and the index of one of its rollouts."""


@dataclass(frozen=True, slots=True)
class FinishedRollouts:
    """The rollouts that an interrupted run had finished."""

    store: StoreReader
    run: RunId
    resumed: bool
    """Whether the run was interrupted; a new run has finished none."""
    repeats_undecided: bool = False
    """Whether its undecided rollouts are made again, because they ended the run for a cause that is corrected now."""

    @classmethod
    def before(cls, store: StoreReader, run: RunId, *, resumed: bool) -> Self:
        """Return those of a run that starts or is resumed now. Call it before the start is recorded."""
        failure = store.run_failure(store.run(run)) if resumed else None
        return cls(store, run, resumed, repeats_undecided=failure is not None and failure.code == AllFailed.code)

    def of(self, phase: str, batch: int) -> Mapping[TaskRollout, Trajectory]:
        """Return the finished rollouts of a batch, whichever attempt succeeded."""
        found = self.store.finished(self.run, phase, batch) if self.resumed else {}
        return {(one.task, one.g): one for one in found.values()}


def latest_run(store: Path, kind: RunKind, settings: OptionGroup, *, after: str = "") -> RunRow | None:
    """Return the latest run of that kind with these settings; None when there is none.

    after: only runs that began after the run with this id. Where results are kept and traced may differ.
    """

    def known(text: str) -> dict[str, Any]:
        return {name: value for name, value in json.loads(text).items() if name not in NOT_KEPT}

    wanted = known(settings.model_dump_json())
    try:
        with read_store(store) as reader:
            rows = (row for row in reader.runs(limit=_RUNS) if row.kind == kind and row.run > after)
            return next((row for row in rows if known(row.settings) == wanted), None)
    except StoreMissing:
        return None


def settings_of(prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, LearnSettings]:
    """Return the learn run whose id starts with `prefix`, and its settings, overridden by `given`.

    Raises ConfigError for a run that is unknown, done or not a learn run, and for a setting that may not change.
    """
    run, stored = started_with("learn", prefix, store, given)
    with of_this_version(run):
        fields = LearnSettings.model_validate_json(stored).model_dump(exclude=NOT_KEPT)
    return run, learn_settings({**fields, "store": store, **given, **_endpoints_now(fields, given)})


def _endpoints_now(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models under the names that are stored, and where they are served now."""
    named = {name: stored[name] for name in ENDPOINTS & set(given)}
    served = dict(stored.get("served_at") or {})
    for name, recorded in named.items():
        now, several = endpoint_name(str(given[name])), given.get("served_at", {})
        served[recorded] = several.get(now, (now,))
    return named | {"served_at": served}


@contextmanager
def of_this_version(run: RunId) -> Generator[None]:
    """Inside the block, stored settings that cannot be read are a ConfigError."""
    try:
        yield
    except ValidationError as error:
        raise ConfigError(
            f"run {run!r} was started by another version of agentlearn, and this one does not know all of its settings;"
            " resume it with that version, or start a new run"
        ) from error


def keep_credentials(environment: Mapping[str, Any]) -> None:
    """Keep the credentials of the endpoints that environment variables name. The names themselves do not count here."""
    for name in ENDPOINTS & set(environment):
        endpoint_name(str(environment[name]))


def started_with(kind: RunKind, prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, str]:
    """Return the run of that kind whose id starts with `prefix`, and the settings it was started with, as JSON.

    Raises ConfigError for a run that is unknown, done or of another kind, and for a setting that may not change.
    """
    with read_store(store) as reader:
        row = _unfinished(reader, prefix, kind)
    stored = json.loads(row.settings)
    same = {name for name in ENDPOINTS & set(given) if same_model(str(given[name]), str(stored.get(name)))}
    if fixed := sorted(set(given) - _MAY_CHANGE - same):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in fixed)
        raise ConfigError(f"a resumed run keeps its settings; leave out {options}, or start a new run")
    if given_objects := stored.get("given"):
        raise ConfigError(
            f"run {row.run!r} was started by a program with objects of its own ({', '.join(given_objects)}), which are"
            f" not stored; resume it there: learn(..., resume={row.run!r})"
        )
    _require_credentials(row.run, stored | _endpoints_now(stored, given))
    return row.run, row.settings


def resumed_run(reader: StoreReader, prefix: str, settings: LearnSettings) -> RunId:
    """Return the learn run whose id starts with `prefix`, which a program resumes with these settings.

    Raises ConfigError for a run that is unknown, done or not a learn run, and for settings other than it had.
    """
    row = _unfinished(reader, prefix, "learn")
    now, then = json.loads(settings.resolved()), json.loads(row.settings)
    fixed = set(now) - _MAY_CHANGE - NOT_KEPT
    if changed := sorted(name for name in fixed if now[name] != then.get(name, now[name])):
        name = changed[0]
        raise ConfigError(
            f"run {row.run!r} was started with {name}={short_repr(then.get(name))} and cannot go on with"
            f" {short_repr(now[name])}; give the same as then, or start a new run"
        )
    return row.run


def _unfinished(reader: StoreReader, prefix: str, kind: RunKind) -> RunRow:
    row = reader.run(prefix)
    if row.kind != kind:
        can = f"; resume it with: agentlearn {row.kind} --resume {row.run}" if row.kind in _RESUMABLE else ""
        raise ConfigError(f"run {row.run!r} is a {row.kind} run, not a {kind} run{can}")
    if row.state == "done":
        raise ConfigError(f"run {row.run!r} is done; show it with: agentlearn runs show {row.run}")
    return row


def _require_credentials(run: RunId, stored: Mapping[str, Any]) -> None:
    """Raise ConfigError when an address had credentials at the start of the run and has none now."""
    used = {one for name in ENDPOINTS for one in stored["served_at"].get(stored.get(name), (stored.get(name),))}
    missing = [name for name in stored.get("private_addresses", ()) if name in used and not credentials_of(name)]
    if missing:
        option = "reflector" if stored.get("reflector") == missing[0] else "model"
        raise ConfigError(
            f"run {run!r} was started with credentials in the address of {missing[0]!r}, and credentials are never"
            f" stored; resume it with the whole address in --{option} or AGENTLEARN_{option.upper()}"
        )
