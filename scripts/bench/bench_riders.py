"""Whether a stranger's lesson passes because it comes with one that helps, and what measuring each by itself costs.

Runs of `learn` with a reward whose reasons others may have written. The model that writes lessons proposes two from
every group: one raises the chance of a right answer from 0.3 to 0.9, and the other does nothing, or lowers it by 0.35.
The solver and the model are simulated; the runs are whole runs.

    just bench riders
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import LearnReport, LibraryStore, Task, learn_sync, read_store
from agentlearn.domain.base import Work
from agentlearn.types.ids import derive_seed
from scripts.bench.found import Found, Row, Target

HELPS = "When a parcel is late, look up its number before you answer."
RIDER = "Thank the customer for the patience in the last line of an answer."
RIDERS = {"does nothing": 0.0, "does harm": 0.35}
"""What the other lesson takes from the chance of a right answer."""
TASKS = 60


def solver(loss: float) -> Callable[[Task, str, Work], Awaitable[str]]:
    """Return a simulated solver."""

    async def clerk(task: Task, lessons: str, work: Work) -> str:
        chance = (0.9 if HELPS in lessons else 0.3) - (loss if RIDER in lessons else 0.0)
        return "found" if derive_seed("chance", work.seed, task.id, len(lessons)) % 1000 / 1000 < chance else "lost"

    return clerk


def judge(task: Task, answer: str) -> tuple[float, str]:
    """Give a reason that somebody else may have written."""
    return float(answer == "found"), f"the customer says that the parcel is {answer}"


def writes_both(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Propose both lessons from every group."""
    text = "".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
    if "<trajectory" in text:
        return ModelResponse(parts=[TextPart('{"steps": [{"text": "It answered.", "used": []}]}')])
    rests = {"rests_on": ["P1"]} if "<proposals" in text else {}
    proposals = [{"op": "add", "lesson": lesson, **rests} for lesson in (HELPS, RIDER)]
    return ModelResponse(parts=[TextPart(json.dumps({"proposals": proposals}))])


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--runs", type=int, default=50, help="runs per row")


def measure(chosen: argparse.Namespace) -> Found:
    """Return what became of both lessons."""
    rows, targets = list[Row](), list[Target]()
    for name, loss in RIDERS.items():
        count, most = Counter[str](), 0.0
        for seed in range(chosen.runs):
            with TemporaryDirectory() as folder:
                most = max(most, _run(Path(folder), seed, loss, count))
            print(name, seed, dict(count), file=sys.stderr, flush=True)
        rows.append(Row(name=name, figures={**count, "most_rollouts_added": most}))
        targets.append(Target(what=f"{name}: published", figure=count["published"], bound="at_most", limit=0))
        targets.append(Target(what=f"{name}: rollouts added", figure=most, bound="at_most", limit=0.1))
    return Found(rows=tuple(rows), targets=tuple(targets), notes=(f"{chosen.runs} runs per row",))


def _run(store: Path, seed: int, loss: float, count: Counter[str]) -> float:
    """Make one run, count what became of the lessons, and return the share of rollouts that were added."""
    report: LearnReport = learn_sync(
        solver(loss),
        [(f"Where is parcel {seed}-{number}?", "found") for number in range(TASKS)],
        reward=judge,
        reflector=FunctionModel(writes_both),
        store=store,
        library="desk",
        epochs=2,
        batch_size=20,
        evaluate=False,
        seed=seed,
    )
    selection = report.selection
    count["published"] += len(LibraryStore(store / "libraries").names())
    for one in selection.alone if selection is not None else ():
        what = "helps" if report.learned.by_id[one.lesson].lesson == HELPS else "rider"
        count[f"{what}_{one.delta.verdict}"] += 1
    with read_store(store) as reader:
        (run,) = reader.runs()
        phases = [one.phase for one in reader.trajectories(run.run)]
    added = sum(":without-" in phase for phase in phases)
    return added / (len(phases) - added)
