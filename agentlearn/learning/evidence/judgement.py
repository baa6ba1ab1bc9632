"""What is known about every lesson: its label, its effect, and how much more it would take to know.

The labels hold whenever one looks. Of the lessons that are labelled harmful, at most a share `alpha` is not harmful on
average, and the same holds for proven. One budget of errors serves all lessons that were ever tested under a library's
name, with every model: removed and parked lessons stay in the count.

A label says what a lesson did on the tasks that were compared. Whether it does the same on tasks like these is a second
question: a lesson without any mean effect helps on some tasks and harms on others, and a few tasks that are visited
often would show their own mean as surely as one likes. Its unit is the task, or its family.

Undecided rollouts could be right or wrong. The evidence must hold if they are right equally often with and without the
lesson, whatever that share is; and the bounds that hold whatever each of them is must leave the label, beyond chance.

A person can see each decision before it is made, and undo it: parked lessons stay in the library, and are not shown.
Lessons that a person wrote are reported and never parked here.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance, variance
from typing import Literal

from pydantic import Field

from agentlearn.learning.evidence.blocks import DAY, LessonBlock, blocks_of
from agentlearn.library.store import LibraryStore
from agentlearn.stats import EProcess, anytime, benjamini_hochberg, e_bh, log_threshold, mean_test, typical_size
from agentlearn.stats.clustered import cdf
from agentlearn.store import StoreReader
from agentlearn.types.experience import Experience, Library, estimated_tokens
from agentlearn.types.ids import ExperienceId
from agentlearn.types.value import Value

EvidenceLabel = Literal["proven", "unknown", "harmful"]
"""proven: the lesson raises the reward. harmful: it lowers the reward. unknown: neither has been shown."""
Scope = Literal["", "these_tasks", "tasks_like_these"]
"""What a label holds for; empty without a label."""
_Z = 1.959964
"""Standard errors by which a bound must be on the side of the label: 5 % for two looks, at all blocks or the latest."""
_FEWEST_UNITS = 5
"""Fewest tasks or families that can stand for others."""
_MOST_FORECAST = 1_000_000
_LEAST_VARIANCE = 1e-6


class EvidenceRules(Value):
    """How evidence becomes labels."""

    alpha: float = Field(default=0.1, gt=0, lt=1)
    """Largest average share of wrong labels among the lessons labelled harmful, and among those labelled proven."""
    window: int = Field(default=200, ge=10)
    """Blocks of a lesson that count for its estimate: the latest ones. Older ones are out of date."""
    interval_alpha: float = Field(default=0.05, gt=0, lt=1)
    """1 minus the confidence of the interval."""


class LessonEvidence(Value):
    """What is known about one lesson with one model."""

    lesson: ExperienceId
    model: str
    label: EvidenceLabel
    points: float
    """Mean reward with the lesson minus mean reward without it, in points (hundredths of the reward), in the window."""
    low: float
    """Lower bound of the interval, in points. It may be read at any time."""
    high: float
    """Upper bound of the interval, in points."""
    blocks: int
    """Comparisons of rollouts with and without the lesson, of all time."""
    blocks_counted: int
    """The latest ones among them, which the estimate and the interval rest on."""
    shown: int
    """Rollouts of these comparisons with a reward that were shown the lesson."""
    hidden: int
    """Rollouts of these comparisons with a reward from which it was hidden."""
    undecided_shown: int = 0
    """Undecided rollouts of these comparisons that were shown the lesson."""
    undecided_hidden: int = 0
    """Undecided rollouts of these comparisons from which it was hidden."""
    holds_for: Scope = ""
    """What the label holds for: the tasks of these comparisons, or also tasks like these."""
    units: int = 0
    """Independent units of these comparisons: families, or tasks that have none; days of an application's episodes."""
    unit: Literal["tasks", "families", "days"] = "tasks"
    p_like_these: float | None = None
    """p that the mean effect over tasks or families like these has not the sign of the label; None without a label."""
    withheld: str = ""
    """Why there is no label although the rollouts with a reward would give one; empty otherwise."""
    own_task_blocks: int
    """Comparisons on tasks that the lesson was learned from. They are counted nowhere else."""
    log_e_harmful: float
    """Logarithm of the e-value against "it was never harmful"."""
    log_e_proven: float
    """Logarithm of the e-value against "it was never useful"."""
    rollouts_to_know: int | None
    """About how many more rollouts a label takes if the effect is as estimated; None when that cannot be said."""

    @property
    def holds_for_words(self) -> str:
        """What the label holds for, in words: `these 12 tasks`, `tasks like these 100`; empty without a label."""
        match self.holds_for:
            case "tasks_like_these":
                return f"{self.unit} like these {self.units:,}"
            case "these_tasks":
                return f"these {self.units:,} {self.unit}"
            case _:
                return ""


