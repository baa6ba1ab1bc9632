"""Trains and measures on one kind of task, with the commands of agentlearn."""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentlearn.types.value import Value
from scripts.bench.real.runs import Ran, agentlearn, run
from scripts.bench.real.table import Change, LessonsLine, OtherKind, TaskLine, TrainingRun
from scripts.bench.real.tasks import CHECK, LEARNED, TASKS, RealTask, check_source

MODEL = "smollm2-135m"
BY_HAND = (
    "Reply with Yes or No and nothing else.",
    "Judge by the statements alone, not by what is true in the world.",
)
"""Lessons for syllogisms, written by a person."""
Found = TypeVar("Found", bound=Value)
GROUP = 8
LEARNING_RATE, RANK = 5e-4, 16
MANY, MARGIN = 240, 0.05
"""Held-out problems for non-inferiority, and its margin."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What all runs share."""

    store: Path
    updates: int | None
    """Updates of each training; None: as many as its kind of task says."""
    k: int
    jobs: int
    """Commands at the same time."""
    threads: int
    """Threads of torch in each process."""

    def of_task(self, name: str) -> Path:
        """The store of one kind of task, so that runs of several kinds can go on at the same time."""
        return self.store / ("runs" if self.updates is None else f"{self.updates}-updates") / name

    def updates_of(self, task: RealTask) -> int:
        """Number of updates of a training on this kind of task."""
        return task.updates if self.updates is None else self.updates


def trained(task: RealTask, seed: int, settings: Settings) -> TrainingRun:
    """Train an adapter with one seed; returns its folder, its curve and its cost."""
    store = settings.of_task(f"{task.name}-{seed}")

    def train() -> TrainingRun:
        ran = _train(task, settings, store, "--seed", str(seed), "--name", "weights")
        return TrainingRun(
            task=task.name,
            seed=seed,
            weights=ran.result["weights"]["path"],
            curve=tuple(one["reward"] for one in ran.result["updates"]),
            wall_s=ran.wall_s,
            cpu_s=ran.cpu_s,
            sampling_s=ran.result["seconds"].get("sampling", 0.0),
            updating_s=ran.result["seconds"].get("updating", 0.0),
        )

    return once(store, TrainingRun, train)


def trained_by_trl(task: RealTask, seed: int, settings: Settings) -> TrainingRun:
    """Train an adapter with TRL's GRPOTrainer: the same tasks, prompts, rewards, rollouts and settings."""
    store = settings.of_task(f"{task.name}-{seed}-trl")

    def train() -> TrainingRun:
        wanted = [task.name, str(seed), str(settings.updates_of(task)), str(LEARNING_RATE), str(store)]
        ran = run([sys.executable, "-m", "scripts.bench.real.trl_training", *wanted], threads=settings.threads)
        return TrainingRun(
            task=task.name,
            seed=seed,
            weights=ran.result["weights"],
            curve=tuple(ran.result["curve"]),
            wall_s=ran.wall_s,
            cpu_s=ran.cpu_s,
            trainer="trl",
        )

    return once(store, TrainingRun, train)


