"""`agentlearn store`."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import print_json, print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.defaults import command_words
from agentlearn.errors import ConfigError, StoreDamaged
from agentlearn.store.erasure_intent import LessonChoice
from agentlearn.text.printing import ask_line, print_line
from agentlearn.types.trajectory import RolloutOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlearn.library.history.three_way import HeldLesson
    from agentlearn.store.erasure_intent import ErasureReceipt


def store_check(*, store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Check the whole store without changing it; exit with status 1 when something is damaged."""
    from agentlearn.store import check_store

    report = check_store(store)
    commits = "unreadable" if report.commits is None else f"{report.commits} commits"
    waiting = f", {report.journal_entries} entries in the journal" if report.journal_entries else ""
    lines = [f"{store}: {commits}, {report.size_bytes / 2**20:.1f} MiB{waiting}"]
    lines += [f"  {table.ljust(18)}{rows:,} rows" for table, rows in report.tables.items()]
    for one in report.findings:
        lines += [f"broken: {one.words}", f"        fix it with: {one.mend.replace('DIR', str(store))}"]
    if report.sound:
        lines.append("sound: every table can be read, every acknowledged commit is there, and all ids resolve")
    print_result({**report.model_dump(mode="json"), "sound": report.sound}, lines, json=json)
    if not report.sound:
        found = len(report.findings)
        raise StoreDamaged(f"the store {str(store)!r} has {found} problem{'s' * (found > 1)}, listed above")


