"""How often a comparison gives a verdict although the arms do not differ, with lost rollouts, few clusters and looks.

Every row simulates comparisons in which the true mean difference is 0. Their rollouts go through the library's own
functions: `tabulate`, `estimate_contrasts` and `with_verdicts`. The figures are shares of the comparisons: a verdict
was given (falsely), a verdict was withheld (by reason), or no difference was detected. The rows whose names start with
"true" have a difference and show the power. Beside them stands the paired t test of the decided pairs, over tasks or
clusters, without any correction for looks.

    just bench false_verdicts
    just bench false_verdicts --simulations 200 --only outage skewed
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product, repeat
from multiprocessing import get_context

import numpy as np

from agentlearn.measure.clustered import clustered_mean
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.power import Clusters, PlannedComparison, VarianceParts, guessed_parts
from agentlearn.measure.score_table import Observation, tabulate
from scripts.bench.found import Found, Row, Target

Rng = np.random.Generator
LIMIT = 0.065
"""Largest share of false verdicts: 5 % and two standard errors of 1,000 simulations."""


@dataclass(frozen=True, slots=True)
class Look:
    """The rollouts of both arms at one look. `lost` marks rollouts that are undecided, or missing from the log."""

    before: np.ndarray
    """Shape (tasks, rollouts): scores of the baseline."""
    after: np.ndarray
    lost_before: np.ndarray
    lost_after: np.ndarray
    clusters: np.ndarray | None = None
    missing: bool = False
    texts: Sequence[str] = ()
    """Text of each task; empty: not recorded."""
    others: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    """Scores and lost rollouts of further arms."""


Draw = Callable[[Rng], Sequence[Look]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of comparison. Without `effect` both arms are equally good."""

    name: str
    draw: Draw
    effect: bool = False
    looks_planned: int = 1
    score_range: tuple[float, float] | None = None
    margin: float | None = None
    """Margin of `no_worse`. The true difference is then the margin itself, or worse."""
    forecast: float | None = None
    """Power that `PlannedComparison` forecasts, in rows with a difference."""


def whole(before: np.ndarray, after: np.ndarray, clusters: np.ndarray | None = None) -> Look:
    """Return a look in which no rollout is lost."""
    return Look(before, after, np.zeros(before.shape, bool), np.zeros(after.shape, bool), clusters)


