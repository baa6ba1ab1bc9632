"""The nouns of measuring: a contrast of two arms with its bounds, its margin test and its verdict."""

from typing import Literal

from agentlearn.types.value import Value

Correction = Literal["holm", "bh", "none"]
"""How p-values are corrected for the number of arms."""
ContrastVerdict = Literal["better", "worse", "no_worse", "cannot_tell"]


class Pass(Value):
    """pass@k and pass^k for one k, averaged over tasks."""

    k: int
    at_least_one: float | None
    """pass@k: chance that at least one of k rollouts is right; None when a task has fewer than k rollouts."""
    all_of_them: float | None
    """pass^k: chance that all of k rollouts are right."""


class Worst(Value):
    """Bounds of the difference, whatever the true verdicts of undecided rollouts are."""

    low: float
    high: float


class Margin(Value):
    """Test whether an arm is worse than the baseline by less than a margin that was stated beforehand."""

    margin: float
    p: float | None
    """One-sided p, uncorrected."""
    bound: float | None
    """One-sided 95 % lower bound of the difference."""
    holds: bool
    """Whether the arm is worse by less than the margin, after correction for the number of arms."""


class Contrast(Value):
    """One arm compared with the baseline, over the same tasks, seeds and rollout indexes."""

    arm: str
    baseline: str
    mean: float | None
    """Arm minus baseline, mean over tasks."""
    low: float | None = None
    """Lower end of the interval."""
    high: float | None = None
    """Upper end of the interval."""
    standard_error: float | None = None
    degrees: float | None = None
    """Degrees of freedom of the interval."""
    method: str = ""
    """Method of the interval: `t`, `cr2` or `score`; `bets` in a sequential comparison."""
    tasks: int = 0
    """Tasks with at least one decided pair."""
    clusters: int = 0
    """Clusters that these tasks belong to."""
    pairs: int = 0
    """Pairs of rollouts that are decided in both arms."""
    key: str = ""
    """Hash of both arms' conditions and the seed. The same question asked on other data has the same key."""
    look: int = 1
    """How many times this question has been asked on growing data, this time included."""
    p: float | None = None
    """Two-sided sign-flip p, uncorrected; anytime-valid in a sequential comparison."""
    p_adjusted: float | None = None
    """p corrected for the number of arms and for earlier looks at growing data. The verdict uses it."""
    mcnemar_p: float | None = None
    """Exact McNemar p, when every task has one rollout per arm and every score is 0 or 1."""
    worst: Worst | None = None
    """Bounds of the difference; None when no rollout is undecided."""
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
    """Why the interval may be too narrow. The p-value is still valid, so `better` and `worse` can be given; `no_worse`,
    which rests on the interval alone, is not."""
    withheld: str = ""
    """Why no verdict is given although there are numbers, as a sentence; empty when nothing prevents one."""
    verdict: ContrastVerdict = "cannot_tell"
    sentence: str = ""
    """The verdict and its numbers in words."""


class Missing(Value):
    """A task that an arm has no rollout of."""

    arm: str
    task: str
    reason: str
