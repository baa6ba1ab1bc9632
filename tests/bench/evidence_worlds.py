"""Simulated libraries of 20 lessons whose effects are known, and the rules that judge the lessons from rollouts.

Of the 20 lessons 2 are harmful, 3 good and 15 without any effect. A lesson acts on 30 % of the tasks. "10 points" is
its effect on the mean reward over all tasks, so a reward there changes by about 33 points. Verdicts are wrong in 5 % of
the rollouts, and 3 % are undecided; effects are calibrated to what the verdicts show.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from agentlearn.learning.evidence.judgement import EvidenceRules
from agentlearn.stats.e_process import BETS, waiting

Array = np.ndarray
HARMFUL, GOOD, LESSONS = slice(0, 2), slice(2, 5), 20
ACTIVE = 5
TASKS = 100
ACTS_ON = 30
G = 5
BLOCKS = 1_000
EVERY = 20
"""Blocks between two looks: 100 rollouts."""
WRONG, UNDECIDED = 0.05, 0.03
Z = 1.645
BOUND_Z = 1.959964
_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Setting:
    """One kind of library and of measuring."""

    points: int
    hidden: int
    drift: bool = False
    """Whether the harmful lessons are good until the middle."""
    retrieved: bool = False
    """Whether a lesson is shown, and counted, on half of the tasks only: those that it acts on, and some others."""

    @property
    def name(self) -> str:
        """Name of its row."""
        where = ", where retrieved" if self.retrieved else ""
        return f"±{self.points} points, h = {self.hidden}{where}{', drift' if self.drift else ''}"


@dataclass(frozen=True, slots=True)
class World:
    """The rollouts of one library. L lessons, B blocks."""

    effects_BL: Array
    """Shown minus hidden, with undecided rollouts as half right; NaN where the lesson was not offered."""
    lost_BL2: Array
    """Share of undecided rollouts among those that were shown the lesson, and those from which it was hidden."""
    truth_BL: Array
    """True mean effect of each lesson at the time of each block: -1, 0 or 1."""
    reward: float
    """Mean true reward of the rollouts."""
    unmasked: float
    """Mean true reward if nothing had been hidden."""
    one_by_one_B: Array
    """Mean reward of each block when the lessons arrive one after the other and none is ever hidden."""
    arrives_L: Array
    """The block before which each lesson arrives then."""


def simulate(setting: Setting, seed: int) -> World:
    """Return the rollouts of one library."""
    rng = np.random.default_rng(seed)
    base_T = rng.beta(2, 2, TASKS)
    acts_TA = np.zeros((TASKS, ACTIVE))
    for lesson in range(ACTIVE):
        acts_TA[rng.permutation(TASKS)[:ACTS_ON], lesson] = 1
    signs_A = np.array([-1.0, -1.0, 1.0, 1.0, 1.0])
    shares = setting.hidden / G
    late_TA = _calibrated(base_T, acts_TA * signs_A, setting.points / 100, shares)
    early_TA = _calibrated(base_T, np.abs(acts_TA), setting.points / 100, shares) if setting.drift else late_TA
    tasks_B = np.concatenate([rng.permutation(TASKS) for _ in range(BLOCKS // TASKS)])
    early_B = np.arange(BLOCKS) < BLOCKS // 2
    change_BA = np.where(early_B[:, None], early_TA[tasks_B], late_TA[tasks_B])
    hidden_BLG = rng.random((BLOCKS, LESSONS, G)).argsort(axis=2) < setting.hidden
    shown_BAG = ~hidden_BLG[:, :ACTIVE]
    right_BG = _rate(base_T[tasks_B][:, None] + (change_BA[:, :, None] * shown_BAG).sum(axis=1))
    rewards_BG = (rng.random(right_BG.shape) < right_BG).astype(float)
    rewards_BG[rng.random(rewards_BG.shape) < UNDECIDED] = np.nan
    lost_BG = np.isnan(rewards_BG)
    half_BG = np.where(lost_BG, 0.5, rewards_BG)
    effects_BL = _mean(half_BG, ~hidden_BLG) - _mean(half_BG, hidden_BLG)
    lost_BL2 = np.stack([_mean(lost_BG, ~hidden_BLG), _mean(lost_BG, hidden_BLG)], axis=-1)
    if setting.retrieved:
        offered_TL = np.zeros((TASKS, LESSONS), bool)
        for lesson in range(LESSONS):
            offered_TL[rng.permutation(TASKS)[:50], lesson] = True
            if lesson < ACTIVE:
                acts = acts_TA[:, lesson] > 0
                offered_TL[:, lesson] = acts
                offered_TL[rng.permutation(np.flatnonzero(~acts))[: 50 - ACTS_ON], lesson] = True
        effects_BL = np.where(offered_TL[tasks_B], effects_BL, np.nan)
    truth_BL = np.zeros((BLOCKS, LESSONS))
    truth_BL[:, :ACTIVE] = signs_A
    if setting.drift:
        truth_BL[: BLOCKS // 2, HARMFUL] = 1
    arrives_L = (np.arange(LESSONS) + 1) * BLOCKS // 50
    order_L = rng.permutation(LESSONS)
    present_BA = np.arange(BLOCKS)[:, None] >= arrives_L[order_L][:ACTIVE]
    alone_B = _rate(base_T[tasks_B] + (change_BA * present_BA).sum(axis=1))
    one_by_one_B = rng.binomial(G, alone_B) / G
    return World(
        effects_BL=effects_BL,
        lost_BL2=lost_BL2,
        truth_BL=truth_BL,
        reward=float(right_BG.mean()),
        unmasked=float(_rate(base_T[tasks_B] + change_BA.sum(axis=1)).mean()),
        one_by_one_B=one_by_one_B,
        arrives_L=arrives_L[order_L],
    )


def _rate(rates: Any) -> Any:
    """The rate of rewards of 1, with wrong verdicts, for true rates of success that may lie outside 0..1."""
    return WRONG + (1 - 2 * WRONG) * np.clip(rates, 0, 1)


def _calibrated(base_T: Array, acts_TA: Array, size: float, share: float) -> Array:
    """Changes of each task by each active lesson, so that each lesson's true mean effect has this size."""
    scale_A = np.full(ACTIVE, size * TASKS / ACTS_ON)
    for _ in range(_ROUNDS):
        scale_A *= size / np.maximum(np.abs(_true_effects(base_T, acts_TA * scale_A, share)), size / 4)
        scale_A = np.minimum(scale_A, 1.0)
    return acts_TA * scale_A