def binary(rng: Rng, shifts: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return right and wrong rollouts of tasks whose success rates differ by `shifts`."""
    middle = rng.uniform(0.3, 0.7, size=len(shifts))
    rates = np.clip(middle - shifts / 2, 0, 1), np.clip(middle + shifts / 2, 0, 1)
    before, after = ((rng.random((len(shifts), k)) < rate[:, None]).astype(float) for rate in rates)
    return before, after


def shifts(rng: Rng, tasks: int, mean: float = 0.0, spread: float = 0.1) -> np.ndarray:
    """Return the tasks' true differences."""
    return mean + np.clip(spread * rng.normal(size=tasks), -0.3, 0.3)


def lost_wrong(tasks: int, share: float, *, missing: bool) -> Draw:
    """Return comparisons in which a share of one side's wrong rollouts is lost."""

    def draw(rng: Rng) -> list[Look]:
        before, after = binary(rng, shifts(rng, tasks), 4)
        gone = (after == 0) & (rng.random(after.shape) < share)
        return [Look(before, after, np.zeros(before.shape, bool), gone, None, missing)]

    return draw


def lost_on_both_sides(tasks: int, share: float) -> Draw:
    """Return comparisons in which wrong rollouts of one arm and as many right ones of the other are undecided."""

    def draw(rng: Rng) -> list[Look]:
        before, after = binary(rng, shifts(rng, tasks), 4)
        lost = (before == 1) & (rng.random(before.shape) < share), (after == 0) & (rng.random(after.shape) < share)
        return [Look(before, after, *lost)]

    return draw


def outage(tasks: int, stretch: float) -> Draw:
    """Return comparisons in which half of one arm's rollouts are undecided for a stretch of tasks."""

    def draw(rng: Rng) -> list[Look]:
        before, after = binary(rng, shifts(rng, tasks), 4)
        length = int(stretch * tasks)
        start = rng.integers(0, tasks - length + 1)
        gone = np.zeros(after.shape, bool)
        gone[start : start + length] = rng.random((length, after.shape[1])) < 0.5
        return [Look(before, after, np.zeros(before.shape, bool), gone)]

    return draw


def growing_k(rng: Rng) -> list[Look]:
    """Return six looks at 60 tasks with 1 to 32 rollouts."""
    before, after = binary(rng, shifts(rng, 60), 32)
    return [whole(before[:, :k], after[:, :k]) for k in (1, 2, 4, 8, 16, 32)]


def growing_tasks(rng: Rng) -> list[Look]:
    """Return five looks at 20 to 320 tasks."""
    before, after = binary(rng, shifts(rng, 320), 4)
    return [whole(before[:n], after[:n]) for n in (20, 40, 80, 160, 320)]


def sizes_of(count: int, spread: float) -> np.ndarray:
    """Return the sizes of clusters of about 5 tasks, always the same."""
    drawn = np.random.default_rng(count).normal(size=count)
    return np.maximum(1, np.round(5 * np.exp(spread * drawn))).astype(int)


def clustered(sizes: np.ndarray, share: float, *, k: int = 4, mean: float = 0.0, spread: float = 0.15) -> Draw:
    """Return tasks in clusters. share: part of the variance of true differences that a cluster's tasks have alike."""

    def draw(rng: Rng) -> list[Look]:
        labels = np.repeat(np.arange(len(sizes)), sizes)
        common, own = rng.normal(size=len(sizes))[labels], rng.normal(size=len(labels))
        true = mean + np.clip(spread * (share**0.5 * common + (1 - share) ** 0.5 * own), -0.45, 0.45)
        return [whole(*binary(rng, true, k), labels)]

    return draw


def few_gain(count: int) -> Draw:
    """Return clusters of 5 tasks; a tenth of them gain .5 and the others lose .056, so the mean is 0."""

    def draw(rng: Rng) -> list[Look]:
        true = np.where(rng.random(count) < 0.1, 0.5, -0.5 / 9)[:, None]
        before = rng.uniform(0.2, 0.4, size=(count * 5, 1))
        return [whole(before, before + np.repeat(true, 5, axis=0), np.repeat(np.arange(count), 5))]

    return draw


def rare_loss(tasks: int, noise: float = 0.0, share: float = 0.02, gain: float = 0.9 * 0.02 / 0.98) -> Draw:
    """Return rewards of which 2 % lose .9 and the others gain as much together."""

    def draw(rng: Rng) -> list[Look]:
        true = np.where(rng.random(tasks) < share, -0.9, gain)[:, None]
        before = rng.uniform(0.92, 0.96, size=(tasks, 1))
        return [whole(before, np.clip(before + true + noise * rng.normal(size=(tasks, 1)), 0, 1))]

    return draw


def few_move(tasks: int, moved: float, k: int) -> Draw:
    """Return tasks that both arms solve always or never, except a few."""

    def draw(rng: Rng) -> list[Look]:
        solved = (rng.random((tasks, 1)) < 0.5) * np.ones((1, k))
        before, after = solved.copy(), solved.copy()
        for arm in (before, after):
            flip = rng.random(tasks) < moved / 2
            arm[flip, rng.integers(0, k)] = 1 - arm[flip, 0]
        return [whole(before, after)]

    return draw


def steady(tasks: int, k: int, before: float, after: float) -> Draw:
    """Return tasks that all have the same success rate in an arm."""
    shape = (tasks, k)
    return lambda rng: [whole(*((rng.random(shape) < rate).astype(float) for rate in (before, after)))]


def skewed_clusters(count: int, share: float, size: float) -> Draw:
    """Return clusters of 5 tasks; a share of them gains `size`, and the others lose as much together; with noise."""

    def draw(rng: Rng) -> list[Look]:
        true = np.where(rng.random(count) < share, size, -size * share / (1 - share))
        before = np.repeat(rng.uniform(0.4, 0.6, size=count), 5)[:, None]
        noise = 0.1 * rng.uniform(-1, 1, size=(count * 5, 1))
        after = before + np.repeat(true, 5)[:, None] + noise
        return [whole(before, after, np.repeat(np.arange(count), 5))]

    return draw


def lost_wrong_in_clusters(count: int, share: float) -> Draw:
    """Return clusters of 6 tasks of one fate each, of which one arm lost a share of its wrong rollouts."""

    def draw(rng: Rng) -> list[Look]:
        [look] = clustered(np.full(count, 6), 1.0)(rng)
        gone = (look.after == 0) & (rng.random(look.after.shape) < share)
        return [replace(look, lost_after=gone)]

    return draw


def lost_wrong_of_four_arms(rng: Rng) -> list[Look]:
    """Return four equal arms and a baseline on 200 tasks; each arm lost a fifth of its wrong rollouts."""
    middle = rng.uniform(0.3, 0.7, size=(200, 1))
    before, *arms = ((rng.random((200, 4)) < middle).astype(float) for _ in range(5))
    first, *others = ((arm, (arm == 0) & (rng.random(arm.shape) < 0.2)) for arm in arms)
    return [Look(before, first[0], np.zeros(before.shape, bool), first[1], others=tuple(others))]


def same_texts(texts: int, copies: int) -> Draw:
    """Return tasks whose text stands under several ids; ids of one text gain or lose alike."""

    def draw(rng: Rng) -> list[Look]:
        [look] = clustered(np.full(texts, copies), 1.0)(rng)
        return [replace(look, clusters=None, texts=[f"text {n}" for n in np.repeat(np.arange(texts), copies)])]

    return draw


WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("a", "ole", "ine", "urt", "ist")]
OWN_WORDS = [" ".join(np.random.default_rng(n).choice(WORDS, size=14)) for n in range(60)]
"""Texts that have nothing to do with each other."""


