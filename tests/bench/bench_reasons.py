"""Reasons in words compared with bare rewards, in the simulated world: gain on held-out tasks per 1,000 model calls.

Each seed is a world of its own. In each, four runs learn from the same tasks with the same budget; their rewards differ
only in what they say: nothing, words without content, a slip of the attempt, or a slip that it did not make. The gain
is exact: the simulated solver's probability of a right answer with the learned library, minus that without lessons,
averaged over held-out tasks. Solver and reflector are simulated, and the reflector's trust in reasons is a parameter of
`agentlearn.sim.believing`: the figures show that reasons arrive and are used, not what a real model gains from them. In
this world every lesson about a habit that exists is a good one, so a false reason that names such a habit helps too.

    just bench reasons
    just bench reasons --seeds 5 --tasks 12
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentlearn.config import LearnSettings
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.library import LibraryStore
from agentlearn.sim.lessons import LessonReader
from agentlearn.sim.oracle import Case, mean_success
from agentlearn.sim.skills import Conversation
from agentlearn.sim.trap_model import TrapModel
from agentlearn.stats import mean_interval
from agentlearn.types.task import Task
from agentlearn_math import MathDomain
from agentlearn_math.novice import skills
from tests.bench.found import Found, Row

ARMS = ("none", "empty", "words", "misleading")
_SAID = {
    "none": "no reason",
    "empty": "a reason that says nothing",
    "words": "a reason that names a slip",
    "misleading": "a reason that names a slip not made",
}
FIRST_SEED = 1_000
HELD_OUT = 60


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of one run."""

    gain: float
    calls: int
    lessons: int

    @property
    def per_1000_calls(self) -> float:
        """The gain per 1,000 model calls."""
        return 1_000 * self.gain / self.calls


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds, each a world of its own")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--tasks", type=int, default=8, help="number of tasks to learn from")
    parser.add_argument("--group-size", type=int, default=5, help="number of rollouts of a task")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), help="what the rewards say")


def measure(chosen: argparse.Namespace) -> Found:
    """Learn in every world with every reward, and compare by seed."""
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    found = {arm: [asyncio.run(_learned(arm, seed, chosen)) for seed in seeds] for arm in chosen.arms}
    return Found(
        rows=(*(_row(arm, found[arm]) for arm in found), *(_difference(arm, found) for arm in found if arm != "none")),
        notes=("solver and reflector are simulated; intervals are 95 %, paired by seed",),
    )


async def _learned(arm: str, seed: int, chosen: argparse.Namespace) -> Learned:
    domain = MathDomain()
    with tempfile.TemporaryDirectory(prefix="bench-reasons-") as folder:
        tasks = Path(folder) / "tasks.jsonl"
        train = domain.tasks("train", seed=seed, limit=chosen.tasks)
        tasks.write_text("".join(json.dumps({"problem": one.problem, "answer": one.answer}) + "\n" for one in train))
        settings = LearnSettings(
            domain="tasks",
            data=str(tasks),
            reward=f"tests.bench.spoken_rewards:{arm}",
            tools="python",
            model="sim:novice",
            reflector="sim:reflector",
            seed=seed,
            store=Path(folder) / "store",
            epochs=1,
            group_size=chosen.group_size,
            evaluate=False,
        )
        report = await run_learning(settings)
        assert report.tasks["train"] == len(train)
        library = LibraryStore(settings.store / "libraries").load(settings.library_name)
    lessons = [one.lesson for one in library.experiences]
    held_out = domain.tasks("test", seed=seed, limit=HELD_OUT)
    calls = sum(stage.calls for stage in report.stages.values())
    return Learned(
        gain=_success(held_out, lessons, seed) - _success(held_out, [], seed), calls=calls, lessons=len(lessons)
    )


def _success(tasks: Sequence[Task], lessons: Sequence[str], world: int) -> float:
    cases = [Case((turn,)) for task in tasks if (turn := skills.recognise(_asked(task))) is not None]
    assert len(cases) == len(tasks)
    return mean_success(cases, lessons, TrapModel(LessonReader(skills), world))


def _asked(task: Task) -> Conversation:
    return Conversation("", task.problem, ("run_python",))


def _row(arm: str, learned: list[Learned]) -> Row:
    gain = mean_interval([one.per_1000_calls for one in learned])
    return Row(
        name=_SAID[arm],
        figures={
            "gain_per_1000_calls": gain.mean,
            "low": gain.low,
            "high": gain.high,
            "gain": sum(one.gain for one in learned) / len(learned),
            "calls": sum(one.calls for one in learned) / len(learned),
            "lessons": sum(one.lessons for one in learned) / len(learned),
        },
    )


def _difference(arm: str, found: dict[str, list[Learned]]) -> Row:
    pairs = zip(found[arm], found["none"], strict=True)
    difference = mean_interval([one.per_1000_calls - other.per_1000_calls for one, other in pairs])
    return Row(
        name=f"{_SAID[arm]} - {_SAID['none']}",
        figures={"per_1000_calls": difference.mean, "low": difference.low, "high": difference.high},
    )
