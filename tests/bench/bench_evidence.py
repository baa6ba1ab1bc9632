"""How surely single lessons are found to be harmful or proven, and what measuring them costs, in simulated libraries.

Every setting has 200 libraries of 20 lessons, 2 harmful and 3 good ones, looked at after every 100 of 5,000 rollouts.
Two rules without a guarantee are measured too: an uncorrected standard score, and the mean reward since a lesson
arrived against the mean reward before it, without any rollout from which it is hidden.

    just bench evidence
    just bench evidence --libraries 40 --only "10 points, h = 1"
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from agentlearn.learning.evidence import EvidenceRules, LessonBlock, judge
from agentlearn.types.ids import ExperienceId
from tests.bench.evidence_worlds import (
    EVERY,
    GOOD,
    HARMFUL,
    LESSONS,
    Array,
    G,
    Labels,
    Setting,
    World,
    guaranteed,
    running_baseline,
    simulate,
    uncorrected,
)
from tests.bench.found import Found, Number, Row, Target

SEALED = 10_000
"""First seed of the reported figures. Bets and window were chosen with seeds below 100."""
AT = (1_000, 2_000, 3_000, 5_000)
RULES = EvidenceRules()
LOST_OF = 12
"""A number of rollouts of which every share of undecided rollouts is a whole number, whatever is hidden."""
_SHARES = (
    "5 rollouts per group; 100 tasks; harmful and proven: share found after so many rollouts; wrong: mean share of"
    " wrong labels at the worst look; removed: share ever labelled harmful; lost: points of reward"
)
_DRIFT = (
    "with drift the harmful lessons are good for the first 2,500 rollouts; a lesson that was ever good counts as proven"
    " rightly; stale: share of the changed lessons that are still labelled proven 1,000 rollouts later"
)


def settings() -> Iterator[Setting]:
    """Every setting, the largest effects first."""
    for points, hidden, drift, retrieved in product((10, 5, 3), (1, 2), (False, True), (False, True)):
        yield Setting(points, hidden, drift=drift, retrieved=retrieved)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--libraries", type=int, default=200, help="simulated libraries per setting")
    parser.add_argument("--only", default="", help="only settings whose names contain this")
    parser.add_argument("--seed", type=int, default=SEALED, help="seed of the first library")


def measure(chosen: argparse.Namespace) -> Found:
    """Return one row for each setting and rule, and a target for each promise."""
    rows, targets = list[Row](), list[Target]()
    for setting in settings():
        if chosen.only not in setting.name:
            continue
        worlds = [simulate(setting, chosen.seed + number) for number in range(chosen.libraries)]
        found = {rule: _figures(labels, worlds, setting) for rule, labels in _labels(worlds)}
        for rule, figures in found.items():
            rows.append(Row(name=f"{setting.name}: {rule}", figures=figures))
            print(rows[-1].name, dict(figures), file=sys.stderr, flush=True)
        targets += _targets(setting, found["guarantee"])
    return Found(
        rows=tuple(rows),
        targets=tuple(targets),
        notes=(f"{chosen.libraries} libraries per setting from seed {chosen.seed}; {_SHARES}", _DRIFT),
    )


def _labels(worlds: list[World]) -> Iterator[tuple[str, Labels]]:
    effects_BNL = np.stack([one.effects_BL for one in worlds], axis=1)
    lost_BNL2 = np.stack([one.lost_BL2 for one in worlds], axis=1)
    ours = guaranteed(effects_BNL, lost_BNL2, RULES)
    _check_against_judge(effects_BNL[:, 0], lost_BNL2[:, 0], ours)
    yield "guarantee", ours
    yield "uncorrected", uncorrected(effects_BNL)
    rewards = np.stack([one.one_by_one_B for one in worlds])
    yield "no control group", running_baseline(rewards, np.stack([one.arrives_L for one in worlds]))


def _check_against_judge(effects_BL: Array, lost_BL2: Array, labels: Labels) -> None:
    """Raise AssertionError unless the library's own function gives the same labels for the first library."""
    size, blocks = LOST_OF, list[LessonBlock]()
    for block, lesson in np.argwhere(~np.isnan(effects_BL)):
        lost = [round(size * share) for share in lost_BL2[block, lesson]]
        blocks.append(
            LessonBlock(
                ExperienceId(f"{lesson:02}"),
                "m",
                float(effects_BL[block, lesson]),
                size - lost[0],
                size - lost[1],
                int(block),
                lost_shown=lost[0],
                lost_hidden=lost[1],
            )
        )
    found = [one.label for one in judge(blocks, RULES)]
    harmful, proven = labels.harmful[-1, 0], labels.proven[-1, 0]
    expected = [
        "harmful" if bad else "proven" if good else "unknown" for bad, good in zip(harmful, proven, strict=True)
    ]
    assert found == expected, (found, expected)


def _figures(labels: Labels, worlds: list[World], setting: Setting) -> dict[str, Number]:
    truth = np.stack([one.truth_BL for one in worlds], axis=1)
    ever_bad: Any = np.less(np.minimum.accumulate(truth, axis=0)[EVERY - 1 :: EVERY], 0)
    ever_good: Any = np.greater(np.maximum.accumulate(truth, axis=0)[EVERY - 1 :: EVERY], 0)
    looks = {at: at // (EVERY * G) - 1 for at in AT}
    removed: Any = labels.harmful.any(axis=0)
    figures: dict[str, Number] = {}
    for at, look in looks.items():
        figures[f"harmful_{at}"] = _rounded(labels.harmful[look][:, HARMFUL].mean())
    for at, look in looks.items():
        figures[f"proven_{at}"] = _rounded(labels.proven[look][:, GOOD].mean())
    figures["wrong_harmful"] = _rounded(_wrong(labels.harmful, ever_bad))
    figures["wrong_proven"] = _rounded(_wrong(labels.proven, ever_good))
    figures["removed_null"] = _rounded(removed[:, GOOD.stop : LESSONS].mean())
    figures["removed_good"] = _rounded(removed[:, GOOD].mean())
    figures["any_false_removal"] = _rounded((removed & ~ever_bad[-1]).any(axis=1).mean())
    if setting.drift:
        figures["stale"] = _rounded(labels.proven[(2_500 + 1_000) // (EVERY * G) - 1][:, HARMFUL].mean())
    figures["lost_points"] = round(float(100 * np.mean([one.unmasked - one.reward for one in worlds])), 2)
    return figures


def _wrong(labelled: Any, right: Any) -> float:
    """Mean share of wrong labels among the labels of a look, 0 where there are none, at the worst look."""
    wrong, all_of_them = (labelled & ~right).sum(axis=-1), labelled.sum(axis=-1)
    return float((wrong / np.maximum(all_of_them, 1)).mean(axis=-1).max())


def _rounded(share: float) -> float:
    return round(float(share), 3)


def _targets(setting: Setting, figures: dict[str, Number]) -> list[Target]:
    targets = list[Target]()
    for label in ("harmful", "proven"):
        wrong = float(figures[f"wrong_{label}"] or 0)
        targets.append(Target(what=f"{setting.name}: wrong {label}", figure=wrong, bound="at_most", limit=0.1))
    if setting.points == 10 and not setting.drift:
        found = float(figures["harmful_3000"] or 0)
        targets.append(Target(what=f"{setting.name}: harmful found", figure=found, bound="at_least", limit=0.9))
    return targets
