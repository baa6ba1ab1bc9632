"""A simulated world as learning rules see it: rollouts, and the replies of the reflector. Everything is simulated.

It is a twin of real runs without HTTP, store and sandbox. Tasks, habits, law, reflector and random draws of the solver
are the same; the programs are not run, because a family's program is right exactly if no habit was fallen into.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from random import Random

from agentlearn.domain.base import load_domain
from agentlearn.learning.batch import differ
from agentlearn.types.experience import Library
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Task
from agentlearn_demo.math.families import FAMILIES, LEARNING, UNSEEN
from agentlearn_demo.math.novice import TRAPS
from agentlearn_demo.math.novice import skills as math_skills
from agentlearn_demo.sim import random_stream, uniform
from agentlearn_demo.sim.prompts import ComparedAttempt, ComparePrompt, ConsolidatePrompt, RefusedItem, Suggestion
from agentlearn_demo.sim.reflector import Item, ReflectorState
from agentlearn_demo.sim.skills import ShownLesson, Skills, Trap
from agentlearn_demo.sim.vocabulary import Vocabulary
from scripts.bench.learning_rules.worlds import (
    ATTACK_SUCCEEDS,
    ATTACKS,
    LEARNING_ENDED,
    Law,
    LearningWorld,
    consolidate_blindly,
)

LEARNING_TEMPERATURE = 0.7
ROLLOUT_CALLS = 2
"""Model calls of one rollout: one writes the program, one reads its output."""
_PROMPT, _ANSWER = 300, 60
"""Tokens of a rollout's prompt and of one of its replies."""
_STAGE, _SUMMARY, _PROPOSAL = 450, 145, 45
"""Tokens of a stage's instructions, of a summary and of a proposal."""
_FAMILIES = {family.name: family for family in FAMILIES}
TRAPS_OF = {family.name: family.traps for family in FAMILIES}
"""Habits of each family."""
_NAMES_LEARNING = {family.name: family.traps for family in LEARNING}
_NAMES_UNSEEN = {family.name: family.traps for family in UNSEEN}


@dataclass(frozen=True, slots=True)
class Rollout:
    """One simulated rollout."""

    task: Task
    g: int
    flaws: frozenset[str]
    reward: float
    """What the verifier says, with noise."""
    seed: int

    @property
    def right(self) -> bool:
        """Whether the verifier calls it right."""
        return self.reward >= 1.0


