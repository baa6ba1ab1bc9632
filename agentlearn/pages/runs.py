"""One run as text: how it ended, its main numbers, then every value that the store holds about it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from agentlearn.config.defaults import command_words
from agentlearn.errors import ConfigError
from agentlearn.learning.report import (
    FIRST_LESSONS,
    Delta,
    HeldOutScore,
    LearnReport,
    SelectedVersion,
    VersionLine,
)
from agentlearn.measure.contrast import ContrastVerdict
from agentlearn.pages.figure import (
    change_words,
    clock_time,
    count,
    count_words,
    decimal,
    large,
    money,
    price_words,
    score_words,
)
from agentlearn.pages.records import operation_words
from agentlearn.pages.table import Table, TableCell, box, number_cells, sheet
from agentlearn.pages.terminal import (
    EndPart,
    labelled,
    labelled_command,
    labelled_lines,
    part_lines,
    stage_table,
)
from agentlearn.plugins import announced, load
from agentlearn.store import ProposalRow, RunRow, StoreReader, TrajectoryRow
from agentlearn.text import visible_line
from agentlearn.types.rendering import headline
from agentlearn.types.trajectory import prompt_labels
from agentlearn.types.value import Value, first_fault

if TYPE_CHECKING:
    from agentlearn.train.report import TrainReport

_Report = TypeVar("_Report", bound=Value)
PAGES = "agentlearn.pages"
"""Group of entry points: the content of the report page of a kind of run, from its row. A method `end` makes
the parts that the run's command printed last, from the row and the store."""
_VERDICTS: dict[ContrastVerdict, str] = {
    "better": "better",
    "worse": "WORSE than before",
    "no_worse": "no worse",
    "cannot_tell": "no detectable change",
}


def held_out_verdict(
    verdict: ContrastVerdict, *, withheld: str = "", left_open: str = "", ci: Sequence[float] | None = None
) -> str:
    """Return a result as people read it: its verdict, or how little is known without one. Fields of `Delta`."""
    if withheld:
        return "no verdict"
    if left_open:
        return "cannot tell"
    return "not certain" if verdict == "cannot_tell" and ci and (ci[0] > 0 or ci[1] < 0) else _VERDICTS[verdict]


def delta_verdict(delta: Delta) -> str:
    """The same of a difference before and after."""
    return held_out_verdict(delta.verdict, withheld=delta.withheld, left_open=delta.left_open, ci=delta.ci)


def held_out_lines(report: "LearnReport | TrainReport") -> Iterator[str]:
    """Yield the lines of a run that measured before and after. The first holds the verdict."""
    before, after, delta = report.before, report.after, report.delta
    if before is None or after is None or delta is None:
        return
    if not delta.compared:
        yield f"{score_words(before.mean)}   {delta.sentence}"
        yield from _not_counted([("", before)])
        return
    verdict = delta_verdict(delta)
    if delta.withheld:
        yield delta.withheld
    if delta.left_open:
        yield f"{verdict}: {delta.left_open}"
        verdict = "without them"
    yield f"{verdict}: {_change(before, after, delta)}   {_size(delta, f' x {after.k}')}"
    if delta.worst is not None and (before.undecided or after.undecided) and not delta.left_open:
        low, high = delta.worst.low, delta.worst.high
        yield f"bounds {low:+.2f} to {high:+.2f}, whatever the undecided rollouts would have been"
    yield from _not_counted([(" before", before), (" after", after)])
    shared = {one.k: one.at_least_one for one in before.passes}
    largest = max((one for one in after.passes if one.k in shared and one.k > 1), key=lambda one: one.k, default=None)
    if largest is not None:
        yield f"pass@{largest.k} {score_words(shared[largest.k])} → {score_words(largest.at_least_one)}"
    for part in (report.known_families, report.unseen_families, *report.test_sets):
        if part is not None:
            change = _change(part.before, part.after, part.delta, with_p=False)
            yield f"{part.name} {change}   {_size(part.delta)}"


def _change(before: HeldOutScore, after: HeldOutScore, delta: Delta, *, with_p: bool = True) -> str:
    scores = f"{score_words(before.mean)} → {score_words(after.mean)}"
    return f"{scores}   {change_words(delta.mean, delta.ci, delta.p if with_p else None)}"


