"""Read a store. Each method runs one query, or a few, and blocks for milliseconds.

An id may be given by any unambiguous prefix.
"""

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol

import duckdb
from pydantic import ValidationError

from agentlearn.config.defaults import command_words
from agentlearn.errors import ConfigError, StoreDamaged, StoreError
from agentlearn.models.call_context import CallRecord
from agentlearn.store.codec import (
    ended_from_row,
    error_line,
    escape,
    experience_from_row,
    from_json,
    request_key,
    time_of,
    trajectory_from_row,
    unescape,
    value_from_row,
)
from agentlearn.store.database import Database
from agentlearn.store.page_queries import PageQuery
from agentlearn.store.parquet import (
    SNAPSHOTS,
    SelectedTexts,
    TableDrafts,
    TableFile,
    draft_tables,
    move_tables,
    remove_drafts,
)
from agentlearn.store.queries import (
    EvaluatedRow,
    ExposedRow,
    Exposure,
    LessonUnit,
    LiveMark,
    LiveRow,
    ProposalRow,
    Query,
    RunCounts,
    RunRow,
    SelectedRow,
    SelectedText,
    Selection,
    ServedEpisode,
    StageTotals,
    TrajectoryRow,
    VersionMade,
    VersionRow,
    WholeRollout,
    longest,
)
from agentlearn.types.experience import Experience, KeptFile, Library, Withheld
from agentlearn.types.group import Summary
from agentlearn.types.ids import CallId, ExperienceId, LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.operation import Feedback, LessonDecision
from agentlearn.types.run_event import RunFailure, RunInputs
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

Parameter = str | int | float | Sequence[str] | None
"""A value that can be bound to a query parameter; sequences hold ids."""


