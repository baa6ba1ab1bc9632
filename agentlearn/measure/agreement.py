"""How far a judge agrees with people, and what its errors do to a difference of two arms."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist

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
