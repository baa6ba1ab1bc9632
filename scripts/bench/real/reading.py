"""Can a small real model learn to read lessons? Train it on tasks whose rule stands only in a lesson, and measure.

    python -m scripts.bench.real.reading

In each made-up town, things go to desks. The desk is drawn anew for each town and stands in one lesson of a library
that has a lesson for every town; retrieval shows the one of the town that is asked about. So the question alone does
not tell the answer, and towns that are measured were not trained on. The model is SmolLM2-135M-Instruct.
`agentlearn train --library` trains it, with rewards only. `agentlearn compare` then measures it on other towns and
other things, with their lessons, without lessons, and with lessons that name other desks.

`--rule one`: all things of a town go to one desk. `--rule kinds`: three kinds of things go to three desks, so that the
model also has to know what kind a thing is. It is measured on kinds that were trained on, and on kinds that were not.
"""

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentlearn import Library, Retrieval
from agentlearn.config.model_folders import KNOWN_MODELS, FetchedState
from agentlearn.library import LibraryStore
from agentlearn.types.value import Value
from scripts.bench.real.measuring import GROUP, LEARNING_RATE, MODEL, RANK, once
from scripts.bench.real.runs import RunFailed, agentlearn
from scripts.bench.real.tasks import LAST, Row

KNOWN: Mapping[str, Sequence[str]] = {
    "animals": ("horse", "cow", "dog", "cat", "sheep", "lion", "goat", "pig", "wolf", "bear"),
    "fruits": ("apple", "pear", "plum", "lemon", "peach", "cherry", "banana", "grape", "melon", "mango"),
    "tools": ("hammer", "saw", "drill", "wrench", "axe", "shovel", "chisel", "rake", "pliers", "file"),
    "clothes": ("shirt", "coat", "hat", "sock", "glove", "scarf", "skirt", "belt", "dress", "jacket"),
    "vehicles": ("car", "bus", "train", "truck", "bike", "ship", "plane", "tram", "van", "boat"),
}
"""Kinds of things to train on. The last four things of each kind are only measured."""
OTHER: Mapping[str, Sequence[str]] = {
    "drinks": ("water", "milk", "tea", "coffee", "juice", "beer"),
    "instruments": ("piano", "violin", "flute", "guitar", "drum", "trumpet"),
    "flowers": ("rose", "tulip", "daisy", "lily", "orchid", "violet"),
}
"""Kinds of things that are only measured."""
EVERYTHING = "everything"
_MEASURED = 4
_FIRST = ("Mar", "Tol", "Quin", "Har", "Sel", "Nor", "Bex", "Dun", "Fal", "Gor", "Hux", "Kel")
_LAST = ("low", "by", "wick", "den", "ton", "ford", "mere", "stow")
_CLOSEST = Retrieval(max_shown_tokens=1, shown_lessons=1)
_OPTIONS = (
    "--reward", LAST, "--tools", "none", "--max-output-tokens", "12", "--max-turns", "2",
    "--instructions", "Answer with the desk.", "--only-instructions", "--max-shown-tokens", "1", "--shown-lessons", "1",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Town:
    """A town and its rule: the desk of each of three kinds of things."""

    name: str
    desks: Mapping[str, int]

    def lesson(self, *, wrong: bool = False) -> str:
        """Return the rule in words. wrong: with each kind at the desk of the next one, or at the next desk."""
        if list(self.desks) == [EVERYTHING]:
            desk = self.desks[EVERYTHING]
            return f"In {self.name}, {EVERYTHING} goes to desk {desk % 9 + 1 if wrong else desk}."
        desks = list(self.desks.values())
        parts = [
            f"{kind} go to desk {desk}" for kind, desk in zip(self.desks, desks[wrong:] + desks[:wrong], strict=True)
        ]
        return f"In {self.name}, {', '.join(parts[:-1])}, and {parts[-1]}."

    def task(self, kind: str, thing: str) -> dict[str, str]:
        """Return a question and its answer."""
        problem = f"In {self.name}, which desk does the {thing} go to?"
        return {"problem": problem, "answer": str(self.desks[kind]), "family": self.name}


class Arm(Value):
    """One arm of a comparison."""

    name: str
    score: float


class Pair(Value):
    """The difference of two arms with its 95 % interval."""

    words: str
    verdict: str


class Measured(Value):
    """What was measured on one kind of held-out towns."""

    what: str
    tasks: int
    arms: tuple[Arm, ...]
    pairs: tuple[Pair, ...]
    wall_s: float
    cpu_s: float


class Trained(Value):
    """One training."""

    weights: str
    curve: tuple[float, ...]
    wall_s: float
    cpu_s: float


def towns(kinds: Sequence[str], number: int, *, names: Sequence[str], chance: random.Random) -> list[Town]:
    """Draw the rules of towns: for three of these kinds each, or for the only kind."""
    size = min(3, len(kinds))
    return [
        Town(name, dict(zip(chance.sample(kinds, size), chance.sample(range(1, 10), size), strict=True)))
        for name in names[:number]
    ]


def questions(
    drawn: Sequence[Town], things: Mapping[str, Sequence[str]], each: int, chance: random.Random
) -> list[Row]:
    """Draw different questions on each town."""
    return [
        town.task(kind, chance.choice(things[kind])) for town in drawn for kind in chance.sample(list(town.desks), each)
    ]


def write(store: Path, name: str, drawn: Sequence[Town], rows: Sequence[dict[str, str]]) -> str:
    """Write the tasks, their library, and one with the wrong lessons; returns the file of the tasks.

    Raises RunFailed when a task would be shown another town's lesson.
    """
    for library, wrong in ((name, False), (f"{name}-wrong", True)):
        lessons = Library.of([town.lesson(wrong=wrong) for town in drawn])
        LibraryStore(store / "libraries").publish(library, lessons)
        for row in rows:
            shown = str(lessons.render(row["problem"], retrieval=_CLOSEST))
            if f"In {row['family']}," not in shown:
                raise RunFailed(f"the lesson shown for {row['problem']!r} is of another town: {shown!r}")
    file = store / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


def draw(store: Path, rule: str, seed: int, updates: int, measured: int) -> tuple[str, dict[str, str]]:
    """Write everything that is drawn; returns the tasks to learn from, and the held-out ones by their name."""
    chance = random.Random(f"desks {seed}")
    names = [first + last for first in _FIRST for last in _LAST]
    chance.shuffle(names)
    kept = -_MEASURED
    learned, known, other = (
        {kind: x[:kept] for kind, x in KNOWN.items()},
        {kind: x[kept:] for kind, x in KNOWN.items()},
        OTHER,
    )
    if rule == "one":
        learned, known, other = ({EVERYTHING: sum(map(tuple, one.values()), ())} for one in (learned, known, other))
    each = min(2, len(learned))
    if 2 * measured + updates * 4 // each > len(names):
        raise RunFailed(f"there are {len(names)} towns; give fewer --tasks or --updates")
    written = dict[str, str]()
    for name, things, number in (
        ("known", known, measured),
        ("other", other, measured),
        ("learned", learned, updates * 4 // each),
    ):
        drawn, names = towns(list(things), number, names=names, chance=chance), names[number:]
        rows = questions(drawn, things, each if name == "learned" else 1, chance)
        written[name] = write(store, name, drawn, rows)
    return written.pop("learned"), written


def trained(store: Path, file: str, seed: int) -> Trained:
    """Train an adapter with the lessons in every prompt."""
    ran = agentlearn(
        "train", file, *_OPTIONS, "--model", MODEL, "--library", "learned", "--name", "reader", "--seed", str(seed),
        "--test-share", "0", "--no-eval", "--report-to", "none", "--epochs", "1", "--batch-size", "4",
        "--group-size", str(GROUP), "--lora-rank", str(RANK), "--learning-rate", str(LEARNING_RATE),
        "--set", "share_prompts=true", "--set", "tokens_per_microbatch=2048",
        store=store, threads=1,
    )  # fmt: skip
    curve = tuple(one["reward"] for one in ran.result["updates"])
    return Trained(weights=ran.result["weights"]["path"], curve=curve, wall_s=ran.wall_s, cpu_s=ran.cpu_s)


def compared(store: Path, name: str, file: str, weights: str, k: int) -> Measured:
    """Compare the model before and after training, without lessons, with those of the towns, and with wrong ones."""
    before, after = f"model=local:{MODEL}", f"model=local:{weights}"
    arms = [
        f"before=none,{before}", f"before-lessons={name},{before}", f"after=none,{after}",
        f"after-lessons={name},{after}", f"after-wrong={name}-wrong,{after}",
    ]  # fmt: skip
    pairs = ("before:before-lessons", "after:after-lessons", "after:after-wrong", "before-lessons:after-lessons")
    ran = agentlearn(
        "compare", *arms, "--domain", file, *_OPTIONS, "-k", str(k), "--temperature", "0.6", "--yes",
        *(word for pair in pairs for word in ("--pair", pair)),
        store=store, threads=1,
    )  # fmt: skip
    return Measured(
        what=name,
        tasks=ran.result["contrasts"][0]["tasks"],
        arms=tuple(Arm(name=arm["arm"], score=arm["score"]) for arm in ran.result["arms"]),
        pairs=tuple(Pair(words=one["sentence"], verdict=one["verdict"]) for one in ran.result["contrasts"]),
        wall_s=ran.wall_s,
        cpu_s=ran.cpu_s,
    )


def main() -> int:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", choices=("one", "kinds"), default="one", help="what a lesson says (default: one)")
    parser.add_argument("--updates", type=int, default=10, help="updates of 4 tasks with 8 rollouts (default: 10)")
    parser.add_argument("--tasks", type=int, default=28, help="held-out towns of each kind (default: 28)")
    parser.add_argument(
        "--sets", nargs="+", choices=("known", "other"), default=("known", "other"), help="what to measure"
    )
    parser.add_argument("--k", type=int, default=2, help="rollouts of each held-out task and arm (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the rules and the training (default: 0)")
    parser.add_argument("--store", type=Path, default=Path(".agentlearn/reading"), help="where everything is kept")
    chosen = parser.parse_args()
    if KNOWN_MODELS[MODEL].state() is not FetchedState.FETCHED:
        print(f"the model {MODEL} is not here; fetch it with: agentlearn models fetch {MODEL}", file=sys.stderr)
        return 2
    store: Path = chosen.store
    store.mkdir(parents=True, exist_ok=True)
    try:
        file, held_out = draw(store, chosen.rule, chosen.seed, chosen.updates, chosen.tasks)
        run = once(store / "training", Trained, lambda: trained(store, file, chosen.seed))
        print(f"trained in {len(run.curve)} updates, {run.cpu_s:.0f} s of CPU; reward by update:")
        print(" ".join(f"{one:.2f}" for one in run.curve))
        for name in chosen.sets:
            found = once(store / name, Measured, lambda n=name: compared(store, n, held_out[n], run.weights, chosen.k))
            print(f"\n{name} kinds of things, {found.tasks} towns x {chosen.k}, {found.cpu_s:.0f} s of CPU")
            print("  ".join(f"{arm.name} {arm.score:.2f}" for arm in found.arms))
            print("\n".join(pair.words for pair in found.pairs))
    except RunFailed as error:
        print(f"{error}\nWhat was done before is kept: the same command goes on from there.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
