"""`agentlearn runs` and `agentlearn trace`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words


def runs_list(
    *,
    limit: Annotated[int, Parameter(help="Largest number of runs to list.")] = 20,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    from agentlearn.store import read_store
    from agentlearn.views.runs import result_words, run_json

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
        result = result_words(run.report)
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
    """Show one run: how it ended, its main numbers, then its settings, its whole report and its rollouts."""
    from agentlearn.store import read_store
    from agentlearn.views.runs import RunRecord
    from agentlearn.views.terminal import labelled_command

    with read_store(store) as reader:
        record = RunRecord.read(reader, run)
    if json:
        print_json(record.as_json())
        return
    out = console()
    for line in record.lines(short=short, columns=out.width if out.is_terminal else None):
        out.print(line)
    out.print(labelled_command("view", command_words("view", record.row.run, store=store)))


def runs_page(
    run: Annotated[str, Parameter(help="The id of a learn run, or the start of it.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="File to write. Default: reports/RUN.html in the store.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write the report page of a learn run again, from the store."""
    from agentlearn.views.learn_page import write_learn_page

    page = write_learn_page(store, run, out)
    if json:
        print_json({"page": str(page)})
    else:
        console().print(str(page))


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
    from agentlearn.store import RunRow, read_store
    from agentlearn.views.groups import GroupRecord, group_json, group_list_lines
    from agentlearn.views.records import GroupAddress, group_address, group_rows, resolve
    from agentlearn.views.rollouts import RolloutRecord
    from agentlearn.views.terminal import labelled_command

    with read_store(store) as reader:
        found = resolve(reader, what)
        match found:
            case RunRow():
                groups = group_rows(reader, found, reader.trajectories(found.run), reader.proposals(found.run))
                lines = list(group_list_lines(reader, found, groups, full=full))
                plain = {"run": found.run, "groups": [group_json(found, one) for one in groups]} if json else {}
            case GroupAddress():
                group = GroupRecord.read(reader, found)
                lines, plain = group.lines(full=full), group.as_json() if json else {}
            case _:
                rollout = RolloutRecord.read(reader, found)
                lines, plain = rollout.lines(full=full), rollout.as_json() if json else {}
    if json:
        print_json(plain)
        return
    out = console()
    for line in lines:
        out.print(line)
    match found:
        case RunRow():
            thing = found.run
        case GroupAddress():
            thing = group_address(found.run.run, found.task, found.phase)
        case _:
            thing = found
    out.print(labelled_command("view", command_words("view", thing, store=store)))