@dataclass(slots=True)
class Spent:
    """Calls and tokens of a run so far."""

    rollouts: int = 0
    calls: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Environment:
    """One world with its tasks, and what was spent in it."""

    world: LearningWorld
    seed: int
    train: tuple[Task, ...] = ()
    """Tasks to learn from; empty: those of the world."""
    validation: tuple[Task, ...] = ()
    test: tuple[Task, ...] = field(init=False)
    """Held-out tasks, one of three of a family that is not learned from."""
    learning_ended: bool = False
    law: Law = field(init=False)
    spent: Spent = field(default_factory=Spent)
    deaf: dict[bool, list[int]] = field(default_factory=lambda: {False: [0, 0], True: [0, 0]})
    """Falls into deaf habits and chances to fall, without and with lessons, at the temperature of learning."""
    _vocabulary: Vocabulary = field(init=False)
    _careless: Mapping[str, Trap] = field(init=False)

    def __post_init__(self) -> None:
        self.law, train, validation = _made(self.world, self.seed)
        self.test = tuple(load_domain("math").tasks("test", seed=self.seed))
        self.train, self.validation = self.train or train, self.validation or validation
        self._vocabulary = _reflector_words(self.law.wordless)
        self._careless = {trap.name: trap for trap in TRAPS}

    def rollout(
        self, task: Task, library: Library, phase: str, g: int, *, temperature: float = LEARNING_TEMPERATURE
    ) -> Rollout:
        """Make one rollout."""
        self.spent.rollouts += 1
        self.spent.calls += ROLLOUT_CALLS
        self.spent.tokens += ROLLOUT_CALLS * (_PROMPT + _ANSWER + library.tokens)
        seed = derive_seed(derive_seed(self.seed, phase, task.id, g), 0)
        falls = self.falls(task.family, library, temperature)
        flaws = frozenset(trap for trap, fall in falls.items() if uniform("fall", self.seed, seed, trap) < fall)
        if temperature == LEARNING_TEMPERATURE:
            counts = self.deaf[len(library) > 0]
            counts[0] += len(flaws & self.law.deaf)
            counts[1] += len(falls.keys() & self.law.deaf)
        if self.law.attacked(lessons_of(library)) and uniform("attack", self.seed, seed) < ATTACK_SUCCEEDS:
            flaws = frozenset(TRAPS_OF[task.family])
        return Rollout(task, g, flaws, self._judged(flaws, task.family, seed), seed)

    def falls(self, family: str, library: Library, temperature: float) -> Mapping[str, float]:
        """Probability of each habit of a family now."""
        return self.law.falls(family, lessons_of(library), temperature, self._drifted)

    def compare(self, group: Sequence[Rollout], library: Library, step: str) -> list[Item]:
        """Summarise and compare a group. Returns the items of the reply."""
        self.spent.calls += len(group) + 1
        self.spent.tokens += len(group) * (_STAGE + 4 * _ANSWER + 2 * _SUMMARY + library.tokens)
        self.spent.tokens += _STAGE + len(group) * _SUMMARY + library.tokens + 2 * _PROPOSAL
        state = self._state("compare", step, group[0].task.id)
        task = group[0].task
        wrong = all_wrong(group)
        attempts = tuple(
            ComparedAttempt(not wrong and self._looks_right(one, group), self._summary(one), self._reason(one))
            for one in group
        )
        items = state.compare(ComparePrompt(task.problem, task.answer, attempts, shown(library)))
        return [self._poisoned(self._mistaken(item, state.rng), state.rng) for item in items]

    def consolidate(self, suggestions: Sequence[Suggestion], library: Library, step: str) -> list[Item]:
        """Consolidate the proposals of a batch. Returns the items of the reply."""
        self.spent.calls += 1
        self.spent.tokens += _STAGE + 2 * _PROPOSAL * len(suggestions) + library.tokens
        state = self._state("consolidate", step)
        prompt = ConsolidatePrompt(shown(library), tuple(suggestions))
        return consolidate_blindly(prompt, state) if self.world.blind else state.consolidate(prompt)

    def repair(self, refusals: Sequence[RefusedItem], items: Sequence[Item], library: Library, step: str) -> list[Item]:
        """Correct refused items, as the repair round does."""
        self.spent.calls += 1
        self.spent.tokens += _STAGE + 4 * _PROPOSAL + library.tokens
        state = self._state("repair", step)
        return state.repair(refusals, json.dumps({"proposals": list(items)}), items)

    def success(self, library: Library) -> float:
        """The expected reward of a library on new tasks."""
        return self.law.success(lessons_of(library))

    def share(self, success: float) -> float:
        """A gain as a share of the oracle's. success: expected reward on new tasks."""
        oracle = self.law.oracle
        return (success - oracle.without) / oracle.gain

    @property
    def _drifted(self) -> bool:
        if self.world.drift_after == LEARNING_ENDED:
            return self.learning_ended
        return self.world.drifting > 0 and self.spent.rollouts > self.world.drift_after

    def _judged(self, flaws: frozenset[str], family: str, seed: int) -> float:
        reward = self.law.reward(flaws, family)
        if self.world.verdict_noise and uniform("verdict", self.seed, seed) < self.world.verdict_noise:
            reward = 1.0 - reward
        if self.world.reward_noise:
            noise = random_stream("reward", self.seed, seed).gauss(0, self.world.reward_noise)
            reward = min(max(reward + noise, 0.0), 1.0)
        return reward

    def _looks_right(self, one: Rollout, group: Sequence[Rollout]) -> bool:
        """Right at the threshold; among attempts that are all wrong, or all right, those above the group's middle."""
        if len({other.right for other in group}) == 2:
            return one.right
        rewards = [other.reward for other in group]
        return one.reward >= (min(rewards) + max(rewards)) / 2

    def _summary(self, one: Rollout) -> str:
        rng = random_stream("summary", self.seed, one.seed)
        phrases = [
            rng.choice(self._careless[trap].careless if trap in one.flaws else self._careless[trap].careful)
            for trap in _FAMILIES[one.task.family].traps
        ]
        return f"1. Called run_python. Decided: {'; '.join(phrases)}."

    def _reason(self, one: Rollout) -> str:
        if not one.flaws or not self.world.reasons or uniform("told", self.seed, one.seed) >= self.world.reasons:
            return ""
        return self._careless[min(one.flaws)].careless[0]

    def _mistaken(self, item: Item, rng: Random) -> Item:
        """The item, or by chance one about a habit that the attempts do not prove."""
        if not self.world.mistaken or "lesson" not in item or rng.random() >= self.world.mistaken:
            return item
        return {**item, "lesson": self._vocabulary.lesson(rng.choice(self._vocabulary.traps), rng)}

    def _poisoned(self, item: Item, rng: Random) -> Item:
        if self.world.poisoned and item.get("op") == "add" and rng.random() < self.world.poisoned:
            return {"op": "add", "lesson": rng.choice(ATTACKS)}
        return item

    def _state(self, *named: object) -> ReflectorState:
        rng = random_stream("items", self.seed, *named)
        return ReflectorState(
            self._vocabulary,
            self.world.reflector,
            rng,
            lambda trap: uniform("belief", self.seed, *named, trap),
        )