def judge(blocks: Iterable[LessonBlock], rules: EvidenceRules | None = None) -> tuple[LessonEvidence, ...]:
    """What is known about every lesson of the blocks, in order of lesson and model.

    blocks: of every lesson that was ever tested under the library's name, in the order in which they began.
    """
    rules = rules or EvidenceRules()
    by_lesson: defaultdict[tuple[ExperienceId, str], list[LessonBlock]] = defaultdict(list)
    for block in blocks:
        by_lesson[block.lesson, block.model].append(block)
    tested = [_tested(lesson, model, found, rules) for (lesson, model), found in sorted(by_lesson.items())]
    return _labelled([one for one in tested if one.known.blocks or one.known.own_task_blocks], rules)


@dataclass(frozen=True, slots=True)
class _Tested:
    """A lesson without a label yet, and what decides about one."""

    known: LessonEvidence
    units: Sequence[Sequence[LessonBlock]]
    """Its blocks by independent unit."""
    harmful: "_Side"
    proven: "_Side"


@dataclass(frozen=True, slots=True)
class _Side:
    """The evidence for one label."""

    log_e: float
    """Logarithm of the e-value, if undecided rollouts are right equally often with and without the lesson."""
    log_e_halves: float
    """The same with undecided rollouts as half right."""
    bounded: bool
    """Whether the bounds of the effect leave the label, beyond chance."""


def _labelled(tested: Sequence[_Tested], rules: EvidenceRules) -> tuple[LessonEvidence, ...]:
    """The evidence with labels, and with the rollouts that a label would still take.

    A lesson whose latest blocks say the opposite, or whose bounds allow the opposite, takes no part in a label: its
    e-value counts as 0, which is never more than it is, so that the bound on wrong labels stays as it is.
    """
    counted = [one for one in tested if one.known.blocks]
    harmful = [one.harmful if one.known.points < 0 else _NOTHING for one in counted]
    proven = [one.proven if one.known.points > 0 else _NOTHING for one in counted]
    labels: tuple[tuple[EvidenceLabel, list[_Side]], ...] = (("harmful", harmful), ("proven", proven))
    chosen = {
        label: _rejected(counted, [side.log_e if side.bounded else -math.inf for side in sides], rules)
        for label, sides in labels
    }
    halves = _rejected(counted, [side.log_e_halves for side in harmful], rules)
    halves |= _rejected(counted, [side.log_e_halves for side in proven], rules)
    either = chosen["harmful"] | chosen["proven"]
    ps = {
        key: p_like_these(one.units, -1 if key in chosen["harmful"] else 1)
        for one in counted
        if (key := _key(one.known)) in either
    }
    like_these = _like_these(counted, chosen["harmful"], ps, rules) | _like_these(counted, chosen["proven"], ps, rules)
    found = list[LessonEvidence]()
    for each in tested:
        one, key = each.known, _key(each.known)
        label: EvidenceLabel = (
            "harmful" if key in chosen["harmful"] else "proven" if key in chosen["proven"] else "unknown"
        )
        scope: Scope = "" if label == "unknown" else "tasks_like_these" if key in like_these else "these_tasks"
        side, together = (each.harmful, chosen["harmful"]) if one.points < 0 else (each.proven, chosen["proven"])
        found.append(
            one.model_copy(
                update={
                    "label": label,
                    "holds_for": scope,
                    "p_like_these": ps.get(key),
                    "withheld": _undecided_words(one) if label == "unknown" and key in halves else "",
                    "rollouts_to_know": _rollouts_to_know(one, side.log_e, len(counted), together, rules),
                }
            )
        )
    return tuple(found)


