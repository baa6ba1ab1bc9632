"""What goes wrong in a run while it can still be mended: each caution names its cause, and a way out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentlearn.models.limiter import Limiter
from agentlearn.types.value import Value

GROUPS = 10
"""Groups of which something can be said while others are still to come."""
ROLLOUTS = 20
"""Rollouts, likewise."""
REPLIES = 10
"""Replies of one stage, likewise."""

ONE_KIND = 0.8
"""Share of the groups that are of one kind, and not mixed, from which on it is a caution; of 1 at the most."""
UNDECIDED = 0.3
"""Share of the rollouts, likewise."""
FAILED = 0.2
"""Share of the rollouts that failed by one code, likewise."""
MALFORMED = 0.3
"""Share of a stage's replies above which too many are misshapen."""

WarningCode = Literal["groups", "undecided", "failed", "limiter", "unpriced", "malformed"]

_TRACE = "agentlearn trace ROLLOUT tells why"
_KINDS = {
    "all_right": ("were all right", "harder tasks or a weaker model would teach"),
    "all_wrong": ("were all wrong", "easier tasks or a stronger model would teach"),
    "undecided": ("were undecided", _TRACE),
    "failed": ("failed", _TRACE),
}
_MENDS = {
    "rollout_timeout": "a larger rollout_deadline_s in a recipe gives them time",
    "too_many_turns": "a larger max_turns in a recipe lets them end",
    "endpoint_timeout": "a lower --concurrency, or a larger call_deadline_s in a recipe, gives calls time",
    "endpoint_429": "a lower --concurrency asks less at once",
}


class RunWarning(Value):
    """One thing that wants mending."""

    code: WarningCode
    subject: str = ""
    """What it is about, where there may be several: the kind of group, the failure's code, the stage."""
    words: str


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """What a run has seen so far."""

    groups: Mapping[str, int] = field(default_factory=dict[str, int])
    """Groups by kind."""
    rollouts: int = 0
    undecided: int = 0
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    """Failed rollouts by code."""
    replies: Mapping[str, int] = field(default_factory=dict[str, int])
    """Replies of the model by stage."""
    misshapen: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of these, the ones whose form was wrong as a whole."""
    limiters: tuple[Limiter, ...] = ()
    max_cost_usd: float | None = None
    unpriced_calls: int = 0


def run_warnings(seen: RunSnapshot, *, ended: bool = False) -> tuple[RunWarning, ...]:
    """Everything that wants mending. ended: no group is to come, so that a few that all failed to teach count too."""
    return (
        *_groups(seen, ended=ended),
        *_undecided(seen),
        *_failures(seen),
        *_limiters(seen),
        *_unpriced(seen),
        *_malformed(seen),
    )


def _groups(seen: RunSnapshot, *, ended: bool) -> tuple[RunWarning, ...]:
    total = sum(seen.groups.values())
    if not total:
        return ()
    kind = max(_KINDS, key=lambda one: seen.groups.get(one, 0))
    count = seen.groups.get(kind, 0)
    one_sided = total >= GROUPS and count >= ONE_KIND * total
    if not one_sided and not (ended and not seen.groups.get("mixed", 0)):
        return ()
    were, mend = _KINDS[kind]
    return (RunWarning(code="groups", subject=kind, words=f"{count:,} of {total:,} groups {were}: {mend}"),)


def _undecided(seen: RunSnapshot) -> tuple[RunWarning, ...]:
    if seen.rollouts < ROLLOUTS or seen.undecided < UNDECIDED * seen.rollouts:
        return ()
    words = f"{seen.undecided:,} of {seen.rollouts:,} rollouts are undecided and teach nothing: {_TRACE}"
    return (RunWarning(code="undecided", words=words),)


def _failures(seen: RunSnapshot) -> tuple[RunWarning, ...]:
    if seen.rollouts < ROLLOUTS:
        return ()
    return tuple(
        RunWarning(
            code="failed",
            subject=code,
            words=f"{count:,} of {seen.rollouts:,} rollouts failed with {code}: {_MENDS.get(code, _TRACE)}",
        )
        for code, count in sorted(seen.failures.items())
        if count >= FAILED * seen.rollouts
    )


def _limiters(seen: RunSnapshot) -> tuple[RunWarning, ...]:
    """Of several endpoints the one that took least."""
    pressed = [one for one in seen.limiters if one.lowest <= one.most / 2]
    if not pressed:
        return ()
    limiter = min(pressed, key=lambda one: one.lowest)
    lowest = int(limiter.lowest)
    why = "answers became slow" if limiter.slow_rounds > limiter.refused_rounds else "it refused more (429)"
    words = f"the service took no more than {lowest} of {limiter.most} calls at once: {why}; --concurrency {lowest}"
    return (RunWarning(code="limiter", words=f"{words} would press it less"),)


def _unpriced(seen: RunSnapshot) -> tuple[RunWarning, ...]:
    if seen.max_cost_usd is None or not seen.unpriced_calls:
        return ()
    words = (
        f"{seen.unpriced_calls:,} calls have no known price and do not count against --max-cost-usd"
        f" {seen.max_cost_usd:g}: --max-tokens would count them"
    )
    return (RunWarning(code="unpriced", words=words),)


def _malformed(seen: RunSnapshot) -> tuple[RunWarning, ...]:
    shares = {
        stage: (count, seen.replies.get(stage, 0))
        for stage, count in sorted(seen.misshapen.items())
        if seen.replies.get(stage, 0) >= REPLIES
    }
    return tuple(
        RunWarning(
            code="malformed",
            subject=stage,
            words=(
                f"{count:,} of {replies:,} replies of the stage {stage} were misshapen: a stronger --reflector would"
                " keep to the form"
            ),
        )
        for stage, (count, replies) in shares.items()
        if count > MALFORMED * replies
    )
