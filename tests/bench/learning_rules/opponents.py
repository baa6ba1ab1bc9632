"""Other ways to learn in context, as we read them in papers and code. They are readings, not the programs themselves.

Each gets a number of model calls, and where a choice had to be made, the one that helps it:

- `ace`: agentic context engineering (arXiv:2510.04618). One rollout per task; a reflector tags the lessons that it used
  as helpful or harmful, and a curator adds lessons after failures, never two of the same sense. Lessons tagged harmful
  more often are removed. The tags are always right here, and the curator always sees whether two lessons say the same.
- `gepa`: reflective prompt evolution (arXiv:2507.19457). A candidate is drawn from the Pareto front over the validation
  tasks, changed after a minibatch of three, and kept when the minibatch improves. The best mean wins. New candidates
  stop when the calls that remain do not pay for another evaluation.
- `running_baseline`: neuraminerl 0.2.2. One rollout per task; reflection after failures; each lesson has a
  Beta-Bernoulli score, is retired when its mean is 0.1 below the rolling success rate, and five lessons are shown. Only
  lessons about the habits of the task's family are retrieved, which no real retriever manages.
- `raw_trajectories`: no lessons. Right trajectories of the same family, or else of the one that shares most habits, are
  shown, as many as fit into the tokens of our library, one at least. That a careful decision in an example halves the
  probability of the habit, and a careless one halves that of avoiding it, is our assumption.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from agentlearn.sim.draws import random_stream
from agentlearn.types.experience import Experience, Library, Origin, experience_id
from agentlearn.types.task import Task
from tests.bench.learning_rules.environment import ROLLOUT_CALLS, TRAPS_OF, Environment, Rollout

EXAMPLE_TOKENS = 240
"""Tokens of a trajectory with its program and answer."""
_MINIBATCH, _SHOWN, _WINDOW = 3, 5, 100


@dataclass(frozen=True, slots=True)
class Learned:
    """What an opponent learned, judged by the expected reward on new tasks."""

    success: float
    lessons: int


Opponent = Callable[[Environment, int, int], Learned]
"""Learns in a world with that many model calls. The third argument is the size of our library in tokens."""


@dataclass(slots=True)
class _Bullet:
    lesson: Experience
    habits: frozenset[str]
    """Habits that it speaks about."""
    good: float = 0.0
    bad: float = 0.0

    @property
    def trials(self) -> float:
        return self.good + self.bad


def ace(environment: Environment, calls: int, _: int) -> Learned:
    """Lessons with counters, added after failures, removed when they are tagged harmful more often."""
    bullets: list[_Bullet] = []
    for number, task in enumerate(_rounds(environment)):
        if environment.spent.calls + ROLLOUT_CALLS + 2 > calls:
            break
        library = _library(bullets)
        made = environment.rollout(task, library, f"ace-{number}", 0)
        environment.count(1 if made.right else 2, library)
        for one in bullets:
            _tag(one, made, environment)
        if not made.right:
            bullets += _written(environment, made, bullets, f"ace-{number}")
        bullets = [one for one in bullets if one.bad <= one.good or one.bad < 2]
    return _result(environment, _library(bullets))


def gepa(environment: Environment, calls: int, _: int) -> Learned:
    """Candidates on a Pareto front, changed after a minibatch and kept when the minibatch improves."""
    rng = random_stream("gepa", environment.seed)
    whole = len(environment.validation) * ROLLOUT_CALLS
    pool: list[list[_Bullet]] = [[]]
    scores = [_scores(environment, [], "gepa-0")]
    number = 0
    while environment.spent.calls + 2 * _MINIBATCH * ROLLOUT_CALLS + 1 + whole <= calls:
        number += 1
        parent = _from_front(scores, rng)
        tasks = rng.sample(environment.train, _MINIBATCH)
        library = _library(pool[parent])
        before = [environment.rollout(task, library, f"gepa-{number}", 0) for task in tasks]
        wrong = [one for one in before if not one.right]
        if not wrong:
            continue
        environment.count(1, library)
        child = _changed(environment, pool[parent], wrong, f"gepa-{number}")
        after = [environment.rollout(task, _library(child), f"gepa-{number}", 1) for task in tasks]
        if sum(one.reward for one in after) > sum(one.reward for one in before):
            pool.append(child)
            scores.append(_scores(environment, child, f"gepa-{number}"))
    best = max(range(len(pool)), key=lambda at: sum(scores[at]))
    return _result(environment, _library(pool[best]))


def running_baseline(environment: Environment, calls: int, _: int) -> Learned:
    """Lessons with Beta scores against a rolling success rate, without a control group."""
    bullets: list[_Bullet] = []
    window: deque[float] = deque(maxlen=_WINDOW)
    for number, task in enumerate(_rounds(environment)):
        if environment.spent.calls + ROLLOUT_CALLS + 1 > calls:
            break
        shown = _retrieved(bullets, task.family, window)
        made = environment.rollout(task, _library(shown), f"baseline-{number}", 0)
        window.append(made.reward)
        for one in shown:
            one.good, one.bad = one.good + made.reward, one.bad + 1 - made.reward
        if not made.right:
            environment.count(1, _library(shown))
            bullets += _written(environment, made, bullets, f"baseline-{number}", most=3)
        rate = sum(window) / len(window)
        bullets = [one for one in bullets if one.trials < _SHOWN or _mean(one) >= rate - 0.1]
    success = environment.law.success_with(
        lambda family: tuple(one.lesson.lesson for one in _retrieved(bullets, family, window))
    )
    return Learned(success, len(bullets))


def raw_trajectories(environment: Environment, calls: int, tokens: int) -> Learned:
    """Right trajectories as examples, instead of lessons."""
    kept: dict[str, list[Rollout]] = {}
    for number, task in enumerate(_rounds(environment)):
        if environment.spent.calls + ROLLOUT_CALLS > calls:
            break
        made = environment.rollout(task, Library(), f"raw-{number}", 0)
        if made.right:
            kept.setdefault(task.family, []).append(made)
    most = max(1, tokens // EXAMPLE_TOKENS)
    success = environment.law.success_given(lambda family: _imitated(family, kept, most, environment))
    return Learned(success, 0)


OPPONENTS: Mapping[str, Opponent] = {
    "ace": ace,
    "gepa": gepa,
    "running baseline": running_baseline,
    "raw trajectories": raw_trajectories,
}


def _rounds(environment: Environment) -> "_Rounds":
    return _Rounds(environment)


@dataclass
class _Rounds:
    """All tasks to learn from, again and again, in another order each time."""

    environment: Environment
    epoch: int = 0
    left: list[Task] = field(default_factory=list[Task])

    def __iter__(self) -> "_Rounds":
        return self

    def __next__(self) -> Task:
        if not self.left:
            self.epoch += 1
            self.left = list(self.environment.train)
            random_stream("order", self.environment.seed, self.epoch).shuffle(self.left)
        return self.left.pop()


def _tag(bullet: _Bullet, made: Rollout, environment: Environment) -> None:
    """Helpful in a right attempt that it is about; harmful when its habit was fallen into."""
    habits = bullet.habits & set(TRAPS_OF[made.task.family])
    if habits & made.flaws and environment.turned(bullet.lesson.lesson, habits & made.flaws):
        bullet.bad += 1
    elif habits and made.right:
        bullet.good += 1


def _written(
    environment: Environment, made: Rollout, bullets: Sequence[_Bullet], step: str, *, most: int = 1
) -> list[_Bullet]:
    """New lessons after a failure, without those that say what another one says in other words."""
    known = {environment.sense_of(one.lesson.lesson) for one in bullets}
    lessons = [one for one in environment.reflect(made, step, most=most) if environment.sense_of(one) not in known]
    return [
        _Bullet(_experience(lesson, f"{step}/{at}"), environment.habits_of(lesson)) for at, lesson in enumerate(lessons)
    ]


def _changed(environment: Environment, parent: Sequence[_Bullet], wrong: Sequence[Rollout], step: str) -> list[_Bullet]:
    """The candidate with new lessons in place of those about the same habits."""
    fresh = [one for at, made in enumerate(wrong) for one in _written(environment, made, parent, f"{step}/{at}")]
    about = frozenset[str]().union(*(one.habits for one in fresh))
    return [*(one for one in parent if not one.habits & about), *fresh]


def _scores(environment: Environment, bullets: Sequence[_Bullet], step: str) -> list[float]:
    library = _library(bullets)
    return [environment.rollout(task, library, step, 0, temperature=0.3).reward for task in environment.validation]


def _from_front(scores: Sequence[Sequence[float]], rng: Random) -> int:
    """A candidate, as often as it is among the best of a validation task."""
    best = [max(column) for column in zip(*scores, strict=True)]
    wins = [sum(score == top for score, top in zip(row, best, strict=True)) for row in scores]
    return rng.choices(range(len(scores)), wins)[0]


def _retrieved(bullets: Sequence[_Bullet], family: str, window: Sequence[float]) -> list[_Bullet]:
    """At most five lessons about the family's habits: proven ones first, and at most two new ones."""
    rate = sum(window) / len(window) if window else 0.0
    fitting = [one for one in bullets if one.habits & set(TRAPS_OF[family])]
    proven = [one for one in fitting if one.trials >= 3 and _lower(one) >= rate]
    new = [one for one in fitting if one not in proven]
    proven.sort(key=lambda one: -_lower(one))
    room = _SHOWN - (1 if new else 0)
    return [*proven[:room], *new[:2]][:_SHOWN]


