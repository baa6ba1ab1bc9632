"""What the rule for canaries, and the labels of lessons, decide from users who are late, silent or odd.

Thirty days of traffic, looked at once a day until the rule decides. Users are happy or unhappy; who answers, and when,
may depend on that and on the canary. A promotion is wrong if the canary is worse by the margin or more, a roll back if
it is not worse. "before" is the rule that made its blocks of whatever had come in, and left out the silent users. Rows
marked "not promised" break what the promise asks for: of the happy users, or of the unhappy ones, as many answer with
the canary as without it, and what was seen goes on.

The last life of each row is also decided by `judge_canary`, which must agree. The rows "lesson" hide a lesson in a
third of the episodes and ask `judge` for its label after twenty days. The rows "old store" have rewards on scales that
were taken before.

    just bench feedback
    just bench feedback --lives 40 --only late
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from agentlearn.learning.evidence import FeedbackWait, LessonEvidence, Trial, blocks_of, judge, neighbours
from agentlearn.library.history.canary import Canary
from agentlearn.live.canary import ALPHA, canary_threshold, judge_canary
from agentlearn.measure.sequential import BETS, EProcess, waiting
from agentlearn.store import ExposedRow, ServedEpisode
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId, TaskId
from scripts.bench.found import Found, Row, Target

SINCE = datetime(2026, 9, 1, tzinfo=UTC)
DAY_US, DAYS, WINDOW, ENOUGH, WEEK = 86_400_000_000, 30, 200, 100, 7.0
NEW, OLD = LibraryVersion("1" * 32), LibraryVersion("0" * 32)
NEEDED = canary_threshold([], "promote")
SOON = 0.02
"""Mean delay, in days, of feedback that is not late."""


class Episodes(NamedTuple):
    """The episodes of one life, in order of time. Each field is an array of shape (n,)."""

    at: Any
    """Days since the canary began."""
    reads: Any
    """Whether it reads the canary."""
    reward: Any
    """What its user gives in the end."""
    delay: Any
    """Days until then; infinite for a user who says nothing."""
    first: Any = None
    """Reward that was given at once, and taken back later; None where nobody does."""


@dataclass(frozen=True, slots=True)
class World:
    """One row."""

    name: str
    difference: float
    per_day: float = 600
    share: float = 0.5
    level: float = 0.7
    margin: float = 0.02
    answers: tuple[float, ...] = (1, 1, 1, 1)
    """Chance that a user answers: with the canary happy, unhappy; without it happy, unhappy."""
    late: tuple[float, ...] = (0, 0, 0, 0)
    """Days by which the same users are late."""
    odd: Callable[[Any, Episodes], Episodes] | None = None
    """What else happens to the episodes of a life."""
    over_time: Callable[[Any], Any] | None = None
    """Difference by day, in place of `difference`, which is what decisions are judged by."""
    promised: bool = True


def life(world: World, seed: int) -> Episodes:
    """The episodes of one life."""
    rng = np.random.default_rng([seed, *world.name.encode()])
    n = rng.poisson(world.per_day * DAYS)
    at, reads = np.sort(rng.random(n) * DAYS), rng.random(n) < world.share
    better = world.difference if world.over_time is None else world.over_time(at)
    happy = rng.random(n) < np.clip(world.level + reads * better, 0, 1)
    kind = 2 * ~reads + ~happy
    said = rng.random(n) < np.array(world.answers)[kind]
    delay = np.where(said, np.array(world.late, float)[kind] + rng.exponential(SOON, n), math.inf)
    made = Episodes(at, reads, happy.astype(float), delay)
    return made if world.odd is None else world.odd(rng, made)


def with_users(users: dict[str, Any]) -> Callable[[Any, Episodes], Episodes]:
    """What users of another kind do to the episodes of a life."""

    def odd(rng: Any, of: Episodes) -> Episodes:
        chosen, n = rng.random(len(of.at)) < users.get("share", 1.0), len(of.at)
        reward, delay, first = of.reward, of.delay, None
        if (given := users.get("given")) is not None:  # on a scale: values by happiness
            reward = np.where(chosen, given(rng, reward, n), reward)
        if (wait := users.get("wait")) is not None:
            delay = delay + np.where(chosen, wait(rng, of), 0.0)
        if (take_back := users.get("take_back")) is not None:
            first = np.where(chosen & (reward < 0.5), 1.0, reward)
            delay = np.where(first != reward, take_back, delay)
        return of._replace(reward=reward, delay=delay, first=first)

    return odd


def weekends(_: Any, of: Episodes) -> Any:
    """Days that feedback of Saturdays and Sundays, the sixth and seventh day of each week, waits for Monday."""
    day = (of.at + of.delay) % 7
    return np.where(np.isfinite(of.delay) & (day >= 5), 7 - day, 0.0)


def bursts(rng: Any, of: Episodes) -> Episodes:
    """Half of the traffic in one hour of each day, when all is 30 points worse."""
    burst = rng.random(len(of.at)) < 0.5
    at = np.where(burst, np.floor(of.at) + 0.5 + (of.at % 1) / 24, of.at)
    order = np.argsort(at, kind="stable")
    reward = np.where(burst & (rng.random(len(at)) < 0.3), 0.0, of.reward)
    return Episodes(at[order], of.reads[order], reward[order], of.delay[order])


def one_user(rng: Any, of: Episodes) -> Episodes:
    """Half of the episodes are of one user, in runs of 50, who likes a third of what others like."""
    theirs = np.repeat(rng.random(len(of.at) // 50 + 1) < 0.5, 50)[: len(of.at)]
    return of._replace(reward=np.where(theirs & (rng.random(len(of.at)) < 0.67), 0.0, of.reward))


def stars(rng: Any, happy: Any, n: int) -> Any:
    """1 to 5 stars of happy and unhappy users, from 0 to 1."""
    return np.where(happy > 0.5, rng.choice([0.5, 0.75, 1.0], n), rng.choice([0.0, 0.25, 0.5], n))


def percent(rng: Any, happy: Any, n: int) -> Any:
    """Percent that happy and unhappy users give, from 0 to 1."""
    return np.clip(np.where(happy > 0.5, 0.8, 0.35) + rng.normal(0, 0.12, n), 0, 1).round(2)


def always(_rng: Any, happy: Any, _n: int) -> Any:
    """The feedback of bots: thanks, whatever came."""
    return np.ones_like(happy)


def novel(at: Any) -> Any:
    """A gain that turns into a loss after three days."""
    return np.where(at < 3, 0.1, -0.1)


def worlds() -> Iterator[World]:
    """Every row about canaries."""
    bad, good = (0, 1, 0, 1), (1, 0, 1, 0)

    def days(number: float, which: tuple[int, ...]) -> tuple[float, ...]:
        return tuple(number * one for one in which)

    yield World("-5, bad news 3 days late", -0.05, late=days(3, bad))
    yield World("-10, bad news 3 days late, 300 a day, margin 5", -0.1, 300, margin=0.05, late=days(3, bad))
    yield World("-10, bad news 3 days late", -0.1, late=days(3, bad))
    yield World(
        "-5, bad news 3 days late, 20 % answer, 1,500 a day", -0.05, 1500, answers=(0.2,) * 4, late=days(3, bad)
    )
    yield World("-10, 10 % answer, the canary's unhappy half silent", -0.1, answers=(0.1, 0.05, 0.1, 0.1))
    yield World("-10, the canary's unhappy 4 days late", -0.1, late=(0, 4, 0, 0))
    yield World("-5, 80 % of the unhappy silent", -0.05, answers=(1, 0.2, 1, 0.2))
    yield World("-2, the margin", -0.02)
    yield World("-2, the margin, at .98", -0.02, level=0.98)
    yield World("-5, margin 5", -0.05, margin=0.05)
    yield World("-10, 100 a day", -0.1, 100)
    yield World("+10, 100 a day", 0.1, 100)
    yield World("nothing", 0)
    yield World("nothing, share 1/10", 0, share=0.1)
    yield World("nothing, at .95", 0, level=0.95)
    yield World("nothing, bad news 3 days late", 0, late=days(3, bad))
    yield World("nothing, thanks 3 days late", 0, late=days(3, good))
    yield World("nothing, the level falls 40 points", 0, odd=lambda rng, of: of._replace(
        reward=np.where(rng.random(len(of.at)) < 0.57 * of.at / DAYS, 0.0, of.reward)))  # fmt: skip
    for number in (1, 7, 14):
        yield World(f"-5, bad news {number} days late", -0.05, late=days(number, bad))
        yield World(f"-10, the canary's bad news {number} days late", -0.1, late=days(number, (0, 1, 0, 0)))
        yield World(f"-10, all news of the canary {number} days late", -0.1, late=days(number, (1, 1, 0, 0)))
        yield World(f"nothing, the canary's thanks {number} days late", 0, late=days(number, (1, 0, 0, 0)))
        yield World(f"nothing, all news of the baseline {number} days late", 0, late=days(number, (0, 0, 1, 1)))
    for difference in (-0.05, 0.0, 0.1):
        points = f"{100 * difference:+.0f}"
        yield World(f"{points}, 1 to 5 stars", difference, odd=with_users({"given": stars}))
        yield World(f"{points}, percent", difference, odd=with_users({"given": percent}))
        yield World(f"{points}, half of all answer", difference, answers=(0.5,) * 4)
        yield World(f"{points}, a fifth of all answer", difference, answers=(0.2,) * 4)
        yield World(f"{points}, half of the unhappy silent", difference, answers=(1, 0.5, 1, 0.5))
        yield World(f"{points}, the canary's happy users half silent", difference, answers=(0.4, 0.8, 0.8, 0.8))
        yield World(f"{points}, the canary's unhappy users half silent", difference, answers=(0.8, 0.4, 0.8, 0.8))
        yield World(f"{points}, half of all silent with the canary", difference, answers=(0.4, 0.4, 0.8, 0.8))
        yield World(f"{points}, bursts of angry users", difference, odd=bursts)
        robots = with_users({"share": 0.3, "given": always})
        yield World(f"{points}, 30 % of the feedback by bots", difference / 0.7, odd=robots, margin=0.02)
        yield World(f"{points}, one user has half of the traffic", difference / 0.665, odd=one_user)
        taken_back = with_users({"share": 0.2, "take_back": 2.0})
        yield World(f"{points}, a fifth of the unhappy thank first", difference, odd=taken_back)
        yield World(f"{points}, feedback waits for Monday", difference, odd=with_users({"wait": weekends}))
    yield World("+10, bad news 3 days late", 0.1, late=days(3, bad))
    yield World("+10, 10 % answer", 0.1, answers=(0.1,) * 4)
    yield World("+10, 30 % answer, 100 a day", 0.1, 100, answers=(0.3,) * 4)
    yield World("-10 after 3 days of +10", -0.1, over_time=novel, promised=False)
    more = (0.4, 0.1, 0.2, 0.2)
    yield World("-10, happy users answer more, unhappy ones less", -0.1, answers=more, promised=False)


# The rules, over all blocks of a life at once


@lru_cache
def _waiting(n: int) -> Any:
    return np.array([waiting(at) for at in range(n + 1)])


def paths(differences: Any) -> Any:
    """`EProcess.log_e` after each of the differences."""
    left = _waiting(1 << len(differences).bit_length())[: len(differences) + 1]
    growth = np.cumsum(np.log1p(np.outer(BETS, differences)), axis=1)
    before = np.hstack((np.zeros((len(BETS), 1)), growth[:, :-1]))
    started = np.logaddexp.accumulate(np.log(left[:-1] - left[1:]) - before, axis=1) + growth
    return np.logaddexp(np.logaddexp.reduce(started - math.log(len(BETS)), axis=0), np.log(left[1:]))


def cut(reads: Any) -> tuple[Any, Any]:
    """The first and the last episode of each block."""
    turns = (np.flatnonzero(reads[1:] != reads[:-1]) + 1).tolist()
    after = np.searchsorted(turns, np.arange(len(reads)), side="right").tolist()
    firsts, lasts, at = list[int](), list[int](), 0
    while at < len(reads) and after[at] < len(turns):
        firsts.append(at)
        lasts.append(turns[after[at]])
        at = lasts[-1] + 1
    return np.array(firsts, int), np.array(lasts, int)


def sums(values: Any, firsts: Any, lasts: Any) -> Any:
    """The sum of the values in each block."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    return total[lasts + 1] - total[firsts]