@lru_cache(maxsize=8)
def _made(world: LearningWorld, seed: int) -> tuple[Law, tuple[Task, ...], tuple[Task, ...]]:
    law = Law(world, seed, math_skills, _NAMES_LEARNING, _NAMES_UNSEEN)
    return law, _tasks(law, "train", world.tasks), _tasks(law, "validation", world.validation)


def _tasks(law: Law, split: str, size: int) -> tuple[Task, ...]:
    rng = random_stream("tasks", law.seed, split)
    families, weights = list(law.shares), list(law.shares.values())
    if law.world.skew:
        order = rng.choices(families, weights, k=size)
    else:
        order = (families * (size // len(families) + 1))[:size]
    found: dict[str, Task] = {}
    for name in order:
        task = _task(name, rng)
        while task.id in found:
            task = _task(name, rng)
        found[task.id] = task
    return tuple(found.values())


def _task(name: str, rng: Random) -> Task:
    problem = _FAMILIES[name].draw(rng)
    return Task.of("math", problem.ask(rng), problem.gold(), family=name)


def is_mixed(group: Sequence[Rollout], margin: float) -> bool:
    """Whether a group can teach."""
    return differ([one.reward for one in group], margin)


def all_wrong(group: Sequence[Rollout]) -> bool:
    """Whether every attempt of a group got the smallest reward, as in the stage for such groups."""
    return all(one.reward <= 0 for one in group)


def shown(library: Library) -> tuple[ShownLesson, ...]:
    """The library as prompts label it."""
    return tuple(ShownLesson(f"G{at}", one.lesson) for at, one in enumerate(library.experiences, start=1))


def lessons_of(library: Library) -> tuple[str, ...]:
    """The library's lessons in words."""
    return tuple(one.lesson for one in library.experiences)


@cache
def _reflector_words(wordless: frozenset[str]) -> Vocabulary:
    return Vocabulary(_Words(math_skills, wordless))


class _Words:
    """The domain's skills without some habits, as the reflector knows them."""

    def __init__(self, skills: Skills, without: frozenset[str]) -> None:
        self.domain, self.topics = skills.domain, skills.topics
        self.traps = tuple(trap for trap in skills.traps if trap.name not in without)
        self.recognise = skills.recognise
