"""How often 0.95 intervals of a difference and of a score cover the truth, and how often tests give false findings.

The comparisons are simulated with a known true difference and fixed seeds, and computed with the library's functions.
The figures are shares of the simulations. For each scenario they are: the method that was chosen, the intervals called
unsafe, the coverage of the other intervals, and, with equal arms, how often the sign-flip test (999 samples) and the
interval reject at the level 0.05.

    just bench coverage
    just bench coverage --simulations 1000 --only ties
"""

import argparse
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentlearn.measure.clustered import bounded_mean
from agentlearn.measure.difference import estimate_difference, sign_flip_p
from scripts.bench.found import Found, Number, Row, Target

Rng = np.random.Generator
Draw = Callable[[Rng, bool], tuple[list[float], list[int] | None]]
"""Draws the differences of the tasks, and their clusters. With True, both arms are equal."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of comparison, with its true mean difference when the arms differ."""

    name: str
    draw: Draw
    truth: float


def rollouts(k: int | Sequence[int], tasks: int) -> Draw:
    """Return independent tasks with k rollouts in both arms and success rates between 0 and 1."""

    def draw(rng: Rng, alike: bool) -> tuple[list[float], None]:
        before, after = rates(rng, tasks, alike)
        counts = np.resize(k, tasks)
        return measured(rng, before, after, counts), None

    return draw


def clustered(count: int, spread: float, k: int, shared: float = 0.5) -> Draw:
    """Return clusters of about 5 tasks, of equal or lognormal sizes, whose tasks share part of their success rate."""

    # Only 500 sets of sizes, used repeatedly, because the t quantile of a set is expensive and is cached.
    drawn = np.random.default_rng(count).normal(size=(500, count))
    sizes = np.maximum(1, np.round(5 * np.exp(spread * drawn))).astype(int)

    def draw(rng: Rng, alike: bool) -> tuple[list[float], list[int]]:
        labels = np.repeat(np.arange(count), sizes[rng.integers(500)])
        before, after = rates(rng, count, alike)
        own_before, own_after = rates(rng, len(labels), alike)
        before = shared * before[labels] + (1 - shared) * own_before
        after = shared * after[labels] + (1 - shared) * own_after
        return measured(rng, before, after, np.full(len(labels), k)), labels.tolist()

    return draw


def ties(moved: float, k: int, gains: float) -> Draw:
    """Return 200 tasks that both arms always or never solve, except a few; the share `gains` of these improves."""

    def draw(rng: Rng, alike: bool) -> tuple[list[float], None]:
        up = 0.5 if alike else gains
        moves = rng.random(200) < moved
        sign = np.where(rng.random(200) < up, 1.0, -1.0)
        size = rng.integers(1, k + 1, size=200) / k
        return np.where(moves, sign * size, 0.0).tolist(), None

    return draw


def rare(rng: Rng, alike: bool) -> tuple[list[float], None]:
    """Return 60 tasks with small differences; one in 20 goes from 0 to 1, so a sample may contain none of these."""
    solved_now = rng.random(60) < 0.05
    sign = np.where(rng.random(60) < 0.5, 1.0, -1.0) if alike else np.ones(60)
    small = (rng.integers(0, 3, size=60) - 1) / 16
    return np.where(solved_now, sign, small).tolist(), None