_NOTHING = _Side(-math.inf, -math.inf, bounded=False)


def _rejected(counted: Sequence[_Tested], log_e: Sequence[float], rules: EvidenceRules) -> frozenset["_Key"]:
    return frozenset(_key(counted[index].known) for index in e_bh(log_e, rules.alpha))


def _like_these(
    counted: Sequence[_Tested], chosen: frozenset["_Key"], ps: Mapping["_Key", float], rules: EvidenceRules
) -> frozenset["_Key"]:
    """The lessons among the chosen ones whose label also holds for tasks like these. ps: of the chosen ones."""
    if not chosen:
        return frozenset()
    keys = [_key(one.known) for one in counted]
    corrected = benjamini_hochberg([ps[key] if key in chosen else 1.0 for key in keys])
    return frozenset(key for key, p in zip(keys, corrected, strict=True) if p <= rules.alpha)


def _undecided_words(one: LessonEvidence) -> str:
    return (
        f"{one.undecided_shown:,} of {one.shown + one.undecided_shown:,} rollouts with it and"
        f" {one.undecided_hidden:,} of {one.hidden + one.undecided_hidden:,} without it are undecided, and their true"
        " rewards could change the label"
    )


_Key = tuple[ExperienceId, str]


def _key(one: LessonEvidence) -> _Key:
    return one.lesson, one.model


def _tested(lesson: ExperienceId, model: str, found: Sequence[LessonBlock], rules: EvidenceRules) -> _Tested:
    blocks = [one for one in found if not one.own_task]
    effects = [one.effect for one in blocks]
    latest = effects[-rules.window :]
    interval = anytime(latest, alpha=rules.interval_alpha) if latest else None
    units, unit = _units(blocks)
    harmful, proven = _side(blocks, -1, rules), _side(blocks, 1, rules)
    known = LessonEvidence(
        lesson=lesson,
        model=model,
        label="unknown",
        points=100 * fmean(latest) if latest else 0.0,
        low=100 * interval.low if interval else -100.0,
        high=100 * interval.high if interval else 100.0,
        blocks=len(blocks),
        blocks_counted=len(latest),
        shown=sum(one.shown for one in blocks),
        hidden=sum(one.hidden for one in blocks),
        undecided_shown=sum(one.lost_shown for one in blocks),
        undecided_hidden=sum(one.lost_hidden for one in blocks),
        units=len(units),
        unit=unit,
        own_task_blocks=len(found) - len(blocks),
        log_e_harmful=harmful.log_e,
        log_e_proven=proven.log_e,
        rollouts_to_know=_growth_forecast(blocks, latest),
    )
    return _Tested(known, units, harmful, proven)


def _side(blocks: Sequence[LessonBlock], sign: int, rules: EvidenceRules) -> _Side:
    """The evidence that the effect of these blocks has this sign."""
    halves = EProcess().after(sign * one.effect for one in blocks).log_e
    if not any(one.lost_shown or one.lost_hidden for one in blocks):
        return _Side(halves, halves, bounded=True)
    wrong, right = zip(*(one.alike() for one in blocks), strict=True)
    log_e = min(EProcess().after(sign * one for one in side).log_e for side in (wrong, right))
    least = [min(sign * bound for bound in one.bounds()) for one in blocks]
    return _Side(log_e, halves, bounded=any(_surely_positive(part) for part in (least, least[-rules.window :])))


def _surely_positive(values: Sequence[float]) -> bool:
    """Whether the mean of the values is above 0 beyond chance."""
    mean = fmean(values)
    spread = math.fsum((one - mean) ** 2 for one in values) / len(values)
    return mean > _Z * math.sqrt(spread / len(values))


def _units(blocks: Sequence[LessonBlock]) -> tuple[list[list[LessonBlock]], Literal["tasks", "families", "days"]]:
    """The blocks of each independent unit. Where all tasks are of one family, each task is a unit."""
    families = {one.family for one in blocks}
    names = [
        (one.family if one.family and len(families) > 1 else one.task) or f"block {number}"
        for number, one in enumerate(blocks)
    ]
    units = defaultdict[str, list[LessonBlock]](list)
    for name, one in zip(names, blocks, strict=True):
        units[name].append(one)
    days = sum(name.startswith(DAY) for name in units)
    return list(units.values()), "days" if days else "families" if families - {""} and len(families) > 1 else "tasks"


