"""Everything that the page of a learn run shows, read from the store."""

import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentlearn.cli.learn import OPTION_NAMES, learn_fields
from agentlearn.cli.options import GivenSettings
from agentlearn.cli.show.lessons import LessonOrigin, origins_in
from agentlearn.cli.show.words import groups_of
from agentlearn.config import LearnSettings, learn_settings
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.learning.report import LearnReport
from agentlearn.library import NO_LIBRARY
from agentlearn.store import ProposalRow, RunRow, StoreReader, TrajectoryRow
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, TaskId
from agentlearn.types.task import Task

EPOCH = "epoch-"
"""How the names of phases start in which a run learns."""
Rewards = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class PageGroup:
    """A group that a run learned from."""

    phase: str
    batch: int
    task: TaskId
    problem: str
    """Empty for a task that the store does not hold."""
    rewards: Rewards
    """Rewards by rollout; None for a rollout without one. Empty when the rollouts are those of other runs."""
    failed: bool
    """Whether the agent failed to answer in every rollout that counts."""
    ends: Mapping[str, int]
    """Its proposals by end."""


@dataclass(frozen=True, slots=True)
class FamilyScore:
    """Mean rewards of a family's held-out tasks."""

    family: str
    tasks: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class LearnRecord:
    """A learn run."""

    row: RunRow
    report: LearnReport
    settings: Mapping[str, Any]
    rollouts: tuple[TrajectoryRow, ...]
    groups: tuple[PageGroup, ...]
    families: tuple[FamilyScore, ...]
    proposals: tuple[ProposalRow, ...]
    problems: Mapping[TaskId, str]
    library: Library | None
    """The version that the run selected; None when the store does not hold it."""
    start: LibraryVersion | None
    """The version that it started from; None when that is not known."""
    origins: Mapping[ExperienceId, Sequence[LessonOrigin]]
    lessons: Mapping[ExperienceId, str]
    """Texts of lessons that proposals and origins name, as far as the store has them."""
    store: Path

    @classmethod
    def read(cls, reader: StoreReader, row: RunRow) -> "LearnRecord":
        """Read a run that has a report. Raises ConfigError."""
        report = stored_report(row)
        rollouts, proposals = tuple(reader.trajectories(row.run)), tuple(reader.proposals(row.run))
        inputs = reader.run_inputs(row.run)
        library = _library(reader, report.selection.selected if report.selection else report.library.version)
        known = [group.task for group in groups_of(reader, row)]
        tasks = reader.tasks(list(dict.fromkeys(known)))
        return cls(
            row=row,
            report=report,
            settings=json.loads(row.settings) if row.settings else {},
            rollouts=rollouts,
            groups=tuple(_groups(reader, row, rollouts, proposals, tasks)),
            families=tuple(_families(rollouts, tasks)),
            proposals=proposals,
            problems={task.id: task.problem for task in tasks.values()},
            library=library,
            start=inputs.library if inputs else None,
            origins=origins_in(reader, library) if library else {},
            lessons=_lessons(reader, proposals, library),
            store=reader.directory,
        )

    @property
    def mark(self) -> str:
        """The label of its figures: `simulated`, `lab model`, or none for a real model."""
        from agentlearn.config import is_lab

        return "simulated" if self.report.simulated else "lab model" if is_lab(self.row.model) else ""


def stored_report(row: RunRow) -> LearnReport:
    """The report of a learn run that has one. Raises ConfigError for a report that another version wrote."""
    try:
        return LearnReport.model_validate_json(row.report)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "it"
        raise ConfigError(
            f"the report of run {row.run!r} cannot be read, because agentlearn {row.package_version!r} wrote it in"
            f" another form ({field}: {first['msg']}); use that version, or run it again",
            code="unread_report",
        ) from error


def _library(reader: StoreReader, version: LibraryVersion) -> Library | None:
    try:
        return reader.library(version) if version else None
    except AgentlearnError:
        return None


def _groups(
    reader: StoreReader,
    row: RunRow,
    rollouts: Iterable[TrajectoryRow],
    proposals: Iterable[ProposalRow],
    tasks: Mapping[TaskId, Task],
) -> Iterable[PageGroup]:
    members = defaultdict[tuple[str, int, str], list[TrajectoryRow]](list)
    for one in rollouts:
        members[one.phase, one.batch, one.task].append(one)
    ends = defaultdict[tuple[str, int, str], Counter[str]](Counter)
    for proposal in proposals:
        if (task := proposal.ended.proposal.task) is not None:
            ends[proposal.phase, proposal.batch, task][proposal.ended.end.end] += 1
    for group in groups_of(reader, row):
        if not group.phase.startswith(EPOCH):
            continue
        key = (group.phase, group.batch, group.task)
        found = members[key]
        decided = [one for one in found if one.reward is not None]
        yield PageGroup(
            phase=group.phase,
            batch=group.batch,
            task=group.task,
            problem=tasks[group.task].problem if group.task in tasks else "",
            rewards=tuple(one.reward for one in found),
            failed=bool(decided) and all(one.outcome == "failed" for one in decided),
            ends=dict(ends[key]),
        )


