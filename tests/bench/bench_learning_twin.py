"""The fast loop of `just bench learning` held against real learn runs on the same tasks, seeds and worlds.

Real runs go through the whole library: agents, HTTP to a simulated service on loopback, sandbox, verifier, store. Both
sides publish a library, and its true success on new tasks is computed. Everything is simulated.

    just bench learning_twin
    just bench learning_twin --seeds 3
"""

import argparse
import asyncio
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from agentlearn import LearnSettings, run_learning
from agentlearn.domain.base import load_domain
from agentlearn.sim.installed import installed_skills
from agentlearn.sim.reflector_state import ReflectorParameters
from agentlearn.sim.server import World
from agentlearn.sim.worlds import LearningWorld
from tests.bench.found import Found, Row, Target
from tests.bench.learning_rules.environment import Environment, lessons_of
from tests.bench.learning_rules.loop import Run
from tests.bench.learning_rules.rules import NEW

WORLDS = (
    LearningWorld(name="as shipped", about="the reflector that ships", reflector=ReflectorParameters()),
    LearningWorld(
        name="30 % inverted",
        about="30 % of the lessons are inverted, and consolidation is blind",
        reflector=ReflectorParameters(harmful=0.3, blind=True),
    ),
)
FIRST_SEED = 40_400


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=10, help="runs per world on each side")


def measure(chosen: argparse.Namespace) -> Found:
    """Run both sides with every seed of every world."""
    rows, targets = list[Row](), list[Target]()
    for world in WORLDS:
        pairs = [(_fast(world, seed), asyncio.run(_real(world, seed))) for seed in _seeds(chosen.seeds)]
        sides = {"fast": [fast for fast, _ in pairs], "real": [real for _, real in pairs]}
        for side, found in sides.items():
            figures = {
                "success": statistics.mean(success for success, _ in found),
                "worst": min(success for success, _ in found),
                "calls": statistics.mean(calls for _, calls in found),
                "runs": len(found),
            }
            rows.append(Row(name=f"{world.name}: {side}", figures=figures))
        means = [statistics.mean(success for success, _ in found) for found in sides.values()]
        what = f"{world.name}: difference of true success, in points"
        targets.append(Target(what=what, figure=100 * abs(means[0] - means[1]), bound="at_most", limit=2.0))
    return Found(rows=tuple(rows), targets=tuple(targets))


def _seeds(number: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + number)


def _environment(world: LearningWorld, seed: int) -> Environment:
    domain = load_domain("math")
    return Environment(
        world, seed, tuple(domain.tasks("train", seed=seed)), tuple(domain.tasks("validation", seed=seed))
    )


def _fast(world: LearningWorld, seed: int) -> tuple[float, int]:
    """True success and model calls of a run of the fast loop."""
    environment = _environment(world, seed)
    library = Run(environment, NEW).learn()
    return environment.success(library), environment.spent.calls


async def _real(world: LearningWorld, seed: int) -> tuple[float, int]:
    """The same of a real run."""
    parameters = replace(world.reflector)
    with tempfile.TemporaryDirectory() as folder:
        async with World(installed_skills(), seed=seed, parameters=parameters).serve() as url:
            settings = LearnSettings(
                domain="math",
                model=f"{url}#novice",
                reflector=f"{url}#reflector",
                seed=seed,
                evaluate=False,
                store=Path(folder) / "store",
            )
            report = await run_learning(settings)
    success = _environment(world, seed).law.success(lessons_of(report.learned))
    return success, sum(stage.calls for stage in report.stages.values())
