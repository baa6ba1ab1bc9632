"""Verdicts of `compare` in simulated worlds with known truth: how often it is right, and how often it is wrong.

The figures are shares of the worlds. Each world has a different simulated novice and different tasks. The results of
the simulated solver are drawn in this process from its trap model. The seeds differ between arms, as with a service
that ignores seeds. A sample of the results is compared with the solver's answers. All other steps are those of
`agentlearn compare`. Two common tests are counted for comparison: a z-test of two means of tasks that ignores the
pairing, and a z-test over all rollouts.

    just bench verdicts --worlds 200
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist, mean, stdev

from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable, tabulate
from agentlearn.sim.controls import placebo, useless_library
from agentlearn.sim.draws import uniform
from agentlearn.sim.lessons import LessonReader, ShownLesson
from agentlearn.sim.novice import Novice, SolverInput
from agentlearn.sim.oracle import Case, success_probability
from agentlearn.sim.skills import Conversation
from agentlearn.sim.trap_model import TrapModel
from agentlearn.types.experience import library_of
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Task
from agentlearn_evals.arms import Arm
from agentlearn_evals.flags import lesson_flags, untrusted_arms
from agentlearn_math import domain
from agentlearn_math.novice import MathSkills
from agentlearn_math.traps import TRAPS
from tests.bench.found import Found, Row, Target

TEMPERATURE = 0.3
TOOLS = ("run_python",)
Z = NormalDist().inv_cdf(0.975)
ARMS = ("helpful", "one lesson", "null", "placebo", "harmful", "leaking")


@dataclass(frozen=True, slots=True)
class World:
    """One simulated novice and its tasks."""

    number: int
    tasks: tuple[Task, ...]

    @property
    def law(self) -> TrapModel:
        return TrapModel(LessonReader(MathSkills()), self.number)

    def libraries(self) -> Mapping[str, tuple[str, ...]]:
        """Return the lessons of each arm, different in each world."""
        rng = Random(f"lessons {self.number}")
        traps = rng.sample(TRAPS, 6)
        helpful = tuple(f"When {rng.choice(trap.situations)}, {rng.choice(trap.advice)}." for trap in traps)
        harmful = tuple(f"When {rng.choice(trap.situations)}, never {rng.choice(trap.advice)}." for trap in traps)
        leaked = max((task for task in self.tasks if task.answer), key=lambda task: len(task.answer or ""))
        return {
            "none": (),
            "helpful": helpful,
            "one lesson": helpful[:1],
            "null": useless_library(6, self.number),
            "placebo": placebo(150, self.number),
            "harmful": harmful,
            "leaking": (*helpful, f"When a problem looks like this one, the result is {leaked.answer}."),
        }


def _chances(world: World, lessons: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the probability of each trap, by task."""
    skills, law = MathSkills(), world.law
    chances: dict[str, dict[str, float]] = {}
    for task in world.tasks:
        situation = skills.recognise(Conversation("", task.problem, TOOLS))
        assert situation is not None
        chances[task.id] = law.probabilities(situation.traps, situation.family, lessons, TEMPERATURE)
    return chances


def _truth(world: World, lessons: Sequence[str]) -> float:
    """Return the exact probability of a right answer, averaged over tasks."""
    skills, found = MathSkills(), []
    for task in world.tasks:
        situation = skills.recognise(Conversation("", task.problem, TOOLS))
        assert situation is not None
        found.append(success_probability(Case((situation,)), lessons, world.law, temperature=TEMPERATURE))
    return mean(found)


def _rollouts(world: World, arm: str, lessons: Sequence[str], k: int) -> list[Observation]:
    """Return the solver's rollouts: right when it falls into no trap."""
    seen: list[Observation] = []
    chances = _chances(world, lessons)
    for task in world.tasks:
        for g in range(k):
            seed = derive_seed(world.number, "compare", arm, task.id, g)
            fell = any(uniform("fall", world.number, seed, trap) < p for trap, p in chances[task.id].items())
            seen.append(
                Observation(arm=arm, task=task.id, g=g, score=0.0 if fell else 1.0, cluster=task.family, domain="math")
            )
    return seen


