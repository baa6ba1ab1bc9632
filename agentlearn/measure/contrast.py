"""A contrast of two arms: its bounds, its margin test, its verdict, and what the errors of a judge do to it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Literal

from pydantic import Field

from agentlearn.measure.clustered import quantile
from agentlearn.types.value import Value

Pair = tuple[float, float]
"""What a person said of one answer, and what the judge said; each from 0 to 1."""
_BETWEEN = (0.0, 1.0)


class Agreement(Value):
    """Agreement of a judge with people over the same answers."""

    n: int
    agreement: float
    """Share of answers on which both say the same."""
    low: float
    """Lower end of its 95 % interval (Wilson)."""
    high: float
    kappa: float | None
    """Cohen's kappa; None where one of them says the same of every answer."""
    kappa_low: float | None = None
    """Lower end of its 95 % interval, by the large-sample variance of Fleiss, Cohen and Everitt (1969)."""
    kappa_high: float | None = None
    confusion: dict[str, int]
    """Number of answers by what the person and the judge said, such as `1/0` for right by the person alone."""
    bias: float
    """Mean of the judge minus mean of the person."""

    @property
    def words(self) -> str:
        """The agreement in words."""
        kappa = "no kappa: one of them says the same of every answer"
        if self.kappa is not None:
            kappa = f"kappa {self.kappa:.2f} [{self.kappa_low:.2f}, {self.kappa_high:.2f}]"
        return f"{self.agreement:.0%} [{self.low:.0%}, {self.high:.0%}] of {self.n}, {kappa}, bias {self.bias:+.3f}"


def agreement(pairs: Sequence[Pair]) -> Agreement:
    """Return the agreement of (person, judge) pairs, of which there is at least one."""
    n, z = len(pairs), NormalDist().inv_cdf(0.975)
    same = sum(person == judge for person, judge in pairs) / n
    middle, width = same + z * z / (2 * n), z * math.sqrt(same * (1 - same) / n + z * z / (4 * n * n))
    counts = Counter(pairs)
    kappa, error = _kappa(counts, n)
    return Agreement(
        n=n,
        agreement=same,
        low=max(0.0, (middle - width) / (1 + z * z / n)),
        high=min(1.0, (middle + width) / (1 + z * z / n)),
        kappa=kappa,
        kappa_low=None if kappa is None or error is None else max(-1.0, kappa - z * error),
        kappa_high=None if kappa is None or error is None else min(1.0, kappa + z * error),
        confusion={f"{person:g}/{judge:g}": counts[person, judge] for person, judge in sorted(counts)},
        bias=math.fsum(judge - person for person, judge in pairs) / n,
    )


def _kappa(counts: Mapping[Pair, int], n: int) -> tuple[float | None, float | None]:
    """Cohen's kappa and its standard error."""
    share = {pair: count / n for pair, count in counts.items()}
    values = sorted({value for pair in counts for value in pair})
    rows = {value: math.fsum(part for (person, _), part in share.items() if person == value) for value in values}
    columns = {value: math.fsum(part for (_, judge), part in share.items() if judge == value) for value in values}
    observed = math.fsum(share.get((value, value), 0.0) for value in values)
    expected = math.fsum(rows[value] * columns[value] for value in values)
    if 1 in {sum(part > 0 for part in said.values()) for said in (rows, columns)}:
        return None, None
    kappa = (observed - expected) / (1 - expected)
    on = math.fsum(
        share.get((value, value), 0.0) * (1 - (rows[value] + columns[value]) * (1 - kappa)) ** 2 for value in values
    )
    off = (1 - kappa) ** 2 * math.fsum(
        part * (columns[person] + rows[judge]) ** 2 for (person, judge), part in share.items() if person != judge
    )
    variance = (on + off - (kappa - expected * (1 - kappa)) ** 2) / ((1 - expected) ** 2 * n)
    return kappa, math.sqrt(max(variance, 0.0))


class JudgeCorrected(Value):
    """A difference of two arms without the errors of the judge, as far as labels of people show them."""

    mean: float
    low: float
    high: float
    labels: tuple[int, int]
    """Labelled answers of the arm and of the baseline."""
    shift: float
    """What the correction adds to the difference that was measured."""

    @property
    def words(self) -> str:
        """The corrected difference in words."""
        arm, baseline = self.labels
        return (
            f"corrected for the judge's errors by {arm} and {baseline} labels: {self.mean:+.3f}"
            f" [{self.low:+.3f}, {self.high:+.3f}]"
        )


