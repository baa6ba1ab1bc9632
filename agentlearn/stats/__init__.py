"""Pure statistics for differences between arms and for learning decisions: one module per method.

Every function takes numbers and returns numbers; randomness comes from a seed that is passed in. scipy is not needed.
"""

from agentlearn.stats.interval import Interval, mean_interval
from agentlearn.stats.paired import paired_difference
from agentlearn.stats.passes import pass_at_k
from agentlearn.stats.sign_flip import sign_flip_p

__all__ = ["Interval", "mean_interval", "paired_difference", "pass_at_k", "sign_flip_p"]