def _mean(one: _Bullet) -> float:
    return (one.good + 1) / (one.trials + 2)


def _lower(one: _Bullet) -> float:
    mean, total = _mean(one), one.trials + 2
    return mean - (mean * (1 - mean) / (total + 1)) ** 0.5


def _imitated(
    family: str, kept: Mapping[str, Sequence[Rollout]], most: int, environment: Environment
) -> dict[str, float]:
    """Factor on the probability of each habit, from the examples that are shown for a family. Above 1: careless."""
    habits = set(TRAPS_OF[family])
    nearest = sorted(kept, key=lambda other: (other != family, -len(habits & set(TRAPS_OF[other])), other))
    examples = [one for other in nearest[:most] for one in kept[other][: most if other == family else 1]][:most]
    factors: dict[str, float] = {}
    for one in examples:
        for habit in habits & set(TRAPS_OF[one.task.family]):
            factors[habit] = 2.0 if habit in one.flaws else 0.5
    return factors


def _library(bullets: Sequence[_Bullet]) -> Library:
    return Library(experiences=tuple(one.lesson for one in bullets))


def _experience(lesson: str, key: str) -> Experience:
    return Experience(id=experience_id(Library().version, [key, lesson], 0), lesson=lesson, origin=Origin(kind="add"))


def _result(environment: Environment, library: Library) -> Learned:
    return Learned(environment.success(library), len(library))
