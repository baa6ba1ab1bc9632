"""`agentlearn store`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from agentlearn.cli.output import console, print_json
from agentlearn.errors import StoreDamaged

Store = Annotated[Path, Parameter(help="Directory of everything kept.")]
Json = Annotated[bool, Parameter(negative="", help="Print one JSON object.")]

_HERE = Path(".agentlearn")


def check(*, store: Store = _HERE, json: Json = False) -> None:
    """Look at everything in the store without changing a byte; exit 1 where something is wrong."""
    from agentlearn.store import check_store

    report = check_store(store)
    if json:
        print_json({**report.model_dump(mode="json"), "sound": report.sound})
    else:
        out = console()
        commits = "unreadable" if report.commits is None else f"{report.commits} commits"
        waiting = f", {report.journal_entries} calls in the journal's file" if report.journal_entries else ""
        out.print(f"{store}: {commits}, {report.size_bytes / 2**20:.1f} MiB{waiting}")
        for table, rows in report.tables.items():
            out.print(f"  {table.ljust(18)}{rows:,} rows")
        for one in report.findings:
            out.print(f"broken: {one.words}")
            out.print(f"        mend it with: {one.mend.replace('DIR', str(store))}")
        if report.sound:
            out.print("sound: every table was read, every acknowledged commit is there, and ids resolve")
    if not report.sound:
        found = len(report.findings)
        raise StoreDamaged(f"the store {str(store)!r} has {found} damage{'s' * (found > 1)}, as listed")


def repair(*, store: Store = _HERE, json: Json = False) -> None:
    """Bring a damaged store back to its last sound state. Damaged files are copied aside first; losses are listed."""
    from agentlearn.store import repair_store

    done = repair_store(store)
    if json:
        print_json(done)
        return
    out = console()
    if not done.changed:
        out.print(f"{store}: nothing to repair")
        return
    out.print(f"kept aside: {', '.join(done.kept)}")
    commits = "an unknown number of" if done.lost_commits is None else f"{done.lost_commits}"
    entries = "an unknown number of" if done.lost_entries is None else f"{done.lost_entries}"
    out.print(f"lost: {commits} acknowledged commits ({done.lost_log_bytes} bytes of the log were given up)")
    out.print(f"lost: {entries} entries of the journal's file ({done.lost_journal_bytes} bytes)")
    out.print(
        f"the store stands at commit {done.last_commit}; interrupted runs go on with: agentlearn learn --resume RUN"
    )


def snapshot(
    *,
    out: Annotated[Path | None, Parameter(help="Folder to write. [default: snapshots in the store]")] = None,
    store: Store = _HERE,
    json: Json = False,
) -> None:
    """Write every table but for its long texts as Parquet, for notebooks."""
    from agentlearn.store import read_store

    with read_store(store) as reader:
        files = reader.snapshot(out)
    if json:
        print_json({"files": [{"table": one.table, "path": str(one.path), "rows": one.rows} for one in files]})
        return
    for one in files:
        console().print(f"wrote {one.path}  {one.rows:,} rows, {one.size_bytes:,} bytes")


def export(
    *,
    form: Annotated[
        Literal["parquet", "openai-jsonl", "trl-jsonl", "trl-grpo", "trl-sft", "trl-dpo"],
        Parameter(name="--format", help="parquet: all tables, whole; openai-jsonl: chat; the others: for TRL."),
    ],
    out: Annotated[Path, Parameter(help="File to write; for parquet a folder.")],
    run: Annotated[str | None, Parameter(help="Of one run only, by its id or the beginning of it.")] = None,
    phase: Annotated[str | None, Parameter(help="Of one phase only, such as epoch-1.")] = None,
    domain: Annotated[str | None, Parameter(help="Of one domain only.")] = None,
    outcome: Annotated[Literal["ok", "failed", "undecided"] | None, Parameter(help="Of one outcome only.")] = None,
    min_reward: Annotated[float | None, Parameter(help="With at least this reward.")] = None,
    store: Store = _HERE,
    json: Json = False,
) -> None:
    """Write stored rollouts for other programs: Parquet, OpenAI chat, or what TRL's trainers load."""
    from agentlearn.formats import export_lines
    from agentlearn.store import Selection, read_store

    with read_store(store) as reader:
        identity = None if run is None else reader.run(run).run
        chosen = Selection(identity, phase, domain, outcome, min_reward)
        if form == "parquet":
            count = next(one.rows for one in reader.export_tables(chosen, out) if one.table == "trajectory")
        else:
            count = export_lines(reader, chosen, out, form)
    if json:
        print_json({"path": str(out), "format": form, "rollouts": count})
        return
    what = {"trl-grpo": "prompts", "trl-dpo": "pairs"}.get(form, "rollouts")
    console().print(f"wrote {out}  {count:,} {what}")


def import_(
    file: Annotated[Path, Parameter(help="JSONL: messages as in OpenAI's chat format; reward, answer, task if known.")],
    /,
    *,
    domain: Annotated[str, Parameter(help="The domain that the rollouts belong to.")],
    store: Store = _HERE,
    json: Json = False,
) -> None:
    """Store rollouts of another program as a run of their own, marked as foreign."""
    from agentlearn.formats import import_file

    done = import_file(file, domain, store)
    if json:
        print_json(done)
        return
    console().print(
        f"run {done.run}: {done.rollouts:,} rollouts of {done.tasks:,} tasks, {done.rewarded:,} with a reward;"
        f" see them with: agentlearn runs show {done.run} --store {store}"
    )
