"""`agentlearn runs` and `agentlearn trace`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.defaults import command_words
from agentlearn.text.printing import columns_of


def runs_list(
    *,
    limit: Annotated[int, Parameter(help="Largest number of runs to list.", validator=Number(gte=1))] = 20,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    from agentlearn.pages.runs import command_of, result_words, run_json
    from agentlearn.store import read_store

    with read_store(store) as reader:
        runs = reader.runs(limit=limit)
    lines = [] if runs else [f"there are no runs in {store}; start with: agentlearn learn math"]
    for run in runs:
        simulated = " (simulated)" if run.simulated else ""
        result = result_words(run.report)
        when = f"{run.started_at:%Y-%m-%d %H:%M}"
        lines.append(
            f"{run.run}  {when}  {command_of(run):7}  {run.state:11}  {run.domain}  {run.model}{simulated}{result}"
        )
    print_result({"runs": [run_json(run) for run in runs]}, lines, json=json)


def runs_show(
    run: Annotated[str, Parameter(help="The id of a run, or the start of it.")],
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show one run: how it ended, what it found, and its main numbers. With --json, every stored value."""
    from agentlearn.pages.runs import RunRecord
    from agentlearn.pages.terminal import labelled_command
    from agentlearn.store import read_store

    with read_store(store) as reader:
        record = RunRecord.read(reader, run)
    lines = record.lines(columns_of(console()))
    view = labelled_command("view", command_words("view", record.row.run, store=store))
    print_result(record.as_json(), (*lines, view), json=json)


def runs_page(
    run: Annotated[str, Parameter(help="The id of a learn run, or the start of it.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="File to write. Default: reports/RUN.html in the store.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write the report page of a learn run again, from the store."""
    from agentlearn.pages.learn_page import write_learn_page

    page = write_learn_page(store, run, out)
    print_result({"page": str(page)}, [str(page)], json=json)


def trace(
    what: Annotated[
        str,
        Parameter(
            help="A rollout, a run, or RUN/TASK@PHASE, such as 01m7z9/3f2a@epoch-1. The start of an id is enough,"
            " and `last` is the latest run, as is nothing.",
            show_default=False,
        ),
    ] = "",
    /,
    *,
    full: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Print every text to its end, and the schemas of the tools."),
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show what happened: one rollout, the rollouts of one task with what was learned from them, or a run's tasks.

    A rollout is shown with its task, the texts that were sent, tools, lessons, every step, verdict, summary and
    proposals. The rollouts of one task are shown with their summaries, the comparison, and the end of every proposal.
    """
    from agentlearn.pages.groups import GroupRecord, group_json, group_list_lines
    from agentlearn.pages.records import GroupAddress, group_address, group_rows, resolve
    from agentlearn.pages.rollouts import RolloutRecord
    from agentlearn.pages.terminal import labelled_command
    from agentlearn.store import RunRow, read_store

    with read_store(store) as reader:
        found = resolve(reader, what)
        match found:
            case RunRow():
                groups = group_rows(reader, found, reader.trajectories(found.run), reader.proposals(found.run))
                lines, thing = list(group_list_lines(reader, found, groups, full=full)), found.run
                plain = {"run": found.run, "groups": [group_json(found, one) for one in groups]} if json else {}
            case GroupAddress():
                group = GroupRecord.read(reader, found)
                thing = group_address(found.run.run, found.task, found.phase)
                lines, plain = group.lines(full=full), group.as_json() if json else {}
            case _:
                rollout, thing = RolloutRecord.read(reader, found), found
                lines, plain = rollout.lines(full=full), rollout.as_json() if json else {}
    view = labelled_command("view", command_words("view", thing, store=store))
    print_result(plain, (*lines, view), json=json)
