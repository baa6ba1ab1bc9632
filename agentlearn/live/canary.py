"""Canaries: a share of episodes reads another version, and a rule says when it is promoted or rolled back.

Episodes that were drawn at the same time are compared by the feedback that they got, in the blocks of `evidence`, which
are made once and looked at in a fixed order when feedback is no longer waited for. E-processes bet on them: that the
canary is worse, and that it is not worse by more than its margin. The decision may be asked for at any time. One budget
serves the whole life of a library: of the canaries that the rule rolls back, at most a share `alpha` is not worse, on
average; of those that it promotes, at most `alpha` are worse by the margin.
The t-th canary of a library has 1 / t (t + 1) of the budget, times one more than the decisions of its kind before.
Source: Xu and Ramdas, arXiv:2311.06412 (e-LOND).

Who answers may depend on how it went, and on the canary. So each bet is made twice, with the silent users all unhappy
and all happy, and both must win. That keeps the promise if of the happy users, or of the unhappy ones, as many answer
with the canary as without it, and the silence of the others is not what the margin hides in: it shrinks with the share
of users who answer.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from agentlearn.errors import LibraryError, StoreMissing
from agentlearn.learning.evidence import (
    FeedbackWait,
    LessonBlock,
    LessonEvidence,
    LibraryEvidence,
    LookedAt,
    Trial,
    in_points,
    neighbours,
)
from agentlearn.library import LibraryStore
from agentlearn.library.history.canary import Canary, canaries
from agentlearn.library.history.change_log import Change
from agentlearn.library.shown import in_canary
from agentlearn.live.waiting import LabelChange, label_changes
from agentlearn.measure.sequential import EProcess, log_threshold
from agentlearn.store import ServedEpisode, StoreReader, read_store
from agentlearn.text import clock
from agentlearn.types.ids import ExperienceId, derive_seed
from agentlearn.types.value import Value

ALPHA = 0.1
"""Share of wrong decisions of each kind, on average, at most."""
_WINDOW = 200
"""Latest blocks whose mean must agree with a decision, so that old evidence does not hide a change."""
_ID = 12
_HISTORY = timedelta(days=30)

CanaryOutcome = Literal["none", "collect", "promote", "roll_back"]
"""none: no canary runs. collect: nothing is decided yet. promote, roll_back: decided and done."""


class CanaryFigures(Value):
    """What a decision rests on. They are logged with it."""

    episodes: int = 0
    """Episodes with feedback that read the canary."""
    episodes_baseline: int = 0
    """Episodes with feedback that read the baseline meanwhile."""
    without_feedback: int = 0
    """Episodes without feedback in time that read the canary."""
    without_feedback_baseline: int = 0
    waiting: int = 0
    """Episodes that are not compared yet, because they, or those before them, wait for feedback."""
    feedback_days: float = 0.0
    """Days that an episode without feedback is waited for."""
    outside: int = 0
    """Rewards outside 0 to 1. They count as no feedback."""
    blocks: int = 0
    """Comparisons of neighbouring episodes with feedback."""
    points: float = 0.0
    """Mean reward with the canary minus mean reward with the baseline, in points (hundredths of the reward)."""
    low: float = -100.0
    """Lower bound of the 95 % interval, in points. It may be read at any time."""
    high: float = 100.0
    log_e_worse: float = 0.0
    """Logarithm of the e-value against "it was never worse"."""
    log_e_no_worse: float = 0.0
    """Logarithm of the e-value against "it was always worse by the margin or more"."""
    needed_worse: float = 0.0
    """Value of `log_e_worse` at which it is rolled back."""
    needed_no_worse: float = 0.0
    """Value of `log_e_no_worse` at which it is promoted."""


class CanaryDecision(Value):
    """What the rule says about the canary of a library."""

    library: str
    outcome: CanaryOutcome
    sentence: str
    canary: Canary | None = None
    """The canary as it was before the decision; None without one."""
    figures: CanaryFigures = CanaryFigures()
    harmful: tuple[ExperienceId, ...] = ()
    """Lessons that only the canary shows and that the evidence calls harmful."""
    withheld: str = ""
    """Why it is not promoted although its rewards would allow it; empty otherwise."""
    change: Change | None = None
    """The change of the library that carried the decision out."""
    alarms: tuple[LabelChange, ...] = ()
    """Lessons whose label got worse, or was lost, since the last call."""


def step_canary(
    libraries: LibraryStore | Path | str, store: StoreReader | Path | str, name: str, *,
    who: str | None = "", at: datetime | None = None, dry_run: bool = False,
) -> CanaryDecision:  # fmt: skip
    """Decide on the canary of a library by the rule, carry it out in its history, and look for drift of lessons.

    libraries: the folder of the libraries. store: the directory of the trajectory store, or the open store. who: who
    asked; empty for a program, None for this account. at: the time of the change; default: now. dry_run: change
    nothing. Any number of processes may call it at once.
    A decision is one line of the library's log. `agentlearn library rollback` takes a promotion back, and a canary that
    was rolled back can be started again. Without a canary, only `alarms` says something. Raises LibraryError for an
    unknown library, StoreError for a store that cannot be read; a store that does not exist has no episodes.
    """
    libraries = libraries if isinstance(libraries, LibraryStore) else LibraryStore(libraries)
    libraries.served(name)  # ends a canary that shows lessons which rest on erased records
    history = libraries.history(name)
    known = canaries(history.changes)
    running = known[-1] if known and known[-1].ended is None else None
    episodes, evidence, alarms = list[ServedEpisode](), tuple[LessonEvidence, ...](), tuple[LabelChange, ...]()
    with suppress(StoreMissing), nullcontext(store) if isinstance(store, StoreReader) else read_store(store) as reader:
        days = None if running is None else running.feedback_days
        found = LibraryEvidence.of(reader, libraries, name, days, at)
        evidence, alarms = found.evidence, label_changes(libraries, found, remember=not dry_run)
        if running is not None:  # the traffic before it shows how late feedback comes
            since = int((running.since - _HISTORY).timestamp() * 1_000_000)
            episodes = reader.served_episodes([running.version, running.baseline], since)
    if running is None:
        return CanaryDecision(library=name, outcome="none", sentence=_no_canary(name, known), alarms=alarms)
    new = history.load(running.version).by_id.keys() - history.load(running.baseline).by_id.keys()
    decision = judge_canary(name, known, episodes, [one for one in evidence if one.lesson in new], now=at)
    decision = decision.model_copy(update={"alarms": alarms})
    if dry_run or decision.outcome == "collect":
        return decision
    logged = {name: float(value) for name, value in decision.figures.model_dump().items()}
    signed: dict[str, Any] = {"who": who, "note": decision.sentence, "at": at or clock.now()}
    try:
        change = history.end_canary(running, promote=decision.outcome == "promote", figures=logged, **signed)
    except LibraryError as error:
        if error.code != "no_canary":
            raise
        words = _no_canary(name, canaries(history.changes))
        return CanaryDecision(library=name, outcome="none", sentence=words, alarms=alarms)
    return decision.model_copy(update={"change": change})


def _no_canary(name: str, known: Sequence[Canary]) -> str:
    """How the last canary of a library ended, in words."""
    if not known or (change := known[-1].ended) is None:
        return f"{name} has no canary"
    version, who = known[-1].version[:_ID], f" by {change.who}" if change.who else ""
    ways = {"promote": "was promoted", "end_canary": "was ended"}
    what = ways.get(change.kind, f"ended with a change ({change.kind})")
    note = f": {change.note}" if change.note else ""
    return f"{name} has no canary; the last one, {version}, {what} on {change.at:%Y-%m-%d %H:%M}{who}{note}"


def judge_canary(
    name: str, known: Sequence[Canary], episodes: Sequence[ServedEpisode], evidence: Iterable[LessonEvidence] = (), *,
    now: datetime | None = None,
) -> CanaryDecision:  # fmt: skip
    """Decide on the last canary of a library by the rule, without changing anything.

    known: all canaries of the library, the running one last. episodes: with feedback or without, in order of time;
    those from before the canary only show how late feedback comes. evidence: what is known of the lessons that only the
    canary shows. now: when it is looked at; default: the time of the clock.
    """
    canary = known[-1]
    wait = FeedbackWait.of(episodes, canary.feedback_days, now)
    strata, key = _drawn(name, canary, episodes, wait), ExperienceId(canary.version)
    made = (neighbours(key, model, trials) for (_, model, _), trials in strata.items())
    looked = LookedAt.of(block for each in made for block in each)
    blocks = looked.blocks
    needed = canary_threshold(known[:-1], "end_canary"), canary_threshold(known[:-1], "promote")
    outcome, worse, no_worse = canary_outcome(blocks, canary.margin, *needed)
    points, low, high = in_points(blocks)
    counts = Counter((one.reward is None, key in one.masked) for trials in strata.values() for one in trials)
    figures = CanaryFigures(
        episodes=counts[False, False], episodes_baseline=counts[False, True], without_feedback=counts[True, False],
        without_feedback_baseline=counts[True, True], waiting=looked.waiting, feedback_days=wait.days,
        outside=looked.outside, blocks=len(blocks), points=points, low=low, high=high, log_e_worse=worse,
        log_e_no_worse=no_worse, needed_worse=needed[0], needed_no_worse=needed[1],
    )  # fmt: skip
    estimate, size, withheld = f"{points:+.1f} points [{low:+.1f}, {high:+.1f}]", _size_words(figures), ""
    if looked.withheld:
        outcome, withheld = "collect", looked.withheld
    elif outcome == "collect" and _log_e_no_worse([one.effect for one in blocks], blocks, canary.margin) >= needed[1]:
        withheld = "it is within the margin as measured on those who answered, but the others may hide more"
    if harmful := tuple(sorted({one.lesson for one in evidence if one.label == "harmful"})):
        lessons = ", ".join(one[:_ID] for one in harmful)
        outcome, words = "roll_back", f"roll back: the evidence calls harmful what only it shows: {lessons}; {size}"
    elif outcome == "roll_back":
        words = f"roll back: it is worse, {estimate}; {size}"
    elif outcome == "promote":
        better = "it is better" if low > 0 else f"it is not worse by more than {100 * canary.margin:g} points"
        words = f"promote: {better}, {estimate}; {size}"
    else:
        why = withheld or "neither worse nor within the margin is shown"
        words = f"collect: {why}; {estimate}; {size}" if blocks else f"collect: {size}"
    sentence = f"canary {canary.version[:_ID]} of {name}: {words}"
    found = {"canary": canary, "figures": figures, "harmful": harmful, "withheld": withheld}
    return CanaryDecision(library=name, outcome=outcome, sentence=sentence).model_copy(update=found)


def _size_words(found: CanaryFigures) -> str:
    """What a decision rests on, and what is left out of it, in words."""
    sides = (found.episodes, found.without_feedback), (found.episodes_baseline, found.without_feedback_baseline)
    shares = " and ".join(f"{has / max(1, has + lacks):.0%}" for has, lacks in sides)
    silent = f" ({shares} of all)" if found.without_feedback or found.without_feedback_baseline else ""
    words = f"{found.episodes:,} episodes with it and {found.episodes_baseline:,} without it have feedback{silent}"
    if found.outside:
        words += f"; {found.outside:,} rewards are outside 0 to 1 and count as none"
    days = f"{found.feedback_days:g} day{'s' * (found.feedback_days != 1)}"
    return words + f"; {found.waiting:,} episodes are younger than {days} and wait for feedback" * bool(found.waiting)


def canary_threshold(earlier: Sequence[Canary], kind: str) -> float:
    """Logarithm of the e-value at which a canary is decided on.

    earlier: the canaries of the library before it. kind: `promote` or `end_canary`.
    """
    number, side = len(earlier) + 1, "no_worse" if kind == "promote" else "worse"
    logged = [one.ended.figures for one in earlier if one.ended is not None and one.ended.kind == kind]
    found = sum(one.get(f"log_e_{side}", -math.inf) >= one.get(f"needed_{side}", math.inf) for one in logged)
    return log_threshold(number * (number + 1), found + 1, ALPHA)


def canary_outcome(
    blocks: Sequence[LessonBlock], margin: float, needed_worse: float, needed_no_worse: float
) -> tuple[CanaryOutcome, float, float]:
    """Decide by the blocks alone, and return the logarithms of the two e-values: worse, and not worse by the margin.

    blocks: `shown` read the canary, `hidden` the baseline; in order. Each e-value is the smaller one of two: the silent
    users were unhappy, or happy. The margin counts for the share of users who answered, which is at most the share of
    the happy ones who did, or of the unhappy ones. needed_worse, needed_no_worse: see `canary_threshold`. The latest
    blocks must agree with a decision.
    """
    sides = {*zip(*(one.alike() for one in blocks), strict=True)} or {()}
    worse = min(EProcess().after(-one for one in side).log_e for side in sides)
    no_worse = min(_log_e_no_worse(side, blocks, margin) for side in sides)
    latest = [fmean(side[-_WINDOW:] or (0.0,)) for side in sides]
    if worse >= needed_worse and max(latest) < 0:
        return "roll_back", worse, no_worse
    within = min(latest) > -margin * fmean([one.answered for one in blocks[-_WINDOW:]] or (1.0,))
    return "promote" if no_worse >= needed_no_worse and within else "collect", worse, no_worse


def _log_e_no_worse(effects: Iterable[float], blocks: Iterable[LessonBlock], margin: float) -> float:
    pairs = zip(effects, blocks, strict=True)
    return EProcess().after((one + margin * block.answered) / (1 + margin) for one, block in pairs).log_e


_Strata = Mapping[tuple[str, str, str], Sequence[Trial]]
"""Episodes by recorder, model and shared lessons, in order of time. `masked` holds the canary of those without it."""


def _drawn(name: str, canary: Canary, episodes: Iterable[ServedEpisode], wait: FeedbackWait) -> _Strata:
    """The episodes that count. One that read another version than it drew is of a program that takes no part."""
    strata, key = defaultdict[tuple[str, str, str], list[Trial]](list), ExperienceId(canary.version)
    for one in episodes:
        share = canary.share_at(datetime.fromtimestamp(one.at / 1_000_000, UTC))
        drawn = bool(one.episode) and in_canary(name, canary.version, one.episode, share=share)
        if share and (not one.episode or one.library == (canary.version if drawn else canary.baseline)):
            masked = frozenset[ExperienceId]() if one.library == canary.version else frozenset({key})
            strata[one.run_name, one.model, one.beside].append(Trial.of(one, (masked, frozenset({key})), wait))
    return strata


_SIMULATIONS, _LOOKS, _MOST_BLOCKS = 200, 1.08, 20_000
"""Simulated canaries; the growth of the blocks between two looks; blocks after which a simulation ends undecided."""


class CanaryRisk(Value):
    """What a canary would cost, said beforehand: simulated episodes with rewards of 0 and 1, decided on by the rule.

    Each pair of numbers of episodes holds with a probability of 80 % and 90 %, and counts all episodes, those without
    feedback included; None: more than were simulated.
    """

    share: float
    effect: float
    """The difference in mean reward that is looked for, above 0."""
    margin: float
    level: float
    """Mean reward of the current version."""
    feedback: float
    """Share of episodes that get feedback."""
    recorded: int
    """Episodes with the current version that `level` and `feedback` were measured on; 0: they are assumed."""
    per_day: float | None
    """Recorded episodes a day; None where they span less than a day."""
    found_after: tuple[int | None, int | None]
    """Episodes until a canary that is worse by `effect` is rolled back."""
    lost: tuple[float | None, float | None]
    """Reward that is lost until then: episodes that read the canary, times `effect`."""
    promoted_after: tuple[int | None, int | None]
    """Episodes until a canary that is better by `effect` is promoted."""
    same_promoted_after: tuple[int | None, int | None]
    """Episodes until a canary that is neither better nor worse is promoted, because it is within the margin."""


def canary_risk(
    libraries: LibraryStore, store: Path | str, name: str, *, share: float, effect: float = 0.1, margin: float
) -> CanaryRisk:
    """Simulate a canary of a library, with the reward and the feedback that were recorded for its current version.

    effect, margin: in reward. Without recorded episodes, a mean reward of 0.7 and feedback on each are assumed. Raises
    LibraryError for an unknown library, StoreError for a store that cannot be read.
    """
    history = libraries.history(name)
    try:
        with read_store(store) as reader:
            episodes = reader.served_episodes([libraries.load(name).version], 0)
    except StoreMissing:
        episodes = []
    rewards = [one.reward for one in episodes if one.reward is not None]
    level, feedback = (fmean(rewards), len(rewards) / len(episodes)) if rewards else (0.7, 1.0)
    days = (episodes[-1].at - episodes[0].at) / 86_400e6 if episodes else 0.0
    known = canaries(history.changes)
    a_block = 1 / share + 1 / (1 - share) - 1

    def after(difference: float, kind: str) -> tuple[int | None, int | None]:
        found = _simulated(share, (level, feedback), difference, margin, canary_threshold(known, kind), kind)
        reached = [found[math.ceil(one * len(found)) - 1] for one in (0.8, 0.9)]
        first, second = (None if math.isinf(one) else math.ceil(one * a_block) for one in reached)
        return first, second

    found_after = after(-effect, "end_canary")
    first, second = (None if one is None else one * share * effect for one in found_after)
    per_day, recorded = len(episodes) / days if days >= 1 else None, len(episodes) if rewards else 0
    return CanaryRisk(
        share=share, effect=effect, margin=margin, level=level, feedback=feedback, recorded=recorded, per_day=per_day,
        found_after=found_after, lost=(first, second), promoted_after=after(effect, "promote"),
        same_promoted_after=after(0.0, "promote"),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _simulated(
    share: float, users: tuple[float, float], difference: float, margin: float, needed: float, kind: str
) -> tuple[float, ...]:
    """Blocks until each simulated canary is decided on, sorted; infinite where it is not.

    users: the mean reward without the canary, and the share of users who answer.
    """
    import numpy as np

    found, (level, feedback) = list[float](), users
    for number in range(_SIMULATIONS):
        rng = np.random.default_rng([number, derive_seed("canary", share, difference, kind)])
        sides, n = [EProcess()] * (1 + (feedback < 1)), 0
        while min(one.log_e for one in sides) < needed and sides[0].n < _MOST_BLOCKS:
            more = max(5, int(n * (_LOOKS - 1)))
            right, said, episodes = simulated_blocks(rng, more, share, level + difference, level, feedback)
            some, shares = said.any(axis=0), (said / episodes).mean(axis=0)
            for at, of in enumerate((right, right - said)[: len(sides)]):  # the silent ones are wrong, or right
                effects = np.subtract(*(of / episodes))
                bets = (effects + margin * shares) / (1 + margin) if kind == "promote" else -effects
                sides[at] = sides[at].after(bets[some])
            n += more
        found.append(n if min(one.log_e for one in sides) >= needed else math.inf)
    return tuple(sorted(found))


def simulated_blocks(
    rng: Any, blocks: int, share: float, with_it: Any, without_it: Any, feedback: float = 1.0
) -> tuple[Any, Any, Any]:
    """Right answers that got feedback, answers that got any, and episodes of simulated blocks.

    Three arrays, each of shape (2, blocks), the canary first. rng: a generator of numpy. with_it, without_it: chance of
    a right answer; a number, or one for each block. feedback: chance that a user answers.
    """
    import numpy as np

    first = rng.random(blocks) < share  # whether the first episode of a block reads the canary
    counts = np.where(first, rng.geometric(1 - share, blocks), 1), np.where(first, 1, rng.geometric(share, blocks))
    said = counts if feedback == 1 else [rng.binomial(count, feedback) for count in counts]
    rates = (np.clip(rate, 0, 1) for rate in (with_it, without_it))
    right = [rng.binomial(count, rate) for count, rate in zip(said, rates, strict=True)]
    return np.array(right), np.array(said), np.array(counts)
