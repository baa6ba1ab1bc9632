"""Trains and measures on one kind of task, with the commands of agentlearn."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.real.runs import agentlearn
from tests.bench.real.table import Change, LessonsLine, TaskLine, TrainingRun
from tests.bench.real.tasks import CHECK, TASKS, RealTask, check_source

TASKS_PER_UPDATE, GROUP = 4, 8
LEARNING_RATE, RANK = 3e-4, 16


@dataclass(frozen=True, slots=True)
class Settings:
    """What all runs share."""

    model: str
    store: Path
    updates: int
    k: int
    threads: int
    """Threads of torch in each process."""

    def of_task(self, name: str) -> Path:
        """The store of one kind of task, so that runs of several kinds can go on at the same time."""
        return self.store / name


def trained(task: RealTask, seed: int, settings: Settings) -> TrainingRun:
    """Train an adapter with one seed; returns its folder, its curve and its cost."""
    store = settings.of_task(f"{task.name}-{seed}")
    store.mkdir(parents=True, exist_ok=True)
    learned, _ = task.sources(store)
    epochs = -(-settings.updates * TASKS_PER_UPDATE // 64)
    ran = agentlearn(
        "train", learned, *task.options(training=True),
        "--model", settings.model, "--seed", str(seed), "--name", "weights",
        "--test-share", "0", "--no-eval", "--epochs", str(epochs), "--limit", str(settings.updates * TASKS_PER_UPDATE),
        "--batch-size", str(TASKS_PER_UPDATE), "--group-size", str(GROUP),
        "--lora-rank", str(RANK), "--learning-rate", str(LEARNING_RATE), "--no-tensorboard",
        "--set", "dtype=bf16", "--set", "share_prompts=true", "--set", "tokens_per_microbatch=2048",
        store=store, threads=settings.threads,
    )  # fmt: skip
    curve = tuple(one["reward"] for one in ran.result["updates"])
    _say(f"{task.name}, seed {seed}: reward {curve[0]:.2f} → {curve[-1]:.2f} in {ran.wall_s:.0f} s")
    return TrainingRun(
        task=task.name,
        seed=seed,
        weights=ran.result["weights"]["path"],
        curve=curve,
        wall_s=ran.wall_s,
        cpu_s=ran.cpu_s,
        sampling_s=ran.result["seconds"].get("sampling", 0.0),
        updating_s=ran.result["seconds"].get("updating", 0.0),
    )


def measured(task: RealTask, runs: Sequence[TrainingRun], settings: Settings) -> TaskLine:
    """Compare the model with all its trained forms, on held-out tasks and on what it may have forgotten."""
    store = settings.of_task(task.name)
    store.mkdir(parents=True, exist_ok=True)
    _, held_out = task.sources(store)
    gain = _compared(task, held_out, runs, settings, store)
    forgotten = _compared(CHECK, check_source(store), runs, settings, store)
    _say(f"{task.name}: {gain.before:.2f} → {gain.after:.2f} on held-out tasks")
    return TaskLine(task=task.name, what=task.what, gain=gain, check=forgotten)


def lessons_and_weights(settings: Settings) -> LessonsLine:
    """Learn lessons for the model with two reflectors, distil them, and compare none, lessons, weights and both."""
    task = next(one for one in TASKS if one.gym)
    store = settings.of_task("lessons")
    store.mkdir(parents=True, exist_ok=True)
    learned, held_out = task.sources(store)
    model = f"local:{settings.model}"
    arms = [f"none=none,model={model}"]
    notes: list[str] = []
    for name, reflector in (("itself", model), ("simulated", "sim:reflector")):
        ran = agentlearn(
            "learn", learned, *task.options(), "--model", model, "--reflector", reflector, "--name", name,
            "--epochs", "1", "--limit", "20", "--group-size", "4", "--no-eval", "--select", "last",
            "--validation-rollouts", "0", "--yes",
            store=store, threads=settings.threads,
        )  # fmt: skip
        lessons = int(ran.result["library"]["lessons"])
        notes.append(f"reflector {name}: {lessons} lessons")
        if lessons:
            arms.append(f"lessons-{name}={name},model={model}")
            agentlearn(
                "train", learned, *task.options(training=True), "--model", settings.model, "--distill", name,
                "--name", f"distilled-{name}", "--test-share", "0", "--no-eval", "--epochs", "1",
                "--limit", str(settings.updates * TASKS_PER_UPDATE), "--batch-size", str(TASKS_PER_UPDATE),
                "--group-size", str(GROUP), "--lora-rank", str(RANK), "--learning-rate", str(LEARNING_RATE),
                "--no-tensorboard", "--set", "dtype=bf16", "--set", "share_prompts=true",
                "--set", "tokens_per_microbatch=2048",
                store=store, threads=settings.threads,
            )  # fmt: skip
            weights = store / "weights" / f"distilled-{name}"
            arms += [f"distilled-{name}=none,model=local:{weights}", f"both-{name}={name},model=local:{weights}"]
    if len(arms) == 1:
        return LessonsLine(task=task.name, changes=(), notes=(*notes, "no lessons, so nothing to compare"))
    ran = _compare(task, held_out, arms, settings, store)
    changes = tuple(_change(one, ran.result) for one in ran.result["contrasts"])
    return LessonsLine(task=task.name, changes=changes, notes=tuple(notes))


def _compared(task: RealTask, source: str, runs: Sequence[TrainingRun], settings: Settings, store: Path) -> Change:
    """The mean change from the model to its trained forms; the interval covers other tasks and other seeds."""
    arms = [f"none=none,model=local:{settings.model}"]
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
        "compare", *arms, "--domain", source, *task.options(), "-k", str(settings.k), "--temperature", "1", "--yes",
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


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)
