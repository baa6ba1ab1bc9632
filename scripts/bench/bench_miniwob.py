"""Kinds of MiniWoB++ through `browsergym:miniwob` with a scripted solver, offline: how many end with reward 1.

BrowserGym asks for Playwright 1.44, so it stands in a folder of its own, which is looked into first:

    pip install --target gym browsergym-miniwob miniwob
    PYTHONPATH=gym PLAYWRIGHT_BROWSERS_PATH=… just bench miniwob --seeds 3 [--only click-link] [--verbose]
"""

import argparse
from importlib.util import find_spec

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo

from agentlearn.types.task import Task
from agentlearn.types.trajectory import ToolResult
from scripts.bench.found import Found, Row, Target
from scripts.bench.miniwob.solvers import KINDS, Page
from tests.adapters.scripted_rollouts import rollouts

LEAST_KINDS = 40
MOST_ACTS = 40
_ENDED = "The task has ended: say so."


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=1, help="tasks of each kind, at most 5")
    parser.add_argument("--only", nargs="*", help="the kinds to try")
    parser.add_argument("--verbose", action="store_true", help="print the last reply of each task that was not solved")


def measure(chosen: argparse.Namespace) -> Found:
    """Solve the tasks, one after the other."""
    if find_spec("browsergym") is None:
        return Found(notes=("needs browsergym-miniwob and miniwob",))
    from agentlearn_adapters.browsergym_tasks import adapter

    domain, rows = adapter("miniwob"), list[Row]()
    for kind in chosen.only or KINDS:
        tasks = [one for one in domain.all_tasks() if one.fields["kind"] == f"miniwob.{kind}"][: chosen.seeds]
        solved = 0
        for task in tasks:
            finished = rollouts(domain, [task], _script(kind, task))[0].trajectory
            right = finished.verdict is not None and finished.verdict.reward == 1
            solved += right
            if chosen.verbose and not right:
                results = [step.content for step in finished.steps if isinstance(step, ToolResult)]
                print(kind, task.fields["seed"], finished.verdict, finished.outcome, "\n".join(results[-1:])[:2500])
        rows.append(Row(name=kind, figures={"tasks": len(tasks), "solved": solved}))
        if chosen.verbose:
            print(kind, solved, "of", len(tasks), flush=True)
    kinds = sum(row.figures["tasks"] == row.figures["solved"] for row in rows)
    what = "kinds of which each task is solved"
    return Found(
        rows=tuple(rows), targets=(Target(what=what, figure=float(kinds), bound="at_least", limit=LEAST_KINDS),)
    )


def _script(kind: str, task: Task):
    solver = None

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal solver
        parts = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
        returned = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
        seen = returned[-1] if returned else (info.instructions or "").partition("The page:\n\n")[2]
        if seen.endswith(_ENDED) or len(returned) >= MOST_ACTS:
            return ModelResponse(parts=[TextPart("done")])
        page = Page(seen.partition("goal: ")[2].partition("\n")[0], seen.partition("RootWebArea")[2])
        try:
            if solver is None:
                solver = KINDS[kind](page)
                action = next(solver)
            else:
                action = solver.send(page)
        except (StopIteration, LookupError, ValueError) as error:
            return ModelResponse(parts=[TextPart(f"{kind}, seed {task.fields['seed']}: {error!r}")])
        return ModelResponse(parts=[ToolCallPart("act", {"action": action})])

    return script