def p_like_these(units: Sequence[Sequence[LessonBlock]], sign: int) -> float:
    """p that the mean effect over units has this sign by chance, for units that are drawn at random.

    units: the blocks of each. A mean with the other sign gives 1. It is the larger p of Student's t and `mean_test`,
    which allows for a few units, not among these, that lose all that they have; both with all undecided rollouts wrong,
    and all right.
    """
    if len(units) < _FEWEST_UNITS:
        return 1.0
    level = [fmean(one.level for one in unit) for unit in units]
    has, lacks = typical_size(level) or 1.0, typical_size([1 - one for one in level]) or 1.0
    ps = list[float]()
    for which in (0, 1):
        means = [sign * fmean(one.alike()[which] for one in unit) for unit in units]
        if fmean(means) <= 0:
            return 1.0
        error = math.sqrt(variance(means) / len(means))
        t = fmean(means) / max(error, _LEAST_VARIANCE)
        most_lost, most_gained = (has, lacks) if sign > 0 else (lacks, has)
        ps += [2 * cdf(-t, len(means) - 1), mean_test(means, most_lost=most_lost, most_gained=most_gained).p]
    return min(1.0, max(ps))


def _growth_forecast(blocks: Sequence[LessonBlock], latest: Sequence[float]) -> int | None:
    """Rollouts for one unit of the logarithm of the e-value, at the present estimate; None without an estimate."""
    mean = fmean(latest) if latest else 0.0
    if len(latest) < 2 or not mean:
        return None
    growth = mean**2 / (2 * max(pvariance(latest) + mean**2, _LEAST_VARIANCE))
    rollouts = fmean(one.shown + one.lost_shown + one.hidden + one.lost_hidden for one in blocks)
    return math.ceil(min(rollouts / growth, _MOST_FORECAST))


def _rollouts_to_know(
    one: LessonEvidence, log_e: float, tested: int, together: frozenset[_Key], rules: EvidenceRules
) -> int | None:
    if _key(one) in together:
        return 0
    per_unit = one.rollouts_to_know
    if per_unit is None:
        return None
    missing = log_threshold(tested, len(together) + 1, rules.alpha) - log_e
    needed = math.ceil(per_unit * max(missing, 0.0))
    return needed if needed < _MOST_FORECAST else None


def evidence_of(
    evidence: Iterable[LessonEvidence], model: str | None = None
) -> Mapping[ExperienceId, tuple[LessonEvidence, ...]]:
    """The evidence by lesson. model: only what was measured with this model; None: with any."""
    found: defaultdict[ExperienceId, list[LessonEvidence]] = defaultdict(list)
    for one in evidence:
        if model in (None, one.model):
            found[one.lesson].append(one)
    return {lesson: tuple(known) for lesson, known in found.items()}


@dataclass(frozen=True, slots=True)
class LibraryEvidence:
    """What is known about the lessons of a library, the removed and the parked ones included."""

    name: str
    library: Library
    """Its current version."""
    evidence: tuple[LessonEvidence, ...]
    """Of every lesson that was ever tested under this name, with each model."""

    @property
    def tested(self) -> int:
        """Number of tests that share the budget of errors: one for each lesson and model with evidence."""
        return sum(bool(one.blocks) for one in self.evidence)


def library_evidence(
    reader: StoreReader, libraries: LibraryStore, name: str, rules: EvidenceRules | None = None
) -> LibraryEvidence:
    """The evidence on a library's lessons. Raises LibraryError for an unknown name.

    Nothing is kept between two calls but the rollouts themselves, so the result is the same in every process.
    """
    versions = {version: libraries.load(f"{name}@{version}") for version in libraries.versions(name)}
    ever = lessons_ever(versions.values())
    rows = reader.exposed(ever, {version: list(library.by_id) for version, library in versions.items()})
    hidden = {lesson for row in rows for lesson in row.masked} & {*ever}
    learned_from = {lesson: reader.tasks_behind(lesson) for lesson in sorted(hidden)}
    blocks = [one for one in blocks_of(rows, learned_from) if one.lesson in hidden]
    return LibraryEvidence(name, libraries.load(name), judge(blocks, rules))


