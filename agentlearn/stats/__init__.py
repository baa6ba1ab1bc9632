"""Statistics for comparing arms and for learning decisions, without side effects: one module per method.

Every function takes numbers and returns numbers. Randomness comes from a seed argument. scipy is not needed.
"""

from agentlearn.stats.clustered import Interval, clustered_mean, mean_interval
from agentlearn.stats.difference import (
    MeanDifference,
    MeanTest,
    NonInferiority,
    benjamini_hochberg,
    detectable_difference,
    estimate_difference,
    holm,
    mean_test,
    no_worse,
    sign_flip_p,
    two_way_mean,
    typical_size,
)
from agentlearn.stats.power import (
    COARSE,
    Clusters,
    PlannedComparison,
    VarianceParts,
    detectable_from_error,
    guessed_parts,
    measured_clusters,
    variance_parts,
)
from agentlearn.stats.score import (
    mcnemar_p,
    missed_bounds,
    missed_chance,
    pass_at_k,
    pass_hat_k,
    score_interval,
    score_statistic,
)
from agentlearn.stats.sequential import Anytime, EProcess, anytime, e_bh, log_threshold, look_factor

__all__ = [
    "COARSE",
    "Anytime",
    "Clusters",
    "EProcess",
    "Interval",
    "MeanDifference",
    "MeanTest",
    "NonInferiority",
    "PlannedComparison",
    "VarianceParts",
    "anytime",
    "benjamini_hochberg",
    "clustered_mean",
    "detectable_difference",
    "detectable_from_error",
    "e_bh",
    "estimate_difference",
    "guessed_parts",
    "holm",
    "log_threshold",
    "look_factor",
    "mcnemar_p",
    "mean_interval",
    "mean_test",
    "measured_clusters",
    "missed_bounds",
    "missed_chance",
    "no_worse",
    "pass_at_k",
    "pass_hat_k",
    "score_interval",
    "score_statistic",
    "sign_flip_p",
    "two_way_mean",
    "typical_size",
    "variance_parts",
]
