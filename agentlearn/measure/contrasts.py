"""Compares pairs of arms, usually every arm with the baseline: difference, interval, tests and verdict.

`better` and `worse` need four things: the test by signs, the interval, the test of the mean, and that undecided
rollouts could not change the result. `no_worse` needs the interval and the test of the mean against the margin, and
the same about undecided rollouts.
`python -m scripts.bench false_verdicts` measures how often verdicts are wrong.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentlearn.measure.clustered import grouped
from agentlearn.measure.contrast import Contrast, ContrastVerdict, Correction, Margin, WithheldCode, Worst
from agentlearn.measure.difference import (
    MeanDifference,
    MeanTest,
    benjamini_hochberg,
    detectable_difference,
    estimate_difference,
    holm,
    long_tail,
    mean_test,
    no_worse,
    sign_flip_p,
    typical_size,
)
from agentlearn.measure.power import COARSE, PlannedComparison, measured_clusters, variance_parts
from agentlearn.measure.score import mcnemar_p
from agentlearn.measure.score_table import Gaps, Observation, ScoreTable
from agentlearn.measure.sequential import look_factor
from agentlearn.text import number_text

_LIKELY_MISSED = 0.05
"""Probability from which a sample is said to miss hidden tasks easily."""

_ALPHA = 0.05
_WORST_CASE = 0.8
"""Share of alpha for the worst case of `better` and `worse`. Its test is one-sided, and the decided rollouts can also
be wrong in the other direction; together they stay near alpha."""

Decision = dict[str, ContrastVerdict | WithheldCode | str]


def decide(contrast: Contrast, alpha: float, hint: str = "") -> Decision:
    """Return the verdict, and the reason when it is withheld, as fields of the contrast.

    alpha: accepted chance of a false verdict. hint: what to do about undecided rollouts, to complete a sentence.
    """
    decision: Decision = {"verdict": "cannot_tell", "withheld": "", "withheld_code": "", "left_open": ""}
    if contrast.unsafe or contrast.mean is None:
        return decision
    shown = _shown_without_gaps(contrast, alpha)
    if shown == "cannot_tell":
        return decision | {"left_open": _left_open(contrast)}
    worst, p_mean, most = contrast.worst, contrast.p_mean_adjusted, _WORST_CASE * alpha
    p_worst = worst and worst.p_adjusted
    if shown == "no_worse":
        p_mean, p_worst, most = contrast.margin and contrast.margin.p_mean, worst and worst.p_margin_adjusted, alpha
    if contrast.undecided.total and (p_worst is None or p_worst > most):
        found, repeat = contrast.undecided, hint or "find the cause and repeat these rollouts"
        sides = ((found.arm, contrast.arm, found.arm_codes), (found.baseline, contrast.baseline, found.baseline_codes))
        said = " and ".join(
            f"{count:,} rollouts of {name} ({', '.join(f'{code} {number:,}' for code, number in codes)})"
            for count, name, codes in sides
            if count
        )
        why = "their true scores could change the result;"
        if worst is None:
            why = (
                "the range of the scores is not known, so they could change the result; state the range of the scores,"
                " or"
            )
        words = f"No verdict: {said} have no score, and {why} {repeat}."
        return decision | {"withheld": words, "withheld_code": "bounds"}
    if p_mean is not None and p_mean > alpha:
        return decision | {"withheld": f"No verdict: {_unseen(contrast, shown, p_mean)}.", "withheld_code": "unseen"}
    return decision | {"verdict": shown}


LossEvidence = Literal["verdict", "margin"]


def shows_no_loss(contrast: Contrast, evidence: LossEvidence = "verdict") -> bool:
    """Whether a contrast shows that the arm loses less than the margin.

    Undecided rollouts are never taken as wrong or right: they withhold this as they withhold a verdict. evidence:
    `margin` also accepts the corrected margin test on fewer tasks than a verdict needs.
    """
    if contrast.verdict != "cannot_tell" or evidence == "verdict":
        return contrast.verdict in {"no_worse", "better"}
    found = decide(contrast.model_copy(update={"caution": ""}), _ALPHA)
    only_few = found["verdict"] == "no_worse" or found["withheld_code"] == "unseen"
    return only_few and contrast.margin is not None and contrast.margin.holds


def _shown_without_gaps(contrast: Contrast, alpha: float) -> ContrastVerdict:
    """Return what the decided rollouts show by p and the interval together, or by the margin test."""
    significant = contrast.p_adjusted is not None and contrast.p_adjusted <= alpha
    if significant and contrast.high is not None and contrast.high < 0:
        return "worse"
    if significant and contrast.low is not None and contrast.low > 0:
        return "better"
    holds = contrast.margin is not None and contrast.margin.holds and not contrast.caution
    return "no_worse" if holds else "cannot_tell"


def _left_open(contrast: Contrast) -> str:
    """Return what rollouts without a score leave open; empty when the interval includes all of it."""
    lost, worst = contrast.undecided, contrast.worst
    if not lost.total:
        return ""
    many = f"{lost.total:,} of {lost.rollouts:,} rollouts have no score"
    if worst is None:
        return f"{many}, and the range of the scores is not known, so the difference could be anything"
    low, high = contrast.low, contrast.high
    if low is not None and high is not None and low <= worst.low and worst.high <= high:
        return ""
    bounds = f"{number_text(worst.low, 3, sign=True)} and {number_text(worst.high, 3, sign=True)}"
    return f"{many}, so the difference could be between {bounds}"


def _unseen(contrast: Contrast, shown: ContrastVerdict, p_mean: float) -> str:
    units = "clusters" if contrast.clusters < contrast.tasks else "tasks"
    skewness = contrast.skewness
    if skewness is not None and long_tail(skewness if shown == "worse" else -skewness, contrast.clusters):
        return (
            f"the range of the scores is not known, and a sample of {contrast.clusters:,} {units} can easily miss those"
            f" that {'gain' if shown == 'worse' else 'lose'} much; state the range of the scores, or measure more tasks"
        )
    does = "gained all that they lack" if shown == "worse" else "lost all that they have"
    hidden, then = contrast.hidden or 0.0, "the arms would be equal"
    if shown == "no_worse" and contrast.margin is not None:
        hidden = contrast.margin.hidden or 0.0
        then = f"{contrast.arm} would be worse by {contrast.margin.margin:g}"
    if hidden and (1 - hidden) ** contrast.clusters > _LIKELY_MISSED:
        share = f"{round(100 * hidden)} of 100" if hidden >= 0.015 else f"1 of {round(1 / hidden):,}"
        needed = math.ceil(math.log(_LIKELY_MISSED) / math.log1p(-hidden))
        return (
            f"if {share} {units} {does}, {then}, and a sample of {contrast.clusters:,} {units} can easily miss those"
            f" (one of {needed:,} would not)"
        )
    return (
        "the interval would allow one, but the test of the mean, which allows for a few large differences the other"
        f" way, does not (p = {p_mean:.3f})"
    )


ASSUMES = (
    "p assumes that tasks (or clusters) are independent and, when the arms do not differ, as likely to gain as to lose"
    " the same amount; p_mean does not assume the latter, but that tasks which the sample missed lose or gain no more"
    " than tasks like these can"
)
"""What the two tests of a contrast assume."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the verdicts of one comparison are decided."""

    level: float = 0.95
    """Confidence level of the intervals."""
    correction: Correction = "holm"
    """How p-values are corrected for the number of arms."""
    margin: float | None = None
    """Difference by which an arm may be worse and still count as no worse."""
    cost_margin: float | None = None
    """Share by which an arm may cost more and still be called better; None: whatever it costs."""
    planned_looks: int = 1
    """Number of looks at the same arms that were planned beforehand."""
    seed: int = 0
    """Seed of a sampled sign-flip test."""
    untrusted: Mapping[str, str] = field(default_factory=dict[str, str])
    """Reasons not to trust an arm's score, by arm. Such an arm gets no verdict."""
    score_range: tuple[float, float] | None = None
    """Lowest and highest possible score; None: 0 to 1 if all scores are in it, and otherwise not known."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of arms to compare, as (baseline, arm); empty: every other arm with the first. Corrections cover these."""
    undecided_hint: str = ""
    """What to do about undecided rollouts, to complete a sentence: `repeat them with --retry-failed`."""

    @property
    def alpha(self) -> float:
        """Accepted chance of claiming a difference where there is none."""
        return 1 - self.level

    def known_range(self, table: ScoreTable, arm: str, baseline: str) -> tuple[float, float] | None:
        """Return the lowest and highest possible score; None when it is not known."""
        low, high = self.score_range or (0.0, 1.0)
        least, most = table.seen(arm, baseline)
        return (low, high) if low <= least and most <= high else None

    def widest_range(self, table: ScoreTable, arm: str, baseline: str) -> tuple[float, float, float]:
        """Return the lowest and highest possible score, or those that were seen, and the largest difference."""
        low, high = self.known_range(table, arm, baseline) or table.seen(arm, baseline)
        return low, high, (high - low) or 1.0

    def estimate(
        self, table: ScoreTable, arm: str, baseline: str, tasks: Sequence[str] | None = None
    ) -> MeanDifference:
        """Return the mean difference over these tasks, or all tasks, with its interval."""
        differences, clusters = table.differences(arm, baseline, tasks), table.clusters(tasks)
        width = self.widest_range(table, arm, baseline)[-1]
        return estimate_difference(differences, clusters=clusters, level=self.level, largest=width)

    def corrected(self, ps: Sequence[float | None], looks: Sequence[int]) -> list[float | None]:
        """Return the p-values, corrected for their number and for the looks at each contrast."""
        pairs = zip(ps, looks, strict=True)
        known = [min(1.0, p * look_factor(look, self.planned_looks)) for p, look in pairs if p is not None]
        if known and self.correction != "none":
            known = (holm if self.correction == "holm" else benjamini_hochberg)(known)
        adjusted = iter(known)
        return [None if p is None else next(adjusted) for p in ps]