@dataclass(slots=True)
class Bets:
    """The bets on the blocks of a life, for one wait, and when each block may be looked at."""

    worse: Any
    no_worse: Any
    told: Any
    """Number of blocks with feedback among the first ones."""
    means: tuple[Any, ...]
    """Running sums of the two effects and of the share that answered."""
    ready: Any

    @classmethod
    def of(cls, world: World, of: Episodes, blocks: tuple[Any, Any], days: float, now: float) -> "Bets":
        """Return the bets. now: the day of the look, where feedback is taken back later; else infinite."""
        firsts, lasts = blocks
        given, delay = of.reward, of.delay
        if of.first is not None:
            early = (of.first != given) & (of.at + delay > now)
            given, delay = np.where(early, of.first, given), np.where(early, SOON, delay)
        known = delay <= max(days, 1.0)
        sizes = [sums(side, firsts, lasts) for side in (of.reads, ~of.reads)]

        def means(values: Any) -> tuple[Any, Any]:
            sides = (np.where(of.reads, values, 0.0), np.where(of.reads, 0.0, values))
            first, second = (sums(side, firsts, lasts) / size for side, size in zip(sides, sizes, strict=True))
            return first, second

        (one, two), shares = means(np.where(known, given, 0.0)), means(known)
        three, four = means(np.where(known, given, 1.0))
        effects, share = (one - two, three - four), (shares[0] + shares[1]) / 2
        some = share > 0
        no_worse = [paths(((each + world.margin * share) / (1 + world.margin))[some]) for each in effects]
        worse = [paths(-each[some]) for each in effects]
        at = np.where(known, of.at + np.minimum(delay, days), of.at + days)
        ready = np.maximum.accumulate(np.maximum.reduceat(at[: lasts[-1] + 1], firsts))
        running = tuple(np.concatenate(([0.0], np.cumsum(each[some]))) for each in (*effects, share))
        return cls(np.minimum(*worse), np.minimum(*no_worse), np.cumsum(some), running, ready)

    def outcome(self, world: World, now: float) -> str:
        """What the rule says on a day."""
        blocks = int(np.searchsorted(self.ready, now, side="right"))
        if not blocks or not (n := int(self.told[blocks - 1])):
            return "collect"
        window = max(0, n - WINDOW)
        *latest, share = ((one[n] - one[window]) / (n - window) for one in self.means)
        if self.worse[n - 1] >= NEEDED and max(latest) < 0:
            return "roll_back"
        within = min(latest) > -world.margin * share
        return "promote" if self.no_worse[n - 1] >= NEEDED and within else "collect"