def _train(task: RealTask, settings: Settings, store: Path, *more: str, model: str = MODEL) -> Ran:
    """Train an adapter. model: of the table of known models, or the folder of weights to train on."""
    learned, _ = task.sources(store)
    drawn = settings.updates_of(task) * task.tasks_per_update
    epochs = -(-drawn // LEARNED)
    return agentlearn(
        "train", learned, *task.options(training=True), "--model", model, *more,
        "--test-share", "0", "--no-eval", "--report-to", "none",
        "--epochs", str(epochs), "--limit", str(drawn // epochs),
        "--batch-size", str(task.tasks_per_update), "--group-size", str(GROUP),
        "--lora-rank", str(RANK), "--learning-rate", str(LEARNING_RATE),
        "--set", "share_prompts=true", "--set", "tokens_per_microbatch=2048",
        store=store, threads=settings.threads,
    )  # fmt: skip


def measured(task: RealTask, runs: Sequence[TrainingRun], settings: Settings) -> TaskLine:
    """Compare the model with its trained forms, on held-out tasks and on what it may have forgotten.

    runs: all of this task by one trainer, each with another seed.
    """
    store = settings.of_task(f"{task.name}-{runs[0].trainer}-{len(runs)}-seeds-k{settings.k}")

    def measure() -> TaskLine:
        _, held_out = task.sources(store)
        gain = _compared(task, held_out, runs, settings, store)
        forgotten = _compared(CHECK, check_source(store), runs, settings, store)
        return TaskLine(task=task.name, what=task.what, gain=gain, check=forgotten, trainer=runs[0].trainer)

    return once(store, TaskLine, measure)


class Distilled(Value):
    """Lessons of one origin, and the adapter that they were distilled into."""

    origin: str
    lessons: int
    library: Path
    weights: str | None
    """Folder of the adapter; None without lessons."""


ORIGINS = {"itself": f"local:{MODEL}", "simulated": "sim:reflector", "by-hand": None}
"""What writes the lessons: the model itself, the simulated reflector, and a person."""


def distilled(origin: str, settings: Settings) -> Distilled:
    """Get lessons of one origin, and distil them into an adapter, on tasks of reasoning-gym."""
    store, task, reflector = settings.of_task(f"lessons-{origin}"), gym(), ORIGINS[origin]

    def distil() -> Distilled:
        learned, _ = task.sources(store)
        number = _learn(origin, reflector, learned, task, settings, store) if reflector else _write(origin, store)
        library = store / f"{origin}.json"
        if not number:
            return Distilled(origin=origin, lessons=0, library=library, weights=None)
        ran = _train(task, settings, store, "--distill", origin, "--name", f"distilled-{origin}")
        agentlearn("library", "export", origin, "--out", str(library), store=store, threads=1)
        return Distilled(origin=origin, lessons=number, library=library, weights=ran.result["weights"]["path"])

    return once(store, Distilled, distil)


def lessons_and_weights(made: Sequence[Distilled], rewarded: str | None, settings: Settings) -> LessonsLine:
    """Compare none, lessons, weights and both.

    rewarded: an adapter trained on this kind of task without lessons.
    """
    store = settings.of_task("lessons")
    return once(store, LessonsLine, lambda: _lessons_and_weights(made, rewarded, settings, store))


def _lessons_and_weights(
    made: Sequence[Distilled], rewarded: str | None, settings: Settings, store: Path
) -> LessonsLine:
    task, model = gym(), f"local:{MODEL}"
    arms = [f"none=none,model={model}"]
    if rewarded is not None:
        arms.append(f"trained=none,model=local:{rewarded}")
    for one in made:
        if one.weights is None:
            continue
        arms += [
            f"lessons-{one.origin}={one.library},model={model}",
            f"distilled-{one.origin}=none,model=local:{one.weights}",
            f"both-{one.origin}={one.library},model=local:{one.weights}",
        ]
        if rewarded is not None:
            arms.append(f"trained-and-{one.origin}={one.library},model=local:{rewarded}")
    _, held_out = task.sources(store)
    ran = _compare(task, held_out, arms, settings, store)
    changes = tuple(_change(one, ran.result) for one in ran.result["contrasts"])
    notes = tuple(f"{one.origin}: {one.lessons} lessons" for one in made)
    return LessonsLine(task=task.name, changes=changes, notes=notes)


def other_kind(run: TrainingRun, settings: Settings) -> OtherKind:
    """Distil the person's lessons for reasoning-gym into weights that were trained on another kind of task.

    run: the training on the other kind, which is measured before and after.
    """
    store = settings.of_task(f"{run.task}-{run.seed}-then-lessons")
    return once(store, OtherKind, lambda: _other_kind(run, settings, store))


def _other_kind(run: TrainingRun, settings: Settings, store: Path) -> OtherKind:
    task, library = task_named(run.task), "by-hand"
    _write(library, store)
    distilled = _train(gym(), settings, store, "--distill", library, "--name", "distilled", model=run.weights)
    _, held_out = task.sources(store, held_out=MANY)
    arms = [f"before=none,model=local:{run.weights}", f"after=none,model=local:{distilled.result['weights']['path']}"]
    ran = _compare(task, held_out, arms, settings, store, "--margin", str(MARGIN))
    contrast = ran.result["contrasts"][0]
    change, verdict = _change(contrast, ran.result), contrast["verdict"]
    return OtherKind(lessons_for=gym().name, task=task.name, change=change, margin=MARGIN, verdict=verdict)


def task_named(name: str) -> RealTask:
    """The kind of task of that name."""
    return next(one for one in TASKS if one.name == name)


def gym() -> RealTask:
    """The kind of task that lessons are learned on."""
    return next(one for one in TASKS if one.gym)


def _learn(name: str, reflector: str, learned: str, task: RealTask, settings: Settings, store: Path) -> int:
    """Learn lessons, and return how many."""
    ran = agentlearn(
        "learn", learned, *task.options(), "--model", f"local:{MODEL}", "--reflector", reflector,
        "--name", name, "--epochs", "1", "--limit", "8", "--group-size", "4", "--no-eval", "--select", "last",
        "--validation-rollouts", "0", "--reflector-output-tokens", "192", "--yes",
        store=store, threads=settings.threads,
    )  # fmt: skip
    return int(ran.result["library"]["lessons"])


def _write(name: str, store: Path) -> int:
    """Write lessons by hand, and return how many."""
    for lesson in BY_HAND:
        agentlearn("library", "add", name, lesson, store=store, threads=1)
    return len(BY_HAND)


def _compared(task: RealTask, source: str, runs: Sequence[TrainingRun], settings: Settings, store: Path) -> Change:
    """The mean change from the model to its trained forms; the interval covers other tasks and other seeds."""
    arms = [f"none=none,model=local:{MODEL}"]
    arms += [f"seed{run.seed}=none,model=local:{run.weights}" for run in runs]
    method = f"trained={'+'.join(f'seed{run.seed}' for run in runs)}"
    ran = _compare(task, source, arms, settings, store, "--method", method)
    line, scores = ran.result["methods"][0], [arm["score"] for arm in ran.result["arms"]]
    return Change(
        name="trained",
        before=scores[0],
        after=sum(scores[1:]) / len(scores[1:]),
        mean=line["mean"],
        low=line["low"],
        high=line["high"],
        by_seed=tuple(scores[1:]),
        wall_s=ran.wall_s,
    )


def _compare(task: RealTask, source: str, arms: Sequence[str], settings: Settings, store: Path, *more: str) -> Any:
    return agentlearn(
        "compare", *arms, "--domain", source, *task.options(), "-k", str(settings.k), "--yes",
        *more,
        store=store, threads=settings.threads,
    )  # fmt: skip


def _change(contrast: dict[str, Any], result: dict[str, Any]) -> Change:
    scores = {arm["arm"]: arm["score"] for arm in result["arms"]}
    return Change(
        name=contrast["arm"],
        before=scores[contrast["baseline"]],
        after=scores[contrast["arm"]],
        mean=contrast["mean"],
        low=contrast["low"],
        high=contrast["high"],
    )


def once(folder: Path, kind: type[Found], make: Callable[[], Found]) -> Found:
    """Return what an earlier call left in the folder; otherwise empty the folder, make it and keep it there."""
    kept = folder / "result.json"
    if kept.is_file():
        found = kind.model_validate_json(kept.read_text(encoding="utf-8"))
        _say(f"{folder.name}: kept from before")
        return found
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began_s = time.perf_counter()
    found = make()
    kept.write_text(found.model_dump_json() + "\n", encoding="utf-8")
    _say(f"{folder.name}: {time.perf_counter() - began_s:.0f} s")
    return found


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)
