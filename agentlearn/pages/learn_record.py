"""Learn runs read from the store: all that the page of a run shows, and what the card of a library says about runs."""

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentlearn.config import LEARN_OPTION_NAMES, GivenSettings, LearnSettings, is_lab, learn_settings
from agentlearn.config.defaults import command_words
from agentlearn.domain.base import installed_domains, load_domain
from agentlearn.domain.chosen_settings import learn_fields
from agentlearn.errors import AgentlearnError, StoreError
from agentlearn.learning.report import LearnReport
from agentlearn.library import NO_LIBRARY
from agentlearn.library.audit import LibraryAudit
from agentlearn.library.card import CardRun, LibraryCard
from agentlearn.library.history.change_log import names_file
from agentlearn.pages.figure import change_words, count_words, score_words
from agentlearn.pages.lesson_origins import LessonOrigin, origins_in
from agentlearn.pages.records import GroupRow, group_rows, operation_parts
from agentlearn.pages.runs import delta_verdict, stored_report
from agentlearn.store import ProposalRow, RunRow, StoreReader, TrajectoryRow, read_store
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, TaskId
from agentlearn.types.task import Task

EPOCH = "epoch-"
"""How the names of phases start in which a run learns."""


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
    groups: tuple[GroupRow, ...]
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
        version = report.selection.selected if report.selection else report.library.version
        try:
            library = reader.library(version) if version else None
        except AgentlearnError:
            library = None
        groups = group_rows(reader, row, rollouts, proposals)
        tasks = reader.tasks(list(dict.fromkeys(group.task for group in groups)))
        return cls(
            row=row,
            report=report,
            settings=json.loads(row.settings) if row.settings else {},
            rollouts=rollouts,
            groups=tuple(one for one in groups if one.phase.startswith(EPOCH)),
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
        return "simulated" if self.report.simulated else "lab model" if is_lab(self.row.model) else ""


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
    named = dict.fromkeys(parent for one in (library.experiences if library else ()) for parent in one.origin.parents)
    for operation in (one.ended.proposal.operation for one in proposals):
        named |= dict.fromkeys(operation_parts(operation, "")[1])
    return {one.id: one.lesson for one in reader.experiences(list(named))} if named else {}


_ALWAYS = ("model", "seed")
"""Settings that the command names even where they are the default, because a default can change."""
_NO_OPTIONS = ("domain", "api_key", "private_addresses", "given", "served_at")


def run_command(row: RunRow, start: str | None) -> str:
    """The command with every option that it needs to get the same settings; empty when there is none.

    start: the version that the run started from, which the command names: the library of its name has changed since.
    There is none for a run that a program gave objects to, and for settings that no command gives on this machine.
    """
    try:
        settings = LearnSettings.model_validate_json(row.settings)
        if settings.given or settings.private_addresses:
            return ""
        own_tasks = settings.reward is not None and settings.data is not None
        what = str(settings.data) if own_tasks else settings.domain
        first = {"reward": settings.reward} if own_tasks else {}
        first |= {"from_store": True} if settings.from_store else {}
        usual = learn_settings(learn_fields(what, GivenSettings(first)))
        fields = [name for name in LearnSettings.model_fields if name not in _NO_OPTIONS]
        needed = [name for name in fields if name in _ALWAYS or getattr(settings, name) != getattr(usual, name)]
        if own_tasks:
            needed = [name for name in needed if name != "data"]
            needed += ["name"] if settings.domain != usual.domain else []
        options: dict[str, Any] = first | {name: getattr(settings, name) for name in needed}
        for name in {"model", "reflector"} & options.keys():
            options[name] = settings.served_at.get(options[name], options[name])
        if "prompt" in options:  # the files are read again: they may have changed
            options["prompt"] = tuple(f"{stage}={one.file}" for stage, one in settings.prompt.items())
        again = learn_settings(learn_fields(what, GivenSettings(options)))
    except (AgentlearnError, ValidationError, ValueError, OSError):
        return ""
    if again != settings:
        return ""
    if settings.library is None and start is not None:
        none = start == EMPTY_LIBRARY.version
        options["library"] = NO_LIBRARY if none else f"{settings.library_name}@{start[:12]}"
    words = ["agentlearn", "learn", what]
    for field, value in options.items():
        option = LEARN_OPTION_NAMES.get(field, f"--{field.replace('_', '-')}")
        match value:
            case True:
                words.append(option)
            case False:
                words.append(f"--no-{option.removeprefix('--')}")
            case None:
                words += [option, "none"]
            case tuple():
                words += [word for one in value for word in (option, str(one))]
            case _:
                words += [option, str(value)]
    return shlex.join(words)


def library_card(
    store: Path, reference: str, library: Library, audit: LibraryAudit, opened: StoreReader | None = None
) -> LibraryCard:
    """The facts about one version. A library that is a file may come from a store that is not here.

    opened: the store, where it is open.
    """
    runs: tuple[CardRun, ...] = ()
    try:
        with nullcontext(opened) if opened is not None else read_store(store) as reader:
            runs = tuple(_card_runs(reader, library))
    except StoreError:  # a library in a file needs no store
        runs = ()
    is_file = names_file(reference)
    name = reference if is_file else reference.partition("@")[0] or library.version[:8]
    arm = reference if is_file else f"{reference.partition('@')[0]}@{library.version[:12]}"
    made = next((run for run in runs if run.made_this), None)
    options = ["--domain", made.domain, "--model", made.model] if made else []
    return LibraryCard(name, library, audit, runs, command_words("compare", "none", arm, *options, store=store))


def learned_from(store: Path, library: Library) -> str:
    """What the lessons were learned from, in words that follow `lessons for`; empty when the store does not know it."""
    try:
        with read_store(store) as reader:
            runs = {one.domain: one for one in _card_runs(reader, library)}
            settings = {one.domain: json.loads(reader.run(one.run).settings) for one in runs.values()}
            sources = {domain: str(given.get("data") or "") for domain, given in settings.items()}
    except StoreError:  # the lessons may come from a store that is not here
        return ""
    named: list[str] = []
    for domain in runs:
        about = ""
        with suppress(AgentlearnError):  # a broken package must not prevent an export
            about = load_domain(domain).description.partition(";")[0].strip() if domain in installed_domains() else ""
        like = f" like those of {Path(sources[domain]).name}" if sources[domain] else ""
        named.append(f"{domain} tasks{like}{f' ({about})' if about else ''}")
    return " and ".join(named)


def _card_runs(reader: StoreReader, library: Library) -> Iterator[CardRun]:
    """The learn runs that made this version or one of its lessons, oldest first."""
    made = {origin.run for origins in origins_in(reader, library).values() for origin in origins}
    rows = [row for row in reader.runs(limit=1_000_000) if row.kind == "learn"]
    for row in sorted(rows, key=lambda one: (one.started_at, one.run)):
        report = stored_report(row) if row.report else None
        chosen = None if report is None else report.selection
        made_this = chosen is not None and chosen.selected == library.version and chosen.status != "unchanged"
        if made_this or row.run in made:
            inputs, settings = reader.run_inputs(row.run), json.loads(row.settings or "{}")
            yield CardRun(
                run=row.run,
                domain=row.domain,
                model=row.model,
                reflector=str(settings.get("reflector") or row.model) if report is None else report.reflector,
                simulated=row.simulated or (report is not None and report.simulated),
                tasks=0 if report is None else report.tasks.get("train", 0),
                rollouts=0 if report is None else sum(report.rollouts.values()),
                at=row.at,
                made_this=made_this,
                gain="" if report is None else _gain(report),
                command=run_command(row, None if inputs is None else inputs.library),
            )


def _gain(report: LearnReport) -> str:
    """The result on held-out tasks; empty when before and after were not both measured."""
    before, after, delta = report.before, report.after, report.delta
    if before is None or after is None or delta is None or not delta.compared:
        return ""
    verdict = delta_verdict(delta)
    verdict += f" because {delta.left_open}" if delta.left_open else ""
    change = change_words(delta.mean, delta.ci)
    scores = f"{score_words(before.mean)} to {score_words(after.mean)}"
    size = f"{count_words(delta.n, 'held-out task')}, {count_words(after.k, 'rollout')} each"
    lab = "on a tiny lab model, " if is_lab(report.model) and not report.simulated else ""
    return f"{lab}{verdict}, {change} (95 % interval), from {scores} on {size}, against the library at its start"