def waited(of: Episodes, now: float) -> float:
    """Days that feedback is waited for on a day; see `FeedbackWait`."""
    given = np.where(of.at + of.delay <= now, of.delay, math.inf if of.first is None else SOON)
    old = np.sort(given[(of.at <= now - WEEK) & np.isfinite(given) & (of.at + given <= now)])
    return WEEK if len(old) < ENOUGH else max(1.0, math.ceil(old[-1 - len(old) // ENOUGH]))


def by_rule(world: World, of: Episodes) -> tuple[str, int]:
    """How a life ends, and on which day."""
    known, blocks = dict[tuple[float, float], Bets](), cut(of.reads)
    for day in range(1, DAYS + 1):
        key = (waited(of, day), math.inf if of.first is None else float(day))
        sequence = known.get(key) or known.setdefault(key, Bets.of(world, of, blocks, *key))
        if (found := sequence.outcome(world, day)) != "collect":
            return found, day
    return "collect", DAYS


def before(world: World, of: Episodes) -> tuple[str, int]:
    """How a life ended when each look made its blocks of whatever had come in, and compared how many had answered."""

    def effects(values: Any, reads: Any) -> Any:
        firsts, lasts = cut(reads)
        sides = ((np.where(reads, values, 0.0), reads), (np.where(reads, 0.0, values), ~reads))
        one, two = (sums(side, firsts, lasts) / sums(which, firsts, lasts) for side, which in sides)
        return one - two

    for day in range(1, DAYS + 1):
        seen, begun = of.at + of.delay <= day, of.at <= day
        given = of.reward
        if of.first is not None:
            seen, given = begun, np.where(of.at + of.delay <= day, of.reward, of.first)
        found = effects(given[seen], of.reads[seen])
        if not len(found):
            continue
        worse = EProcess().after(-found).log_e
        no_worse = EProcess().after((found + world.margin) / (1 + world.margin)).log_e
        if worse >= NEEDED and found[-WINDOW:].mean() < 0:
            return "roll_back", day
        if no_worse >= NEEDED and found[-WINDOW:].mean() > -world.margin:
            answered = effects(seen[begun].astype(float), of.reads[begun])
            if max(EProcess().after(sign * answered).log_e for sign in (-1, 1)) < math.log(2 / ALPHA):
                return "promote", day
    return "collect", DAYS


def by_product(world: World, of: Episodes, day: int) -> str:
    """What `judge_canary` says of a life on a day."""
    canary, served = Canary(NEW, OLD, ((SINCE, world.share),), world.margin, "", 1), list[ServedEpisode]()
    begun = int(SINCE.timestamp() * 1_000_000)
    first = of.reward if of.first is None else of.first
    for at, reads, last, delay, early in zip(of.at, of.reads, of.reward, of.delay, first, strict=True):
        if at > day:
            break
        come, start = at + delay <= day, begun + int(at * DAY_US)
        taken_back = not come and early != last  # what was given first stands until then
        value = float(last) if come else float(early) if taken_back else None
        said = None if value is None else start + int((SOON if taken_back else delay) * DAY_US)
        served.append(ServedEpisode("desk", "", "m", NEW if reads else OLD, value, start, said))
    return judge_canary("desk", [canary], served, now=SINCE + timedelta(days=day)).outcome


# Scales that an old store may hold, and lessons


def thumbs(lower: float) -> Callable[[Any, bool], float]:
    """-1 and +1: 90 % of them good, and by so much fewer with the canary."""
    return lambda rng, reads: 1.0 if rng.random() < 0.9 - lower * reads else -1.0


SCALES: dict[str, Callable[[Any, bool], float]] = {
    "old store: -1 and +1, .6 and .9 of them good": thumbs(0.3),
    "old store: -1 and +1, .3 and .9 of them good": thumbs(0.6),
    "old store: 0 to 10": lambda rng, reads: float(rng.integers(4, 11) - 2 * reads),
    "old store: percent": lambda rng, reads: float(rng.integers(40, 101) - 28 * reads),
    "old store: 2 % are 1.2, -30 points": lambda rng, reads: (
        1.2 if rng.random() < 0.02 else float(rng.random() < 0.9 - 0.3 * reads)
    ),
}
"""Rewards as old stores may hold them: of a generator, and whether an episode reads the canary."""


def scaled(given: Callable[[Any, bool], float], lives: int) -> dict[str, float]:
    """What is decided from rewards as they stand in an old store: shares of outcomes, and of withheld decisions."""
    found: dict[str, float] = {"promoted": 0.0, "rolled_back": 0.0, "withheld": 0.0}
    for seed in range(lives):
        rng = np.random.default_rng(seed)
        canary, begun = Canary(NEW, OLD, ((SINCE, 0.5),), 0.02, "", 1), int(SINCE.timestamp() * 1_000_000)
        served = list[ServedEpisode]()
        for number in range(2_600):
            reads = bool(rng.random() < 0.5)
            at, version = begun + number * 600_000_000, NEW if reads else OLD
            served.append(ServedEpisode("desk", "", "m", version, given(rng, reads), at, at))
        decision = judge_canary("desk", [canary], served, now=SINCE + timedelta(days=29))
        found["promoted"] += (decision.outcome == "promote") / lives
        found["rolled_back"] += (decision.outcome == "roll_back") / lives
        found["withheld"] += bool(decision.withheld) / lives
    return found


class LessonWorld(NamedTuple):
    """A lesson in the traffic of an application, hidden in a third of the episodes."""

    name: str
    effect: float
    reward: Callable[[Any, bool, bool], float] = lambda _rng, _shown, happy: float(happy)
    """Reward of an episode: of a generator, whether it is shown, and whether the user is happy."""
    answers: tuple[float, ...] = (1, 1, 1, 1)
    late: tuple[float, ...] = (0, 0, 0, 0)
    per_day: int = 150


def lesson_worlds() -> Iterator[LessonWorld]:
    """Every row about a lesson."""

    def thumbs(_rng: Any, _shown: bool, happy: bool) -> float:
        return 1.0 if happy else -1.0

    def odd(rng: Any, shown: bool, happy: bool) -> float:
        """-1 in 20 % of what is shown, else .7; without it .6: the mean is 23 points lower."""
        return (-1.0 if rng.random() < 0.2 else 0.7) if shown else 0.6

    def seldom(rng: Any, shown: bool, happy: bool) -> float:
        return 1.2 if rng.random() < 0.02 else float(happy)

    for effect in (-0.15, 0.0, 0.15):
        points = f"{100 * effect:+.0f}"
        yield LessonWorld(f"{points}", effect)
        yield LessonWorld(f"{points}, thumbs of -1 and +1 in an old store", effect, thumbs)
        yield LessonWorld(f"{points}, 2 % of the rewards are 1.2", effect, seldom)
        yield LessonWorld(f"{points}, bad news 3 days late", effect, late=(0, 3, 0, 3))
        yield LessonWorld(f"{points}, half answer", effect, answers=(0.5,) * 4, per_day=600)
        yield LessonWorld(f"{points}, unhappy half silent with it", effect, answers=(0.8, 0.4, 0.8, 0.8), per_day=600)
        yield LessonWorld(f"{points}, happy half silent with it", effect, answers=(0.4, 0.8, 0.8, 0.8), per_day=600)
        yield LessonWorld(f"{points}, unhappy 80 % silent", effect, answers=(1, 0.2, 1, 0.2), per_day=300)
    yield LessonWorld("-23, -1 in 20 % else .7, without it .6", -0.23, odd)


def lesson_life(world: LessonWorld, seed: int) -> tuple[list[ServedEpisode], list[bool]]:
    """The episodes of twenty days, and which of them were shown the lesson."""
    rng = np.random.default_rng([seed, *world.name.encode()])
    served, begun, n = list[ServedEpisode](), int(SINCE.timestamp() * 1_000_000), 20 * world.per_day
    at, hidden, happiness, draws = np.sort(rng.random(n) * 20), rng.random(n) < 1 / 3, rng.random(n), rng.random(n)
    for number in range(n):
        shown = not hidden[number]
        happy = bool(happiness[number] < 0.6 + shown * world.effect)
        kind = 2 * (not shown) + (not happy)
        start, late = begun + int(at[number] * DAY_US), world.late[kind] + SOON
        told = draws[number] < world.answers[kind] and at[number] + late <= 20
        reward = world.reward(rng, shown, happy) if told else None
        served.append(
            ServedEpisode("desk", f"e{number}", "m", NEW, reward, start, start + int(late * DAY_US) if told else None)
        )
    return served, (~hidden).tolist()


LESSON = ExperienceId("a" * 32)
OFFERED = frozenset({LESSON})


def labelled(served: list[ServedEpisode], shown: list[bool]) -> LessonEvidence:
    """What `judge` says of the lesson after twenty days. `blocks_of` makes the same blocks from rows of the store."""
    wait = FeedbackWait.of(served, None, SINCE + timedelta(days=20))
    trials = [
        Trial.of(one, (frozenset() if reads else OFFERED, OFFERED), wait)
        for one, reads in zip(served, shown, strict=True)
    ]
    days = groupby(trials, lambda one: one.at // DAY_US)
    (found,) = judge(block for day, each in days for block in neighbours(LESSON, "m", each, f"day {day}"))
    return found


def labelled_from_rows(served: list[ServedEpisode], shown: list[bool]) -> LessonEvidence:
    """What is said of the same episodes as rows of the store."""
    rows = [
        ExposedRow(
            id=RolloutId(f"r{number}"), run=RunId("run"), phase="live", batch=0, task=TaskId("t"), g=0, attempt=0,
            seed=0, model=one.model, library=one.library, masked=[] if reads else [LESSON], offered=None, arm="main",
            reward=one.reward, at=one.at, run_name=one.run_name, episode=one.episode, experiences=[LESSON], family="",
            said=one.said,
        )
        for number, (one, reads) in enumerate(zip(served, shown, strict=True))
    ]  # fmt: skip
    (found,) = judge(blocks_of(rows, None, FeedbackWait.of(rows, None, SINCE + timedelta(days=20))))
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--lives", type=int, default=200, help="lives per row")
    parser.add_argument(
        "--lessons",
        type=int,
        default=60,
        help="lives per row about a lesson or an old store, and of the rule of before",
    )
    parser.add_argument("--only", default="", help="only rows whose names contain this")
    parser.add_argument("--seed", type=int, default=0, help="first life")
    parser.add_argument("--without-before", action="store_true", help="leave out the rule of before")


def summary(ends: list[tuple[str, int]], difference: float, margin: float, name: str = "") -> dict[str, float | None]:
    """The figures of a row."""
    found = dict[str, float | None]()
    for outcome, word in (("promote", "promoted"), ("roll_back", "rolled_back")):
        days = [day for one, day in ends if one == outcome]
        found[f"{word}{name}"] = round(len(days) / len(ends), 3)
        found[f"{word}_day{name}"] = float(np.median(days)) if days else None
    wrong = found[f"promoted{name}"] if difference <= -margin + 1e-9 else 0.0
    found[f"wrong{name}"] = wrong if difference < 0 else found[f"rolled_back{name}"]
    return found


def measure(chosen: argparse.Namespace) -> Found:
    """Return one row per world, and targets: at most the budget is wrong, and `judge_canary` agrees."""
    rows, targets, failures = list[Row](), list[Target](), list[str]()

    def add(name: str, found: dict[str, Any], wrong: float | None) -> None:
        rows.append(Row(name=name, figures=found))
        print(name, found, file=sys.stderr, flush=True)
        if wrong is not None:
            targets.append(Target(what=f"{name}: wrong", figure=wrong, bound="at_most", limit=ALPHA))

    for world in worlds():
        if chosen.only not in world.name:
            continue
        lives = [life(world, seed) for seed in range(chosen.seed, chosen.seed + chosen.lives)]
        ends = [by_rule(world, each) for each in lives]
        found = summary(ends, world.difference, world.margin)
        (outcome, day), last = ends[-1], lives[-1]
        for at, expected in ((day, outcome), (day - 1, "collect")):
            if at and (said := by_product(world, last, at)) != expected:
                failures.append(f"{world.name}: judge_canary says {said} on day {at}, and not {expected}")
        if not chosen.without_before:
            found |= summary(
                [before(world, each) for each in lives[: chosen.lessons]], world.difference, world.margin, "_before"
            )
        add(
            world.name + ("" if world.promised else " (not promised)"),
            found,
            found["wrong"] if world.promised else None,
        )
    for name, given in SCALES.items():
        if chosen.only in name:
            found = scaled(given, chosen.lessons)
            add(name, found, found["promoted"])
    for world in lesson_worlds():
        if chosen.only in f"lesson: {world.name}":
            lives = [lesson_life(world, seed) for seed in range(chosen.seed, chosen.seed + chosen.lessons)]
            known = [labelled(*each) for each in lives]
            if known[-1] != labelled_from_rows(*lives[-1]):
                failures.append(f"lesson: {world.name}: rows of the store say something else")
            share = {label: sum(one.label == label for one in known) / len(known) for label in ("proven", "harmful")}
            wrong = (share["proven"] if world.effect <= 0 else 0.0) + (share["harmful"] if world.effect >= 0 else 0.0)
            more = {"withheld": sum(bool(one.withheld) for one in known) / len(known)}
            more["points"] = float(np.mean([one.points for one in known]))
            add(f"lesson: {world.name}", {key: round(one, 3) for key, one in (share | more).items()}, wrong)
    notes = (f"{chosen.lives} lives per row, {chosen.lessons} about a lesson or an old store, from {chosen.seed}",)
    return Found(rows=tuple(rows), targets=tuple(targets), notes=notes, failures=tuple(failures))