def size_words(tasks: int, families: int) -> str:
    """A number of tasks, with that of their families where it is smaller: `60 tasks in 10 families`."""
    return count_words(tasks, "task") + (f" in {count_words(families, 'family')}" if 0 < families < tasks else "")


def _size(delta: Delta, repeats: str = "") -> str:
    """The number of tasks, and the cautions in short; the report has them in full."""
    one_family = f"{count_words(delta.n, 'task')}, all of {delta.only_family!r}"
    size = one_family if delta.only_family else size_words(delta.n, delta.clusters)
    units = count_words(delta.clusters, "family" if delta.clusters < delta.n else "task")
    said = [f"with {units} the interval may be too narrow"] if delta.caution and delta.ci is not None else []
    said += [delta.carried] if delta.carried else []
    caution = f"   caution: {'; '.join(said)}" if said and not delta.withheld else ""
    return f"{size}{repeats}{caution}"


def _not_counted(sides: Sequence[tuple[str, HeldOutScore]]) -> Iterator[str]:
    """Yield the counts of undecided and of failed rollouts, where there are any."""
    counts = {
        "undecided (left out)": [(side, one.undecided, one.rollouts) for side, one in sides],
        "failed to answer (counted as 0)": [(side, one.failed, one.rollouts) for side, one in sides],
    }
    codes = sorted({code for _, one in sides for code in one.errors})
    for words, found in counts.items():
        if any(count for _, count, _ in found):
            yield f"{words}: {', '.join(f'{n} of {all_}{side}' for side, n, all_ in found)}   {', '.join(codes)}"


def command_of(run: RunRow) -> str:
    """The command that made a run. Those of kind `eval` come from two: `compare` has several arms, or models."""
    settings: dict[str, Any] = json.loads(run.settings or "{}") if run.kind == "eval" else {}
    several = max(len(settings.get(name) or ()) for name in ("arms", "models")) > 1
    return "compare" if several else run.kind


def result_words(report: str) -> str:
    """The main result of a run, from its report as JSON; empty when there is none. It begins with two spaces."""
    if not report:
        return ""
    loaded = json.loads(report)
    if loaded.get("contrasts") is not None:
        pairwise = any(one["baseline"] != loaded["baseline"] for one in loaded["contrasts"])
        names = [f"{one['arm']} - {one['baseline']}" if pairwise else one["arm"] for one in loaded["contrasts"]]
        verdicts = [one["verdict"].replace("_", " ") for one in loaded["contrasts"]]
        return "  " + ", ".join(f"{name} {verdict}" for name, verdict in zip(names, verdicts, strict=True))
    if loaded.get("pilot"):
        return f"  pilot of {loaded['pilot']['tasks']} tasks"
    delta = loaded.get("delta")
    if not delta or delta["mean"] is None:
        return ""
    open_words = {name: delta.get(name) or "" for name in ("withheld", "left_open")}
    verdict = held_out_verdict(delta["verdict"], **open_words, ci=delta["ci"])
    return f"  {verdict}" if any(open_words.values()) else f"  {verdict} {delta['mean']:+.2f}"


def end_reason(reader: StoreReader, run: RunRow) -> str:
    """Why a run failed or was interrupted; empty for a run that is done or running."""
    if run.state in {"done", "running"}:
        return ""
    failure = reader.run_failure(run)
    if failure is not None:
        return f"{failure.code}: {failure.message}"
    if run.state == "interrupted":
        return "its process ended before it could say why, as after a kill or a power failure"
    return "the reason was not recorded"


def next_step(reader: StoreReader, run: RunRow) -> str:
    """What a user can do with a run."""
    store = reader.directory
    if run.state == "running":
        return f"wait for it; what is stored so far: {command_words('trace', run.run, store=store)}"
    if run.state == "done":
        trace = command_words("trace", run.run, store=store)
        if run.kind != "eval":
            return trace
        return f"{trace}   as files: the same command with --out tables.md or rollouts.csv, which makes nothing again"
    if run.kind in {"learn", "train"}:
        first = "" if run.state == "interrupted" else "correct the cause, then  "
        return f"{first}{command_words(run.kind, '--resume', run.run, store=store)}"
    if run.kind == "eval":
        return "give the same `agentlearn compare` command again; its finished rollouts are used again"
    return f"give the same `agentlearn {'store import' if run.kind == 'import' else run.kind}` command again"


