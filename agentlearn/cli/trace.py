"""`agentlearn trace`."""

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE


def trace(
    what: Annotated[
        str,
        Parameter(
            help="A rollout, a run, or RUN/TASK@PHASE, such as 01m7z9/3f2a@epoch-1. The start of an id is enough."
            " Default: the latest run.",
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
    from agentlearn.cli.show.groups import GroupRecord, group_lines, group_list, group_list_lines
    from agentlearn.cli.show.rollouts import RolloutRecord, rollout_lines
    from agentlearn.cli.show.words import GroupAddress, resolve
    from agentlearn.store import RunRow, read_store

    with read_store(store) as reader:
        found = resolve(reader, what)
        match found:
            case RunRow():
                lines = list(group_list_lines(reader, found, full=full))
                plain = {"run": found.run, "groups": [asdict(one) for one in group_list(reader, found)]} if json else {}
            case GroupAddress():
                group = GroupRecord.read(reader, found)
                lines, plain = group_lines(group, full=full), group.as_json() if json else {}
            case _:
                rollout = RolloutRecord.read(reader, found)
                lines, plain = rollout_lines(rollout, full=full), rollout.as_json() if json else {}
    if json:
        print_json(plain)
        return
    out = console()
    for line in lines:
        out.print(line)
