"""How often the rule for canaries is wrong, what it finds and what it costs, beside a rule that looks at running means.

Every simulated episode has a reward of 0 or 1, and the canary is better or worse by a known difference. Our rule is
asked after every ten blocks of neighbouring episodes, later after every 5 % more, until it decides or 6,000 blocks are
over. The other rule goes by the sign of the difference of the running means, as soon as 100 episodes read the canary. A
promotion is wrong if the canary is worse by the margin or more; a roll back, if it is not worse. "life" has libraries
with ten canaries in a row that share one budget, six of them without any difference. The rows "drift" have one proven
lesson whose effect changes after 1,500 blocks, and `judge` labels it.

    just bench canary
    just bench canary --runs 40 --only drift
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from agentlearn.learning.evidence import LessonBlock, judge
from agentlearn.library.history.canary import Canary
from agentlearn.library.history.change_log import NO_LINE, Change
from agentlearn.live.canary import ALPHA, canary_outcome, canary_threshold, simulated_blocks
from agentlearn.types.ids import ExperienceId, LibraryVersion
from scripts.bench.found import Found, Row, Target

SEALED = 40_000
"""First seed of the reported figures."""
LEVEL, MARGIN, MOST, LOOK, FEWEST = 0.6, 0.02, 6_000, 10, 100
LIFE = (0.0, 0.0, -0.1, 0.0, 0.1, 0.0, 0.0, -0.1, 0.1, 0.0)
"""Differences of the ten canaries of a library."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row."""

    name: str
    difference: float
    share: float = 0.1
    fall: float = 0.0
    """By how much the level falls from the first to the last block, for everybody."""


def settings() -> Iterator[Setting]:
    """Every row with one canary for each library."""
    for difference in (-0.2, -0.1, -0.05, -0.02, 0.0, 0.1):
        yield Setting(f"{100 * difference:+.0f} points", difference)
    yield Setting("-10 points, share 1/2", -0.1, share=0.5)
    yield Setting("no difference, the level falls by 30 points", 0.0, fall=0.3)


@dataclass(frozen=True, slots=True)
class Ended:
    """How one canary ended."""

    outcome: str
    episodes: int
    exposed: int
    """Episodes that read it."""
    figures: Mapping[str, float]

    def wrong(self, difference: float) -> bool:
        """Whether the decision is wrong. Just inside the margin, both are right."""
        return difference <= -MARGIN if self.outcome == "promote" else self.outcome == "roll_back" and difference >= 0


