"""When a run must end early: answers shrink, it moves too far from where it started, or nothing is left to learn.

A student that lessons are distilled into can please its teacher by saying less and less (arXiv:2606.11709).
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from agentlearn.train.arguments import GradientArguments

ANSWER_TOKENS = "answer_tokens"
"""Metric: mean number of sampled tokens of a rollout without lessons."""
KL = "kl"
WINDOW = 3
"""Number of updates that lengths are averaged over."""
HINT_AFTER = 5
"""Number of updates in a row without much to learn from after which a note says so."""
_FEW = 0.1
"""Largest share of groups with different rewards that leaves hardly anything to learn."""


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
    if arguments.stop_after_equal is not None and (words := nothing_left(figures, arguments.stop_after_equal)):
        return f"{words} (stop_after_equal)"
    return ""


def nothing_left(figures: Sequence[Mapping[str, float]], updates: int) -> str:
    """Return in words that the last updates had hardly anything to learn from; empty when they had, or are too few."""
    last = figures[-updates:]
    total, mixed, right, wrong = (
        sum(one.get(name, 0.0) for one in last)
        for name in ("groups", "groups/mixed", "groups/all_right", "groups/all_wrong")
    )
    if len(last) < updates or not total or mixed > _FEW * total:
        return ""
    return (
        f"in the last {updates} updates only {mixed:.0f} of {total:.0f} tasks had rollouts with different rewards"
        f" ({right:.0f} all right, {wrong:.0f} all wrong), so they leave hardly anything to learn"
    )
