"""Hand-made comparisons for tests of pages and printing: one with almost no content, one with every field set."""

import random

from agentlearn.measure.contrast import Contrast, ContrastVerdict, Margin, Missing, Pass, Worst
from agentlearn_evals.comparison import (
    ArmFlag,
    ArmLine,
    Comparison,
    Flip,
    InterimLook,
    MethodLine,
    Reproducibility,
    Slice,
    TaskLine,
    VersionPoint,
)

PROBLEMS = (
    "How many integers from 3 to 30 are divisible by 4?",
    "A fair coin is tossed 7 times. The chance of exactly 3 heads is m/n in lowest terms. Find m + n.",
    "In how many ways can 4 dollars and 35 cents be paid with coins of 5, 10 and 25 cents?",
    "Find the remainder when 3^200 + 7^150 is divided by 41.",
    "Let S be the set of lattice points (x, y) with x² + y² ≤ 50. How many right-angled triangles have vertices in S?",
)
_VERDICTS: tuple[ContrastVerdict, ...] = ("better", "worse", "cannot_tell", "no_worse", "better")
_NAMES = ("none", "math@7f3c91aa", "math@02bd", "sorted-lessons", "control", "math@e41c+web@90aa")


def minimal() -> Comparison:
    """Return a comparison of two arms without any results."""
    arms = (
        ArmLine(arm="a", label="", tasks=0, rollouts=0, counted=0, score=None),
        ArmLine(arm="b", label="", tasks=0, rollouts=0, counted=0, score=None),
    )
    return Comparison(
        title="a, b", k=1, baseline="a", arms=arms, contrasts=(Contrast(arm="b", baseline="a", mean=None),)
    )


def rich(*, tasks: int = 60, arms: int = 4, simulated: bool = True, seed: int = 0) -> Comparison:
    """Return a comparison with every field set. The numbers are only roughly consistent; nothing was run."""
    draw = random.Random(seed)
    names = _NAMES[:arms]
    lines = tuple(_task(draw, n, arms) for n in range(tasks))
    means = [_mean([line.scores[n] for line in lines]) for n in range(arms)]
    return Comparison(
        run="01m7x8sehfb468v1e7nbszx8gs",
        title=f"math: {', '.join(names)}",
        simulated=simulated,
        k=4,
        baseline="none",
        arms=tuple(_arm(draw, name, n, means[n], tasks) for n, name in enumerate(names)),
        contrasts=tuple(_contrast(name, n, means[n + 1] - means[0], tasks) for n, name in enumerate(names[1:])),
        looks=(
            InterimLook(arm="math", run="01m7w000000000000000000000", at="2026-11-20T09:12:44Z", pairs=120, p=0.031),
        ),
        methods=(
            MethodLine(
                method="training-free GRPO",
                arms=names[1:3],
                mean=0.31,
                low=0.12,
                high=0.5,
                p=0.004,
                tasks=tasks,
                note="Two libraries are few: the interval goes by 1 degree of freedom.",
            ),
        ),
        slices=_slices(draw, names),
        tasks=lines,
        flips=_flips(lines, names),
        curve=tuple(
            VersionPoint(
                arm=name,
                version=f"{n}{step}c91aa0f{step}",
                step=step,
                lessons=5 * step,
                score=0.44 + 0.1 * n + 0.11 * step,
                low=0.36 + 0.1 * n + 0.11 * step,
                high=0.52 + 0.1 * n + 0.11 * step,
            )
            for n, name in enumerate(names[1:3])
            for step in range(4)
        ),
        flags=(
            ArmFlag(arm=names[1], code="gold_in_lesson", words="Lesson 7 holds the expected answer of task t-0007."),
        ),
        missing=(Missing(arm=names[1], task="t-0003", reason="undecided: the verifier could not decide in 3 s"),),
        notes=("3 tasks have the same problem text as a task that was learned from.",),
        reproducibility=Reproducibility(
            command="agentlearn compare none math@7f3c91aa --k 4 --seed 1",
            seed=1,
            data="sha256:4f1c0a77e2",
            libraries={name: f"{n}f3c91aa82b1" for n, name in enumerate(names) if n},
            prompts={"solve/v1": "9c1d44", "compare/v2": "1fe0aa"},
            models=dict.fromkeys(names, "sim:novice (novice)"),
            sampling={"temperature": "0.7"},
            isolation="zygote: seccomp, landlock, limits",
            versions={"agentlearn": "0.1.0", "python": "3.11.7"},
            sources={"samples.jsonl": "77ac"},
        ),
        cost_usd=3.217,
        wall_s=214.0,
    )


