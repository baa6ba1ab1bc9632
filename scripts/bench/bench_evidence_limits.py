"""What `library effects` says where it is hard: lost rollouts, effects that vary by task, and topics in waves.

Every row has simulated libraries whose effects are known. One lesson lowers the reward by 10 points on every task, one
raises it by 10, and two vary or lose rollouts as the row says; the others do nothing. `judge` labels them from the
blocks after 1,000, 3,000 and 5,000 rollouts. A label "on tasks like these" is wrong if the mean effect over all
tasks that there could be has not its sign; a label "on these tasks", if the mean effect over the tasks of the latest
comparisons has not.

    just bench evidence_limits
    just bench evidence_limits --only varies --libraries 20
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product, repeat
from multiprocessing import get_context
from typing import Any

import numpy as np

from agentlearn.learning.evidence import EvidenceRules, LessonBlock, LessonEvidence, judge
from agentlearn.types.ids import ExperienceId
from scripts.bench.found import Found, Row, Target

SEALED = 20_000
"""First seed of the reported figures."""
AT = (1_000, 3_000, 5_000)
HARMFUL, GOOD, ODD = 0, 1, range(2, 4)
EFFECT, SPREAD = 0.1, 0.2
G, HIDDEN = 5, 1
RULES = EvidenceRules()


@dataclass(frozen=True, slots=True)
class Setting:
    """One row."""

    name: str
    tasks: int = 100
    lessons: int = 20
    varies: bool = False
    """Whether the effect of the odd lessons varies by task, with mean 0 over new tasks."""
    families: int = 0
    """Families of tasks that come one after the other, each with effects of its own; 0: tasks come in random order."""
    undecided: float = 0.0
    """Share of all rollouts that are undecided by chance."""
    wrong_lost: float = 0.0
    """Share of the wrong rollouts that are undecided where an odd lesson is shown."""
    right_lost: float = 0.0
    """The same of the right ones."""
    right_lost_without: float = 0.0
    """Share of the right rollouts that are undecided where an odd lesson is hidden."""
    loses: range = ODD
    """The lessons that lose rollouts."""


def settings() -> Iterator[Setting]:
    """Every row."""
    for lessons, share in product((20, 60), (0.0, 0.03)):
        yield Setting(f"{lessons} lessons, {share:.0%} undecided", lessons=lessons, undecided=share)
    for share in (0.2, 0.4):
        yield Setting(f"no effect, {share:.0%} of wrong rollouts lost", wrong_lost=share)
        yield Setting(f"no effect, {share:.0%} of right rollouts lost", right_lost=share)
        name = f"no effect, {share:.0%} of wrong lost with it, of right without"
        yield Setting(name, wrong_lost=share, right_lost_without=share)
        yield Setting(f"-10 points, {share:.0%} of wrong rollouts lost", wrong_lost=share, loses=range(1))
    for tasks in (12, 40, 100):
        yield Setting(f"varies, {tasks} tasks", tasks=tasks, varies=True)
    for families in (6, 12, 30):
        yield Setting(f"varies, {families} families in waves", families=families, varies=True)


@dataclass(frozen=True, slots=True)
class World:
    """The blocks of one library, and the true effects. L lessons, B blocks."""

    blocks: list[LessonBlock]
    true_BL: np.ndarray
    """True mean effect of each lesson on the task of each block."""


def simulate(setting: Setting, seed: int) -> World:
    """Return the blocks of one library."""
    rng = np.random.default_rng(seed)
    count, tasks, lessons = AT[-1] // G, setting.tasks, setting.lessons
    family_T = np.arange(tasks) * setting.families // tasks if setting.families else np.arange(tasks)
    base_T = rng.beta(2, 2, tasks)
    effect_TL = np.zeros((tasks, lessons))
    effect_TL[:, HARMFUL], effect_TL[:, GOOD] = -EFFECT, EFFECT
    if setting.varies:
        drawn = rng.normal(0, SPREAD, (tasks, len(ODD)))
        effect_TL[:, list(ODD)] = drawn[family_T] if setting.families else drawn
    task_B = np.concatenate([rng.permutation(tasks) for _ in range(count // tasks + 1)])[:count]
    if setting.families:
        task_B = task_B[np.argsort(family_T[task_B], kind="stable")]
    shown_BLG = rng.random((count, lessons, G)).argsort(axis=2) >= HIDDEN
    rate_BG = np.clip(base_T[task_B][:, None] + np.einsum("bl,blg->bg", effect_TL[task_B], shown_BLG), 0, 1)
    right_BG = rng.random(rate_BG.shape) < rate_BG
    lost_BG = rng.random(right_BG.shape) < setting.undecided
    for lesson in setting.loses:
        shown_BG = shown_BLG[:, lesson]
        share_BG = np.where(right_BG, setting.right_lost, setting.wrong_lost) * shown_BG
        share_BG = share_BG + right_BG * ~shown_BG * setting.right_lost_without
        lost_BG |= rng.random(right_BG.shape) < share_BG
    return World(
        list(_blocks(setting, task_B, family_T, shown_BLG, right_BG, lost_BG)), _true(base_T, effect_TL)[task_B]
    )


def _true(base_T: Any, effect_TL: Any) -> np.ndarray:
    """Effect of each lesson on the reward of each task, where all others are shown."""
    all_T = base_T + effect_TL.sum(axis=1)
    return np.clip(all_T, 0, 1)[:, None] - np.clip(all_T[:, None] - effect_TL, 0, 1)


def _blocks(
    setting: Setting, task_B: Any, family_T: Any, shown_BLG: Any, right_BG: Any, lost_BG: Any
) -> Iterator[LessonBlock]:
    reward_BG = np.where(lost_BG, 0.5, right_BG)
    shown_BL, hidden_BL = shown_BLG.sum(axis=2), (~shown_BLG).sum(axis=2)
    level_BL = (reward_BG[:, None] * ~shown_BLG).sum(axis=2) / hidden_BL
    effect_BL = (reward_BG[:, None] * shown_BLG).sum(axis=2) / shown_BL - level_BL
    lost_shown_BL, lost_hidden_BL = ((lost_BG[:, None] & side).sum(axis=2) for side in (shown_BLG, ~shown_BLG))
    for block in range(len(task_B)):
        if lost_BG[block].all():
            continue
        family = f"math/f{family_T[task_B[block]]}" if setting.families else ""
        for lesson in range(setting.lessons):
            lost = int(lost_shown_BL[block, lesson]), int(lost_hidden_BL[block, lesson])
            yield LessonBlock(
                ExperienceId(f"{lesson:02}"),
                "simulated",
                float(effect_BL[block, lesson]),
                int(shown_BL[block, lesson]) - lost[0],
                int(hidden_BL[block, lesson]) - lost[1],
                block,
                lost_shown=lost[0],
                lost_hidden=lost[1],
                level=float(level_BL[block, lesson]),
                task=f"t{task_B[block]}",
                family=family,
            )


_SHARES = (
    "1 of 5 rollouts hides each lesson; harmful: share of libraries whose lesson of -10 points is found after so many"
    " rollouts; alike: also on tasks like these; odd proven: share of the odd lessons labelled proven; any wrong: share"
    " of all labels that do not hold for new tasks; wrong alike and wrong here: of the labels that say so; withheld:"
    " share of libraries with a label withheld; from odd proven on, at the worst look"
)
SHARES = ("harmful", "good", "odd", "any_wrong", "wrong_alike", "wrong_here", "like_these", "withheld")


def library(setting: Setting, seed: int) -> dict[int, dict[str, float]]:
    """Return what one library's labels say, by number of rollouts."""
    world = simulate(setting, seed)
    return {at: _figures(setting, world, at // G) for at in AT}


def _figures(setting: Setting, world: World, blocks: int) -> dict[str, float]:
    found = judge([one for one in world.blocks if one.at < blocks], RULES)
    recent_L = world.true_BL[max(0, blocks - RULES.window) : blocks].mean(axis=0)
    labelled = [(int(one.lesson), one) for one in found if one.label != "unknown"]
    alike = [(lesson, one) for lesson, one in labelled if one.holds_for == "tasks_like_these"]
    here = [(lesson, one) for lesson, one in labelled if one.holds_for == "these_tasks"]
    means = {HARMFUL: -EFFECT, GOOD: EFFECT}
    odd = [one for lesson, one in labelled if lesson in setting.loses and one.label == "proven"]
    return {
        "harmful": float(any(lesson == HARMFUL and one.label == "harmful" for lesson, one in labelled)),
        "good": float(any(lesson == GOOD and one.label == "proven" for lesson, one in labelled)),
        "like_these": float(any(lesson == HARMFUL and one.label == "harmful" for lesson, one in alike)),
        "odd": len(odd) / len(setting.loses),
        "any_wrong": _share(labelled, means),
        "wrong_alike": _share(alike, means),
        "wrong_here": _share(here, {lesson: float(mean) for lesson, mean in enumerate(recent_L)}),
        "withheld": float(any(one.withheld for one in found)),
    }


def _share(labelled: list[tuple[int, LessonEvidence]], true: Mapping[int, float]) -> float:
    """Share of labels whose sign the true mean effect has not; 0 without labels."""
    wrong = [true.get(lesson, 0.0) * (1 if one.label == "proven" else -1) <= 0 for lesson, one in labelled]
    return sum(wrong) / len(wrong) if wrong else 0.0


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--libraries", type=int, default=60, help="simulated libraries per row")
    parser.add_argument("--only", default="", help="only rows whose names contain this")
    parser.add_argument("--seed", type=int, default=SEALED, help="seed of the first library")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")


def measure(chosen: argparse.Namespace) -> Found:
    """Return one row per setting, and targets: at most a tenth of the labels wrong at the worst look."""
    rows, targets = list[Row](), list[Target]()
    with ProcessPoolExecutor(chosen.workers, mp_context=get_context("spawn")) as pool:
        for setting in settings():
            if chosen.only not in setting.name:
                continue
            seeds = range(chosen.seed, chosen.seed + chosen.libraries)
            found = list(pool.map(library, repeat(setting), seeds, chunksize=5))
            mean = {at: {one: float(np.mean([each[at][one] for each in found])) for one in SHARES} for at in AT}
            figures = {f"harmful_{at}": mean[at]["harmful"] for at in (1_000, 3_000, 5_000)}
            figures |= {f"harmful_alike_{at}": mean[at]["like_these"] for at in (3_000, 5_000)}
            figures |= {"good_3000": mean[3_000]["good"], "odd_proven": max(one["odd"] for one in mean.values())}
            for name in ("any_wrong", "wrong_alike", "wrong_here", "withheld"):
                figures[name] = max(one[name] for one in mean.values())
            rows.append(Row(name=setting.name, figures={name: round(value, 3) for name, value in figures.items()}))
            print(setting.name, dict(rows[-1].figures), file=sys.stderr, flush=True)
            for name in ("wrong_alike", "wrong_here"):
                what = f"{setting.name}: {name.replace('_', ' ')}"
                targets.append(Target(what=what, figure=figures[name], bound="at_most", limit=0.1))
    return Found(
        rows=tuple(rows),
        targets=tuple(targets),
        notes=(f"{chosen.libraries} libraries per row from seed {chosen.seed}; {_SHARES}",),
    )