def _shown_by(words: str, store: Path | None, *command: str) -> str:
    """The words with the command that shows more; without it where the store is not known."""
    return words if store is None else f"{words}      {command_words(*command, store=store)}"


def _library_words(report: LearnReport, store: Path | None) -> str:
    """The library that a run wrote, with the command that shows it; or the reason why it wrote none."""
    library, selection, proposals = report.library, report.selection, report.proposals
    version, lessons = (
        f"{library.name}@{library.version[:8]}",
        count_words(library.lessons, "section" if library.document else "lesson"),
    )
    if selection is not None and selection.status == "pending":
        return f"{version}  {lessons}, pending: to publish it anyway      {selection.command}"
    if library.current == library.version:
        words = f"{version}  {lessons}, {library.tokens} tokens (estimated)"
        return _shown_by(words, store, "library", "show", version)
    refused, unused = sum(proposals.rejected.values()), sum(proposals.dropped.values())
    why = "the comparisons proposed nothing"
    if proposals.applied:
        why = f"version {library.version[:8]} was not published"
    elif waiting := sum(proposals.quarantined.values()):
        why = f"no proposal was applied ({waiting} quarantined, {refused} refused, {unused} not used)"
    elif refused or unused:
        why = f"no proposal was applied ({refused} refused, {unused} not used)"
    elif not report.taught.groups:
        why = "no task had rollouts with different rewards or a word on what was wanted, so there was nothing to learn"
    why = f"no library was written: {why}"
    if selection is not None and selection.status == "unchanged" and selection.last != selection.selected:
        why = "nothing was published: no version that was learned is better than the start"
    if library.current is None:
        return why
    current = f"{library.name}@{library.current[:8]}"
    stays = f"{why}; {library.name} stays at version {library.current[:8]}"
    return _shown_by(stays, store, "library", "show", current)


def _selection_words(selection: SelectedVersion, versions: Sequence[VersionLine]) -> str:
    """Which version a run selected, and why, or why it is not published."""
    updates = next((one.updates for one in versions if one.version == selection.selected), 0)
    after = f"made after {count_words(updates, 'update')}" if updates else "the library at the start"
    if selection.status == "unchanged":
        after = "the library at the start"
    verdict = "NOT published: " if selection.status == "pending" else ""
    return f"version {selection.selected[:8]}, {after}: {verdict}{selection.reason}"


def learn_end(report: LearnReport, store: Path | None = None) -> Iterator[EndPart]:
    """The end of a learn run, as it is printed when it ends and by `runs show` and `print`: the verdict first.

    store: for the commands that show more; None: there are none.
    """
    yield from labelled_lines("held out", held_out_lines(report))
    if report.pilot is None:
        yield "library", _library_words(report, store)
        if report.library.document and store is not None and report.library.current is not None:
            name, out = report.library.name, f"{Path(report.library.document).stem}.md"
            yield "changes", command_words("library", "diff", name, store=store)
            how = ("--out", out, "--format", "document")
            yield "write it", command_words("library", "export", name, *how, store=store)
        lessons = (visible_line(headline(one.lesson)) for one in report.lessons[:FIRST_LESSONS])
        yield from labelled_lines("lessons", lessons)
        if (more := len(report.lessons) - FIRST_LESSONS) > 0:
            yield "", f"and {more} more, which rest on fewer rollouts"
    else:
        yield from labelled_lines("pilot", report.pilot.lines())
    if report.selection is not None:
        yield "selection", _selection_words(report.selection, report.versions)
    yield "weights", f"{report.weights.identity}: {report.weights.note}"
    yield "taught", report.taught.words
    ends = report.proposals
    for label, codes in (("refused", ends.rejected), ("not used", ends.dropped)):
        if codes:
            yield label, _counts(codes)
    if waiting := sum(ends.quarantined.values()):
        verb = "waits" if waiting == 1 else "wait"
        words = f"{count_words(waiting, 'proposal')} {verb} for a person's decision and changed nothing"
        words += f" ({_counts(ends.quarantined)})"
        yield "quarantine", _shown_by(words, store, "library", "pending", "--run", report.run)
    if (made := report.allocated).drawn < made.planned:
        groups = f"{count_words(made.stopped, 'group')} needed no more than the first attempts"
        visits = f"skipped {count_words(made.skipped, 'visit')} to tasks that were all right when last seen"
        saved = [f"{groups} ({made.saved:,} rollouts)"] if made.stopped else []
        why = " and ".join([*saved, visits] if made.skipped else saved)
        yield "rollouts", f"{made.drawn:,} of {made.planned:,} planned to learn from{f': {why}' if why else ''}"
    cost = price_words(report.cost_usd or (0.0 if report.simulated else report.cost_usd))
    calls = sum(stage.calls for stage in report.stages.values())
    yield "spent", f"{cost} for {calls:,} model calls in {clock_time(report.wall_s)}"
    if (table := stage_table(report.stages)) is not None:
        yield table
    for stage, line in report.stages.items():
        if line.malformed:
            yield "malformed", f"{stage}: {_counts(line.malformed)}"
    yield from (("note", note) for note in report.notes)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{code} {count:,}" for code, count in counts.items())


