"""What the card of a library says, read from the store: the runs that made its lessons, and their results."""

import json
from collections.abc import Iterator
from pathlib import Path

from agentlearn.cli.held_out import verdict_words
from agentlearn.cli.output import change_words, count_words, score_words
from agentlearn.cli.pages.learn_record import run_command, stored_report
from agentlearn.cli.show.lessons import origins_in
from agentlearn.config import is_lab
from agentlearn.config.command_words import command_words
from agentlearn.domain.base import installed_domains, load_domain
from agentlearn.errors import AgentlearnError, StoreError
from agentlearn.learning.report import LearnReport
from agentlearn.library.audit import CardFacts, CardRun, LibraryAudit
from agentlearn.store import RunRow, StoreReader, read_store
from agentlearn.types.experience import Library

_MOST_RUNS = 1_000_000


def card_facts(store: Path, reference: str, library: Library, audit: LibraryAudit) -> CardFacts:
    """The facts about one version. A library that is a file may come from a store that is not here."""
    runs: tuple[CardRun, ...] = ()
    try:
        with read_store(store) as reader:
            runs = tuple(_runs(reader, library))
    except StoreError:  # a library in a file needs no store
        runs = ()
    is_file = reference.endswith(".json") or "/" in reference
    name = reference if is_file else reference.partition("@")[0] or library.version[:8]
    arm = reference if is_file else f"{reference.partition('@')[0]}@{library.version[:12]}"
    made = next((run for run in runs if run.made_this), None)
    options = ["--domain", made.domain, "--model", made.model] if made else []
    return CardFacts(name, library, audit, runs, command_words("compare", "none", arm, *options, store=store))


def learned_from(store: Path, library: Library) -> str:
    """What the lessons were learned from, in words that follow `lessons for`; empty when the store does not know it."""
    try:
        with read_store(store) as reader:
            runs = {one.domain: one for one in _runs(reader, library)}
            sources = {one.domain: _source(reader, one.run) for one in runs.values()}
    except StoreError:  # the lessons may come from a store that is not here
        return ""
    named: list[str] = []
    for domain in runs:
        source, about = sources[domain], _about(domain)
        like = f"like those of {Path(source).name}" if source else ""
        named.append(f"{domain} tasks{' ' if like else ''}{like}{f' ({about})' if about else ''}")
    return " and ".join(named)


def _about(domain: str) -> str:
    """What an installed domain says it is about, up to its first semicolon; empty for own tasks."""
    try:
        return load_domain(domain).description.partition(";")[0].strip() if domain in installed_domains() else ""
    except AgentlearnError:  # a broken package must not prevent an export
        return ""


def _source(reader: StoreReader, run: str) -> str:
    """The source of the tasks of a run; empty for those of its domain."""
    return str(json.loads(reader.run(run).settings).get("data") or "")


def _runs(reader: StoreReader, library: Library) -> Iterator[CardRun]:
    """The learn runs that made this version or one of its lessons, oldest first."""
    made = {origin.run for origins in origins_in(reader, library).values() for origin in origins}
    rows = [row for row in reader.runs(limit=_MOST_RUNS) if row.kind == "learn"]
    for row in sorted(rows, key=lambda one: (one.started_at, one.run)):
        report = stored_report(row) if row.report else None
        chosen = None if report is None else report.selection
        made_this = chosen is not None and chosen.selected == library.version and chosen.status != "unchanged"
        if made_this or row.run in made:
            inputs = reader.run_inputs(row.run)
            yield _run(row, report, None if inputs is None else inputs.library, made_this=made_this)


def _run(row: RunRow, report: LearnReport | None, start: str | None, *, made_this: bool) -> CardRun:
    settings = json.loads(row.settings or "{}")
    return CardRun(
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
        command=run_command(row, start),
    )


def _gain(report: LearnReport) -> str:
    """The result on held-out tasks; empty when before and after were not both measured."""
    before, after, delta = report.before, report.after, report.delta
    if before is None or after is None or delta is None or not delta.compared:
        return ""
    verdict = verdict_words(delta.verdict, withheld=delta.withheld, left_open=delta.left_open, ci=delta.ci)
    verdict += f" because {delta.left_open}" if delta.left_open else ""
    change = change_words(delta.mean, delta.ci)
    scores = f"{score_words(before.mean)} to {score_words(after.mean)}"
    size = f"{count_words(delta.n, 'held-out task')}, {count_words(after.k, 'rollout')} each"
    lab = "on a tiny lab model, " if is_lab(report.model) and not report.simulated else ""
    return f"{lab}{verdict}, {change} (95 % interval), from {scores} on {size}, against the library at its start"
