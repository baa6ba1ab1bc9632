"""Statistics for comparing arms and for learning decisions, without side effects: one module per method.

Every function takes numbers and returns numbers. Randomness comes from a seed argument. scipy is not needed.
"""

from agentlearn.stats.clustered import clustered_mean
from agentlearn.stats.difference import MeanDifference, detectable_difference, estimate_difference, no_worse
from agentlearn.stats.interim_looks import look_factor
from agentlearn.stats.interval import Interval, mean_interval
from agentlearn.stats.mcnemar import mcnemar_p
from agentlearn.stats.multiplicity import benjamini_hochberg, holm
from agentlearn.stats.non_inferiority import NonInferiority, non_inferiority
from agentlearn.stats.paired import paired_difference
from agentlearn.stats.passes import pass_at_k, pass_hat_k
from agentlearn.stats.power import (
    VarianceParts,
    detectable_effect,
    detectable_from_error,
    guessed_parts,
    rollouts_needed,
    tasks_needed,
    variance_parts,
)
from agentlearn.stats.score import score_interval, score_statistic
from agentlearn.stats.sequential import Anytime, anytime
from agentlearn.stats.sign_flip import sign_flip_p
from agentlearn.stats.two_way import two_way_mean

__all__ = [
    "Anytime",
    "Interval",
    "MeanDifference",
    "NonInferiority",
    "VarianceParts",
    "anytime",
    "benjamini_hochberg",
    "clustered_mean",
    "detectable_difference",
    "detectable_effect",
    "detectable_from_error",
    "estimate_difference",
    "guessed_parts",
    "holm",
    "look_factor",
    "mcnemar_p",
    "mean_interval",
    "no_worse",
    "non_inferiority",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "rollouts_needed",
    "score_interval",
    "score_statistic",
    "sign_flip_p",
    "tasks_needed",
    "two_way_mean",
    "variance_parts",
]