def _true_effects(base_T: Array, change_TA: Array, share: float) -> Array:
    """Mean effect of each active lesson over the tasks, with the others shown as often as they are."""
    effects_A = np.zeros(ACTIVE)
    for lesson in range(ACTIVE):
        others = [one for one in range(ACTIVE) if one != lesson]
        for shown in product((0, 1), repeat=ACTIVE - 1):
            weight = np.prod([1 - share if one else share for one in shown])
            rest_T = base_T + (change_TA[:, others] * np.array(shown)).sum(axis=1)
            effects_A[lesson] += weight * (_rate(rest_T + change_TA[:, lesson]) - _rate(rest_T)).mean()
    return effects_A


def _mean(values_BG: Array, chosen_BLG: Array) -> Array:
    """Mean of the chosen rollouts of each block, by lesson."""
    return np.where(chosen_BLG, values_BG[:, None], 0.0).sum(axis=-1) / chosen_BLG.sum(axis=-1)


def log_e_values(effects: Array, *, every: int = EVERY) -> Array:
    """Logarithms of the e-values of `EProcess` at each look, for many lessons at once.

    effects: shape (blocks, ...); NaN where a lesson has no difference. Returns shape (looks, ...).
    """
    rest = effects.shape[1:]
    table = np.array([waiting(n) for n in range(len(effects) + 2)])
    log_starts, log_waiting = np.log(table[:-1] - table[1:]), np.log(table)
    bets = np.array(BETS).reshape((-1, *(1 for _ in rest)))
    started = np.full((len(BETS), *rest), -np.inf)
    n, found = np.zeros(rest, int), list[Array]()
    for block, now in enumerate(effects, start=1):
        known = ~np.isnan(now)
        moved = np.logaddexp(started, log_starts[n]) + np.log1p(bets * np.where(known, now, 0.0))
        started = np.where(known, moved, started)
        n = n + known
        if block % every == 0:
            betting = np.logaddexp.reduce(started, axis=0) - np.log(len(BETS))
            found.append(np.logaddexp(betting, log_waiting[n]))
    return np.array(found)


def rejected(log_e: Array, alpha: float) -> Array:
    """The hypotheses that `e_bh` rejects along the last axis, as booleans."""
    number = log_e.shape[-1]
    ordered = -np.sort(-log_e, axis=-1)
    enough = ordered >= np.log(number / (alpha * np.arange(1, number + 1)))
    count = np.where(enough.any(axis=-1), number - enough[..., ::-1].argmax(axis=-1), 0)
    rank = (-log_e).argsort(axis=-1, kind="stable").argsort(axis=-1, kind="stable")
    return rank < count[..., None]


