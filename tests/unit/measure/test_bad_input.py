"""Bad input of any statistic is refused in one sentence with the value."""

import math

import pytest

from agentlearn.errors import ConfigError
from agentlearn.measure.clustered import cdf, clustered_mean, mean_interval, quantile
from agentlearn.measure.difference import (
    benjamini_hochberg,
    estimate_difference,
    holm,
    mean_test,
    no_worse,
    sign_flip_p,
    two_way_mean,
)
from agentlearn.measure.power import PlannedComparison, detectable_from_error, guessed_parts, power_of, variance_parts
from agentlearn.measure.score import mcnemar_p, missed_chance, pass_at_k, pass_hat_k, score_interval, score_statistic
from agentlearn.measure.sequential import EProcess, anytime, look_factor

PLANNED = PlannedComparison(parts=guessed_parts(0.5))
EMPTY = "is empty; a statistic needs at least one number"
SHARE = "it must be strictly between 0 and 1"
LEAVE_OUT = "leave out missing measurements and pass finite numbers"
CASES = [
    (
        lambda: clustered_mean([1.0, 2.0], ["a"]),
        "there are 2 values and 1 cluster labels; give one label per value, in order",
    ),
    (lambda: clustered_mean([], []), f"values {EMPTY}"),
    (lambda: clustered_mean([math.nan], ["a"]), f"values[0] is nan; {LEAVE_OUT}"),
    (lambda: clustered_mean([1.0], ["a"], level=95), "level is 95; it must be strictly between 0 and 1"),
    (lambda: estimate_difference([]), f"differences {EMPTY}"),
    (lambda: estimate_difference([0, math.nan]), f"differences[1] is nan; {LEAVE_OUT}"),
    (
        lambda: estimate_difference([0, 1], clusters=[1]),
        "there are 2 values and 1 cluster labels; give one label per value, in order",
    ),
    (lambda: estimate_difference([0, 1], largest=0), "largest is 0; it must be strictly between 0 and inf"),
    (lambda: estimate_difference([0, 1], level=0), "level is 0; it must be strictly between 0 and 1"),
    (lambda: no_worse([0, 1], 0), "margin is 0; it must be strictly between 0 and inf"),
    (lambda: no_worse([0, 1], 0.1, level=0.5), "level is 0.5; it must be strictly between 0.5 and 1"),
    (lambda: look_factor(0, 1), "look is 0; looks are counted from 1"),
    (lambda: look_factor(1, 0), "planned is 0; looks are counted from 1"),
    (lambda: mean_interval([]), f"values {EMPTY}"),
    *(
        (lambda level=level: mean_interval([1, 2], level=level), f"level is {level}; {SHARE}")
        for level in (0, 1, 95, math.nan)
    ),
    (lambda: mean_interval([0, math.nan]), f"values[1] is nan; {LEAVE_OUT}"),
    (lambda: mean_interval([math.inf, 0]), f"values[0] is inf; {LEAVE_OUT}"),
    (
        lambda: variance_parts([[1]], []),
        "before has 1 tasks and after has 0; give the rollouts of the same tasks, in order",
    ),
    (lambda: variance_parts([[1], []], [[1], [1]]), f"before[1] {EMPTY}"),
    (lambda: guessed_parts(0.5).of_one_task(0, 1), "k_before is 0; it must be at least 1"),
    (
        lambda: PLANNED.detectable_effect(0, k_before=1, k_after=1),
        "tasks is 0; it must be at least 1",
    ),
    (
        lambda: PLANNED.tasks_needed(0, k_before=1, k_after=1),
        "effect is 0; it must be strictly between 0 and inf",
    ),
    (
        lambda: PLANNED.rollouts_needed(math.nan, 9),
        "effect is nan; it must be strictly between 0 and inf",
    ),
    (lambda: detectable_from_error(-1.0, 9), "standard_error is -1.0; it must be finite and not negative"),
    (lambda: detectable_from_error(1.0, 9, power=0.05), "power is 0.05; it must be strictly between 0.05 and 1"),
    (lambda: power_of(math.inf, 9), "shift is inf; it must be strictly between -inf and inf"),
    (lambda: guessed_parts(1.0), "baseline is 1.0; it must be strictly between 0 and 1"),
    (
        lambda: guessed_parts(0.5, task_spread=0.6),
        "task_spread is 0.6; with a baseline of 0.5 it must be between 0 and 0.5",
    ),
    (
        lambda: guessed_parts(0.5, difference_spread=-0.1),
        "difference_spread is -0.1; it must be finite and not negative",
    ),
    (lambda: score_interval([]), f"values {EMPTY}"),
    (lambda: score_interval([0.0, 1.5]), "values[1] is 1.5; it must be between -1 and 1"),
    (lambda: score_interval([0.0], smallest=2), "smallest is 2; it must be strictly between -inf and 1"),
    (lambda: score_interval([0.0], level=1), "level is 1; it must be strictly between 0 and 1"),
    (lambda: score_statistic([0.0], 1.5), "mean is 1.5; it must be between -1 and 1, like the values"),
    (lambda: missed_chance([0.0], 1.5), "mean is 1.5; it must be between -1 and 1, like the values"),
    (lambda: score_statistic([0.0], math.nan), "mean is nan; it must be between -1 and 1, like the values"),
    (lambda: anytime([]), f"differences {EMPTY}"),
    (lambda: anytime([0.5, 1.5]), "differences[1] is 1.5; it must be between -1 and 1"),
    (lambda: anytime([0.5], alpha=0), "alpha is 0; it must be strictly between 0 and 1"),
    *(
        (
            lambda wrong=wrong: EProcess().after([0.0, wrong]),
            f"the difference {wrong} is not usable; it must be between -1 and 1",
        )
        for wrong in (1.01, -1.5, math.nan, math.inf)
    ),
    *(
        case
        for adjust in (holm, benjamini_hochberg)
        for case in (
            (lambda adjust=adjust: adjust([]), f"ps {EMPTY}"),
            (lambda adjust=adjust: adjust([0.1, math.nan]), f"ps[1] is nan; {LEAVE_OUT}"),
            (lambda adjust=adjust: adjust([0.1, 1.5]), "ps[1] is 1.5; a p-value must be between 0 and 1"),
            (lambda adjust=adjust: adjust([-0.1]), "ps[0] is -0.1; a p-value must be between 0 and 1"),
        )
    ),
    *(
        (
            lambda one=one, counts=counts: one(*counts),
            "{} of n={}, c={}, k={} is not defined; it needs 0 <= c <= n and k >= 1".format(name, *counts),
        )
        for one, name in ((pass_at_k, "pass@k"), (pass_hat_k, "pass^k"))
        for counts in ((5, 6, 1), (5, -1, 1), (5, 2, 0), (-1, 0, 1))
    ),
    (lambda: mcnemar_p(-1, 2), "gained is -1; give the number of tasks that changed that way"),
    (lambda: mcnemar_p(3, 2.5), "lost is 2.5; give the number of tasks that changed that way"),  # pyright: ignore[reportArgumentType]
    (lambda: mean_test([0.1], most_lost=0), "most_lost is 0; it must be strictly between 0 and inf"),
    (
        lambda: sign_flip_p([1.0, 2.0], seed=0, clusters=["a"]),
        "there are 2 values and 1 cluster labels; give one label per value, in order",
    ),
    (lambda: sign_flip_p([], seed=0, samples=10), f"differences {EMPTY}"),
    (lambda: sign_flip_p([0, math.nan], seed=0, samples=10), f"differences[1] is nan; {LEAVE_OUT}"),
    (lambda: sign_flip_p([1.0], seed=0, samples=0), "samples is 0; a sampled test needs at least 1"),
    (lambda: cdf(1, 0), "degrees is 0; it must be strictly between 0 and inf"),
    (lambda: cdf(1, math.nan), "degrees is nan; it must be strictly between 0 and inf"),
    (lambda: cdf(math.nan, 3), "t is nan; it must be strictly between -inf and inf"),
    (lambda: quantile(0, 3), "p is 0; it must be strictly between 0 and 1"),
    (lambda: quantile(1.0, 3), "p is 1.0; it must be strictly between 0 and 1"),
    (lambda: quantile(0.5, -1), "degrees is -1; it must be strictly between 0 and inf"),
    (lambda: two_way_mean([], [], []), f"values {EMPTY}"),
    (lambda: two_way_mean([1.0], [1], [1, 2]), "there are 1 values, 1 tasks and 2 seeds; give one of each per value"),
    (lambda: two_way_mean([math.inf], [1], [1]), f"values[0] is inf; {LEAVE_OUT}"),
]


def test_bad_input_is_refused_in_one_sentence(subtests: pytest.Subtests) -> None:
    for call, message in CASES:
        with subtests.test(message):
            with pytest.raises(ConfigError) as caught:
                call()
            assert str(caught.value) == message