def templates(count: int, tasks: int, mean: float = 0.0, *, names: bool = False) -> Draw:
    """Return tasks whose texts differ from others of their template in numbers, or in names; they gain or lose alike.

    Without templates, each text has words of its own.
    """
    people = [word.capitalize() for word in WORDS]

    def draw(rng: Rng) -> list[Look]:
        sizes = np.full(count, tasks)
        [look] = clustered(sizes, 1.0, mean=mean)(rng)
        given = rng.choice(people, size=(count * tasks, 2)) if names else rng.integers(2, 999, size=(count * tasks, 2))
        kinds = np.repeat(np.arange(count), tasks)
        texts = [f"{OWN_WORDS[kind]} {one}, and {other}?" for kind, (one, other) in zip(kinds, given, strict=True)]
        return [replace(look, clusters=None, texts=texts)]

    return draw


Scores = Callable[[Rng, int], np.ndarray]
"""Draws that many scores."""


def lognormal(spread: float) -> Scores:
    """Return scores of mean 1 with a long upper tail."""
    return lambda rng, n: np.exp(spread * rng.normal(size=n) - spread**2 / 2)


def pareto(shape: float) -> Scores:
    """Return scores of mean 1 with an upper tail that falls as a power."""
    return lambda rng, n: (rng.pareto(shape, size=n) + 1) * (shape - 1) / shape


def unbounded(tasks: int, scores: Scores, *, both: bool = False, sign: int = 1, gain: float = 0.0) -> Draw:
    """Return scores without a known range, of equal means: a baseline around 1, or as skewed, and a skewed arm.

    sign: -1 for costs, which are better the lower they are.
    """

    def draw(rng: Rng) -> list[Look]:
        before = scores(rng, tasks) if both else 1 + 0.1 * rng.normal(size=tasks)
        return [whole(10 * sign * before[:, None], 10 * sign * (scores(rng, tasks) + gain)[:, None])]

    return draw


def solved(tasks: int, share: float, k: int, *, of_noisy: bool = False) -> Draw:
    """Return tasks of which a share goes from never to always right, and the others are always, never or half right."""

    def draw(rng: Rng) -> list[Look]:
        rates = rng.choice((0.0, 1.0), size=tasks) if not of_noisy else rng.choice((0.0, 0.5, 1.0), size=tasks)
        gained = rng.random(tasks) < share
        before, after = np.where(gained, 0.0, rates)[:, None], np.where(gained, 1.0, rates)[:, None]
        return [whole(*((rng.random((tasks, k)) < rate).astype(float) for rate in (before, after)))]

    return draw


def arms(tasks: int, k: int, drawn: Callable[[Rng, np.ndarray], np.ndarray], *, spread: float = 0.1) -> Draw:
    """Return arms with rollouts of their own kind. drawn: scores by success rates of shape (tasks, k)."""

    def draw(rng: Rng) -> list[Look]:
        middle, moved = rng.uniform(0.3, 0.7, size=tasks), shifts(rng, tasks, spread=spread) / 2
        return [
            whole(
                *(
                    drawn(rng, np.repeat(np.clip(rate, 0, 1)[:, None], k, 1))
                    for rate in (middle - moved, middle + moved)
                )
            )
        ]

    return draw


def right(rng: Rng, rates: np.ndarray) -> np.ndarray:
    """Return right and wrong rollouts."""
    return (rng.random(rates.shape) < rates).astype(float)


def retried(rng: Rng, rates: np.ndarray) -> np.ndarray:
    """Return rollouts of which nine in ten repeat the first one of their task."""
    scores = right(rng, rates)
    return np.where(rng.random(rates.shape) < 0.9, scores[:, :1], scores)