def store_repair(*, store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Restore a damaged store to its last sound state. Copies damaged files first, and lists what is lost."""
    from agentlearn.store import repair_store

    done = repair_store(store)
    if not done.changed:
        print_result(done, [f"{store}: nothing to repair"], json=json)
        return
    lines = [f"kept: {', '.join(done.kept) or 'nothing, the damaged files were missing'}"]
    lines.append(f"made: {', '.join(done.made) or 'nothing'}")
    commits = "an unknown number of" if done.lost_commits is None else f"{done.lost_commits}"
    entries = "an unknown number of" if done.lost_entries is None else f"{done.lost_entries}"
    besides = " except what was restored" if done.restored_entries else ""
    if done.restored_entries:
        lines.append(f"restored: {done.restored_entries} calls, rollouts and summaries from the journal")
    if done.lost_commits != 0 or done.lost_log_bytes:
        dropped = f"({done.lost_log_bytes} bytes of the log dropped)"
        lines.append(f"lost: {commits} acknowledged commits{besides} {dropped}")
    if done.lost_entries != 0:
        lines.append(f"lost: {entries} acknowledged entries of the journal")
    if done.lost_commits == done.lost_entries == 0 and not done.lost_rows:
        lines.append("lost: nothing")
    lines += [f"lost: {rows:,} rows of the table {table}" for table, rows in done.lost_rows.items()]
    again = "resume interrupted runs with: agentlearn learn --resume RUN"
    lines.append(f"the store is at commit {done.last_commit}; {again}")
    print_result(done, lines, json=json)


def store_forget(
    *,
    episode: Annotated[str, Parameter(show_default=False, help="All rollouts of this episode.")] = "",
    user: Annotated[
        str, Parameter(show_default=False, help="All rollouts of this user, and the feedback that the user gave.")
    ] = "",
    rollout: Annotated[str, Parameter(show_default=False, help="One rollout; the start of its id is enough.")] = "",
    before: Annotated[
        datetime | None, Parameter(help="Recorded and imported rollouts that began before this date (UTC).")
    ] = None,
    lessons: Annotated[
        LessonChoice | None,
        Parameter(
            help="Lessons that rest on them: park them, keep them, or list them and decide later. [default: ask]"
        ),
    ] = None,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print what would be erased, and change nothing.")
    ] = False,
    yes: Annotated[bool, Parameter(negative="", show_default=False, help="Erase without asking.")] = False,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Erase records, with all that was made of them, and write a receipt. What is erased cannot be restored."""
    from agentlearn.live.forgetting import forget
    from agentlearn.pages.records import erasure_lines

    def decide(found: "ErasureReceipt", held: "Sequence[HeldLesson]") -> "LessonChoice | None":
        for line in erasure_lines(found, held):
            print_line(line, to_stderr=json)
        if dry_run:
            return None
        choice = lessons or (None if found.lessons else "list")
        if not sys.stdin.isatty() and not (yes and choice):
            needed = " ".join((*(() if yes else ("--yes",)), *(() if choice else ("--lessons park|keep|list",))))
            raise ConfigError(f"nothing was erased; add {needed} to allow it")
        while choice is None:
            answer = ask_line("These lessons: [p]ark, [k]eep, or [l]ist and decide later?").lower()
            choice = next((one for one in get_args(LessonChoice) if answer and one.startswith(answer)), None)
        return choice if yes or ask_line("Erase this? It cannot be restored. [y/N]").lower() in {"y", "yes"} else None

    if before is not None and before.tzinfo is None:
        before = before.replace(tzinfo=UTC)
    done = forget(store, rollout=rollout, episode=episode, user=user, before=before, lessons=decide, dry_run=dry_run)
    lines = [] if dry_run else [f"erased; the receipt is {done.file}", *(f"ended: {one}" for one in done.ended)]
    lines += ["an erasure does not reach:", *(f"  {one}" for one in done.unreached)]
    print_result(done, lines, json=json)


def store_merge(
    *sources: Annotated[
        Path, Parameter(help="Directories of stores, of recorders on other machines, or of archives. None is changed.")
    ],
    libraries: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Take libraries over as they are; else their lessons wait."),
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Take in what other stores hold. Doing it twice changes nothing; what was erased here does not come back."""
    from agentlearn.live.several_stores import Merged, merge_stores

    if not sources:
        raise ConfigError("say which stores to take in: agentlearn store merge DIR")

    def tell(one: Merged) -> None:
        rows = ", ".join(f"{table} {count:,}" for table, count in one.added.items())
        print_line(f"{one.source}: {rows or 'nothing that this store lacks'}", to_stderr=json)
        if one.libraries:
            print_line(f"  libraries that came along: {', '.join(one.libraries)}", to_stderr=json)
        if one.waiting:
            names = ", ".join(one.waiting)
            print_line(f"  lessons of {names} wait for you: {command_words('review', store=store)}", to_stderr=json)
        for name in one.differing:
            there = command_words("library", "export", name, "--out", f"{name}.json", store=Path(one.source))
            print_line(
                f"  library {name!r} has other lessons here and stays; to take some of there: {there}, then"
                f" {command_words('library', 'import', f'{name}.json', '--name', name, store=store)}",
                to_stderr=json,
            )

    merged = merge_stores(sources, store, libraries=libraries, told=tell)
    if json:
        print_json({"merged": [one.model_dump(mode="json") for one in merged]})


def store_archive(
    *,
    before: Annotated[
        datetime, Parameter(help="Runs that were done, and live records that began before this date (UTC).")
    ],
    to: Annotated[Path, Parameter(help="Folder for archives. Each gets a folder of its own in it.")],
    keep: Annotated[
        bool, Parameter(negative="", show_default=False, help="Leave what is archived in the store as well.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write old runs and old live records as Parquet, check what was written, and take it out of the store."""
    from agentlearn.live.several_stores import archive_store

    before = before if before.tzinfo is not None else before.replace(tzinfo=UTC)
    done = archive_store(store, before, to, keep=keep)
    if done is None:
        print_result({"archive": None}, [f"{store}: nothing to archive from before {before:%Y-%m-%d}"], json=json)
        return
    rows = ", ".join(f"{table} {count:,}" for table, count in done.removed.items())
    lines = [
        f"archive: {done.archive}  {len(done.runs):,} run{'s' * (len(done.runs) != 1)}",
        f"out of the store: {rows or 'nothing'}",
        f"show it with: {command_words('runs', 'list', store=to)}",
    ]
    print_result(done, lines, json=json)


def store_snapshot(
    *,
    out: Annotated[Path | None, Parameter(help="Folder to write. [default: snapshots in the store]")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write every table as Parquet, without its long texts, for notebooks."""
    from agentlearn.store import read_store

    with read_store(store) as reader:
        files = reader.snapshot(out)
    document = {"files": [{"table": one.table, "path": str(one.path), "rows": one.rows} for one in files]}
    lines = [f"wrote {one.path}  {one.rows:,} rows, {one.size_bytes:,} bytes" for one in files]
    print_result(document, lines, json=json)


def store_export(
    *,
    form: Annotated[
        Literal["parquet", "atif", "openai-jsonl", "trl-jsonl", "trl-grpo", "trl-sft", "trl-dpo"],
        Parameter(
            name="--format",
            help="parquet: all tables, complete; atif: one file per rollout in the Agent Trajectory Interchange Format;"
            " openai-jsonl: chat messages; the others: for TRL.",
        ),
    ],
    out: Annotated[Path, Parameter(help="File to write; for parquet and atif a folder.")],
    run: Annotated[str | None, Parameter(help="Only rollouts of this run; the start of its id is enough.")] = None,
    phase: Annotated[str | None, Parameter(help="Only rollouts of this phase, such as epoch-1.")] = None,
    domain: Annotated[str | None, Parameter(help="Only rollouts of this domain.")] = None,
    outcome: Annotated[RolloutOutcome | None, Parameter(help="Only rollouts with this outcome.")] = None,
    min_reward: Annotated[float | None, Parameter(help="Only rollouts with at least this reward.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write stored rollouts as Parquet, as ATIF, as OpenAI chat messages, or in a format for TRL."""
    from agentlearn.config.outputs import Outputs
    from agentlearn.formats import export_atif, export_lines
    from agentlearn.store import Selection, read_store

    with read_store(store) as reader:
        identity = None if run is None else reader.run(run).run
        chosen = Selection(identity, phase, domain, outcome, min_reward)
        if form == "parquet":
            count = next(one.rows for one in reader.export_tables(chosen, out) if one.table == "trajectory")
        elif form == "atif":
            count = export_atif(reader, chosen, out)
        else:
            outputs = Outputs(store)
            outputs.refuse_others(out)
            count = export_lines(reader, chosen, out, form)
            outputs.remember(out, runs=reader.selected_runs(chosen))
    what = {"trl-grpo": "prompts", "trl-dpo": "pairs"}.get(form, "rollouts")
    document = {"path": str(out), "format": form, "rollouts": count}
    print_result(document, [f"wrote {out}  {count:,} {what}"], json=json)


def store_import(
    file: Annotated[
        Path,
        Parameter(
            help="JSONL with OpenAI chat messages, and optionally reward, answer and task; or an export of traces."
        ),
    ],
    /,
    *,
    domain: Annotated[str, Parameter(help="Domain of the rollouts; of traces, the name that they are recorded under.")],
    form: Annotated[
        Literal["lines", "otlp", "langfuse", "logfire"],
        Parameter(name="--format", help="lines: JSONL of rollouts; the others: an export of traces."),
    ] = "lines",
    score: Annotated[
        str, Parameter(show_default=False, help="Of traces, the score that is the reward. [default: the only one]")
    ] = "",
    scale: Annotated[
        str,
        Parameter(show_default=False, help="Its worst and best value, such as 1,5. [default: the export's, or 0,1]"),
    ] = "",
    limit: Annotated[
        int | None, Parameter(help="Most traces: those with the lowest rewards first, then those with other feedback.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Store rollouts of another program as a new run, marked as imported, or record the traces of a tracer."""
    if form != "lines":
        from agentlearn.live.traces import import_traces

        traced = asyncio.run(import_traces(file, form, domain, store, score=score, scale=scale, limit=limit))
        learn = command_words("learn", domain, "--from-store", store=store)
        print_result(traced, [*traced.lines(), f"learn from them with: {learn}"], json=json)
        return
    if score or scale or limit is not None:
        raise ConfigError("--score, --scale and --limit go with --format otlp, langfuse or logfire; leave them out")
    from agentlearn.formats import import_file

    done = import_file(file, domain, store)
    words = f"{done.rollouts:,} rollouts of {done.tasks:,} tasks, {done.rewarded:,} with a reward"
    show = f"show them with: agentlearn runs show {done.run} --store {store}"
    print_result(done, [f"run {done.run}: {words}; {show}"], json=json)