def judge_corrected(
    mean: float, error: float, degrees: float, arm: Sequence[Pair], baseline: Sequence[Pair], *, level: float = 0.95
) -> JudgeCorrected:
    """Return a difference of two arms with the mean error of the judge in each arm taken off.

    It is the difference of prediction-powered inference (Angelopoulos et al. 2023): the judge may err differently in
    the two arms. mean, error, degrees: the measured difference, its standard error and degrees of freedom. arm,
    baseline: (person, judge) pairs of answers drawn at random from each arm, at least two each.
    """
    means, variances = list[float](), [(error * error, degrees)]
    for pairs in (arm, baseline):
        wrong = [person - judge for person, judge in pairs]
        middle, n = math.fsum(wrong) / len(wrong), len(wrong)
        # where hardly an error was seen, one that errs as far as it can is counted, so that the interval stays open
        spread = max(math.fsum((one - middle) ** 2 for one in wrong), 1.0) / n
        means.append(middle)
        variances.append((spread / n, n - 1))
    shift, variance = means[0] - means[1], math.fsum(one for one, _ in variances)
    free = variance**2 / math.fsum(one**2 / max(df, 1) for one, df in variances if one) if variance else degrees
    half = quantile((1 + level) / 2, free) * math.sqrt(variance)
    corrected = mean + shift
    return JudgeCorrected(
        mean=corrected,
        low=max(-1.0, corrected - half),
        high=min(1.0, corrected + half),
        labels=(len(arm), len(baseline)),
        shift=shift,
    )


Correction = Literal["holm", "bh", "none"]
"""How p-values are corrected for the number of arms."""
ContrastVerdict = Literal["better", "worse", "no_worse", "cannot_tell"]


PAIRED = (
    "The interval of a score holds for that score alone. The difference is measured task by task, so its interval can"
    " leave out 0 where those of the two scores overlap."
)
"""Why the intervals of two scores and of their difference need not look alike."""


class Pass(Value):
    """pass@k and pass^k for one k, averaged over tasks."""

    k: int
    at_least_one: float | None
    """pass@k: chance that at least one of k rollouts is right; None when a task has fewer than k rollouts."""
    all_of_them: float | None
    """pass^k: chance that all of k rollouts are right."""


WithheldCode = Literal["", "bounds", "unseen", "cost"]
"""Why a verdict is withheld: undecided rollouts could change the result, values that the sample missed could, or the
arm costs more than was allowed."""


class Worst(Value):
    """Bounds of the difference, whatever the true scores of undecided and missing rollouts are."""

    low: float
    high: float
    p: float | None = None
    """One-sided p of the sign of the difference if every rollout without a score went against that sign, by all tests
    of a verdict; None when none is undecided or missing."""
    p_adjusted: float | None = None
    """p, corrected like `Contrast.p_adjusted`. The verdict uses it."""
    p_margin: float | None = None
    """The same for the margin test, if every rollout without a score went against the arm."""
    p_margin_adjusted: float | None = None

    @property
    def open(self) -> bool:
        """Return whether the bounds differ, because some rollouts have no score."""
        return self.low < self.high


class Undecided(Value):
    """Rollouts without a score: undecided ones, and ones that only the other arm has."""

    arm: int = 0
    baseline: int = 0
    arm_codes: tuple[tuple[str, int], ...] = ()
    """Most frequent codes of the arm's, with their numbers. `missing`: the arm has no such rollout."""
    baseline_codes: tuple[tuple[str, int], ...] = ()
    rollouts: int = 0
    """Rollouts of both arms, those without a score included."""

    @property
    def total(self) -> int:
        """Return the number in both arms."""
        return self.arm + self.baseline


class Margin(Value):
    """Test whether an arm is worse than the baseline by less than a margin that was stated beforehand."""

    margin: float
    p: float | None
    """One-sided p, uncorrected."""
    bound: float | None
    """One-sided 95 % lower bound of the difference."""
    holds: bool
    """Whether the arm is worse by less than the margin, after correction for the number of arms."""
    p_mean: float | None = None
    """One-sided p of the same by the test of the mean, corrected; it allows for large losses that the sample missed."""
    hidden: float | None = None
    """Share of tasks which, by losing as much as they can, would make the arm worse by the margin."""


