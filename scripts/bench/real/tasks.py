"""The tasks of the real runs, generated from a seed. No problem to learn from is held out."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.real.rewards import call_text

LEARNED, HELD_OUT = 64, 32
"""Problems to learn from, and held-out ones."""
MOST_TURNS = 3
"""Model calls in one rollout: a call of the tool, another try, and the answer."""
Row = dict[str, str]
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_THINGS = ("apples", "books", "coins", "stamps", "shells", "cards")
_NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn")
_CAPITALS = """
France: Paris, Italy: Rome, Spain: Madrid, Germany: Berlin, Japan: Tokyo, China: Beijing, Egypt: Cairo,
Greece: Athens, Portugal: Lisbon, Austria: Vienna, Poland: Warsaw, Russia: Moscow, Canada: Ottawa, Cuba:
Havana, Peru: Lima, Chile: Santiago, Kenya: Nairobi, India: New Delhi, Ireland: Dublin, Norway: Oslo, Sweden:
Stockholm, Finland: Helsinki, Denmark: Copenhagen, Hungary: Budapest, Turkey: Ankara, Iran: Tehran, Iraq:
Baghdad, Thailand: Bangkok, Vietnam: Hanoi, Australia: Canberra, Belgium: Brussels, Ukraine: Kyiv
"""
_CITIES = ("Oslo", "Lima", "Cairo", "Rome", "Delhi", "Quito", "Bern", "Accra")


@dataclass(frozen=True, slots=True)
class RealTask:
    """One kind of task, and how its answers are judged."""

    name: str
    what: str
    """What is asked, in a few words, for the table."""
    reward: str
    problem: Callable[[random.Random], Row] | None = None
    """Makes one problem; None for tasks of reasoning-gym."""
    gym: str = ""
    """Name and options of a task of reasoning-gym, without size and seed."""
    instructions: str = "Answer with the result."
    """All that the agent is told besides the problem. agentlearn's own instructions are long for so small a model."""
    updates: int = 14
    tasks_per_update: int = 4
    answer_tokens: int = 12
    """Most tokens in one answer of the model."""
    temperature: float = 1.0
    """Of all rollouts, in training and after. The hard tasks are hardly ever solved at 1."""
    tools: str = "none"
    train_reward: str | None = None
    """Another reward to train with, which also pays for a part of the way."""

    @property
    def size(self) -> int:
        """How many tokens a training may sample for one rollout of each problem; says which kinds take longest."""
        turns = 1 if self.tools == "none" else MOST_TURNS
        return self.updates * self.tasks_per_update * self.answer_tokens * turns

    def sources(self, folder: Path, *, held_out: int = HELD_OUT) -> tuple[str, str]:
        """Return the source of the problems to learn from, and of held-out ones. Files are written into the folder."""
        if self.gym:
            return f"gym:{self.gym}size={LEARNED}&seed=2000", f"gym:{self.gym}size={held_out}&seed=111000"
        rows = self.rows(LEARNED + held_out)
        learned = _written(folder / f"{self.name}.jsonl", rows[:LEARNED])
        return str(learned), str(_written(folder / f"{self.name}-held-out.jsonl", rows[LEARNED:]))

    def rows(self, number: int = LEARNED + HELD_OUT) -> list[Row]:
        """Return different problems: those to learn from, then the held-out ones. The first are always the same."""
        assert self.problem is not None
        chance = random.Random(self.name)
        found: dict[str, Row] = {}
        while len(found) < number:
            row = self.problem(chance)
            found.setdefault(row["problem"], row)
        return list(found.values())

    def options(self, *, training: bool = False) -> tuple[str, ...]:
        """Return the options of every command that runs the task."""
        reward = (self.train_reward if training else None) or self.reward
        return (
            "--reward", reward, "--tools", self.tools, "--max-output-tokens", str(self.answer_tokens),
            "--temperature", str(self.temperature), "--max-turns", str(MOST_TURNS),
            "--instructions", self.instructions, "--only-instructions",
        )  # fmt: skip


def _words(chance: random.Random) -> Row:
    a, b = chance.randint(1, 12), chance.randint(1, 12)
    return {"problem": f"What is {_WORDS[a]} plus {_WORDS[b]}? Answer in digits.", "answer": str(a + b)}


def _steps(chance: random.Random) -> Row:
    had, more = chance.randint(2, 9), chance.randint(2, 9)
    lost = chance.randint(1, min(9, had + more - 1))
    name, things = chance.choice(_NAMES), chance.choice(_THINGS)
    problem = (
        "Question: Gus has 3 bags, gets 4 more and loses 2.\nReply: 3 + 4 = 7, 7 - 2 = 5\n\n"
        "Question: Mia has 6 bags, gets 2 more and loses 5.\nReply: 6 + 2 = 8, 8 - 5 = 3\n\n"
        f"Question: {name} has {had} {things}, gets {more} more and loses {lost}.\nReply:"
    )
    return {"problem": problem, "answer": str(had + more - lost)}


def _record(chance: random.Random) -> Row:
    name, city, age = chance.choice(_NAMES), chance.choice(_CITIES), chance.randint(18, 79)
    example = 'Gus is 33 years old and lives in Paris.\n{"name": "Gus", "age": 33, "city": "Paris"}'
    problem = f"Write the sentence as JSON.\n\n{example}\n\n{name} is {age} years old and lives in {city}."
    return {"problem": problem, "answer": json.dumps({"name": name, "age": age, "city": city})}


def _product(chance: random.Random) -> Row:
    a, b = chance.randint(12, 99), chance.randint(12, 99)
    examples = [
        f"Question: {product}\nReply: " + call_text("run_python", f'{{"code": "print({product})"}}')
        for product in ("11 * 13", "24 * 7")
    ]
    problem = "\n\n".join([*examples, f"Question: {a} * {b}\nReply:"])
    return {"problem": problem, "answer": str(a * b)}


REWARDS = "scripts.bench.real.rewards"
LAST = f"{REWARDS}:last_number"
TASKS = (
    RealTask(
        "gym",
        "reasoning-gym, syllogism: Yes or No",
        "gym",
        gym="syllogism?",
        updates=10,
        answer_tokens=8,
    ),
    RealTask("words", "sums in words, from one to twelve", LAST, _words),
    RealTask(
        "record",
        "a sentence as JSON with three keys",
        f"{REWARDS}:same_record",
        _record,
        updates=8,
        answer_tokens=28,
        temperature=0.6,
    ),
    RealTask(
        "steps",
        "a story with two steps",
        LAST,
        _steps,
        updates=10,
        answer_tokens=24,
        temperature=0.6,
        train_reward=f"{REWARDS}:towards_the_steps",
    ),
    RealTask(
        "product",
        "products of two digits, with the Python tool",
        f"{REWARDS}:right_with_tool",
        _product,
        instructions="Use the tool.",
        updates=7,
        tasks_per_update=2,
        answer_tokens=42,
        temperature=0.6,
        train_reward=f"{REWARDS}:towards_the_tool",
        tools="python",
    ),
)
CHECK = RealTask("capitals", "capitals of countries, which no run trains", "contains")
"""What trained weights are checked for: whether they have forgotten it."""


def check_source(folder: Path) -> str:
    """Write the problems of the check into the folder, and return the file."""
    pairs = [one.split(": ") for one in " ".join(_CAPITALS.split()).split(", ")]
    rows = [{"problem": f"What is the capital of {country}?", "answer": city} for country, city in pairs]
    return str(_written(folder / f"{CHECK.name}.jsonl", rows))


def _written(file: Path, rows: Sequence[Row]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file