def rates(rng: Rng, count: int, alike: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return success rates before and after, from Beta(1/2, 1/2); 1/3 of the tasks improves, 1/6 loses up to half.

    With equal arms, before and after are swapped at random, so that the differences are symmetric.
    """
    before = rng.beta(0.5, 0.5, size=count)
    fate = rng.random(count)
    amount = rng.random(count)
    gained = before + amount * (1 - before)
    lost = before * (1 - amount / 2)
    after = np.where(fate < 1 / 3, gained, np.where(fate > 5 / 6, lost, before))
    if alike:
        swap = rng.random(count) < 0.5
        return np.where(swap, after, before), np.where(swap, before, after)
    return before, after


# Expected value of 1/3 * 1/2 * (1 - 1/2) - 1/6 * 1/4 * 1/2.
RATES_GAIN = 1 / 12 - 1 / 48


def measured(rng: Rng, before: np.ndarray, after: np.ndarray, counts: np.ndarray) -> list[float]:
    """Return differences of mean scores over the given numbers of rollouts."""
    return ((rng.binomial(counts, after) - rng.binomial(counts, before)) / counts).tolist()


SCENARIOS = (
    Scenario("n=30 K=32", rollouts(32, 30), RATES_GAIN),
    Scenario("n=15 K=32", rollouts(32, 15), RATES_GAIN),
    Scenario("n=15 K=1", rollouts(1, 15), RATES_GAIN),
    Scenario("n=30 K=4", rollouts(4, 30), RATES_GAIN),
    Scenario("n=200 K=1", rollouts(1, 200), RATES_GAIN),
    Scenario("n=60, K from 1 to 32", rollouts((1, 2, 4, 8, 16, 32), 60), RATES_GAIN),
    *(
        Scenario(f"{count} clusters, {words}, K=4", clustered(count, spread, 4), RATES_GAIN)
        for count in (8, 16, 40)
        for words, spread in (("equal", 0.0), ("lognormal", 1.0))
    ),
    *(
        Scenario(f"{count} clusters, {words}, one fate each, K=32", clustered(count, spread, 32, 1.0), RATES_GAIN)
        for count in (8, 16, 40)
        for words, spread in (("equal", 0.0), ("lognormal", 1.0))
    ),
    *(
        Scenario(f"ties: {100 * moved:g} % moved, K=1, {words}", ties(moved, 1, gains), moved * (2 * gains - 1))
        for moved in (0.02, 0.05, 0.1)
        for words, gains in (("3 of 4 up", 0.75), ("all up", 1.0))
    ),
    *(
        Scenario(f"ties: {100 * moved:g} % moved, K=8, 3 of 4 up", ties(moved, 8, 0.75), moved * 0.5 * (1 + 8) / 16)
        for moved in (0.02, 0.05, 0.1)
    ),
    Scenario("rare: 1 of 20 solved_now, n=60, K=16", rare, 0.05),
)


def arm(sizes: Sequence[int], rate: float, shared: float, k: int) -> Callable[[Rng], tuple[list[float], list[int]]]:
    """Return scores of an arm. shared: share of families whose rollouts are all right together, or all wrong."""

    def draw(rng: Rng) -> tuple[list[float], list[int]]:
        scores: list[float] = []
        for size in sizes:
            alike = rng.random() < shared
            own = [float(rng.random() < rate)] * size if alike else (rng.binomial(k, rate, size=size) / k).tolist()
            scores += own
        return scores, np.repeat(np.arange(len(sizes)), sizes).tolist()

    return draw


UNEQUAL = [max(1, round(4 * math.exp(one))) for one in np.random.default_rng(20).normal(size=20)]
ARMS = {
    f"{words} at {rate:g}, {shared:.0%} of the families of one fate, K={k}": (arm(sizes, rate, shared, k), rate)
    for words, sizes, rate, shared, k in (
        *(("20 families of 3", [3] * 20, 0.9, shared, k) for shared in (0.0, 0.1, 0.5, 1.0) for k in (1, 4)),
        ("20 families of 3", [3] * 20, 0.1, 0.5, 4),
        ("20 families of 3", [3] * 20, 0.5, 0.5, 4),
        ("15 families of 4", [4] * 15, 0.8, 0.5, 1),
        ("15 families of 4", [4] * 15, 0.8, 0.5, 4),
        ("40 families of 3", [3] * 40, 0.9, 0.5, 1),
        ("40 families of 3", [3] * 40, 0.9, 0.5, 4),
        ("10 families of 6", [6] * 10, 0.95, 0.5, 4),
        ("6 families of 6", [6] * 6, 0.7, 0.5, 4),
        ("20 unequal families", UNEQUAL, 0.8, 1.0, 4),
        ("60 tasks", [1] * 60, 0.97, 0.2, 8),
        ("60 tasks", [1] * 60, 0.9, 0.0, 1),
        ("200 tasks", [1] * 200, 0.97, 0.2, 8),
        ("15 tasks", [1] * 15, 0.9, 0.5, 4),
    )
}
"""Arms by name, each with its true score."""


def arm_row(name: str, simulations: int) -> Row:
    """Return how often the interval of an arm's score misses the truth, and its median width."""
    draw, truth = ARMS[name]
    rng, above, below, widths = np.random.default_rng(20_261_129), 0, 0, list[float]()
    for _ in range(simulations):
        found = bounded_mean(*draw(rng))
        low, high = found.low or 0.0, 1.0 if found.high is None else found.high
        above, below = above + (low > truth), below + (high < truth)
        widths.append(high - low)
    missed = {"truth_below": above / simulations, "truth_above": below / simulations}
    return Row(
        name=name, figures={**missed, "missed": (above + below) / simulations, "width": float(np.median(widths))}
    )


@dataclass(frozen=True, slots=True)
class Result:
    """The results of one scenario, as shares of the simulations."""

    methods: dict[str, float]
    """Share of each method."""
    unsafe: float
    """Share of the intervals called unsafe."""
    coverage: float
    """Share of the safe intervals that cover the true difference."""
    coverage_unsafe: float
    """Share of the unsafe intervals that cover the true difference."""
    width: float
    """Median width of the safe intervals."""
    sign_flip: float
    """Share of the sign-flip tests that reject although the arms are equal."""
    rejected: float
    """Share of the safe intervals that exclude 0 although the arms are equal."""


def simulate(scenario: Scenario, simulations: int) -> Result:
    """Simulate the scenario and return its results."""
    rng = np.random.default_rng(20_261_121)
    methods = Counter[str]()
    held, widths = {False: list[bool](), True: list[bool]()}, list[float]()
    flips, rejections = list[bool](), list[bool]()
    for number in range(simulations):
        differences, clusters = scenario.draw(rng, False)
        found = estimate_difference(differences, clusters=clusters)
        methods[found.method] += 1
        low, high = found.low or 0.0, found.high or 0.0
        held[bool(found.unsafe)].append(low <= scenario.truth <= high)
        if not found.unsafe:
            widths.append(high - low)
        differences, clusters = scenario.draw(rng, True)
        flips.append(sign_flip_p(differences, seed=number, samples=999, clusters=clusters) <= 0.05)
        found = estimate_difference(differences, clusters=clusters)
        if not found.unsafe and found.low is not None and found.high is not None:
            rejections.append(not found.low <= 0 <= found.high)
    return Result(
        methods={method: times / simulations for method, times in methods.most_common()},
        unsafe=len(held[True]) / simulations,
        coverage=share(held[False]),
        coverage_unsafe=share(held[True]),
        width=float(np.median(widths)) if widths else math.nan,
        sign_flip=share(flips),
        rejected=share(rejections),
    )


def share(these: Sequence[bool]) -> float:
    """Return the share of true values; NaN for no values."""
    return sum(these) / len(these) if these else math.nan


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--simulations", type=int, default=10_000, help="simulated comparisons per scenario")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this text")