def train_end(report: "TrainReport") -> Iterator[EndPart]:
    """The end of a training run, as it is printed when it ends and by `runs show`: the verdict first."""
    yield from labelled_lines("held out", held_out_lines(report))
    weights, turns = report.weights, report.turns
    unpublished = "" if weights.published else " (a checkpoint; not published)"
    yield "weights", f"{weights.sha256_before[:12]} → {weights.sha256_after[:12]}      {weights.path}{unpublished}"
    if weights.published:
        yield "use them", f"agentlearn solve {report.domain} PROBLEM --model local:{weights.path}"
    tokens = sum(one.tokens for one in report.updates)
    yield "updates", f"{len(report.updates)} with {report.loss}, {tokens:,} trained tokens"
    yield "turns", f"{turns['clean']:,} continue the exact tokens before them, {turns['forked']:,} do not"
    parts = ", ".join(f"{name} {clock_time(seconds)}" for name, seconds in report.seconds.items())
    wall = clock_time(report.wall_s)
    yield "time", f"{wall} since the resume; all updates: {parts}" if report.resumed else f"{wall}, of which {parts}"
    yield from (("note", note) for note in report.notes)


def stored_report(row: RunRow) -> LearnReport:
    """The report of a learn run that has one. Raises ConfigError for a report that another version wrote."""
    return _read_report(LearnReport, row)


def _read_report(kind: type[_Report], row: RunRow) -> _Report:
    try:
        return kind.model_validate_json(row.report)
    except ValidationError as error:
        raise ConfigError(
            f"the report of run {row.run!r} cannot be read, because agentlearn {row.package_version!r} wrote it in"
            f" another form ({first_fault(error)}); use that version, or run it again"
        ) from error


def _end_of(reader: StoreReader, row: RunRow) -> Iterator[EndPart]:
    """The end of a stored run; nothing for a run without a report."""
    if not row.report:
        return
    try:
        match row.kind:
            case "learn":
                yield from learn_end(stored_report(row), reader.directory)
            case "train":
                from agentlearn.train.report import TrainReport

                yield from train_end(_read_report(TrainReport, row))
            case _:
                plugin = announced(PAGES).get(row.kind)
                if plugin is not None and (end := getattr(load(plugin, "page"), "end", None)) is not None:
                    yield from end(row, reader.directory)
    except ConfigError as error:  # its values are still shown
        yield "report", str(error)


def phase_table(rollouts: Sequence[TrajectoryRow]) -> Table:
    """A row per phase of a run: its rollouts, their mean reward, and what they cost."""
    phases = dict.fromkeys(one.phase for one in rollouts)
    names = "Phase, #Rollouts, #Mean reward, #Failed, #Undecided, #Tokens in, #Tokens out, #Cost, #Time"
    rows = (_phase(phase, [one for one in rollouts if one.phase == phase]) for phase in phases)
    return sheet("Rollouts by phase", names, rows)