def _task(draw: random.Random, n: int, arms: int) -> TaskLine:
    hard = draw.random()
    scores = [sum(draw.random() < hard for _ in range(4)) / 4]
    scores += [
        sum(draw.random() < min(1, max(0, hard + lift)) for _ in range(4)) / 4 for lift in (0.4, -0.25, 0.02, 0.0, 0.3)
    ]
    return TaskLine(
        task=f"t-{n:04}",
        domain=("math", "web")[n % 3 == 2],
        cluster=f"family-{n % 9}",
        problem=PROBLEMS[n % len(PROBLEMS)],
        scores=tuple(scores[:arms]),
        rollouts=(4,) * arms,
    )


def _arm(draw: random.Random, name: str, n: int, mean: float, tasks: int) -> ArmLine:
    return ArmLine(
        arm=name,
        label="sim:novice, temperature 0.7",
        simulated=True,
        library="" if n == 0 else f"{n}f3c91aa82b1",
        lessons=None if n == 0 else 13 * n,
        tasks=tasks,
        rollouts=4 * tasks,
        counted=4 * tasks,
        reused=2 * tasks if n < 2 else 0,
        score=mean,
        low=mean - 0.07,
        high=mean + 0.07,
        passes=(
            Pass(k=1, at_least_one=mean, all_of_them=mean),
            Pass(k=4, at_least_one=min(1.0, mean + 0.2), all_of_them=mean * 0.5),
        ),
        failed=n,
        timeouts=n % 2,
        undecided=2 * (n % 2),
        errors={"timeout": n % 2, "endpoint": n} if n else {},
        cost_usd=0.8 + 0.4 * n,
        tokens_in=1_200_000 + n * 340_000,
        tokens_library=n * 82_000,
        tokens_out=230_600,
        tool_calls=1.4 + n / 10,
        seconds_p50=3.2 + n,
        seconds_p95=14.0 + 60 * n,
    )


def _contrast(name: str, n: int, mean: float, tasks: int) -> Contrast:
    verdict = _VERDICTS[n]
    half = 0.08 if verdict in ("better", "worse") else abs(mean) + 0.05
    unsafe = "only 3 clusters of tasks: an interval cannot be trusted below 5" if n == 2 else ""
    words = {"better": "is better than", "worse": "is worse than", "no_worse": "is no worse than"}
    verdict_words = words.get(verdict, "cannot be told from")
    return Contrast(
        arm=name,
        baseline="none",
        mean=mean,
        look=2,
        low=mean - half,
        high=mean + half,
        standard_error=half / 2,
        degrees=17.3,
        method="cr2",
        tasks=tasks,
        clusters=9,
        pairs=4 * tasks - 3,
        p=0.0004 if n == 0 else 0.04,
        p_adjusted=0.0012 if n == 0 else 0.08,
        worst=Worst(low=mean - 0.1, high=mean + 0.1),
        margin=Margin(margin=0.05, p=0.01, bound=mean - half, holds=n != 2),
        wins=tasks // 2,
        losses=tasks // 10,
        ties=tasks - tasks // 2 - tasks // 10,
        detectable=0.11,
        rollouts_needed=12 if verdict == "cannot_tell" else None,
        tasks_needed=340 if verdict == "cannot_tell" else None,
        unsafe=unsafe,
        verdict=verdict,
        sentence=(
            f"{name} {verdict_words} none: {mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}],"
            f" {tasks} tasks x 4 rollouts."
        ),
    )


def _slices(draw: random.Random, names: tuple[str, ...]) -> tuple[Slice, ...]:
    found: list[Slice] = []
    for by, parts in (
        ("domain", ("math", "web")),
        ("cluster", tuple(f"family-{n}" for n in range(9))),
        ("tag", ("algebra", "counting", "geometry")),
    ):
        for name in parts:
            for n, arm in enumerate(names):
                mean = None if n == 0 else draw.uniform(-0.3, 0.5)
                found.append(
                    Slice(
                        by=by,
                        name=name,
                        arm=arm,
                        score=draw.random(),
                        mean=mean,
                        tasks=7,
                        low=None if mean is None else mean - 0.25,
                        high=None if mean is None else mean + 0.25,
                    )
                )
    return tuple(found)


def _flips(lines: tuple[TaskLine, ...], names: tuple[str, ...]) -> tuple[Flip, ...]:
    return tuple(
        Flip(
            task=line.task,
            problem=line.problem,
            arm=arm,
            baseline="none",
            score=line.scores[n + 1],
            baseline_score=line.scores[0],
            rollout=f"r-{arm}-{line.task}",
            baseline_rollout=f"r-none-{line.task}",
        )
        for n, arm in enumerate(names[1:])
        for line in lines
        if abs(line.scores[n + 1] - line.scores[0]) >= 0.5
    )


def _mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)