def ordinal(rng: Rng, rates: np.ndarray) -> np.ndarray:
    """Return grades in quarters."""
    return rng.binomial(4, rates) / 4


def cached(tasks: int, k: int) -> Draw:
    """Return an arm whose rollouts of a task are all the same, and one whose rollouts differ."""

    def draw(rng: Rng) -> list[Look]:
        before, after = binary(rng, shifts(rng, tasks), k)
        return [whole(np.repeat(before[:, :1], k, 1), after)]

    return draw


def unranged(tasks: int, noise: Callable[[Rng, tuple[int, int]], np.ndarray], k: int = 4) -> Draw:
    """Return scores without a known range: both arms have the same noise."""

    def draw(rng: Rng) -> list[Look]:
        level = rng.normal(size=(tasks, 1))
        return [whole(*(level + noise(rng, (tasks, k)) for _ in range(2)))]

    return draw


def costly(rng: Rng, shape: tuple[int, int]) -> np.ndarray:
    """Return costs of which one in twenty is 21 times as large."""
    return np.where(rng.random(shape) < 0.05, 21.0, 1.0)


def by_difficulty(rng: Rng, tasks: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return success rates from .1 to .9, and the rollouts of both arms."""
    middle, moved = rng.uniform(0.1, 0.9, size=tasks), shifts(rng, tasks) / 2
    before, after = (np.clip(rate, 0, 1)[:, None] for rate in (middle - moved, middle + moved))
    return middle, right(rng, before + np.zeros((1, k))), right(rng, after + np.zeros((1, k)))


def lost_by_difficulty(tasks: int, *, hardest: float = 0.0) -> Draw:
    """Return comparisons in which hard tasks lose more rollouts, or one arm has a fault on a share of the hardest."""

    def draw(rng: Rng) -> list[Look]:
        middle, before, after = by_difficulty(rng, tasks, 4)
        chance = (middle <= np.quantile(middle, hardest)) * 0.5 if hardest else 0.2 * (1 - middle)
        lost, lost_after = (rng.random(before.shape) < chance[:, None] for _ in range(2))
        return [Look(before, after, lost & (hardest == 0), lost_after)]

    return draw


def k_by_difficulty(tasks: int) -> Draw:
    """Return comparisons in which hard tasks have up to eight rollouts and easy ones one, in both arms."""

    def draw(rng: Rng) -> list[Look]:
        middle, before, after = by_difficulty(rng, tasks, 8)
        lost = np.arange(8)[None, :] >= np.ceil(8 * (1 - middle))[:, None]
        return [Look(before, after, lost, lost, missing=True)]

    return draw


def alike_neighbours(tasks: int, alike: float) -> Draw:
    """Return tasks whose true differences are correlated with those of the tasks beside them."""

    def draw(rng: Rng) -> list[Look]:
        true, own = np.zeros(tasks), rng.normal(size=tasks)
        for at in range(tasks):
            true[at] = own[at] if not at else alike * true[at - 1] + (1 - alike**2) ** 0.5 * own[at]
        return [whole(*binary(rng, np.clip(0.1 * true, -0.3, 0.3), 4))]

    return draw


def one_at_zero(tasks: int) -> Draw:
    """Return an arm at .95 on every task, and one that is right but for every twentieth task, where it is wrong."""

    def draw(rng: Rng) -> list[Look]:
        after = (rng.random((tasks, 1)) < 0.95).astype(float)
        return [whole(np.full((tasks, 1), 0.95), after)]

    return draw


def same_but_for_case(texts: int, copies: int) -> Draw:
    """Return tasks whose text stands under several ids, in another case or with a space before a mark."""

    def draw(rng: Rng) -> list[Look]:
        [look] = same_texts(texts, copies)(rng)
        kinds: tuple[Callable[[str], str], ...] = (str.upper, str.title, "{} ?".format, "{}?".format, str.lower)
        own = [kinds[at % copies](OWN_WORDS[at // copies]) for at in range(texts * copies)]
        return [replace(look, texts=own)]

    return draw


def unequal_k(tasks: int, mean: float) -> Draw:
    """Return a baseline with one rollout per task and an arm with eight."""

    def draw(rng: Rng) -> list[Look]:
        before, after = binary(rng, shifts(rng, tasks, mean), 8)
        lost = np.zeros(before.shape, bool)
        lost[:, 1:] = True
        return [Look(before, after, lost, np.zeros(after.shape, bool), missing=True)]

    return draw


def ranged(tasks: int, mean: float, share: float) -> Draw:
    """Return scores of -1 and 1, of which a share of both arms is undecided."""

    def draw(rng: Rng) -> list[Look]:
        [look] = some_undecided(tasks, share, mean)(rng)
        return [replace(look, before=2 * look.before - 1, after=2 * look.after - 1)]

    return draw


def one_arm_undecided(tasks: int, share: float, mean: float) -> Draw:
    """Return comparisons in which rollouts of the new arm are undecided by chance."""

    def draw(rng: Rng) -> list[Look]:
        before, after = binary(rng, shifts(rng, tasks, mean), 4)
        return [Look(before, after, np.zeros(before.shape, bool), rng.random(after.shape) < share)]

    return draw


def plain(tasks: int, k: int, mean: float = 0.0) -> Draw:
    """Return independent tasks with k rollouts."""
    return lambda rng: [whole(*binary(rng, shifts(rng, tasks, mean), k))]


def some_undecided(tasks: int, share: float, mean: float) -> Draw:
    """Return comparisons in which rollouts of both arms are undecided by chance."""

    def draw(rng: Rng) -> list[Look]:
        before, after = binary(rng, shifts(rng, tasks, mean), 4)
        return [Look(before, after, rng.random(before.shape) < share, rng.random(after.shape) < share)]

    return draw


def scenarios() -> Iterator[Scenario]:
    """Return all rows."""
    for missing, n, share in product((False, True), (60, 200), (0.02, 0.05, 0.1, 0.2, 0.4)):
        how = "missing" if missing else "undecided"
        yield Scenario(f"{share:.0%} of one side's wrong {how}, n={n}", lost_wrong(n, share, missing=missing))
    for share in (0.02, 0.2):
        yield Scenario(f"{share:.0%} of wrong / right undecided, n=200", lost_on_both_sides(200, share))
    for n, stretch in ((60, 0.1), (60, 0.3), (200, 0.3)):
        yield Scenario(f"outage of one arm on {stretch:.0%} of tasks, n={n}", outage(n, stretch))
    for count in (8, 12, 25):
        yield Scenario(f"20% of one side's wrong undecided, {count} clusters", lost_wrong_in_clusters(count, 0.2))
    yield Scenario("20% of the wrong undecided in each of four arms", lost_wrong_of_four_arms)
    for texts in (12, 40):
        yield Scenario(f"five ids for each of {texts} texts", same_texts(texts, 5))
    for (count, tasks), names in product(((4, 15), (6, 10), (8, 8), (12, 5), (20, 3), (30, 2)), (False, True)):
        yield Scenario(
            f"{count} templates x {tasks} {'names' if names else 'numbers'}", templates(count, tasks, names=names)
        )
    yield Scenario("60 texts of their own", templates(60, 1))
    for n in (12, 20, 60, 300):
        for spread in (1.0, 1.5, 2.0):
            yield Scenario(f"skewed: lognormal({spread:g}), n={n}", unbounded(n, lognormal(spread)))
        for shape in (2.2, 2.5):
            yield Scenario(f"skewed: pareto({shape:g}), n={n}", unbounded(n, pareto(shape)))
        yield Scenario(f"skewed: exponential, n={n}", unbounded(n, lambda rng, n: rng.exponential(size=n)))
        yield Scenario(f"skewed: both lognormal(1.5), n={n}", unbounded(n, lognormal(1.5), both=True))
    yield Scenario("skewed: costs, lognormal(1.5), n=60", unbounded(60, lognormal(1.5), sign=-1))
    yield Scenario("skewed: a lognormal(2) of 0 to 1000, n=60", unbounded(60, lognormal(2)), score_range=(0.0, 1e4))
    yield Scenario("normal scores without a range, n=60", unbounded(60, lambda rng, n: 1 + 0.3 * rng.normal(size=n)))
    for n in (60, 200):
        yield Scenario(f"t(1.5) noise, n={n}", unranged(n, lambda rng, shape: 0.3 * rng.standard_t(1.5, size=shape)))
        yield Scenario(f"one in twenty costs 21 x, n={n}", unranged(n, costly))
        yield Scenario(f"grades in quarters, n={n}", arms(n, 4, ordinal))
        yield Scenario(f"rollouts that repeat the first, n={n}", arms(n, 4, retried))
        yield Scenario(f"one arm is cached, n={n}", cached(n, 4))
        yield Scenario(f"hard tasks lose rollouts, n={n}", lost_by_difficulty(n))
        yield Scenario(f"fault of one arm on the hardest 20 %, n={n}", lost_by_difficulty(n, hardest=0.2))
        yield Scenario(f"K by difficulty, n={n}", k_by_difficulty(n))
        yield Scenario(f"neighbours alike .5, n={n}", alike_neighbours(n, 0.5))
        yield Scenario(f".95 against 19 right and one wrong, n={n}", one_at_zero(n))
    for share in (0.01, 0.03, 0.1, 0.3):
        yield Scenario(f"{share:.0%} of both sides undecided at random, n=200", some_undecided(200, share, 0.0))
    yield Scenario("same text but for case and spaces, 12 x 5", same_but_for_case(12, 5))
    yield Scenario("K=1 against K=8, n=60", unequal_k(60, 0.0))
    yield Scenario("scores -1 and 1, 1 % undecided, n=200", ranged(200, 0.0, 0.01), score_range=(-1.0, 1.0))
    for n, k, rate in ((200, 4, 0.97), (200, 1, 0.97), (200, 4, 0.99), (60, 4, 0.95), (60, 8, 0.9)):
        yield Scenario(f"all tasks at {rate:g}, n={n}, K={k}", steady(n, k, rate, rate))
    for n in (8, 10, 12, 16):
        yield Scenario(f"K=1, n={n}", plain(n, 1))
        yield Scenario(f"K=4, n={n}", plain(n, 4))
    for count, share in product((6, 7, 8, 10, 16), (0.1, 0.2, 0.3, 0.4)):
        yield Scenario(f"{share:.0%} of {count} clusters gains .4", skewed_clusters(count, share, 0.4))
    yield Scenario("K from 1 to 32, six looks", growing_k)
    yield Scenario("K from 1 to 32, six looks, all planned", growing_k, looks_planned=6)
    yield Scenario("20 to 320 tasks, five looks", growing_tasks)
    for count, spread, share in product((5, 6, 7, 8, 10, 12, 25), (0.0, 1.0), (0.0, 0.3, 1.0)):
        how = "lognormal" if spread else "equal"
        yield Scenario(f"{count} clusters, {how}, alike {share:g}", clustered(sizes_of(count, spread), share))
    for count in (25, 40):
        yield Scenario(f"a tenth of {count} clusters gains .5", few_gain(count))
    for n in (30, 60, 150, 200, 400):
        yield Scenario(f"2 % lose .9, n={n}", rare_loss(n))
    for n in (60, 150, 200):
        yield Scenario(f"2 % lose .9, with noise, n={n}", rare_loss(n, 0.01))
    for n in (30, 60):
        draw = rare_loss(n, 0.01, share=0.04, gain=0.018)
        yield Scenario(f"4 % lose .9, margin .018, n={n}", draw, margin=0.018)
    yield Scenario("margin .1, n=60", plain(60, 4, -0.1), margin=0.1)
    yield Scenario("both arms the same, n=60", plain_ties)
    for moved, k in ((0.05, 1), (0.1, 8)):
        yield Scenario(f"{moved:.0%} of 200 tasks move, K={k}", few_move(200, moved, k))
    for n in (30, 60, 200):
        yield Scenario(f"K=1, n={n}", plain(n, 1))
    families = np.array([3] * 10 + [2] * 15)
    yield Scenario("learn: 60 tasks in 25 families", clustered(families, 1.0))
    yield Scenario("learn: 15 tasks in 6 unseen families", clustered(np.array([3, 3, 3, 2, 2, 2]), 1.0))
    yield Scenario("learn: 30 own tasks in 5 clusters", clustered(np.array([10, 8, 6, 4, 2]), 1.0))
    for n, k, mean in product((30, 60, 200), (4, 8), (0.05, 0.1, 0.2)):
        forecast = forecast_of(mean, 0.1, n, k, None)
        yield Scenario(f"true {mean:+g}, n={n}, K={k}", plain(n, k, mean), effect=True, forecast=forecast)
    for n in (12, 16):
        forecast = forecast_of(0.2, 0.1, n, 4, None)
        yield Scenario(f"true +0.2, n={n}, K=4", plain(n, 4, 0.2), effect=True, forecast=forecast)
    for mean in (0.1, 0.2):
        yield Scenario(f"true {mean:+g}, n=60, K=1", plain(60, 1, mean), effect=True)
    for n, share, k, noisy in ((60, 0.1, 4, False), (60, 0.1, 4, True), (60, 0.1, 1, False), (200, 0.03, 4, False)):
        name = f"true: {share:.0%} of {n} tasks solved{', others half right' if noisy else ''}, K={k}"
        yield Scenario(name, solved(n, share, k, of_noisy=noisy), effect=True)
    for n in (12, 20, 60):
        draw = unbounded(n, lambda rng, n: 1 + 0.3 * rng.normal(size=n), gain=0.9 / n**0.5)
        yield Scenario(f"true: normal scores without a range, n={n}", draw, effect=True)
    yield Scenario("true: both lognormal(1), n=60", unbounded(60, lognormal(1), both=True, gain=0.6), effect=True)
    for count, tasks in ((12, 5), (20, 3)):
        yield Scenario(f"true +0.2, {count} templates x {tasks}", templates(count, tasks, 0.2), effect=True)
    yield Scenario("true +0.2, 60 texts of their own", templates(60, 1, 0.2), effect=True)
    for (n, mean), share in product(((60, 0.2), (200, 0.1), (200, 0.05)), (0.01, 0.03, 0.05, 0.1)):
        name = f"true {mean:+g}, {share:.0%} undecided"
        yield Scenario(f"{name} in the new arm, n={n}", one_arm_undecided(n, share, mean), effect=True)
        yield Scenario(f"{name} in both, n={n}", some_undecided(n, share, mean), effect=True)
    yield Scenario("true +0.1, K=1 against K=8, n=60", unequal_k(60, 0.1), effect=True)
    draw = ranged(200, 0.1, 0.01)
    yield Scenario("true +0.2 of -1 to 1, 1 % undecided, n=200", draw, effect=True, score_range=(-1.0, 1.0))
    for n, k, before, after in (
        (200, 4, 0.97, 0.99),
        (200, 8, 0.97, 0.99),
        (200, 4, 0.95, 0.98),
        (60, 8, 0.9, 0.95),
        (60, 4, 0.85, 0.95),
        (8, 8, 0.4, 0.6),
        (8, 4, 0.4, 0.7),
    ):
        forecast = steady_forecast(n, k, before, after)
        yield Scenario(
            f"true {before:g} to {after:g}, n={n}, K={k}", steady(n, k, before, after), effect=True, forecast=forecast
        )
    sizes = ((25, 3), (12, 5), (10, 6), (8, 6), (7, 6), (6, 6))
    for (count, size), share, mean in product(sizes, (0.3, 1.0), (0.1, 0.2, 0.3)):
        forecast = forecast_of(mean, 0.15, count * size, 4, Clusters(count=count, alike=share))
        draw = clustered(np.full(count, size), share, mean=mean)
        name = f"true {mean:+g}, {count} clusters of {size}, alike {share:g}"
        yield Scenario(name, draw, effect=True, forecast=forecast)


def forecast_of(mean: float, spread: float, tasks: int, k: int, layout: Clusters | None) -> float:
    """Return the power that is forecast for tasks whose success rates are those of `binary`."""
    rate, of_tasks = 0.5 - mean / 2, 0.4**2 / 12 + spread**2 / 4
    within = 0.25 - of_tasks - mean**2 / 4
    parts = VarianceParts(true_difference=spread**2, before=within, after=within, unclamped=spread**2)
    size = 1 if layout is None else tasks / layout.units(tasks)
    most_lost = rate + (of_tasks + within / k) / size / rate
    clusters = layout or Clusters()
    planned = PlannedComparison(parts=parts, clusters=clusters, most_lost=most_lost, right_or_wrong=True)
    return planned.power(mean, tasks, k_before=k, k_after=k)


def steady_forecast(tasks: int, k: int, before: float, after: float) -> float:
    """Return the power that is forecast for tasks that all have the same success rate in an arm."""
    parts = guessed_parts(before, effect=after - before, difference_spread=0.0)
    lost = before + (1 - before) / k
    planned = PlannedComparison(parts=parts, most_lost=min(1.0, lost), right_or_wrong=True)
    return planned.power(after - before, tasks, k_before=k, k_after=k)


def plain_ties(rng: Rng) -> list[Look]:
    """Return arms whose rollouts are all the same."""
    before, _ = binary(rng, np.zeros(60), 4)
    return [whole(before, before.copy())]


@lru_cache(maxsize=100_000)
def rollout(arm: str, task: int, g: int, score: float | None, cluster: str, problem: str) -> Observation:
    """Return one rollout. Most simulations have the same rollouts, so each is made once."""
    status, error = ("undecided", "timeout") if score is None else ("ok", "")
    given = {"arm": arm, "task": f"t{task}", "g": g, "score": score, "status": status, "error": error}
    return Observation.model_validate({**given, "cluster": cluster, "problem": problem})


def observations(look: Look) -> list[Observation]:
    """Return the rollouts of a look."""
    seen: list[Observation] = []
    arms = ((look.before, look.lost_before), (look.after, look.lost_after), *look.others)
    for arm, (scores, lost) in zip("abcdefgh", arms, strict=False):
        for task, (row, marks) in enumerate(zip(scores.tolist(), lost.tolist(), strict=True)):
            cluster = "" if look.clusters is None else f"c{look.clusters[task]}"
            problem = look.texts[task] if look.texts else ""
            for g, (score, gone) in enumerate(zip(row, marks, strict=True)):
                if not (gone and look.missing):
                    seen.append(rollout(arm, task, g, None if gone else score, cluster, problem))
    return seen


@dataclass(frozen=True, slots=True)
class Judged:
    """What was said about one look."""

    contrasts: tuple[Contrast, ...]
    t: bool
    """Whether the paired t test over tasks or clusters claims a difference of the second arm, at 5 %."""


def judge(look: Look, number: int, seed: int, scenario: Scenario) -> Judged:
    """Return the contrasts of one look, with their verdicts."""
    margin, score_range = scenario.margin, scenario.score_range
    rules = Rules(seed=seed, planned_looks=scenario.looks_planned, margin=margin, score_range=score_range)
    arms = ["a", "b", *"cdefgh"[: len(look.others)]]
    table = tabulate(observations(look), arms, allow_missing=look.missing)
    drafts = [one.model_copy(update={"look": number}) for one in estimate_contrasts(table, rules)]
    estimate = clustered_mean(table.differences("b", "a"), table.clusters())
    claims = estimate.low is not None and estimate.high is not None and not estimate.low <= 0 <= estimate.high
    return Judged(with_verdicts(drafts, table, rules), claims)


REASONS = ("bounds", "unseen")


def row(scenario: Scenario, simulations: int, seed: int) -> Row:
    """Return the shares of one scenario. With several looks or arms, a verdict on any counts."""
    counts: Counter[str] = Counter()
    for number in range(simulations):
        rng = np.random.default_rng([seed, number])
        looks = scenario.draw(rng)
        judged = [judge(look, place, number, scenario) for place, look in enumerate(looks, start=1)]
        found = [one for each in judged for one in each.contrasts]
        right = "worse" if scenario.margin is not None else "cannot_tell"
        given = [one for one in found if one.verdict not in {"cannot_tell", right}]
        counts["better"] += any(one.verdict == "better" for one in given)
        counts["worse"] += any(one.verdict == "worse" for one in given)
        counts["no_worse"] += any(one.verdict == "no_worse" for one in given)
        counts["t"] += any(each.t for each in judged)
        counts["line"] += any(one.holds_if for one in found)
        last = found[-1].withheld_code if not given else ""
        counts[last or ("given" if given else "cannot_tell")] += 1
    return Row(
        name=scenario.name,
        figures={
            "given": counts["given"] / simulations,
            "better": counts["better"] / simulations,
            "worse": counts["worse"] / simulations,
            "no_worse": counts["no_worse"] / simulations,
            **{reason: counts[reason] / simulations for reason in REASONS},
            "cannot_tell": counts["cannot_tell"] / simulations,
            "second_line": counts["line"] / simulations,
            "paired_t": counts["t"] / simulations,
            **({} if scenario.forecast is None else {"forecast": scenario.forecast}),
        },
    )


def named_row(name: str, simulations: int, seed: int) -> Row:
    """Return the row of this name, in a process of its own."""
    return row(next(one for one in scenarios() if one.name == name), simulations, seed)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--simulations", type=int, default=1_000, help="comparisons per row")
    parser.add_argument("--only", nargs="*", default=[""], help="only rows whose names contain one of these")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulations")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")


def measure(chosen: argparse.Namespace) -> Found:
    """Return the share of verdicts by scenario."""
    kept = [one for one in scenarios() if any(part in one.name for part in chosen.only)]
    names = [one.name for one in kept]
    rows: list[Row] = []
    with ProcessPoolExecutor(chosen.workers, mp_context=get_context("spawn")) as pool:
        for found in pool.map(named_row, names, repeat(chosen.simulations), repeat(chosen.seed)):
            rows.append(found)
            print(found.name, found.figures, file=sys.stderr, flush=True)
    targets = [
        Target(what=found.name, figure=found.figures["given"] or 0.0, bound="at_most", limit=LIMIT)
        for one, found in zip(kept, rows, strict=True)
        if not one.effect
    ]
    return Found(
        rows=tuple(rows),
        targets=tuple(targets),
        notes=(f"{chosen.simulations} comparisons per row; alpha 0.05; K=4 where nothing else is said",),
    )