def simulate(setting: Setting, seed: int, earlier: Sequence[Canary] = ()) -> tuple[Ended, Ended]:
    """How a canary ends by our rule, and by running means."""
    rng = np.random.default_rng(seed)
    level = LEVEL + setting.fall * (0.5 - np.arange(MOST) / MOST)
    right, _, episodes = simulated_blocks(rng, MOST, setting.share, level + setting.difference, level)
    key, effects = ExperienceId("c" * 32), right[0] / episodes[0] - right[1] / episodes[1]
    blocks = [LessonBlock(key, "m", float(one), 1, 1, at, until=at) for at, one in enumerate(effects, start=1)]
    needed = canary_threshold(earlier, "end_canary"), canary_threshold(earlier, "promote")
    all_episodes, exposed = episodes.sum(axis=0).cumsum(), episodes[0].cumsum()

    def ended(outcome: str, blocks: int, worse: float = 0.0, no_worse: float = 0.0) -> Ended:
        figures = {"log_e_worse": worse, "needed_worse": needed[0], "log_e_no_worse": no_worse}
        figures["needed_no_worse"] = needed[1]
        return Ended(outcome, int(all_episodes[blocks - 1]), int(exposed[blocks - 1]), figures)

    by_rule = ended("collect", MOST)
    look = LOOK
    while look <= MOST and by_rule.outcome == "collect":
        outcome, worse, no_worse = canary_outcome(blocks[:look], MARGIN, *needed)
        by_rule = ended(outcome, look, worse, no_worse) if outcome != "collect" else by_rule
        look += max(LOOK, look // 20)
    first = int(np.searchsorted(exposed, FEWEST)) + 1
    means = right[:, :first].sum(axis=1) / episodes[:, :first].sum(axis=1)
    return by_rule, ended("promote" if means[0] >= means[1] else "roll_back", first)


def figures(setting: Setting, found: Sequence[Ended]) -> dict[str, float]:
    """The figures of a row. lost: right answers that the canary cost until it ended."""
    decided = [one.episodes for one in found if one.outcome != "collect"]
    exposed = float(np.mean([one.exposed for one in found]))
    return {
        "promoted": sum(one.outcome == "promote" for one in found) / len(found),
        "rolled_back": sum(one.outcome == "roll_back" for one in found) / len(found),
        "wrong": sum(one.wrong(setting.difference) for one in found) / len(found),
        "episodes_median": float(np.median(decided)) if decided else 0.0,
        "exposed_mean": round(exposed),
        "lost_mean": round(exposed * max(0.0, -setting.difference)),
    }


def life(seed: int) -> tuple[list[bool], list[bool]]:
    """Whether each promotion and each roll back of a library with ten canaries was wrong."""
    earlier, promotions, rollbacks, at = list[Canary](), list[bool](), list[bool](), datetime(2026, 1, 1, tzinfo=UTC)
    version = LibraryVersion("1" * 32)
    for place, difference in enumerate(LIFE):
        ended, _ = simulate(Setting("", difference, share=0.5), 100 * seed + place, earlier)
        kind = "promote" if ended.outcome == "promote" else "end_canary"
        logged = dict(ended.figures) if ended.outcome != "collect" else {}
        change = Change(
            number=place, at=at, kind=kind, branch="main", version=version, previous=NO_LINE, figures=logged
        )
        canary = Canary(version, LibraryVersion("0" * 32), ((at, 0.5),), MARGIN, "", place)
        earlier.append(replace(canary, ended=change))
        if ended.outcome != "collect":
            (promotions if ended.outcome == "promote" else rollbacks).append(ended.wrong(difference))
    return promotions, rollbacks


def labels(before: float, after: float, seed: int) -> dict[int, str]:
    """The label of a lesson whose effect changes after 1,500 blocks, by blocks since."""
    rng = np.random.default_rng(seed)
    rate = np.clip(LEVEL + np.where(np.arange(5_000) < 1_500, before, after), 0, 1)
    effects = rng.binomial(4, rate) / 4 - (rng.random(5_000) < LEVEL)
    lesson = ExperienceId("a" * 32)
    made = [LessonBlock(lesson, "m", float(one), 4, 1, at, task=f"t{at}") for at, one in enumerate(effects)]
    return {since: judge(made[: 1_500 + since])[0].label for since in (0, 200, 700, 1_500, 3_500)}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--runs", type=int, default=200, help="simulated libraries per row")
    parser.add_argument("--only", default="", help="only rows whose names contain this")
    parser.add_argument("--seed", type=int, default=SEALED, help="seed of the first library")


def measure(chosen: argparse.Namespace) -> Found:
    """Return one row per setting and rule, and targets: at most the budget is wrong."""
    rows, targets = list[Row](), list[Target]()
    seeds = range(chosen.seed, chosen.seed + chosen.runs)

    def add(name: str, measured: Mapping[str, float], wrong: bool = False) -> None:
        rows.append(Row(name=name, figures={key: round(value, 3) for key, value in measured.items()}))
        print(name, dict(rows[-1].figures), file=sys.stderr, flush=True)
        if wrong:
            targets.append(Target(what=f"{name}: wrong", figure=measured["wrong"], bound="at_most", limit=ALPHA))

    for setting in settings():
        if chosen.only in setting.name:
            found = [simulate(setting, seed) for seed in seeds]
            add(f"{setting.name}: rule", figures(setting, [one for one, _ in found]), wrong=True)
            add(f"{setting.name}: means", figures(setting, [one for _, one in found]))
    if chosen.only in "life":
        lives = [life(seed) for seed in seeds]
        for kind, each in zip(("promotions", "roll backs"), zip(*lives, strict=True), strict=True):
            share = float(np.mean([sum(one) / len(one) if one else 0.0 for one in each]))
            add(f"life: {kind}", {"made": float(np.mean([len(one) for one in each])), "wrong": share}, wrong=True)
    for before, after in ((0.1, 0.1), (0.1, 0.0), (0.1, -0.1), (0.2, 0.0)):
        name = f"drift: {100 * before:+.0f} to {100 * after:+.0f} points"
        if chosen.only in name:
            found_labels = [labels(before, after, seed) for seed in seeds[: max(1, chosen.runs // 4)]]
            shares = {
                f"{label}_{since}": sum(one[since] == label for one in found_labels) / len(found_labels)
                for since in found_labels[0]
                for label in ("proven", "harmful")
            }
            add(name, shares)
    return Found(rows=tuple(rows), targets=tuple(targets), notes=(f"{chosen.runs} runs per row from {chosen.seed}",))
