"""Questions to the store. Each is one query on a cursor of its own, and blocks for milliseconds.

Ids may be given by any prefix that names one thing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.models.journal import CallRecord
from agentlearn.store.codec import (
    call_of,
    ended_of,
    experience_of,
    run_inputs_of,
    summary_of,
    task_of,
    time_of,
    trajectory_of,
)
from agentlearn.store.parquet import SNAPSHOTS, TableFile, put_tables
from agentlearn.store.queries import Query
from agentlearn.store.query_source import Parameter, QuerySource
from agentlearn.store.text import escape, unescape
from agentlearn.store.views import (
    EvaluatedRow,
    Exposure,
    ProposalRow,
    RunCounts,
    RunRow,
    SelectedRow,
    Selection,
    StageTotals,
    TrajectoryRow,
    WholeRollout,
)
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId
from agentlearn.types.run import RunInputs
from agentlearn.types.summary import Summary
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


class StoreReader:
    """Reads one open store, in this process or in the one that holds it."""

    def __init__(self, source: QuerySource) -> None:
        self._source = source

    def runs(self, limit: int = 50) -> list[RunRow]:
        """The latest runs, newest first."""
        return [self._run_row(one) for one in self._query(Query.RUNS, limit)]

    def run(self, prefix: str) -> RunRow:
        """The run whose id starts so. Raises ConfigError, code `unknown_run`."""
        (found,) = self._query(Query.RUN, self._resolve("run", prefix))
        return self._run_row(found)

    def trajectories(self, run: RunId, phase: str | None = None) -> list[TrajectoryRow]:
        """The run's trajectories, of one phase or of all: phases as they began, then by (batch, task, g, attempt)."""
        return [TrajectoryRow(**one) for one in self._query(Query.TRAJECTORIES, run, phase)]

    def trajectory(self, prefix: str) -> Trajectory:
        """The trajectory whose id starts so. Raises ConfigError, code `unknown_rollout`."""
        (found,) = self._query(Query.TRAJECTORY, self._resolve("rollout", prefix))
        return trajectory_of(found)

    def selected(self, selection: Selection) -> list[SelectedRow]:
        """The rollouts that are meant: by run, phases as they began, then by (batch, task, g, attempt)."""
        return [SelectedRow(**one) for one in self._query(Query.SELECTED, *selection.parameters)]

    def whole(self, rollouts: Sequence[RolloutId]) -> list[WholeRollout]:
        """Those rollouts with all their texts, in the order given."""
        found = {one["id"]: one for one in self._query(Query.WHOLE, list(rollouts))}
        return [
            WholeRollout(trajectory_of(found[one]), found[one]["format"], str(found[one]["messages"]).encode())
            for one in rollouts
        ]

    def finished(self, run: RunId, phase: str, batch: int) -> dict[RolloutId, Trajectory]:
        """The stored trajectories of one batch of a run, by id."""
        found = [trajectory_of(one) for one in self._query(Query.FINISHED, run, phase, batch)]
        return {one.id: one for one in found}

    def evaluated(self, phase: str) -> list[EvaluatedRow]:
        """The rollouts of that phase in all runs, in order of time."""
        return [EvaluatedRow(**one) for one in self._query(Query.EVALUATED, phase)]

    def teachers(self, version: LibraryVersion) -> list[RunId]:
        """The runs that a library version came from, along its parents; none for one that the store does not hold."""
        return [one["run"] for one in self._query(Query.TEACHERS, version)]

    def run_inputs(self, run: RunId) -> RunInputs | None:
        """What the run stands on; None when it ended before it was known."""
        found = self._query(Query.GROUND, run)
        return run_inputs_of(found[0]) if found else None

    def unfinished_calls(self, run: RunId) -> list[CallRecord]:
        """The run's journal but for the rollouts that are stored."""
        return [call_of(one) for one in self._query(Query.RECALLED, run)]

    def messages(self, prefix: str) -> bytes:
        """The agent framework's messages that were saved with the trajectory. Raises ConfigError."""
        (found,) = self._query(Query.MESSAGES, self._resolve("rollout", prefix))
        return str(found["messages"]).encode()

    def task(self, prefix: str) -> Task:
        """The task whose id starts so. Raises ConfigError, code `unknown_task`."""
        (found,) = self._query(Query.TASK, self._resolve("task", prefix))
        return task_of(found)

    def prompt(self, prefix: str) -> str:
        """The text of the prompt whose sha256 starts so. Raises ConfigError, code `unknown_prompt`."""
        (found,) = self._query(Query.PROMPT, self._resolve("prompt", prefix))
        return str(found["body"])

    def library(self, prefix: str) -> Library:
        """The library whose version starts so. Raises ConfigError, code `unknown_version`."""
        (found,) = self._query(Query.LIBRARY, self._resolve("version", prefix))
        ids = found["experiences"]
        rows = self._query(Query.EXPERIENCES, ids)
        by_id = {one["id"]: experience_of(one) for one in rows}
        return Library(parent=found["parent"], experiences=tuple(by_id[one] for one in ids))

    def made_by(self, experience: ExperienceId) -> list[RolloutId]:
        """The rollouts that the experience was made from, through every proposal that went into it."""
        return [one["rollout"] for one in self._query(Query.MAKERS, experience)]

    def seen_by(self, experience: ExperienceId) -> list[Exposure]:
        """The rollouts that were shown the experience, in order of time."""
        return [Exposure(**one) for one in self._query(Query.VIEWERS, experience)]

    def summaries(self, run: RunId) -> list[Summary]:
        """The run's summaries, by rollout."""
        return [summary_of(one) for one in self._query(Query.SUMMARIES, run)]

    def proposals(self, run: RunId) -> list[ProposalRow]:
        """The run's proposals with their ends: phases as they ended, then by (batch, stage, ordinal)."""
        found = self._query(Query.PROPOSALS, run)
        return [ProposalRow(one["phase"], one["batch"], ended_of(one)) for one in found]

    def calls(self, run: RunId, unit: str) -> list[CallRecord]:
        """The journal of one unit of a run, in order of (kind, ordinal)."""
        return [call_of(one) for one in self._query(Query.CALLS, run, unit)]

    def stage_totals(self, run: RunId) -> list[StageTotals]:
        """What each stage of the run asked and cost, by name of the stage."""
        return [StageTotals(**one) for one in self._query(Query.STAGES, run)]

    def metrics(self, run: RunId) -> dict[int, dict[str, float]]:
        """Numbers of the run's updates, by their place counted from 1 and by name."""
        found: dict[int, dict[str, float]] = {}
        for one in self._query(Query.METRICS, run):
            found.setdefault(one["step"], {})[one["name"]] = one["value"]
        return found

    def models_seen(self, run: RunId) -> list[str]:
        """Names of the models that answered the run's calls, sorted."""
        return [one["name"] for one in self._query(Query.MODELS, run)]

    def counts(self, run: RunId) -> RunCounts:
        """How many rollouts, proposals, summaries and journal entries the run has."""
        return RunCounts(
            rollouts={one["key"]: one["n"] for one in self._query(Query.COUNT_ROLLOUTS, run)},
            proposals={one["key"]: one["n"] for one in self._query(Query.COUNT_PROPOSALS, run)},
            summaries=self._query(Query.COUNT_SUMMARIES, run)[0]["n"],
            calls=self._query(Query.COUNT_CALLS, run)[0]["n"],
        )

    def snapshot(self, out: Path | None = None) -> tuple[TableFile, ...]:
        """Write every table without its long texts as Parquet to `out` (default: `snapshots` in the store).

        Raises StoreError.
        """
        drafts = self._source.draft_tables(None)
        return put_tables(self._source.directory, drafts, out or self._source.directory / SNAPSHOTS)

    def export_tables(self, selection: Selection, out: Path) -> tuple[TableFile, ...]:
        """Write the selected rollouts, and what belongs to them, whole, as Parquet to the folder `out`.

        Raises DataError where nothing is selected; StoreError.
        """
        return put_tables(self._source.directory, self._source.draft_tables(selection), out)

    def _run_row(self, found: Mapping[str, Any]) -> RunRow:
        fields = dict(found)
        fields["at"], fields["started_at"] = time_of(found["at"]), time_of(found["started_at"])
        if found["state"] == "running" and found["run"] not in self._source.live:
            fields["state"] = "interrupted"
        return RunRow(**fields)

    def _resolve(self, noun: str, prefix: str) -> str:
        """The one id that starts with the prefix; the prefix itself where it is an id."""
        found = self._query(Query[f"STARTING_{noun.upper()}"], prefix)
        ids = [str(one["id"]) for one in found]
        if prefix in ids:
            return prefix
        if len(ids) == 1:
            return ids[0]
        if not ids:
            raise ConfigError(
                f"the store {str(self._source.directory)!r} holds no {noun} that starts with {prefix!r};"
                " `agentlearn runs list` shows what it holds",
                code=f"unknown_{noun}",
            )
        named = ", ".join([*(repr(one) for one in ids[:3]), *("…" for _ in ids[3:])])
        raise ConfigError(f"{noun} {prefix!r} is ambiguous ({named}); write more of it", code=f"unknown_{noun}")

    def _query(self, query: Query, *parameters: Parameter) -> list[dict[str, Any]]:
        bound = [escape(one) if isinstance(one, str) else one for one in parameters]
        return [{name: _plain(one) for name, one in row.items()} for row in self._source.rows(query, bound)]


def _plain(value: Any) -> Any:
    """A stored value with its texts as they were saved."""
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value