def _agrees(world: World, seen: Sequence[Observation], lessons: Sequence[str], k: int) -> bool:
    """Return whether the solver itself gives the same results for a sample."""
    novice = Novice([MathSkills()], world=world.number)
    shown = tuple(ShownLesson(f"G{n}", text) for n, text in enumerate(lessons, start=1))
    by_id = {task.id: task for task in world.tasks}
    for one in seen[:: max(1, len(seen) // 20)]:
        seed = derive_seed(world.number, "compare", one.arm, one.task, one.g)
        asked = (Conversation("", by_id[one.task].problem, TOOLS),)  # type: ignore[index]
        action = novice.answer(SolverInput(asked, shown, seed, TEMPERATURE))
        if bool(action.flaws) != (one.score == 0.0):
            return False
    return True


def _pooled_z(table: ScoreTable, arm: str) -> bool:
    """Return whether a two-proportion z-test over all rollouts, as if independent, claims a difference."""
    mine, other = ([score for task in table.tasks for score in table.scores[name][task]] for name in (arm, "none"))
    variance = sum(mean(scores) * (1 - mean(scores)) / len(scores) for scores in (mine, other))
    return variance > 0 and abs(mean(mine) - mean(other)) / variance**0.5 > Z


def _unpaired_z(table: ScoreTable, arm: str) -> bool:
    """Return whether a z-test of two means of tasks, without pairing, claims a difference."""
    means = [table.means(name) for name in (arm, "none")]
    variance = sum(stdev(values) ** 2 / len(values) for values in means)
    return variance > 0 and abs(mean(means[0]) - mean(means[1])) / variance**0.5 > Z


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--worlds", type=int, default=200, help="number of simulated worlds")
    parser.add_argument("--tasks", type=int, default=60, help="tasks per world")
    parser.add_argument("--k", type=int, default=4, help="rollouts per task and arm")


def measure(chosen: argparse.Namespace) -> Found:
    """Return the verdicts by kind of library."""
    verdicts = {arm: Counter[str]() for arm in ARMS}
    effects: dict[str, list[float]] = {arm: [] for arm in ARMS}
    covered, agreed = Counter[str](), True
    for number in range(1_000, 1_000 + chosen.worlds):
        world = World(number, tuple(domain.tasks("test", seed=number, limit=chosen.tasks)))
        libraries = world.libraries()
        nothing = _rollouts(world, "none", (), chosen.k)
        base = _truth(world, ())
        for arm in ARMS:  # separate comparisons, because the error rate of one comparison is counted
            lessons = libraries[arm]
            seen = _rollouts(world, arm, lessons, chosen.k)
            agreed = agreed and _agrees(world, seen, lessons, chosen.k)
            effect = _truth(world, lessons) - base
            held = Arm(
                name=arm, model="sim:novice", reference=arm, library=library_of(lessons), temperature=TEMPERATURE
            )
            flags = lesson_flags(held, world.tasks)
            rules = Rules(seed=number, untrusted=untrusted_arms(flags))
            table = tabulate([*nothing, *seen], ["none", arm])
            (contrast,) = with_verdicts(estimate_contrasts(table, rules), table, rules)
            verdicts[arm][contrast.verdict] += 1
            verdicts[arm]["pooled_z"] += _pooled_z(table, arm)
            verdicts[arm]["unpaired_z"] += _unpaired_z(table, arm)
            verdicts[arm]["flagged"] += bool(flags)
            effects[arm].append(effect)
            if contrast.low is not None and contrast.high is not None:
                covered[arm] += contrast.low <= effect <= contrast.high
    rows = tuple(
        Row(
            name=arm,
            figures={
                "true_effect": mean(effects[arm]),
                "better": verdicts[arm]["better"] / chosen.worlds,
                "worse": verdicts[arm]["worse"] / chosen.worlds,
                "cannot_tell": verdicts[arm]["cannot_tell"] / chosen.worlds,
                "flagged": verdicts[arm]["flagged"] / chosen.worlds,
                "covered": covered[arm] / chosen.worlds,
                "unpaired_z": verdicts[arm]["unpaired_z"] / chosen.worlds,
                "pooled_z": verdicts[arm]["pooled_z"] / chosen.worlds,
            },
        )
        for arm in ARMS
    )
    wrong = max(
        verdicts["null"]["better"] + verdicts["null"]["worse"],
        verdicts["placebo"]["better"] + verdicts["placebo"]["worse"],
    )
    return Found(
        rows=rows,
        targets=(
            Target(what="claims about null and placebo", figure=wrong / chosen.worlds, bound="at_most", limit=0.09),
            Target(
                what="leaking libraries flagged", figure=rows[-1].figures["flagged"] or 0, bound="at_least", limit=1
            ),
        ),
        notes=(
            f"simulated: {chosen.worlds} worlds, {chosen.tasks} tasks x {chosen.k} rollouts, alpha 0.05",
            "the solver itself gave the same result in every sampled rollout"
            if agreed
            else "THE SOLVER ITSELF DIFFERED",
            "0.09: with a true error rate of 0.05, 200 worlds stay below this with 99 % probability",
        ),
    )
