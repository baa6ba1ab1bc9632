"""Warnings during a run: each names a problem, its cause, and what the user can change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentlearn.models.limiter import Limiter
from agentlearn.stats import sign_flip_p
from agentlearn.text import number_text
from agentlearn.types.value import Value

_MIN_GROUPS = 10
"""Smallest number of complete groups for a warning about groups while the run goes on."""
_MIN_ROLLOUTS = 20
"""Smallest number of rollouts for a warning about rollouts."""
_MIN_REPLIES = 10
"""Smallest number of replies of a stage for a warning about that stage."""

_ONE_KIND = 0.8
"""Smallest share of groups of one kind other than mixed that is a warning."""
_UNDECIDED = 0.3
"""Smallest share of undecided rollouts that is a warning."""
_NO_ANSWERS = 0.5
"""Smallest share of rollouts without an answer that explains groups that are all wrong."""
_FAILED = 0.2
"""Smallest share of rollouts that failed with one error code that is a warning."""
_MALFORMED = 0.3
"""Largest share of malformed replies of a stage that is not a warning."""

FALLEN = 0.05
"""Largest probability, over all epochs of a run, of a warning about a falling reward when nothing has changed."""

WarningCode = Literal[
    "groups", "undecided", "failed", "limiter", "unpriced", "malformed", "fallen", "unprotected", "chat_template"
]

_TRACE = "{trace} lists them by task"
_KINDS = {
    "all_right": ("were all right", "use harder tasks or a weaker model"),
    "all_wrong": ("were all wrong", "use easier tasks or a stronger model"),
    "undecided": ("were undecided", _TRACE),
    "failed": ("failed", _TRACE),
}
_SAY_WHY = {
    "teach": "let the reward give its reason, or give expected answers (with --labels gold)",
    "skip": "--all-wrong teach learns from reasons and expected answers",
}
"""What helps against groups that are all wrong in a run that learns lessons, by the setting `all_wrong`."""
REMEDIES = {
    "rollout_timeout": "set a larger rollout_deadline_s in a recipe",
    "too_many_turns": "set a larger max_turns in a recipe",
    "endpoint_timeout": "use a lower --concurrency, or set a larger call_deadline_s in a recipe",
    "endpoint_429": "use a lower --concurrency",
    "endpoint_402": "add credit to the account of the key",
    "endpoint_quota": "add credit to the account of the key",
}
"""What can be changed against rollouts that fail with an error code."""


class RunWarning(Value):
    """A problem that the user can do something about."""

    code: WarningCode
    subject: str = ""
    """What it is about, where there can be several: the kind of group, the error code, the stage, or the epoch."""
    words: str
    """The warning in one sentence."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Counts of a run at one moment, from which warnings are derived."""

    groups: Mapping[str, int] = field(default_factory=dict[str, int])
    """Complete groups by kind."""
    taught_wrong: int = 0
    """Groups among them that are all wrong and teach, because something says what was wanted."""
    all_wrong: Literal["teach", "skip"] | None = None
    """Whether groups that are all wrong are to teach; None in a run that learns no lessons."""
    rollouts: int = 0
    undecided: int = 0
    """Rollouts that the verifier could not judge."""
    no_answers: int = 0
    """Judged rollouts in whose reply no answer was found."""
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    """Rollouts by error code that the agent failed, or that have a remedy."""
    replies: Mapping[str, int] = field(default_factory=dict[str, int])
    """Replies of the model by stage."""
    malformed: Mapping[str, int] = field(default_factory=dict[str, int])
    """Replies by stage that could not be read as a whole."""
    limiters: tuple[Limiter, ...] = ()
    """Limiters of the endpoints that are not on this machine."""
    max_cost_usd: float | None = None
    """The limit in dollars; None: no limit."""
    unpriced_calls: int = 0
    """Calls whose price is unknown."""
    trace: str = "agentlearn trace"
    """The command that lists the run's rollouts."""