def _phase(phase: str, members: Sequence[TrajectoryRow]) -> tuple[TableCell, ...]:
    rewards = [one.reward for one in members if one.reward is not None]
    costs = [one.cost_usd for one in members if one.cost_usd is not None]
    outcomes = Counter(one.outcome for one in members)
    return (
        box(phase),
        *number_cells(count, len(members)),
        *number_cells(decimal, sum(rewards) / len(rewards) if rewards else None),
        *number_cells(count, outcomes["failed"], outcomes["undecided"]),
        *number_cells(large, sum(one.tokens_in for one in members), sum(one.tokens_out for one in members)),
        *number_cells(money, sum(costs) if len(costs) == len(members) else None),
        *number_cells(clock_time, sum(one.seconds for one in members)),
    )


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run with its rollouts and its proposals."""

    row: RunRow
    rollouts: Sequence[TrajectoryRow]
    proposals: Sequence[ProposalRow]
    reason: str
    """Why it failed or was interrupted; empty otherwise."""
    next_step: str
    main_lines: tuple[str, ...]
    """The main numbers of the report as text."""
    store: Path
    """Directory of the store that it was read from."""
    unmatched_feedback: int = 0
    """Feedback to the recorder of a live run that names a rollout or an episode that the store does not hold."""

    @classmethod
    def read(cls, reader: StoreReader, run: str) -> "RunRecord":
        """Read the run whose id starts with `run`."""
        row = reader.run(run)
        return cls(
            row=row,
            rollouts=reader.trajectories(row.run),
            proposals=reader.proposals(row.run),
            reason=end_reason(reader, row),
            next_step=next_step(reader, row),
            main_lines=tuple(line for line, _ in part_lines(_end_of(reader, row), indent=0, columns=80)),
            store=reader.directory,
            unmatched_feedback=reader.unmatched_feedback(row.domain) if row.kind == "live" else 0,
        )

    def as_json(self) -> dict[str, Any]:
        """The record for JSON output."""
        return {
            "run": run_json(self.row),
            "reason": self.reason or None,
            "next": self.next_step,
            "rollouts": [asdict(one) for one in self.rollouts],
            "unmatched_feedback": self.unmatched_feedback,
        }

    def lines(self, columns: int | None = None) -> Iterator[str]:
        """The record as text: how it ended, its main numbers, and the command for every value.

        columns: of the terminal, for the table of rollouts.
        """
        row = self.row
        simulated = " (simulated)" if row.simulated else ""
        yield labelled("run", f"{row.run}  {command_of(row)} {row.domain} with {row.model}{simulated}")
        times = f"started {row.started_at:%Y-%m-%d %H:%M:%S}, latest event {row.at:%Y-%m-%d %H:%M:%S}"
        yield labelled("state", f"{row.state}, {times}, agentlearn-lib {row.package_version}")
        if self.reason:
            yield labelled("why", self.reason)
        yield labelled_command("next", self.next_step)
        yield from self.main_lines
        if self.rollouts:
            yield from (line for line, _ in part_lines([phase_table(self.rollouts)], indent=0, columns=columns))
        if self.unmatched_feedback:
            missed = self.unmatched_feedback
            yield labelled("feedback", f"{missed} more to {row.domain!r}, about rollouts that the store does not hold")
        yield from _applied_lines(self.proposals)
        yield labelled_command("values", command_words("runs", "show", row.run, "--json", store=self.store))


def run_json(row: RunRow) -> dict[str, Any]:
    """A run with times as ISO texts, and with settings and report parsed."""
    fields = asdict(row).items()
    texts = {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in fields}
    for key in ("settings", "report"):
        texts[key] = json.loads(texts[key]) if texts.get(key) else None
    return texts


def _applied_lines(proposals: Sequence[ProposalRow]) -> Iterator[str]:
    for one in proposals:
        proposal, operation = one.ended.proposal, one.ended.proposal.operation
        if one.ended.end.end == "applied" and operation is not None:
            source = f"{len(proposal.evidence)} rollouts, {prompt_labels(proposal.prompts)}"
            flags = f"  [{', '.join(one.ended.flags)}]" if one.ended.flags else ""
            words = operation_words(operation, proposal.raw, {})
            yield labelled("applied", f"{one.phase}/{one.batch} {words}  ({source}){flags}")