def window_sums(values: Array, window: int) -> tuple[Array, Array]:
    """Sum and number of the last `window` differences of each lesson at each look."""
    rest = values.shape[1:]
    totals = np.concatenate([np.zeros((1, *rest)), np.nancumsum(values, axis=0)])
    numbers = np.concatenate([np.zeros((1, *rest), int), np.cumsum(~np.isnan(values), axis=0)])
    sums, counts = list[Array](), list[Array]()
    for block in range(EVERY, len(values) + 1, EVERY):
        before = (numbers <= np.maximum(numbers[block] - window, 0)).sum(axis=0) - 1
        before = np.minimum(before, block)[None]
        sums.append(totals[block] - np.take_along_axis(totals, before, axis=0)[0])
        counts.append(numbers[block] - np.take_along_axis(numbers, before, axis=0)[0])
    return np.array(sums), np.array(counts)


def surely_positive(values: Array, window: int) -> Array:
    """Whether all differences, or the last `window`, are above 0 beyond chance, at each look."""
    found: Any = False
    for size in (window, len(values)):
        (total, n), (squares, _) = window_sums(values, size), window_sums(values**2, size)
        mean = total / np.maximum(n, 1)
        found |= mean > BOUND_Z * np.sqrt(np.maximum(squares / np.maximum(n, 1) - mean**2, 0) / np.maximum(n, 1))
    return found


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels at each look: booleans of shape (looks, libraries, lessons)."""

    harmful: Any
    proven: Any


def guaranteed(effects_BNL: Array, lost_BNL2: Array, rules: EvidenceRules) -> Labels:
    """The labels of `agentlearn.learning.evidence`, for many libraries at once."""
    totals, _ = window_sums(effects_BNL, rules.window)
    more_BNL = (lost_BNL2[..., 0] - lost_BNL2[..., 1]) / 2
    lost_BNL = lost_BNL2.sum(axis=-1) / 2
    found = list[Array]()
    for sign in (-1, 1):
        signed = sign * effects_BNL
        log_e = np.minimum(log_e_values(signed - more_BNL), log_e_values(signed + more_BNL))
        holds = (sign * totals > 0) & surely_positive(signed - lost_BNL, rules.window)
        found.append(rejected(np.where(holds, log_e, -np.inf), rules.alpha))
    return Labels(*found)


def uncorrected(effects_BNL: Array) -> Labels:
    """Labels by the standard score of all differences, without any correction."""
    known = ~np.isnan(effects_BNL)
    x = np.where(known, effects_BNL, 0.0)
    looks = np.arange(EVERY - 1, len(x), EVERY)
    n = np.maximum(np.cumsum(known, axis=0)[looks], 2)
    mean = np.cumsum(x, axis=0)[looks] / n
    deviation = np.sqrt(np.maximum(np.cumsum(x * x, axis=0)[looks] / n - mean**2, 1e-9))
    z = mean / deviation * np.sqrt(n)
    return Labels(z < -Z, z > Z)


def running_baseline(rewards: Array, arrives: Array) -> Labels:
    """Labels by the mean reward since a lesson arrived against the mean reward before it. Nothing is ever hidden.

    rewards: shape (libraries, blocks). arrives: shape (libraries, lessons).
    """
    sums = np.concatenate([np.zeros((len(rewards), 1)), rewards.cumsum(axis=1)], axis=1)
    squares = np.concatenate([np.zeros((len(rewards), 1)), (rewards**2).cumsum(axis=1)], axis=1)
    before, squared = (np.take_along_axis(one, arrives, axis=1) for one in (sums, squares))
    zs = list[Array]()
    for block in range(EVERY, BLOCKS + 1, EVERY):
        after, n = np.maximum(block - arrives, 0), arrives
        first, second = before / n, (sums[:, [block]] - before) / np.maximum(after, 1)
        spread_1 = squared / n - first**2
        spread_2 = (squares[:, [block]] - squared) / np.maximum(after, 1) - second**2
        error = np.sqrt(np.maximum(spread_1 / n + spread_2 / np.maximum(after, 1), 1e-9))
        zs.append(np.where(after >= EVERY, (second - first) / error, 0.0))
    z = np.array(zs)
    return Labels(z < -Z, z > Z)