def estimate_contrasts(table: ScoreTable, rules: Rules) -> tuple[Contrast, ...]:
    """Return the contrast of each pair, without verdicts."""
    pairs = rules.pairs or [(table.arms[0], arm) for arm in table.arms[1:]]
    return tuple(_draft(table, arm, baseline, rules) for baseline, arm in pairs)


def with_verdicts(drafts: Sequence[Contrast], table: ScoreTable, rules: Rules) -> tuple[Contrast, ...]:
    """Return the contrasts with verdicts, and with p-values corrected for the number of arms and for earlier looks."""
    return verdicts_over_tables([(draft, table) for draft in drafts], rules)


def verdicts_over_tables(drafts: Sequence[tuple[Contrast, ScoreTable]], rules: Rules) -> tuple[Contrast, ...]:
    """Return contrasts of several tables with verdicts, corrected for the number of all of them and for earlier looks.

    drafts: each with the table that it was estimated from.
    """

    def corrected(ps: Iterable[float | None]) -> list[float | None]:
        return rules.corrected(list(ps), [one.look for one, _ in drafts])

    judged: list[Contrast] = []
    for (draft, table), p, p_mean, p_margin, margin_mean, p_worst, p_worst_margin in zip(
        drafts,
        corrected(one.p for one, _ in drafts),
        corrected(one.p_mean for one, _ in drafts),
        corrected(one.margin and one.margin.p for one, _ in drafts),
        corrected(one.margin and one.margin.p_mean for one, _ in drafts),
        # A contrast without gaps needs no worst case, but its own p counts.
        corrected(one.p if one.worst is None or one.worst.p is None else one.worst.p for one, _ in drafts),
        corrected(one.worst and one.worst.p_margin for one, _ in drafts),
        strict=True,
    ):
        margin, worst = draft.margin, draft.worst
        if margin is not None:
            holds = p_margin is not None and p_margin <= rules.alpha
            margin = margin.model_copy(update={"holds": holds, "p_mean": margin_mean})
        if worst is not None:
            worst = worst.model_copy(update={"p_adjusted": worst.p and p_worst, "p_margin_adjusted": p_worst_margin})
        one = draft.model_copy(update={"p_adjusted": p, "p_mean_adjusted": p_mean, "margin": margin, "worst": worst})
        one = one.model_copy(update=decide(one, rules.alpha, rules.undecided_hint))
        one = one.model_copy(update=_too_dear(one, rules.cost_margin))
        one = one.model_copy(update=_holds_if(one, table, rules))
        judged.append(one.model_copy(update={"sentence": _sentence(one, table, rules.level)}))
    return tuple(judged)