class Contrast(Value):
    """One arm compared with its baseline, over the same tasks, seeds and rollout indexes."""

    arm: str
    baseline: str
    mean: float | None
    """Arm minus baseline, mean over tasks."""
    score: float | None = None
    """Mean score of the arm over these tasks."""
    baseline_score: float | None = None
    """Mean score of the baseline over these tasks."""
    low: float | None = None
    """Lower end of the interval."""
    high: float | None = None
    """Upper end of the interval."""
    standard_error: float | None = None
    degrees: float | None = None
    """Degrees of freedom of the interval."""
    method: str = ""
    """Method of the interval: `t`, `cr2` or `score`."""
    tasks: int = 0
    """Tasks with at least one decided pair."""
    clusters: int = 0
    """Clusters that these tasks belong to."""
    pairs: int = 0
    """Pairs of rollouts that are decided in both arms."""
    key: str = ""
    """Hashes of the two arms' conditions in any order, one per domain. The same arms on other tasks share a hash."""
    data: str = ""
    """Hash of the scores that are compared."""
    look: int = 1
    """How many times these two arms have been compared on different data, this time included."""
    p: float | None = None
    """Two-sided sign-flip p, uncorrected; with 6 or more tasks or clusters of which fewer than 20 differ, half of it or
    the p of the interval's method, whichever is larger."""
    p_adjusted: float | None = None
    """p corrected for the number of arms and for earlier looks at these arms. The verdict uses it."""
    p_mean: float | None = None
    """One-sided p of the sign of the mean, uncorrected. It assumes no symmetry, and allows for large values that the
    sample missed."""
    p_mean_adjusted: float | None = None
    """p_mean, corrected like `p_adjusted`. The verdict uses it too."""
    hidden: float | None = None
    """Share of tasks at the far end of the range that would reverse the sign of the difference."""
    skewness: float | None = None
    """Skewness of the differences over tasks or clusters, where the range of the scores is not known. If few large ones
    are on the other side of 0, there is no verdict. None where the range is known."""
    assumes: str = ""
    """What the two tests assume, in words."""
    mcnemar_p: float | None = None
    """Exact McNemar p, when every task has one rollout per arm and every score is 0 or 1."""
    judge: JudgeCorrected | None = Field(default=None, exclude_if=lambda found: found is None)
    """The difference without the errors of the judge, as labels of people show them."""
    worst: Worst | None = None
    """Bounds of the difference, equal to `mean` when no rollout is undecided or missing; None when the range of the
    scores is not known."""
    undecided: Undecided = Undecided()
    """Rollouts without a score, by arm."""
    cost_change: float | None = None
    """How much more a rollout of the arm costs, as a share of what one of the baseline costs: in dollars where all
    prices are known and above 0, else in tokens, which count alike. None where neither is known."""
    cost_in: Literal["dollars", "tokens"] = "tokens"
    margin: Margin | None = None
    wins: int = 0
    """Tasks on which the arm scores higher."""
    losses: int = 0
    """Tasks on which the arm scores lower."""
    ties: int = 0
    """Tasks on which both score the same."""
    detectable: float | None = None
    """Smallest true difference that this comparison detects with 80 % power."""
    rollouts_needed: int | None = None
    """Rollouts per task and arm needed to detect the observed difference; None when it is already shown, or no number
    is enough."""
    tasks_needed: int | None = None
    """Tasks needed to detect the observed difference with the present number of rollouts per task; None when it is
    already shown, or too many would be needed."""
    unsafe: str = ""
    """Why the scores cannot be trusted. If set, the verdict is `cannot_tell`."""
    caution: str = ""
    """Why the interval may be too narrow. `better` and `worse`, which also need the tests, can still be given;
    `no_worse`, which rests on the interval alone, cannot."""
    only_cluster: str = ""
    """The cluster that all tasks are in. The tasks are then the independent units, and the result holds for tasks of
    this cluster only. Empty when there are several clusters, or none."""
    carried: str = ""
    """What the result hangs on: two tasks or clusters that outweigh all others together, or tasks that count as one
    because of their texts. Empty without such."""
    withheld: str = ""
    """Why no verdict is given although there may be a difference, as a sentence; the contrast's sentence starts with
    it."""
    withheld_code: WithheldCode = ""
    left_open: str = ""
    """What rollouts without a score leave open, when that is more than the interval shows; such a contrast is not
    called `no detectable change`. Empty otherwise, and where there is a verdict or `withheld`."""
    sensitivity: float | None = None
    """When undecided rollouts withhold the verdict: how many times as often as the others they may be wrong (right on
    the other side) while the interval still excludes 0. None when there is no such factor above 1."""
    holds_if: str = ""
    """`sensitivity` as a sentence; empty when it is None. It is no verdict."""
    verdict: ContrastVerdict = "cannot_tell"
    sentence: str = ""
    """The verdict and its numbers in words."""


class Missing(Value):
    """A task of which an arm has no rollout, or fewer than another arm."""

    arm: str
    task: str
    reason: str