def _families(rollouts: Iterable[TrajectoryRow], tasks: Mapping[TaskId, Task]) -> Iterable[FamilyScore]:
    """Scores by family, of the rollouts that are decided both before and after. A task counts once."""
    sides: dict[str, dict[tuple[TaskId, int], float | None]] = {"before": {}, "after": {}}
    for one in rollouts:
        if one.phase in sides and one.task in tasks:
            sides[one.phase][one.task, one.g] = one.reward
    pairs = defaultdict[TaskId, list[tuple[float, float]]](list)
    for key, before in sides["before"].items():
        after = sides["after"].get(key)
        if before is not None and after is not None:
            pairs[key[0]].append((before, after))
    by_family = defaultdict[str, list[tuple[float, float]]](list)
    for task, found in pairs.items():
        means = [sum(side) / len(found) for side in zip(*found, strict=True)]
        by_family[tasks[task].family].append((means[0], means[1]))
    for family in sorted(by_family):
        scores = by_family[family]
        before, after = (sum(side) / len(scores) for side in zip(*scores, strict=True))
        yield FamilyScore(family=family, tasks=len(scores), before=before, after=after)


def _lessons(reader: StoreReader, proposals: Iterable[ProposalRow], library: Library | None) -> dict[ExperienceId, str]:
    named: dict[ExperienceId, None] = {}
    for one in proposals:
        operation = one.ended.proposal.operation
        named.update(dict.fromkeys(getattr(operation, "targets", ())))
        if target := getattr(operation, "target", None):
            named[target] = None
    for experience in library.experiences if library else ():
        named.update(dict.fromkeys(experience.origin.parents))
    return {one.id: one.lesson for one in reader.experiences(list(named))} if named else {}


_ALWAYS = ("model", "seed")
"""Settings that the command names even where they are the default, because a default can change."""
_NO_OPTIONS = ("domain", "api_key", "private_addresses", "given")


def run_command(row: RunRow, start: str | None) -> str:
    """The command with every option that it needs to get the same settings; empty when there is none.

    start: the version that the run started from, which the command names: the library of its name has changed since.
    There is none for a run that a program gave objects to, and for settings that no command gives on this machine.
    """
    try:
        settings = LearnSettings.model_validate_json(row.settings)
        if settings.given or settings.private_addresses:
            return ""
        what, options = _words(settings)
        again = learn_settings(learn_fields(what, GivenSettings(options)))
    except (AgentlearnError, ValidationError, ValueError, OSError):
        return ""
    if again != settings:
        return ""
    if settings.library is None and start is not None:
        none = start == EMPTY_LIBRARY.version
        options["library"] = NO_LIBRARY if none else f"{settings.library_name}@{start[:12]}"
    return shlex.join(["agentlearn", "learn", what, *_arguments(options)])


def _words(settings: LearnSettings) -> tuple[str, dict[str, Any]]:
    """What the command learns from, and the settings to give as options."""
    own_tasks = settings.reward is not None and settings.data is not None
    what = str(settings.data) if own_tasks else settings.domain
    first = {"reward": settings.reward} if own_tasks else {}
    first |= {"from_store": True} if settings.from_store else {}
    usual = learn_settings(learn_fields(what, GivenSettings(first)))
    fields = [name for name in LearnSettings.model_fields if name not in _NO_OPTIONS]
    needed = [name for name in fields if name in _ALWAYS or getattr(settings, name) != getattr(usual, name)]
    if own_tasks:
        needed = [name for name in needed if name != "data"]
        if settings.domain != usual.domain:
            needed.append("name")
    return what, first | {name: getattr(settings, name) for name in needed}


def _arguments(options: dict[str, Any]) -> list[str]:
    arguments: list[str] = []
    for field, value in options.items():
        option = OPTION_NAMES.get(field, f"--{field.replace('_', '-')}")
        match value:
            case True:
                arguments.append(option)
            case False:
                arguments.append(f"--no-{option.removeprefix('--')}")
            case None:
                arguments += [option, "none"]
            case tuple():
                arguments += [word for one in value for word in (option, str(one))]
            case _:
                arguments += [option, str(value)]
    return arguments
