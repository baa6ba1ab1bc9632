"""`agentlearn runs`."""

import json as json_module
from collections.abc import Mapping, Sequence
from pathlib import Path
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
    from agentlearn.cli.show.runs import run_json
    from agentlearn.store import read_store

    with read_store(store) as reader:
        runs = reader.runs(limit=limit)
    if json:
        print_json({"runs": [run_json(run) for run in runs]})
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
    short: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print the main numbers only, not every stored value.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show one run: how it ended, its main numbers, then its settings, its whole report and all its rollouts."""
    from agentlearn.cli.show.runs import RunRecord, run_lines
    from agentlearn.store import read_store

    with read_store(store) as reader:
        record = RunRecord.read(reader, run)
    if json:
        print_json(record.as_json())
        return
    out = console()
    for line in run_lines(record, short=short, columns=out.width if out.is_terminal else None):
        out.print(line)


def runs_page(
    run: Annotated[str, Parameter(help="The id of a learn run, or the start of it.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="File to write. Default: reports/RUN.html in the store.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write the report page of a learn run again, from the store."""
    from agentlearn.cli.pages import write_learn_page

    page = write_learn_page(store, run, out)
    if json:
        print_json({"page": str(page)})
    else:
        console().print(str(page))


def _hybrid_result(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The share of the lessons' gain that the weights of the latest compared round keep."""
    compared = [one["compared"] for one in rounds if one["compared"]]
    if not compared or compared[-1]["kept"] is None:
        return ""
    return f"  weights keep {compared[-1]['kept']:.0%} of the lessons' gain"


def _result(report: str) -> str:
    from agentlearn.cli.held_out import verdict_words

    if not report:
        return ""
    loaded = json_module.loads(report)
    if "contrasts" in loaded:
        pairwise = any(one["baseline"] != loaded["baseline"] for one in loaded["contrasts"])
        names = [f"{one['arm']} - {one['baseline']}" if pairwise else one["arm"] for one in loaded["contrasts"]]
        verdicts = [one["verdict"].replace("_", " ") for one in loaded["contrasts"]]
        return "  " + ", ".join(f"{name} {verdict}" for name, verdict in zip(names, verdicts, strict=True))
    if "rounds" in loaded:
        return _hybrid_result(loaded["rounds"])
    if loaded.get("pilot"):
        return f"  pilot of {loaded['pilot']['tasks']} tasks"
    delta = loaded.get("delta")
    if not delta or delta["mean"] is None:
        return ""
    open_words = {name: delta.get(name) or "" for name in ("withheld", "left_open")}
    verdict = verdict_words(delta["verdict"], **open_words, ci=delta["ci"])
    return f"  {verdict}" if any(open_words.values()) else f"  {verdict} {delta['mean']:+.2f}"
