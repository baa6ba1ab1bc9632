"""When a run that distils lessons must end early: its answers shrink, or it moves too far from where it started.

A student can please its teacher by saying less and less (arXiv:2606.11709).
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from agentlearn.train.arguments import GradientArguments

ANSWER_TOKENS = "answer_tokens"
"""Metric: mean number of sampled tokens of a rollout without lessons."""
KL = "kl"
WINDOW = 3
"""Number of updates that lengths are averaged over."""


def early_end(figures: Sequence[Mapping[str, float]], arguments: GradientArguments) -> str:
    """Return why the run must end after its last update; empty when it goes on.

    figures: the metrics of all updates so far, in order.
    """
    if not figures:
        return ""
    lengths = [one[ANSWER_TOKENS] for one in figures if ANSWER_TOKENS in one]
    if arguments.stop_at_length and len(lengths) >= 2 * WINDOW:
        first, last = fmean(lengths[:WINDOW]), fmean(lengths[-WINDOW:])
        if last < arguments.stop_at_length * first:
            return (
                f"answers have shrunk from {first:.0f} to {last:.0f} tokens, below"
                f" {arguments.stop_at_length:.0%} of their length at the start (stop_at_length)"
            )
    limit, drift = arguments.stop_at_kl, figures[-1].get(KL, 0.0)
    if limit is not None and drift > limit:
        return f"the divergence from the model at the start is {drift:.3g} nats per token, above stop_at_kl {limit:g}"
    return ""
