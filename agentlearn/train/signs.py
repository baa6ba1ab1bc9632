"""What the metrics of a run's updates say about its learning: why it must end early, and what hinders it.

A student that lessons are distilled into can please its teacher by saying less and less (arXiv:2606.11709). A model
whose learning rate is too high says the same for everything. Both look like a run that goes on.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, pstdev

from agentlearn.train.arguments import GradientArguments

Figures = Sequence[Mapping[str, float]]
"""The metrics of all updates so far, in order."""
ANSWER_TOKENS = "answer_tokens"
"""Metric: mean number of sampled tokens of a rollout without lessons."""
KL = "kl"
ENTROPY = "sampling/entropy"
"""Metric: minus the mean log-probability of all sampled tokens, an estimate of their entropy in nats. It is also known
where nothing is learned."""
LOWEST, HIGHEST, PARTIAL, STD = "reward/min", "reward/max", "reward/partial", "reward/std"
"""Metrics of the rewards of a batch: lowest, highest, how many are neither 0 nor just enough, and their std."""
DISTINCT = "answers/distinct"
"""Metric: number of different answers in a batch."""
WINDOW = 3
"""Number of updates that lengths are averaged over."""
_ROWS = 16
"""Smallest number of rows with one and the same reward that is worth a note."""
_FEW = 0.1
"""Largest share of groups with different rewards that leaves hardly anything to learn."""
_COLLAPSED = 0.1
"""Share of the first entropy below which a model without higher rewards has collapsed."""


def spread(rewards: Sequence[float], answers: Iterable[str | None], threshold: float) -> dict[str, float]:
    """Return the metrics of a batch's rewards and answers. threshold: reward from which an answer counts as right."""
    partial = sum(one not in (0, threshold) for one in rewards)
    known = {LOWEST: min(rewards), HIGHEST: max(rewards), PARTIAL: partial, STD: pstdev(rewards)} if rewards else {}
    return {**known, DISTINCT: float(len(set(answers)))}


def early_end(figures: Figures, arguments: GradientArguments) -> str:
    """Return why the run must end after its last update; empty when it goes on."""
    if not figures:
        return ""
    lengths = [one[ANSWER_TOKENS] for one in figures if ANSWER_TOKENS in one]
    told = arguments.distillation
    if told.stop_at_length and len(lengths) >= 2 * WINDOW:
        first, last = fmean(lengths[:WINDOW]), fmean(lengths[-WINDOW:])
        if last < told.stop_at_length * first:
            return (
                f"answers have shrunk from {first:.0f} to {last:.0f} tokens, below"
                f" {told.stop_at_length:.0%} of their length at the start (stop_at_length)"
            )
    limit, drift = told.stop_at_kl, figures[-1].get(KL, 0.0)
    if limit is not None and drift > limit:
        return f"the divergence from the model at the start is {drift:.3g} nats per token, above stop_at_kl {limit:g}"
    least, entropy = arguments.stop_at_entropy, figures[-1].get(ENTROPY)
    if least is not None and entropy is not None and entropy < least:
        return f"the entropy of the sampled tokens is {entropy:.3g} nats, below stop_at_entropy {least:g}"
    if arguments.stop_after_equal is not None and (words := nothing_left(figures, arguments.stop_after_equal)):
        return f"{words} (stop_after_equal)"
    return ""


def hints(figures: Figures, threshold: float) -> dict[str, str]:
    """Return notes on what hinders learning, by kind. threshold: reward from which an answer counts as right."""
    if words := collapsed(figures):
        return {"collapse": words}
    words = (left := nothing_left(figures, 5)) and f"{left}; use other tasks, or end such runs early: stop_after_equal"
    return {"reward": words} if (words := one_reward(figures, threshold) or words) else {}


def collapsed(figures: Figures) -> str:
    """Return in words that the model says the same for everything; empty when it does not, or earns more than then.

    A model with k answers earns more by chance: as much as k random rollouts of the start. So two standard errors of
    their mean are no gain.
    """
    known = [one for one in figures if ENTROPY in one and "reward" in one]
    if not known:
        return ""
    start, now = known[0], known[-1]
    before, after, first, last = (one.get(name, 0.0) for name in (ENTROPY, "reward") for one in (start, now))
    chance = 2 * start.get(STD, 0.0) / max(1.0, now.get(DISTINCT, 1.0)) ** 0.5
    groups, mixed, right = (now.get(name, 0.0) for name in ("groups", "groups/mixed", "groups/all_right"))
    learns = mixed > _FEW * groups or 0 < groups == right
    if learns or after > _COLLAPSED * before or last > first + chance:
        return ""
    return (
        f"entropy fell from {before:.3g} to {after:.3g} nats per token, and the mean reward went from {first:.3g} to"
        f" {last:.3g}: the model says the same for everything; lower learning_rate"
    )


def one_reward(figures: Figures, threshold: float) -> str:
    """Return a note when every rollout got the same reward, which is not that of a right answer; empty while few are
    known."""
    known = {one[name] for one in figures for name in (LOWEST, HIGHEST) if name in one}
    if len(known) != 1 or (reward := known.pop()) >= threshold or sum(one.get("rows", 0.0) for one in figures) < _ROWS:
        return ""
    if reward:
        return f"every rollout so far got {reward:g}, so nothing is learned: does the reward read the answer?"
    return (
        "every reward so far is 0, so nothing is learned. Usually the reward gives 0 to right answers (call it"
        " yourself on one), or the model cannot follow our long instructions (--only-instructions"
        " with --instructions sends only your own)"
    )


def nothing_left(figures: Figures, updates: int) -> str:
    """Return in words that the last updates had hardly anything to learn from; empty when they had, or are too few."""
    last = figures[-updates:]
    total, mixed, right, wrong = (
        sum(one.get(name, 0.0) for one in last)
        for name in ("groups", "groups/mixed", "groups/all_right", "groups/all_wrong")
    )
    if len(last) < updates or not total or mixed > _FEW * total:
        return ""
    spread = f"{right:.0f} all right, {wrong:.0f} all wrong"
    if any(one.get(PARTIAL) for one in last):  # graded rewards are neither right nor wrong
        low, high = min(one.get(LOWEST, 1e99) for one in last), max(one.get(HIGHEST, -1e99) for one in last)
        spread = f"rewards lie between {low:g} and {high:g}"
    return (
        f"in the last {updates} updates only {mixed:.0f} of {total:.0f} tasks had rollouts with different rewards"
        f" ({spread}), so they leave hardly anything to learn"
    )
