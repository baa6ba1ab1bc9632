"""`agentlearn runs`."""

import json as json_module
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE


def runs_list(
    *,
    limit: Annotated[int, Parameter(help="Largest number of runs to list.")] = 20,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    from agentlearn.store import read_store

    with read_store(store) as reader:
        runs = reader.runs(limit=limit)
    if json:
        print_json({"runs": [_as_json(asdict(run)) for run in runs]})
        return
    out = console()
    if not runs:
        out.print(f"there are no runs in {store}; start with: agentlearn learn math")
    for run in runs:
        simulated = " (simulated)" if run.simulated else ""
        result = _result(run.report)
        when = f"{run.started_at:%Y-%m-%d %H:%M}"
        out.print(f"{run.run}  {when}  {run.kind:6}  {run.state:11}  {run.domain}  {run.model}{simulated}{result}")


def runs_show(
    run: Annotated[str, Parameter(help="The id of a run, or the start of it.")],
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show one run: its report, its rollouts by phase, and the proposals that changed the library."""
    from agentlearn.store import read_store
    from agentlearn.types.trajectory import prompt_labels

    with read_store(store) as reader:
        row = reader.run(run)
        rollouts = reader.trajectories(row.run)
        proposals = reader.proposals(row.run)
    if json:
        print_json({"run": _as_json(asdict(row)), "rollouts": [asdict(one) for one in rollouts]})
        return
    out = console()
    out.print(
        f"run        {row.run}  {row.kind} {row.domain} with {row.model}{' (simulated)' if row.simulated else ''}"
    )
    out.print(
        f"state      {row.state}, started {row.started_at:%Y-%m-%d %H:%M:%S}, agentlearn-lib {row.package_version}"
    )
    if row.report and row.kind == "eval":
        for contrast in json_module.loads(row.report)["contrasts"]:
            out.print(f"verdict    {contrast['sentence']}")
    elif row.report:
        _print_report(json_module.loads(row.report))
    for phase in dict.fromkeys(one.phase for one in rollouts):
        members = [one for one in rollouts if one.phase == phase]
        rewards = [one.reward for one in members if one.reward is not None]
        mean = f"{sum(rewards) / len(rewards):.2f}" if rewards else "-"
        failed = sum(one.outcome == "failed" for one in members)
        out.print(
            f"{phase.ljust(10)} {len(members)} rollouts, mean reward {mean}, failed {failed}; first: {members[0].id}"
        )
    for one in proposals:
        if one.ended.end.end == "applied" and one.ended.proposal.operation is not None:
            operation = one.ended.proposal.operation
            lesson = "" if operation.op == "delete" else operation.lesson
            source = f"{len(one.ended.proposal.evidence)} rollouts, {prompt_labels(one.ended.proposal.prompts)}"
            flags = f"  [{', '.join(one.ended.flags)}]" if one.ended.flags else ""
            out.print(f"applied    {one.phase}/{one.batch} {operation.op}: {lesson}  ({source}){flags}")


def _print_report(report: dict[str, Any]) -> None:
    from agentlearn.cli.stages import malformed_words, print_stages
    from agentlearn.learn.pilot import PilotReport
    from agentlearn.learn.report import StageLine

    out = console()
    if report.get("delta") and report["delta"]["mean"] is not None:
        ci = report["delta"]["ci"] or (float("nan"), float("nan"))
        out.print(
            f"held out   {report['before']['mean']:.2f} → {report['after']['mean']:.2f}  "
            f"{report['delta']['mean']:+.2f} [{ci[0]:+.2f}, {ci[1]:+.2f}]"
        )
    if "updates" in report:
        _print_training(report)
    elif report.get("pilot"):
        for label, words in zip(("pilot", "", ""), PilotReport.model_validate(report["pilot"]).lines(), strict=True):
            out.print(f"{label.ljust(11)}{words}")
    else:
        library = report["library"]
        out.print(f"library    {library['name']}@{library['version'][:8]}  {library['lessons']} lessons")
    if "proposals" in report:
        refused = ", ".join(f"{code} {count}" for code, count in sorted(report["proposals"]["rejected"].items()))
        out.print(f"refused    {refused or 'no proposal'}")
    stages = {stage: StageLine.model_validate(line) for stage, line in report["stages"].items()}
    print_stages(stages, out)
    for words in malformed_words(stages):
        out.print(f"malformed  {words}")
    for note in report["notes"]:
        out.print(f"note       {note}")


def _print_training(report: dict[str, Any]) -> None:
    weights, updates, out = report["weights"], report["updates"], console()
    tokens = sum(one["tokens"] for one in updates)
    curve = ", ".join(f"{one['held_out']['mean']:.2f} after {one['updates']}" for one in report["curve"])
    out.print(f"updates    {len(updates)} with {report['loss']}, {tokens:,} trained tokens")
    if curve:
        out.print(f"curve      {curve}")
    out.print(f"weights    {weights['sha256_before'][:12]} → {weights['sha256_after'][:12]}  {weights['path']}")


def _result(report: str) -> str:
    if not report:
        return ""
    loaded = json_module.loads(report)
    if "contrasts" in loaded:
        return "  " + ", ".join(f"{one['arm']} {one['verdict'].replace('_', ' ')}" for one in loaded["contrasts"])
    if loaded.get("pilot"):
        return f"  pilot of {loaded['pilot']['tasks']} tasks"
    delta = loaded.get("delta")
    return f"  {delta['mean']:+.2f}" if delta and delta["mean"] is not None else ""


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row with times as ISO texts, and with settings and report parsed."""
    plain = {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in row.items()}
    for key in ("settings", "report"):
        plain[key] = json_module.loads(plain[key]) if plain.get(key) else None
    return plain