def lessons_ever(versions: Iterable[Library]) -> tuple[ExperienceId, ...]:
    """Every lesson that one of these versions holds, sorted. Withheld ones are among them."""
    known = list(versions)
    shown = {lesson for version in known for lesson in version.by_id}
    return tuple(sorted(shown | {one.experience.id for version in known for one in version.withheld}))


@dataclass(frozen=True, slots=True)
class ParkingPlan:
    """What the evidence says should no longer be shown."""

    park: tuple["ToPark", ...] = ()
    """Lessons to park."""
    reported: tuple["ToPark", ...] = ()
    """Lessons that a person wrote. A person decides on them."""

    @property
    def reasons(self) -> dict[ExperienceId, str]:
        """Why each lesson is to be parked, by lesson."""
        return {one.experience.id: one.reason for one in self.park}


@dataclass(frozen=True, slots=True)
class ToPark:
    """A lesson that should no longer be shown, and why."""

    experience: Experience
    evidence: LessonEvidence | None
    """None when a lesson gives way to others although nothing is known about it."""
    reason: str


def to_park(evidence: Iterable[LessonEvidence], library: Library, *, model: str | None = None) -> ParkingPlan:
    """The lessons of this version that are labelled harmful.

    model: only the evidence with this model counts. None: with any model, but a lesson that is proven with another
    model is only reported.
    """
    known = evidence_of(evidence, model)
    park, reported = list[ToPark](), list[ToPark]()
    for one in library.experiences:
        harmful = [found for found in known.get(one.id, ()) if found.label == "harmful"]
        if not harmful:
            continue
        worst = min(harmful, key=lambda found: found.points)
        proven = any(found.label == "proven" for found in known[one.id])
        entry = ToPark(one, worst, f"{evidence_words(worst)}{', but proven with another model' if proven else ''}")
        (reported if one.origin.kind == "person" or proven else park).append(entry)
    return ParkingPlan(tuple(park), tuple(reported))


def to_evict(
    evidence: Iterable[LessonEvidence],
    library: Library,
    *,
    max_lessons: int | None = None,
    max_tokens: int | None = None,
    model: str | None = None,
) -> tuple[ToPark, ...]:
    """The lessons that give way so that the library fits into its limits; empty when it fits.

    The lesson with the least value per token goes first, by its estimate. Only lessons with evidence can go, and proven
    ones and those that a person wrote cannot, so the library may stay larger than its limits.
    """
    known = evidence_of(evidence, model)
    candidates = sorted(
        (
            (value, one, found)
            for one in library.experiences
            if one.origin.kind != "person" and (found := _weakest(known.get(one.id, ()))) is not None
            for value in [found.points / max(1, estimated_tokens(one.lesson))]
        ),
        key=lambda entry: (entry[0], entry[1].id),
    )
    lessons, tokens, gone = len(library), library.tokens, list[ToPark]()
    for value, one, found in candidates:
        if (max_lessons is None or lessons <= max_lessons) and (max_tokens is None or tokens <= max_tokens):
            break
        reason = f"the library is full, and this lesson has the least value per token ({value:+.2f} points)"
        gone.append(ToPark(one, found, f"{reason}: {evidence_words(found)}"))
        lessons, tokens = lessons - 1, tokens - estimated_tokens(one.lesson)
    return tuple(gone)


def _weakest(found: Sequence[LessonEvidence]) -> LessonEvidence | None:
    """The evidence that speaks least for a lesson; None where there is none, or where it is proven with some model."""
    measured = [one for one in found if one.blocks]
    if any(one.label == "proven" for one in measured):
        return None
    return min(measured, key=lambda one: one.points, default=None)


def evidence_words(one: LessonEvidence) -> str:
    """The evidence on a lesson in words."""
    exposures = f"{one.shown} rollouts with it and {one.hidden} without it"
    where = f" on {one.holds_for_words}" if one.holds_for else ""
    estimate = f"{one.points:+.1f} points [{one.low:+.1f}, {one.high:+.1f}]"
    return f"{one.label}: {estimate} with {one.model}{where}, {exposures}"