class QuerySource(Protocol):
    """Answers queries about one store."""

    @property
    def directory(self) -> Path:
        """Directory of the store."""
        ...

    @property
    def live(self) -> frozenset[RunId]:
        """Runs of the process that has the store open, as of its last answer: those in progress and those it ended."""
        ...

    def rows(self, query: Query | PageQuery, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, with text still escaped. Blocks. Raises StoreError, StoreDamaged."""
        ...

    def draft_tables(self, selection: Selection | None, *, texts: bool = False) -> TableDrafts:
        """Write draft files, see `parquet.draft_tables`."""
        ...


_DRAFT_MB, _DRAFTED_PER_MB = 80, 5_000
"""Memory that DuckDB needs to write files: this much, and 1 MB for so many rollouts. Measured with two sizes."""


class LocalSource:
    """The database in this process. Thread-safe: each query uses a new cursor."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.live: frozenset[RunId] = frozenset()

    @property
    def directory(self) -> Path:
        """Directory of the store."""
        return self._database.directory

    def rows(self, query: Query | PageQuery, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, with text still escaped. Raises StoreError, StoreDamaged."""
        try:
            with self._database.cursor() as cursor:
                found = cursor.execute(query.value, list(parameters))
                columns = [column[0] for column in found.description]
                return [dict(zip(columns, values, strict=True)) for values in found.fetchall()]
        except duckdb.Error as error:
            kind = StoreDamaged if "Corrupt" in str(error) else StoreError
            raise kind(f"the store {str(self.directory)!r} could not be read: {error_line(error)}") from error

    def draft_tables(self, selection: Selection | None, *, texts: bool = False) -> TableDrafts:
        """Write draft files, see `parquet.draft_tables`; with little memory where nobody else uses the database."""
        if not self._database.reads:
            return draft_tables(self._database, selection, texts=texts)
        rollouts: int = self.rows(Query.COUNT_TRAJECTORIES, ())[0]["n"]
        self._database.reopen(_DRAFT_MB + rollouts // _DRAFTED_PER_MB)
        try:
            return draft_tables(self._database, selection, texts=texts)
        except StoreError as error:
            if not isinstance(error.__cause__, duckdb.OutOfMemoryException):  # of a long text, for example
                raise
        finally:
            self._database.reopen()
        return draft_tables(self._database, selection, texts=texts)


class _RememberingSource:
    """Another source, whose latest answers are kept. For work on a store that does not change meanwhile."""

    def __init__(self, source: QuerySource) -> None:
        self._source = source
        self._rows = lru_cache(_REMEMBERED)(source.rows)

    @property
    def directory(self) -> Path:
        """Directory of the store."""
        return self._source.directory

    @property
    def live(self) -> frozenset[RunId]:
        """Runs of the process that has the store open."""
        return self._source.live

    def rows(self, query: Query | PageQuery, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, see `QuerySource`."""
        return self._rows(query, tuple(tuple(one) if isinstance(one, list) else one for one in parameters))

    def draft_tables(self, selection: Selection | None, *, texts: bool = False) -> TableDrafts:
        """Write draft files, see `parquet.draft_tables`."""
        return self._source.draft_tables(selection, texts=texts)


_REMEMBERED = 128
"""Answers that a `_RememberingSource` keeps."""
LessonsOfVersions = Mapping[LibraryVersion, Sequence[ExperienceId]]
"""The lessons that library versions show."""
_LIVE_AT_ONCE = 10_000
"""Recorded rollouts in one query."""
_ASKED_AT_ONCE = 1_000
"""Ids in one query: a question to another process has room for about 1,800."""


class StoreReader:
    """Reads a store that is open in this process or in another one."""

    def __init__(self, source: QuerySource) -> None:
        self._source = source

    @property
    def directory(self) -> Path:
        """The directory of the store."""
        return self._source.directory

    def remembering(self) -> "StoreReader":
        """A reader of the same store as it is now, which runs a query that it has just run no second time."""
        return StoreReader(_RememberingSource(self._source))

    def runs(self, limit: int = 50) -> list[RunRow]:
        """The latest runs, newest first."""
        return [self._run_row(one) for one in self._query(Query.RUNS, limit)]

    def run(self, prefix: str) -> RunRow:
        """The run whose id starts with `prefix`; the newest for `last`. Raises ConfigError, code `unknown_run`."""
        if prefix == "last" and (newest := self.runs(limit=1)):
            return newest[0]
        found = self._one(Query.RUN, "run", prefix)
        return self._run_row(found)

    def trajectories(self, run: RunId, phase: str | None = None) -> list[TrajectoryRow]:
        """The run's trajectories, of one phase or all: phases in order of start, then by (batch, task, g, attempt)."""
        return [TrajectoryRow(**one) for one in self._query(Query.TRAJECTORIES, run, phase)]

    def trajectory(self, prefix: str) -> Trajectory:
        """The trajectory whose id starts with `prefix`. Raises ConfigError, code `unknown_rollout`."""
        found = self._one(Query.TRAJECTORY, "rollout", prefix)
        return trajectory_from_row(found)

    def head(self, prefix: str) -> Trajectory:
        """The same without its steps, which can be long; `PageQuery.STEPS` has them in parts."""
        found = self._one(PageQuery.TRAJECTORY_HEAD, "rollout", prefix)
        return trajectory_from_row(found)

    def selected(self, selection: Selection) -> list[SelectedRow]:
        """The selected rollouts: by run, phases in order of start, then by (batch, task, g, attempt)."""
        return [SelectedRow(**one) for one in self._query(Query.SELECTED, *selection.parameters)]

    def selected_runs(self, selection: Selection) -> list[RunId]:
        """The runs of the selected rollouts."""
        return [one["run"] for one in self._query(Query.SELECTED_RUNS, *selection.parameters)]

    def whole(self, rollouts: Sequence[RolloutId]) -> list[WholeRollout]:
        """The rollouts with these ids and all their text, in the order given. Ids that are unknown are left out."""
        found = {one["id"]: one for one in self._query(Query.WHOLE, list(rollouts))}
        return [
            WholeRollout(trajectory_from_row(found[one]), found[one]["format"], str(found[one]["messages"]).encode())
            for one in rollouts
            if one in found
        ]

    @contextmanager
    def texts(self, selection: Selection, near: Path) -> Generator[SelectedTexts]:
        """The selected rollouts with their messages, in the order of `selected`; valid inside the block.

        Memory does not grow with their texts. near: a folder on a disk with room for the texts.

        Raises DataError when the selection is empty; StoreError, OSError.
        """
        drafts = self._source.draft_tables(selection, texts=True)
        try:
            with closing(SelectedTexts(self.directory, drafts, near)) as found:
                yield found
        finally:
            remove_drafts(self.directory, drafts)

    def text(self, prefix: str) -> SelectedText:
        """One rollout with its messages. Raises ConfigError, code `unknown_rollout`."""
        head = self.head(prefix)
        treatment, task = head.treatment, self.tasks([head.task]).get(head.task)
        return SelectedText(
            id=head.id, run=head.run, phase=head.phase, batch=head.batch, task=head.task, reward=head.reward,
            model=treatment.model, library=treatment.library, arm=treatment.arm, weights_step=treatment.weights_step,
            answer=head.answer, expected=task.answer if task else None, messages=self.messages(head.id),
        )  # fmt: skip

    def finished(self, run: RunId, phase: str, batch: int) -> dict[RolloutId, Trajectory]:
        """The stored trajectories of one batch of a run, by id."""
        found = [trajectory_from_row(one) for one in self._query(Query.FINISHED, run, phase, batch)]
        return {one.id: one for one in found}

    def group(self, run: RunId, phase: str, task: TaskId) -> list[Trajectory]:
        """The trajectories of one task in one phase of a run, by (g, attempt)."""
        return [trajectory_from_row(one) for one in self._query(Query.GROUP, run, phase, task)]

    def evaluated(self, phase: str) -> list[EvaluatedRow]:
        """The rollouts of a phase in all runs, in order of start."""
        return [EvaluatedRow(**one) for one in self._query(Query.EVALUATED, phase)]

    def versions_made(self) -> list[VersionMade]:
        """Every library version that the store knows, with the versions that it was made from and its run."""
        return [VersionMade(**one) for one in self._query(Query.VERSIONS_MADE)]

    def learned_lessons(self) -> list[Experience]:
        """The lessons that runs made, by id."""
        return [experience_from_row(one) for one in self._query(Query.LEARNED_LESSONS)]

    def run_inputs(self, run: RunId) -> RunInputs | None:
        """The run's inputs; None when the run ended before they were saved."""
        found = self._query(Query.RUN_INPUTS, run)
        return from_json(RunInputs, found[0]["body"]) if found else None

    def run_failure(self, run: RunRow) -> RunFailure | None:
        """Why the run ended without a report; None when it did not, or when its process had no time to say why."""
        found = [from_json(RunFailure, one["body"]) for one in self._query(Query.RUN_FAILURE, run.run)]
        return next((one for one in found if one.at == run.at), None)

    def unfinished_calls(self, run: RunId) -> list[CallRecord]:
        """The run's journal entries, except those of stored rollouts."""
        return [value_from_row(CallRecord, one) for one in self._query(Query.UNFINISHED_CALLS, run)]

    def messages(self, prefix: str) -> bytes:
        """The agent framework's messages saved with a trajectory. Raises ConfigError, code `unknown_rollout`."""
        found = self._one(Query.MESSAGES, "rollout", prefix)
        return str(found["messages"]).encode()

    def task(self, prefix: str) -> Task:
        """The task whose id starts with `prefix`. Raises ConfigError, code `unknown_task`."""
        return self._task(self._one(Query.TASK, "task", prefix))

    def tasks(self, ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        """The tasks with these ids; ids that are not in the store are left out."""
        found = (self._task(one) for part in _parts(ids) for one in self._query(Query.TASKS, list(part)))
        return {task.id: task for task in found}

    def _task(self, found: Mapping[str, Any]) -> Task:
        try:
            return value_from_row(Task, found)
        except (ConfigError, ValidationError) as error:
            raise StoreDamaged(
                f"the store {str(self.directory)!r} has a task {found['id']!r} that cannot be read: {error}; restore"
                " the folder from a backup"
            ) from error

    def live(self, name: str, run: RunId | None = None) -> list[LiveRow]:
        """The rollouts of a recorder that have a verdict, and answers of persons to them."""
        return [*longest(row for part in self.live_parts(name, run) for row in part).values()]

    def live_parts(self, name: str, run: RunId | None = None, *, since: int | None = None) -> Iterator[list[LiveRow]]:
        """The same in parts, with all recordings of a turn, see `longest`.

        since: only those that are new since that commit, or were judged since, and all other recordings of their turns.
        Between two parts another process may write.
        """
        if since is not None:
            bounds: list[tuple[int | None, int | None]] = [(None, None)]
        else:
            begins = [int(one["begins"]) for one in self._query(Query.LIVE_PARTS, name, _LIVE_AT_ONCE)]
            bounds = [(first, after - 1) for first, after in zip(begins, [*begins[1:], 2**62], strict=False)]
        for first, last in bounds:
            found = self._query(Query.LIVE, name, run, first, last, since)
            for one in found:
                one |= {field: sys.intern(one[field]) for field in ("model", "library", "phase")}
                one["masked"] = tuple(one["masked"])
            yield [LiveRow(**one) for one in found]

    def live_mark(self, seq: int | None = None) -> LiveMark:
        """What the store holds of live traffic up to a commit; None: up to the last one."""
        return LiveMark(**self._query(Query.LIVE_MARK, seq)[0])

    def live_without_reward(self, name: str, run: RunId | None = None) -> int:
        """How many rollouts of a recorder nobody has given a reward."""
        return int(self._query(Query.COUNT_WITHOUT_REWARD, name, run)[0]["n"])

    def is_live(self, name: str) -> bool:
        """Whether the store holds rollouts of a recorder of that name."""
        return self._query(Query.IS_LIVE, name)[0]["n"] > 0

    def feedback(self, rollout: RolloutId) -> list[Feedback]:
        """All feedback on a rollout and on its episode, in the order in which it was given."""
        return [value_from_row(Feedback, one) for one in self._query(Query.FEEDBACK, rollout)]

    def episode(self, rollout: RolloutId) -> str | None:
        """The episode that a rollout was recorded in; empty for none, None for a rollout that was not recorded."""
        found = self._query(Query.EPISODE, rollout)
        return str(found[0]["episode"]) if found else None

    def episodes(self, name: str) -> set[str]:
        """The names of the episodes of a recorder."""
        return {str(one["episode"]) for one in self._query(Query.EPISODES, name)}

    def is_recorded(self, name: str, rollout: RolloutId | None, episode: str) -> bool:
        """Whether a rollout, or without one an episode, was recorded under a name."""
        return self._query(Query.IS_RECORDED, name, rollout, episode)[0]["n"] > 0

    def latest_recorded(self, name: str, limit: int) -> list[tuple[RolloutId, str]]:
        """The latest rollouts that were recorded under a name, each with its episode, newest first."""
        return [(one["rollout"], one["episode"] or "") for one in self._query(Query.RECORDED, name, limit)]

    def shown_in_episode(self, name: str, episode: str) -> Mapping[str, Any] | None:
        """The `version`, `masked` and `offered` of an episode's latest rollout; None where none was recorded."""
        found = self._query(Query.SHOWN_IN_EPISODE, name, episode)
        return found[0] if found else None

    def unmatched_feedback(self, name: str) -> int:
        """How much feedback to a recorder names a rollout or an episode that the store does not hold."""
        return int(self._query(Query.COUNT_UNMATCHED, name)[0]["n"])

    def prompt(self, prefix: str) -> str:
        """The text of the prompt whose sha256 starts with `prefix`. Raises ConfigError, code `unknown_prompt`."""
        found = self._one(Query.PROMPT, "prompt", prefix)
        return str(found["body"])

    def library(self, prefix: str) -> Library:
        """The library whose version starts with `prefix`. Raises ConfigError, code `unknown_version`."""
        found = self._one(Query.LIBRARY, "version", prefix)
        ids = found["experiences"]
        by_id = {one.id: one for one in self.experiences(ids)}
        return Library(
            parent=found["parent"],
            joined=found["joined"],
            experiences=tuple(by_id[one] for one in ids),
            withheld=from_json(tuple[Withheld, ...], found["withheld"]) or (),
            document=found.get("document") or "",
            files=from_json(tuple[KeptFile, ...], found.get("files")) or (),
        )

    def experiences(self, ids: Sequence[ExperienceId]) -> list[Experience]:
        """The experiences with these ids, in no order; ids that are not in the store are left out."""
        return [experience_from_row(one) for one in self._query(Query.EXPERIENCES, list(ids))]

    def versions(self, prefix: str) -> list[VersionRow]:
        """The library versions that start with `prefix`, each once per run that made it or had rollouts with it."""
        return [VersionRow(**one) for one in self._query(Query.VERSIONS, prefix)]

    def starting(self, noun: Literal["run", "rollout", "prompt"], prefix: str) -> list[str]:
        """The ids that start with `prefix`, at most four; only the prefix itself when it is a complete id."""
        found = [str(one["id"]) for one in self._query(Query[f"STARTING_{noun.upper()}"], prefix)]
        return [prefix] if prefix in found else found

    def made_by(self, experience: ExperienceId) -> list[RolloutId]:
        """The rollouts that the experience was learned from: the evidence of every proposal that went into it."""
        return [one["rollout"] for one in self._query(Query.MADE_FROM, [experience])]

    def learned_on(self, experiences: Sequence[ExperienceId]) -> dict[TaskId, frozenset[ExperienceId]]:
        """The tasks that these experiences were learned from, each with those that were. Unknown ones are left out."""
        found: dict[TaskId, set[ExperienceId]] = {}
        for row in self._query(Query.LEARNED_ON, list(experiences)):
            found.setdefault(row["task"], set()).add(row["lesson"])
        return {task: frozenset(lessons) for task, lessons in found.items()}

    def seen_by(self, experience: ExperienceId) -> list[Exposure]:
        """The rollouts that had the experience in their context, in order of start."""
        return [Exposure(**one) for one in self._query(Query.SHOWN_TO, experience)]

    def exposed(
        self, experiences: Sequence[ExperienceId], versions: LessonsOfVersions | None = None
    ) -> list[ExposedRow]:
        """The rollouts that could have been shown one of these lessons, where some lesson was hidden from some rollout.

        In order of time. Attempts that were repeated and undecided rollouts are among them. versions: the lessons of
        published versions, of which the store may know no more than the hash.
        """
        known, found = versions or {}, dict[RolloutId, ExposedRow]()
        asked = [([*part], list[str]()) for part in _parts(experiences)] + [([], [*part]) for part in _parts([*known])]
        for lessons, shown in asked:
            for one in self._query(Query.EXPOSED, lessons, shown):
                one["experiences"] = one["experiences"] or list(known.get(one["library"], ()))
                found.setdefault(one["id"], ExposedRow(**one))
        return sorted(found.values(), key=lambda row: (row.at, row.id))

    def served_episodes(self, versions: Sequence[LibraryVersion], since: int) -> list[ServedEpisode]:
        """The episodes that began since then and had one of these versions throughout, in order of time.

        since: microseconds since 1970.
        """
        return [ServedEpisode(**one) for one in self._query(Query.SERVED_EPISODES, list(versions), since)]

    def tasks_behind(self, experience: ExperienceId) -> frozenset[TaskId]:
        """The tasks of the rollouts that a lesson was learned from."""
        return frozenset(self.learned_on([experience]))

    def summaries(self, run: RunId) -> list[Summary]:
        """The run's summaries, by rollout."""
        return [value_from_row(Summary, one) for one in self._query(Query.SUMMARIES, run)]

    def summaries_of(self, rollout: RolloutId) -> list[Summary]:
        """The summaries of a rollout, made by any run."""
        return [value_from_row(Summary, one) for one in self._query(Query.SUMMARIES_OF, rollout)]

    def proposals(self, run: RunId) -> list[ProposalRow]:
        """The run's proposals with their outcomes: phases in order of end, then by (batch, stage, ordinal)."""
        return [_proposal_row(one) for one in self._query(Query.PROPOSALS, run)]

    def proposals_from(self, rollout: RolloutId) -> list[ProposalRow]:
        """The proposals of all runs that were made from a rollout."""
        return [_proposal_row(one) for one in self._query(Query.PROPOSALS_FROM, rollout)]

    def proposals_of(self, experiences: Sequence[ExperienceId]) -> list[ProposalRow]:
        """The proposals of all runs that made any of these experiences."""
        return [_proposal_row(one) for one in self._query(Query.PROPOSALS_OF_EXPERIENCES, list(experiences))]

    def quarantined(self) -> list[ProposalRow]:
        """The proposals of all runs that were held for a person, decided or not; those of the newest run first."""
        return [_proposal_row(one) for one in self._query(Query.QUARANTINED)]

    def decisions(self) -> list[LessonDecision]:
        """What persons decided about quarantined lessons, oldest first."""
        return [value_from_row(LessonDecision, one) for one in self._query(Query.DECISIONS)]

    def lesson_units(self, run: RunId) -> list[LessonUnit]:
        """The summarise and compare calls of a run, one per stage, batch and task."""
        found = [(one["stage"], str(one["unit"]).split("/")) for one in self._query(Query.LESSON_UNITS, run)]
        units = (LessonUnit(stage, parts[0], int(parts[1]), TaskId(parts[2])) for stage, parts in found)
        return list(dict.fromkeys(units))

    def calls(self, run: RunId, unit: str) -> list[CallRecord]:
        """The journal entries of one work unit of a run, in order of (kind, ordinal)."""
        return [value_from_row(CallRecord, one) for one in self._query(Query.CALLS, run, unit)]

    def asked(self, call: CallId) -> str:
        """What a model call of a stage sent: JSON of pydantic-ai's messages; empty for calls of rollouts."""
        found = self._query(Query.PROMPT, request_key(call))
        return str(found[0]["body"]) if found else ""

    def stage_totals(self, run: RunId) -> list[StageTotals]:
        """Model calls, tokens and cost of each stage of the run, sorted by stage."""
        return [StageTotals(**one) for one in self._query(Query.STAGES, run)]

    def call_seconds(self, run: RunId, first: int) -> dict[str, float]:
        """Mean seconds of a model call by stage of the run: of the `first` calls, which waited for no others."""
        return {one["stage"]: one["seconds"] for one in self._query(Query.CALL_SECONDS, run, first)}

    def metrics(self, run: RunId) -> dict[int, dict[str, float]]:
        """Metrics of the run's updates: value by update (from 1) and by name."""
        found: dict[int, dict[str, float]] = {}
        for one in self._query(Query.METRICS, run):
            found.setdefault(one["step"], {})[one["name"]] = one["value"]
        return found

    def counts(self, run: RunId) -> RunCounts:
        """Number of rollouts, proposals, summaries and journal entries of the run."""
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
        return move_tables(self._source.directory, drafts, out or self._source.directory / SNAPSHOTS)

    def export_tables(self, selection: Selection, out: Path) -> tuple[TableFile, ...]:
        """Write the selected rollouts and all related rows as Parquet to the folder `out`.

        Raises DataError when the selection is empty; StoreError.
        """
        runs = self.selected_runs(selection)
        return move_tables(self._source.directory, self._source.draft_tables(selection), out, runs)

    def rows(self, query: Query | PageQuery, *parameters: Parameter) -> list[dict[str, Any]]:
        """The rows of a query, for pages that show a part of many rows. Texts in lists are unescaped too."""
        return self._query(query, *parameters)

    def runs_between(self, first: int, limit: int) -> list[RunRow]:
        """A part of all runs, newest first, with the main fields of their reports and settings."""
        return [self._run_row(one) for one in self._query(PageQuery.PAGE_OF_RUNS, limit, first)]

    def _run_row(self, found: Mapping[str, Any]) -> RunRow:
        fields = dict(found)
        fields["at"], fields["started_at"] = time_of(found["at"]), time_of(found["started_at"])
        if found["state"] == "running" and found["run"] not in self._source.live:
            fields["state"] = "interrupted"
        return RunRow(**fields)

    def _one(self, query: Query | PageQuery, noun: str, prefix: str) -> dict[str, Any]:
        """The row of the only id that starts with the prefix. A complete id needs no search."""
        return (self._query(query, prefix) or self._query(query, self._resolve(noun, prefix)))[0]

    def _resolve(self, noun: str, prefix: str) -> str:
        """The only id that starts with the prefix; the prefix itself if it is a complete id."""
        found = self._query(Query[f"STARTING_{noun.upper()}"], prefix)
        ids = [str(one["id"]) for one in found]
        if prefix in ids:
            return prefix
        if len(ids) == 1:
            return ids[0]
        if not ids:
            raise ConfigError(
                f"the store {str(self._source.directory)!r} has no {noun} whose id starts with {prefix!r};"
                f" `{command_words('runs', 'list', store=self._source.directory)}` shows the stored runs",
                code=f"unknown_{noun}",
            )
        named = ", ".join([*(repr(one) for one in ids[:3]), *("…" for _ in ids[3:])])
        raise ConfigError(f"{noun} {prefix!r} is ambiguous ({named}); give more of the id", code=f"unknown_{noun}")

    def _query(self, query: Query | PageQuery, *parameters: Parameter) -> list[dict[str, Any]]:
        bound = [escape(one) if isinstance(one, str) else one for one in parameters]
        return [{name: _plain(one) for name, one in row.items()} for row in self._source.rows(query, bound)]


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids in parts that one query has room for."""
    return (ids[at : at + _ASKED_AT_ONCE] for at in range(0, len(ids), _ASKED_AT_ONCE))


def _proposal_row(found: Mapping[str, Any]) -> ProposalRow:
    return ProposalRow(found["phase"], found["batch"], ended_from_row(found), found["run"])


def _plain(value: Any) -> Any:
    """The value with all its text unescaped."""
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value