def _draft(table: ScoreTable, arm: str, baseline: str, rules: Rules) -> Contrast:
    """Return the contrast without corrections, which depend on the other arms."""
    differences, clusters = table.differences(arm, baseline), table.clusters()
    score_range, gaps = rules.known_range(table, arm, baseline), Gaps(table, arm, baseline)
    tests = _Tests.of(table, arm, baseline, rules)
    estimate, p, tested = tests.all_of(differences, clusters)
    undecided = gaps.count()
    before = [table.scores[baseline][task] for task in table.tasks]
    after = [table.scores[arm][task] for task in table.tasks]
    mcnemar = None
    if all(len(scores) == 1 and scores[0] in {0.0, 1.0} for scores in (*before, *after)):
        moved = [late[0] - early[0] for early, late in zip(before, after, strict=True)]
        mcnemar = mcnemar_p(sum(one > 0 for one in moved), sum(one < 0 for one in moved))
    worst = Worst(low=estimate.mean, high=estimate.mean)
    if undecided.total:
        worst = score_range and tests.worst(gaps, estimate.mean, score_range)
    draft = Contrast(
        arm=arm,
        baseline=baseline,
        **estimate.model_dump(include={"mean", "low", "high", "standard_error", "degrees", "method"}),
        score=math.fsum(table.means(arm)) / len(table.tasks),
        baseline_score=math.fsum(table.means(baseline)) / len(table.tasks),
        tasks=estimate.n,
        clusters=estimate.clusters,
        pairs=sum(min(len(early), len(late)) for early, late in zip(before, after, strict=True)),
        p=p,
        p_mean=tested.p,
        hidden=tested.hidden,
        skewness=None if score_range else tested.skewness,
        assumes=ASSUMES,
        mcnemar_p=mcnemar,
        worst=worst,
        undecided=undecided,
        **_cost_change(table, arm, baseline),
        margin=tests.margin(differences, clusters),
        wins=sum(difference > 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
        ties=sum(difference == 0 for difference in differences),
        unsafe=rules.untrusted.get(arm) or rules.untrusted.get(baseline) or "",
        caution=estimate.unsafe,
        only_cluster=table.only_cluster,
        carried="; ".join(filter(None, (_carried_by(differences, clusters), _kinds(table)))),
    )
    return draft.model_copy(update=_detectable_and_needed(estimate, before, after, differences, clusters))


@dataclass(frozen=True, slots=True)
class _Tests:
    """The tests of a verdict, for the decided rollouts and for the worst cases alike."""

    rules: Rules
    width: float
    """Largest possible difference."""
    most_lost: float
    """How much a task or cluster that the sample missed can lose: what units like these have under the baseline."""
    most_gained: float
    """How much it can gain: what they lack."""
    bounded: bool
    """Whether the range of the scores is known."""

    @staticmethod
    def of(table: ScoreTable, arm: str, baseline: str, rules: Rules) -> "_Tests":
        """Return the tests of one contrast."""
        low, high, width = rules.widest_range(table, arm, baseline)
        has = [max(0.0, sum(unit) / len(unit) - low) for unit in grouped(table.means(baseline), table.clusters())]
        lacks = [max(0.0, high - low - one) for one in has]
        bounded = rules.known_range(table, arm, baseline) is not None
        return _Tests(rules, width, typical_size(has) or width, typical_size(lacks) or width, bounded)

    def all_of(self, differences: Sequence[float], clusters: Sequence[str]) -> tuple[MeanDifference, float, MeanTest]:
        """Return the estimate, the two-sided p of `Contrast.p` and the test of the mean."""
        estimate = estimate_difference(differences, clusters=clusters, level=self.rules.level, largest=self.width)
        p = sign_flip_p(differences, seed=self.rules.seed, clusters=clusters)
        moved = sum(abs(math.fsum(unit)) > 1e-12 for unit in grouped(differences, clusters))
        if estimate.clusters >= COARSE[0] and moved < COARSE[1] and estimate.p is not None:
            p = max(p / 2, estimate.p)
        limits = {"most_lost": self.most_lost, "most_gained": self.most_gained}
        return estimate, p, mean_test(differences, clusters=clusters, bounded=self.bounded, **limits)

    def margin(self, differences: Sequence[float], clusters: Sequence[str]) -> Margin | None:
        """Return the margin test; None without a margin or an interval."""
        margin = self.rules.margin
        if margin is None:
            return None
        found = no_worse(differences, margin, clusters=clusters, level=self.rules.level, largest=self.width)
        if found is None:
            return None
        above = [difference + margin for difference in differences]
        tested = mean_test(
            above,
            clusters=clusters,
            bounded=self.bounded,
            most_lost=max(self.most_lost - margin, margin),
            most_gained=self.most_gained + margin,
        )
        return Margin(
            margin=margin,
            p=found.p,
            bound=found.low,
            holds=found.holds,
            p_mean=tested.p if math.fsum(above) > 0 else 1.0,
            hidden=tested.hidden,
        )

    def worst(self, gaps: Gaps, mean: float, score_range: tuple[float, float]) -> Worst:
        """Return the bounds, and the tests on data in which every rollout without a score went against the result."""
        against = gaps.worst_differences(score_range, against=True)
        favour = gaps.worst_differences(score_range, against=False)
        low, high = (math.fsum(differences) / len(differences) for differences, _ in (against, favour))
        p = 1.0
        if (low > 0) if mean > 0 else (high < 0):
            estimate, by_signs, tested = self.all_of(*(against if mean > 0 else favour))
            p = max(by_signs / 2, tested.p, 1.0 if estimate.p is None else estimate.p / 2)
        margin = self.margin(*against)
        p_margin = margin and max(margin.p or 0.0, margin.p_mean or 0.0)
        return Worst(low=low, high=high, p=p, p_margin=p_margin)


def _detectable_and_needed(
    estimate: MeanDifference,
    before: Sequence[Sequence[float]],
    after: Sequence[Sequence[float]],
    differences: Sequence[float],
    clusters: Sequence[str],
) -> dict[str, float | int | None]:
    """Return the smallest detectable difference, and the rollouts or tasks needed to detect the observed one."""
    # When all differences are equal, their spread is unknown, so no detectable difference can be given.
    found = detectable_difference(estimate)
    reach: dict[str, float | int | None] = {"detectable": found if found and math.isfinite(found) else None}
    parts = variance_parts(before, after)
    shown = estimate.low is not None and estimate.high is not None and not estimate.low <= 0 <= estimate.high
    if parts is None or not estimate.mean or shown or not estimate.standard_error:
        return reach
    k_before, k_after = (round(sum(map(len, arm)) / len(arm)) for arm in (before, after))
    layout = measured_clusters(differences, clusters, parts.true_difference)
    planned = PlannedComparison(parts=parts, clusters=layout)
    return reach | {
        "rollouts_needed": planned.rollouts_needed(estimate.mean, estimate.n),
        "tasks_needed": planned.tasks_needed(estimate.mean, k_before=k_before, k_after=k_after),
    }


def _too_dear(contrast: Contrast, margin: float | None) -> Decision:
    """Return the change of a contrast whose arm is better, but costs more than is allowed."""
    change = contrast.cost_change
    if margin is None or contrast.verdict != "better" or (change is not None and change <= margin):
        return {}
    costs = "its cost is not known" if change is None else f"a rollout costs {cost_share(change)} {contrast.cost_in}"
    words = f"No verdict: the score of {contrast.arm} is better, but {costs}, and {cost_share(margin)} is allowed."
    return {"verdict": "cannot_tell", "withheld": words, "withheld_code": "cost"}


def cost_share(change: float) -> str:
    """Return a change of cost in words: `+20 %`."""
    return f"{100 * change:+.3g} %"


def _cost_change(table: ScoreTable, arm: str, baseline: str) -> dict[str, Any]:
    """Return how much more a rollout of the arm costs than one of the baseline, as fields of a contrast."""
    units: tuple[Literal["dollars", "tokens"], ...] = ("dollars", "tokens")
    for unit in units:
        mine, other = (_mean_cost(table.all[name], unit) for name in (arm, baseline))
        if mine and other:
            return {"cost_in": unit, "cost_change": mine / other - 1}
    return {}


def _mean_cost(rollouts: Sequence[Observation], unit: Literal["dollars", "tokens"]) -> float | None:
    """Return the mean cost of a rollout; None where that of any is not known."""
    costs = list[float]()
    for one in rollouts:
        tokens = None if one.tokens_in is None or one.tokens_out is None else one.tokens_in + one.tokens_out
        cost = one.cost_usd if unit == "dollars" else tokens
        if cost is None:
            return None
        costs.append(cost)
    return math.fsum(costs) / len(costs) if costs else None


def _holds_if(contrast: Contrast, table: ScoreTable, rules: Rules) -> dict[str, float | str]:
    """Return under which assumption a verdict would hold that only the rollouts without a score withhold."""
    arms, shown = (contrast.arm, contrast.baseline), _shown_without_gaps(contrast, rules.alpha)
    score_range = rules.known_range(table, *arms)
    unsure = contrast.p_mean_adjusted is None or contrast.p_mean_adjusted > rules.alpha
    if contrast.withheld_code != "bounds" or score_range is None or unsure or shown not in {"better", "worse"}:
        return {}
    factor = Gaps(table, *arms).sensitivity(score_range, rules.level, against=shown == "better")
    if factor is None:
        return {}
    seen = {one.score for name in arms for one in table.all[name]} - {None}
    words = _assumption_sentence(contrast, shown, factor, score_range, right_or_wrong=seen <= set(score_range))
    return {"sensitivity": factor, "holds_if": words}


_FEW = 2
_LEAST_MOVED = 3


def _carried_by(differences: Sequence[float], clusters: Sequence[Hashable]) -> str:
    """Return the caution that two tasks or clusters outweigh all others together; empty if they do not."""
    units = [math.fsum(unit) for unit in grouped(differences, clusters)]
    sizes = sorted((abs(unit) for unit in units if abs(unit) > 1e-12), reverse=True)
    if len(sizes) < _LEAST_MOVED or sum(sizes[:_FEW]) <= sum(sizes[_FEW:]):
        return ""
    what = "tasks" if len(units) == len(differences) else "clusters"
    return f"{_FEW} of {len(units)} {what} differ by more than all others together, so the result hangs on them"


def _kinds(table: ScoreTable) -> str:
    """Return the caution that texts make tasks one cluster; empty where none do, or all tasks are of one kind."""
    if not table.alike or table.only_cluster:
        return ""
    kinds = len(set(table.clusters()))
    few = ", and a verdict needs 6, or a column family that says which belong together" if kinds < COARSE[0] else ""
    return f"tasks whose texts are equal or differ only in numbers and names count as one: {kinds} kinds{few}"


def signed_difference(value: float | None) -> str:
    """Return a difference with its sign and three digits, or more where it would look like 0; `-` for None."""
    return "-" if value is None else number_text(value, 3, sign=True)


def _sentence(contrast: Contrast, table: ScoreTable, level: float) -> str:
    """Return the verdict in words. level: confidence level of the intervals, such as 0.95."""
    arm, baseline = contrast.arm, contrast.baseline
    numbers = _numbers(contrast, table)
    if contrast.verdict in {"better", "worse"}:
        return f"{arm} is {contrast.verdict} than {baseline}: {numbers}."
    if contrast.verdict == "no_worse":
        assert contrast.margin is not None
        bound = f"one-sided {level:.0%} lower bound {signed_difference(contrast.margin.bound)}"
        return f"{arm} is not worse than {baseline} by more than {contrast.margin.margin:g}: {numbers}; {bound}."
    unknown = f"Cannot tell whether {arm} is better or worse than {baseline}"
    if contrast.unsafe:
        return f"{unknown}: {contrast.unsafe.rstrip('.')}."
    if contrast.withheld:
        return f"{contrast.withheld} Measured from {baseline} to {arm}: {numbers}."
    if contrast.left_open:
        return f"{unknown}: {contrast.left_open}. Measured without them, from {baseline} to {arm}: {numbers}."
    if not contrast.wins and not contrast.losses and not contrast.undecided.total:
        size = _size(contrast, table)
        return f"Cannot tell {arm} from {baseline}: both have the same score on every task ({size})."
    start = f"No detectable change from {baseline} to {arm}"
    if contrast.low is None or contrast.high is None:
        start = unknown
    elif contrast.low > 0 or contrast.high < 0:
        start = f"Not certain whether {arm} is {'better' if contrast.low > 0 else 'worse'} than {baseline}"
    return f"{start}: {numbers}.{_what_would_be_needed(contrast)}"


def _assumption_sentence(
    contrast: Contrast, shown: ContrastVerdict, factor: float, score_range: tuple[float, float], *, right_or_wrong: bool
) -> str:
    """Return the assumption under which the withheld verdict `shown` would hold. factor: see `Contrast.sensitivity`.

    right_or_wrong: whether all scores are at an end of the range.
    """
    times = f"{math.floor(factor * 10) / 10:g}"
    gap = contrast.undecided
    parts: list[str] = []
    for count, name, wrong in (
        (gap.arm, contrast.arm, shown == "better"),
        (gap.baseline, contrast.baseline, shown == "worse"),
    ):
        how = f"{'wrong' if wrong else 'right'} more than {times} times as often as its others"
        if not right_or_wrong:
            end, verb = (score_range[1], "below") if wrong else (score_range[0], "above")
            how = f"further {verb} {end:g}, on average, than {times} times as far as its others"
        if count:
            lost = f"{count:,} lost rollout{'s' if count != 1 else ''}"
            parts.append(f"the {lost} of {name} {'are' if count != 1 else 'is'} not {how}")
    return f"Under an assumption, {contrast.arm} is {shown} than {contrast.baseline}: as long as {' and '.join(parts)}."


def _numbers(contrast: Contrast, table: ScoreTable) -> str:
    """Return the scores, the difference with its interval, the size, and the cautions that belong with them."""
    low, high = signed_difference(contrast.low), signed_difference(contrast.high)
    interval = "" if contrast.low is None else f" [{low}, {high}]"
    scores = ""
    if contrast.score is not None and contrast.baseline_score is not None:
        scores = f"{number_text(contrast.baseline_score, 3)} → {number_text(contrast.score, 3)}, "
    clusters = f" in {contrast.clusters} clusters" if contrast.clusters < contrast.tasks else ""
    if contrast.only_cluster:
        clusters = f", all of {contrast.only_cluster!r} and therefore about such tasks only"
    rough = "; the interval may be too narrow" if contrast.caution and contrast.low is not None else ""
    carried = f"; {contrast.carried}" if contrast.carried else ""
    bounds, lost = "", contrast.undecided.total
    if lost and not contrast.left_open:  # otherwise the sentence says it already
        without = f"; {lost:,} rollout{'s have' if lost != 1 else ' has'} no score"
        bounds = f"{without}, and the range of the scores is not known"
        if contrast.worst is not None:
            low, high = signed_difference(contrast.worst.low), signed_difference(contrast.worst.high)
            bounds = (
                f"{without}, and with {'them it' if lost != 1 else 'it the difference'} is between {low} and {high}"
            )
    difference = signed_difference(contrast.mean)
    paid = contrast.cost_in == "dollars" and contrast.cost_change is not None
    cost = f" at {cost_share(contrast.cost_change or 0.0)} of cost" if paid else ""
    return f"{scores}{difference}{interval}{cost}, {_size(contrast, table)}{clusters}{rough}{carried}{bounds}"


def _size(contrast: Contrast, table: ScoreTable) -> str:
    tasks = f"{contrast.tasks} task{'s' if contrast.tasks != 1 else ''}"
    sides = [
        (name, {len(table.scores[name][task]) for task in table.tasks}) for name in (contrast.baseline, contrast.arm)
    ]
    counts = sides[0][1] | sides[1][1]
    if all(len(own) == 1 for _, own in sides) and len(counts) == 2:
        (first, one), (second, other) = ((name, own.pop()) for name, own in sides)
        return f"{tasks} x {one} rollout{'s' if one != 1 else ''} of {first} and {other} of {second}"
    k = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return f"{tasks} x {k} rollout{'s' if k != '1' else ''}"


def _what_would_be_needed(contrast: Contrast) -> str:
    words = ""
    if contrast.detectable is not None:
        least = f"{contrast.detectable:.3f}"
        words = f" This comparison could reliably detect only differences of {least} or more (80 % power)."
    ways: list[str] = []
    if (rollouts := contrast.rollouts_needed) is not None and rollouts > round(contrast.pairs / contrast.tasks):
        ways.append(f"{rollouts:,} rollouts per task")
    if (tasks := contrast.tasks_needed) is not None and tasks > contrast.tasks:
        ways.append(f"{tasks:,} tasks")
    if not ways or not contrast.mean:
        return words
    return f"{words} Detecting a difference of {abs(contrast.mean):.3f} would need about {' or '.join(ways)}."