def run_warnings(counts: RunSnapshot, *, ended: bool = False) -> tuple[RunWarning, ...]:
    """Return all warnings that hold. ended: no more groups will follow, so even a few without a mixed one count."""
    found = list[RunWarning]()
    listed = _TRACE.format(trace=counts.trace)
    total, teach = sum(counts.groups.values()), counts.groups.get("mixed", 0) + counts.taught_wrong
    useless = {kind: counts.groups.get(kind, 0) for kind in _KINDS}
    useless["all_wrong"] -= counts.taught_wrong
    kind = max(_KINDS, key=lambda one: useless[one])
    count = useless[kind]
    one_sided = total >= _MIN_GROUPS and count >= _ONE_KIND * total
    if total and (one_sided or (ended and not teach)):
        were, remedy = _KINDS[kind]
        if kind == "all_wrong" and counts.all_wrong is not None:
            remedy = _SAY_WHY[counts.all_wrong]
        if kind == "all_wrong" and counts.no_answers > _NO_ANSWERS * counts.rollouts:
            remedy = "most replies have no answer that can be read, see the note about them"
        words = f"{count:,} of {total:,} groups {were} and teach nothing: {remedy.format(trace=counts.trace)}"
        found.append(RunWarning(code="groups", subject=kind, words=words))
    of_all = f"of {counts.rollouts:,} rollouts"
    if counts.rollouts >= _MIN_ROLLOUTS and counts.undecided >= _UNDECIDED * counts.rollouts:
        words = f"{counts.undecided:,} {of_all} are undecided and teach nothing: {listed}"
        found.append(RunWarning(code="undecided", words=words))
    for code, count in sorted(counts.failures.items()):
        if counts.rollouts >= _MIN_ROLLOUTS and count >= _FAILED * counts.rollouts:
            words = f"{count:,} {of_all} failed with {code}: {REMEDIES.get(code, listed)}"
            found.append(RunWarning(code="failed", subject=code, words=words))
    reduced = [one for one in counts.limiters if one.lowest <= one.most / 2]
    if (limiter := min(reduced, key=lambda one: one.lowest, default=None)) is not None:
        lowest = int(limiter.lowest)
        why = "answers became slow" if limiter.slow_rounds > limiter.refused_rounds else "it refused more (429)"
        words = f"the service accepted only {lowest} of {limiter.most} calls at once, because {why}"
        found.append(RunWarning(code="limiter", words=f"{words}: use --concurrency {lowest}"))
    if counts.max_cost_usd is not None and counts.unpriced_calls:
        words = (
            f"{counts.unpriced_calls:,} calls have no known price and do not count towards --max-cost-usd"
            f" {counts.max_cost_usd:g}: use --max-tokens, which counts them"
        )
        found.append(RunWarning(code="unpriced", words=words))
    for stage, count in sorted(counts.malformed.items()):
        replies = counts.replies.get(stage, 0)
        if replies >= _MIN_REPLIES and count > _MALFORMED * replies:
            words = f"{count:,} of {replies:,} replies of the stage {stage} were malformed: use a stronger --reflector"
            found.append(RunWarning(code="malformed", subject=stage, words=words))
    return tuple(found)


def fallen_reward(
    epoch: int, before: Mapping[str, float], now: Mapping[str, float], *, comparisons: int, seed: int, best: str
) -> RunWarning | None:
    """Return a warning if the reward of an epoch is lower than in the epoch before, on the tasks that both visited.

    The test is one-sided, by random signs of the tasks' differences. It assumes only that a task is as likely to gain
    as to lose when nothing has changed. The level is divided by the number of comparisons in the run.

    before, now: mean reward by task. best: the best version so far, in words.
    """
    tasks = sorted(now.keys() & before.keys())
    differences = [now[task] - before[task] for task in tasks]
    if not differences or sum(differences) >= 0 or sign_flip_p(differences, seed=seed) / 2 > FALLEN / comparisons:
        return None
    first, second = (number_text(sum(one[task] for task in tasks) / len(tasks)) for one in (before, now))
    words = (
        f"the reward on the same {len(tasks):,} tasks fell from {first} in epoch {epoch - 1} to {second} in epoch"
        f" {epoch}, so new lessons may do harm; {best}"
    )
    return RunWarning(code="fallen", subject=str(epoch), words=words)


def unprotected(*, one_update: bool) -> RunWarning:
    """Return the warning about a setting that is as published. one_update: whether each epoch is one update."""
    once = ", with one update per epoch" if one_update else ""
    words = (
        f"the last version is taken{once}, as published: nothing protects it from lessons that do harm; --select best"
        " chooses by the evidence"
    )
    return RunWarning(code="unprotected", words=words)