def measure(chosen: argparse.Namespace) -> Found:
    """Return one row per scenario; coverage is missing when no interval was safe."""
    arms = [arm_row(name, chosen.simulations) for name in ARMS if chosen.only in name]
    named = [scenario for scenario in SCENARIOS if chosen.only in scenario.name]
    results = [(scenario.name, simulate(scenario, chosen.simulations)) for scenario in named]
    widest = max((result.sign_flip for _, result in results), default=0.0)
    return Found(
        rows=(*(Row(name=name, figures=_figures(result)) for name, result in results), *arms),
        targets=(
            *(Target(what=one.name, figure=one.figures["missed"] or 0.0, bound="at_most", limit=0.065) for one in arms),
            Target(what="level of the sign-flip test at 0.05, worst", figure=widest, bound="at_most", limit=0.06),
        ),
        notes=(
            f"{chosen.simulations:,} simulations each, fixed seeds, the library's functions",
            "t, cr2, score: share of each method; unsafe: share of intervals called unsafe",
        ),
    )


def _figures(result: Result) -> dict[str, Number]:
    methods: dict[str, Number] = {name: result.methods.get(name, 0.0) for name in ("t", "cr2", "score")}
    return methods | {
        "unsafe": result.unsafe,
        "coverage": _known(result.coverage),
        "of_unsafe": _known(result.coverage_unsafe),
        "width": _known(result.width),
        "sign_flip_5": result.sign_flip,
        "leaves_0_out": _known(result.rejected),
    }


def _known(figure: float) -> float | None:
    return None if math.isnan(figure) else figure
