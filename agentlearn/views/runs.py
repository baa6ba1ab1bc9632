"""One run as text: how it ended, its main numbers, then every value that the store holds about it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.config.command_words import command_words
from agentlearn.learning.costs import PilotReport
from agentlearn.learning.report import (
    Delta,
    HeldOutScore,
    LibraryLine,
    SelectedVersion,
    StageLine,
    Taught,
    VersionLine,
)
from agentlearn.library.curate import EndCounts
from agentlearn.measure.contrast import ContrastVerdict
from agentlearn.store import ProposalRow, RunRow, StoreReader, TrajectoryRow
from agentlearn.text import Block, block, visible_line
from agentlearn.types.trajectory import prompt_labels
from agentlearn.views.figure import change_words, count_words, score_words
from agentlearn.views.records import operation_words
from agentlearn.views.terminal import labelled, labelled_command, parts_of_table, stage_lines

if TYPE_CHECKING:
    from agentlearn.learning.report import LearnReport
    from agentlearn.train.report import TrainReport

_MOST_ROLLOUTS = 400
"""About how many rollouts of a run are printed with all their values."""
_VERDICTS: dict[ContrastVerdict, str] = {
    "better": "better",
    "worse": "WORSE than before",
    "no_worse": "not worse",
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


def held_out_lines(report: "LearnReport | TrainReport") -> Iterator[str]:
    """Yield the lines of a run that measured before and after. The first holds the verdict."""
    before, after, delta = report.before, report.after, report.delta
    if before is None or after is None or delta is None:
        return
    if not delta.compared:
        yield f"{score_words(before.mean)}   {delta.sentence}"
        yield from _not_counted([("", before)])
        return
    verdict = held_out_verdict(delta.verdict, withheld=delta.withheld, left_open=delta.left_open, ci=delta.ci)
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


def _size(delta: Delta, repeats: str = "") -> str:
    """The number of tasks, and the cautions in short; the report has them in full."""
    families = f" in {count_words(delta.clusters, 'family')}" if delta.clusters < delta.n else ""
    if delta.only_family:
        families = f", all of {delta.only_family!r}"
    units = count_words(delta.clusters, "family" if delta.clusters < delta.n else "task")
    said = [f"with {units} the interval may be too narrow"] if delta.caution and delta.ci is not None else []
    said += [delta.carried] if delta.carried else []
    caution = f"   caution: {'; '.join(said)}" if said and not delta.withheld else ""
    return f"{count_words(delta.n, 'task')}{families}{repeats}{caution}"


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


def _leaf_lines(value: object, path: str = "") -> Iterator[Block]:
    """The lines of a value. A list of plain values is one line. Numbers have all their digits."""
    rows = [(visible_line(name), text) for name, text in _leaves(value, path)]
    width = min(48, max((len(name) for name, _ in rows), default=0))
    for name, text in rows:
        yield block(text, f"  {name.ljust(width)}  ", " " * (width + 4))


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case Mapping() if value:
            for key, one in value.items():
                yield from _leaves(one, f"{path}.{key}" if path else str(key))
        case list() | tuple() if any(isinstance(one, Mapping | list | tuple) for one in value):
            for number, one in enumerate(value, start=1):
                yield from _leaves(one, f"{path}.{number}" if path else str(number))
        case Mapping() | list() | tuple():
            yield path, ", ".join(plain(one) for one in value) or "none"
        case _:
            yield path, plain(value)


def plain(value: object) -> str:
    """One value: a text as it is, a number with all its digits, `-` for null."""
    if isinstance(value, str):
        return value or '""'
    return "-" if value is None else json.dumps(value)


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
        return command_words("trace", run.run, store=store)
    if run.kind in {"learn", "train"}:
        first = "" if run.state == "interrupted" else "correct the cause, then  "
        return f"{first}{command_words(run.kind, '--resume', run.run, store=store)}"
    if run.kind == "eval":
        return "give the same `agentlearn compare` command again; its finished rollouts are used again"
    return f"give the same `agentlearn {'store import' if run.kind == 'import' else run.kind}` command again"


def library_words(
    library: LibraryLine,
    proposals: EndCounts,
    taught: Taught,
    *,
    store: Path,
    selection: SelectedVersion | None = None,
    latest: bool = True,
) -> str:
    """The library that a run wrote, with the command that shows it; or the reason why it wrote none.

    latest: whether the run has just ended, so that the name stands for its version.
    """
    version = f"{library.name}@{library.version[:8]}"
    if selection is not None and selection.status == "pending":
        lessons = count_words(library.lessons, "lesson")
        return f"{version}  {lessons}, pending: to publish it anyway      {selection.command}"
    if library.current == library.version:
        lessons = f"{count_words(library.lessons, 'lesson')}, {library.tokens} tokens (estimated)"
        show = command_words("library", "show", library.name if latest else version, store=store)
        return f"{version}  {lessons}      {show}"
    if selection is not None and selection.status == "published" and library.current is not None:
        pinned = "is" if latest else "was"
        unpin = command_words("library", "unpin", library.name, store=store)
        return (
            f"{version}  {count_words(library.lessons, 'lesson')}, added to the history; the name {library.name}"
            f" {pinned} pinned to version {library.current[:8]}      {unpin}"
        )
    kept = ""
    if library.current is not None:
        current = f"{library.name}@{library.current[:8]}"
        stays = "stays" if latest else "stayed"
        show = command_words("library", "show", current, store=store)
        kept = f"; {library.name} {stays} at version {library.current[:8]}      {show}"
    if selection is not None and selection.status == "unchanged" and selection.last != selection.selected:
        return f"nothing was published: no version that was learned is better than the start{kept}"
    refused, unused = sum(proposals.rejected.values()), sum(proposals.dropped.values())
    why = "the comparisons proposed nothing"
    if proposals.applied:
        why = f"version {library.version[:8]} was not published"
    elif waiting := sum(proposals.quarantined.values()):
        why = f"no proposal was applied ({waiting} quarantined, {refused} refused, {unused} not used)"
    elif refused or unused:
        why = f"no proposal was applied ({refused} refused, {unused} not used)"
    elif not taught.groups:
        why = "no task had rollouts with different rewards or a word on what was wanted, so there was nothing to learn"
    return f"no library was written: {why}{kept}"


def selection_words(selection: SelectedVersion, versions: Sequence[VersionLine]) -> str:
    """Which version a run selected, and why, or why it is not published."""
    updates = next((one.updates for one in versions if one.version == selection.selected), 0)
    after = f"made after {count_words(updates, 'update')}" if updates else "the library at the start"
    if selection.status == "unchanged":
        after = "the library at the start"
    verdict = {"published": "", "pending": "NOT published: ", "unchanged": ""}[selection.status]
    return f"version {selection.selected[:8]}, {after}: {verdict}{selection.reason}"


def quarantine_words(waiting: int, run: str, *, store: Path) -> str:
    """How many lessons of a run wait for a person, with the command that shows them."""
    verb = "waits" if waiting == 1 else "wait"
    show = command_words("library", "pending", "--run", run, store=store)
    return f"{count_words(waiting, 'proposal')} {verb} for a person's decision and changed nothing      {show}"


def _report_lines(reader: StoreReader, run: RunRow) -> Iterator[str]:
    """The report of a finished run; nothing for a run without one."""
    report: dict[str, Any] = json.loads(run.report) if run.report else {}
    if "contrasts" in report:
        for contrast in report["contrasts"]:
            yield labelled("verdict", contrast["sentence"])
        return
    if report.get("delta"):
        delta = report["delta"]
        scores = f"{score_words(report['before']['mean'])} → {score_words(report['after']['mean'])}"
        interval = tuple(delta["ci"]) if delta["ci"] else None
        if unknown := delta.get("withheld") or delta.get("left_open"):
            yield labelled("held out", unknown)
        yield labelled("held out", f"{scores}  {change_words(delta['mean'], interval)}")
    if "updates" in report:
        yield from _training_lines(report)
    elif report.get("pilot"):
        pilot = PilotReport.model_validate(report["pilot"])
        yield from (labelled(label, words) for label, words in zip(("pilot", "", ""), pilot.lines(), strict=True))
    elif "library" in report:
        selection = SelectedVersion.model_validate(report["selection"]) if report["selection"] else None
        if selection:
            versions = [VersionLine.model_validate(one) for one in report.get("versions", ())]
            yield labelled("selection", selection_words(selection, versions))
        library, proposals = (
            LibraryLine.model_validate(report["library"]),
            EndCounts.model_validate(report["proposals"]),
        )
        taught = Taught.model_validate(report.get("taught") or {"mixed": report["groups"].get("mixed", 0)})
        words = library_words(library, proposals, taught, store=reader.directory, selection=selection, latest=False)
        yield labelled("library", words)
        if "taught" in report:
            yield labelled("taught", taught.words)
    if "proposals" in report:
        for label, name in (("refused", "rejected"), ("dropped", "dropped")):
            yield labelled(label, _counts(report["proposals"][name]) or "no proposal")
        if held := report["proposals"]["quarantined"]:
            yield labelled("quarantined", _counts(held))
            yield labelled("", quarantine_words(sum(held.values()), run.run, store=reader.directory))
    stages = {stage: StageLine.model_validate(line) for stage, line in report.get("stages", {}).items()}
    if stages:
        yield from stage_lines(stages, 80)
    yield from (labelled("note", note) for note in report.get("notes", ()))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{code} {count}" for code, count in sorted(counts.items()))


def _training_lines(report: Mapping[str, Any]) -> Iterator[str]:
    weights, updates = report["weights"], report["updates"]
    tokens = sum(one["tokens"] for one in updates)
    curve = ", ".join(f"{score_words(one['held_out']['mean'])} after {one['updates']}" for one in report["curve"])
    yield labelled("updates", f"{len(updates)} with {report['loss']}, {tokens:,} trained tokens")
    if curve:
        yield labelled("curve", curve)
    yield labelled("weights", f"{weights['sha256_before'][:12]} → {weights['sha256_after'][:12]}  {weights['path']}")


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
            main_lines=tuple(_report_lines(reader, row)),
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

    def lines(self, *, short: bool, columns: int | None = None) -> Iterator[str]:
        """The record as text. short: without the values of the settings and of the report, and without the rollouts.

        columns: of the terminal, for the table of rollouts.
        """
        row = self.row
        simulated = " (simulated)" if row.simulated else ""
        yield labelled("run", f"{row.run}  {row.kind} {row.domain} with {row.model}{simulated}")
        times = f"started {row.started_at:%Y-%m-%d %H:%M:%S}, latest event {row.at:%Y-%m-%d %H:%M:%S}"
        yield labelled("state", f"{row.state}, {times}, agentlearn-lib {row.package_version}")
        if self.reason:
            yield labelled("why", self.reason)
        yield labelled_command("next", self.next_step)
        yield from self.main_lines
        phases: dict[str, list[TrajectoryRow]] = {}
        for one in self.rollouts:
            phases.setdefault(one.phase, []).append(one)
        for phase, members in phases.items():
            rewards = [one.reward for one in members if one.reward is not None]
            mean = score_words(sum(rewards) / len(rewards) if rewards else None)
            outcomes = Counter(one.outcome for one in members)
            counts = f"failed {outcomes['failed']}, undecided {outcomes['undecided']}"
            words = f"{len(members)} rollouts, mean of {len(rewards)} rewards {mean}, {counts}; first: {members[0].id}"
            yield labelled(phase, f" {words}" if len(phase) > 10 else words)
        if self.unmatched_feedback:
            count = self.unmatched_feedback
            yield labelled("feedback", f"{count} more to {row.domain!r}, about rollouts that the store does not hold")
        yield from _applied_lines(self.proposals)
        if short:
            return
        whole = run_json(row)
        for part in ("settings", "report"):
            if whole[part]:
                yield ""
                yield part
                yield from _leaf_lines(whole.pop(part))
        yield ""
        yield "run"
        yield from _leaf_lines({name: value for name, value in whole.items() if value is not None})
        if self.rollouts:
            yield ""
            shown = self._worth_showing()
            rest = f" ({len(shown):,} of {len(self.rollouts):,})" if len(shown) < len(self.rollouts) else ""
            yield f"rollouts{rest}"
            if rest:
                yield "  groups with different rewards, failed or undecided rollouts come first; all of them:"
                yield f"  {command_words('trace', row.run, store=self.store)}  (by task), or add --json to this command"
            rows = [[plain(value) for value in asdict(one).values()] for one in shown]
            table = [list(asdict(shown[0])), *rows]
            for part in parts_of_table(table, columns=None if columns is None else columns - 2):
                yield from (Block(f"  {line}") for line in part)

    def _worth_showing(self) -> list[TrajectoryRow]:
        """The rollouts of whole groups, at most about `_MOST_ROLLOUTS`, those that differ or broke first."""
        groups: dict[tuple[str, str], list[TrajectoryRow]] = {}
        for one in self.rollouts:
            groups.setdefault((one.phase, one.task), []).append(one)
        plain_groups = [len({one.reward for one in group}) == 1 for group in groups.values()]
        shown = list[TrajectoryRow]()
        for _, group in sorted(zip(plain_groups, groups.values(), strict=True), key=itemgetter(0)):
            if len(shown) >= _MOST_ROLLOUTS:
                break
            shown += group
        return shown if len(shown) < len(self.rollouts) else list(self.rollouts)


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
