"""A comparison from observations, whatever program made them, and its facts in words, each worded once. No I/O."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

from agentlearn.errors import DataError
from agentlearn.measure.contrast import PAIRED, Contrast
from agentlearn.measure.contrasts import Rules, signed_difference
from agentlearn.measure.score_table import Observation, ScoreTable
from agentlearn.pages.figure import TONES, clipped, decimal, interval
from agentlearn.pages.table import Note, Paragraph, Statement
from agentlearn_evals.comparison import ArmLine, Comparison, Flip, Slice, TaskLine

_Places = Mapping[tuple[str, str, int], str]
"""Where rollouts are in logs, by arm, task and index."""


_CODES = 5
"""Number of codes that are named."""


def lost_rollouts(by_arm: Mapping[str, Sequence[Observation]], lowest: float = 0.0) -> tuple[str, ...]:
    """Return one sentence for each arm with undecided rollouts, then one with failed ones, then one without answers.

    lowest: score of a failed rollout.
    """
    lines: list[str] = []
    for status, words in (("undecided", "are undecided and left out"), ("failed", f"failed and count as {lowest:g}")):
        for arm, rollouts in by_arm.items():
            codes = Counter(one.error or "no code" for one in rollouts if one.status == status)
            if codes:
                lines.append(f"{arm}: {codes.total():,} of {len(rollouts):,} rollouts {words} ({_named(codes)})")
    for arm, rollouts in by_arm.items():
        if count := sum(one.status == "ok" and one.error == "no_answer" for one in rollouts):
            lines.append(f"{arm}: no answer was found in {count:,} of {len(rollouts):,} replies, which count as 0")
    return tuple(lines)


def demand_decided(by_arm: Mapping[str, Sequence[Observation]]) -> None:
    """Raise DataError when all rollouts of an arm are undecided."""
    for arm, rollouts in by_arm.items():
        if rollouts and all(one.score is None for one in rollouts):
            codes = Counter(one.error or "no code" for one in rollouts)
            raise DataError(
                f"none of the {len(rollouts):,} rollouts of {arm!r} is decided ({_named(codes)}), so nothing can be"
                " compared; run them again, or leave the arm out"
            )


def _named(codes: Counter[str]) -> str:
    named = ", ".join(f"{code} {count:,}" for code, count in codes.most_common(_CODES))
    rest = codes.total() - sum(count for _, count in codes.most_common(_CODES))
    return f"{named}, others {rest:,}" if rest else named


def assemble(
    table: ScoreTable,
    contrasts: Sequence[Contrast],
    rules: Rules,
    *,
    arm_facts: Mapping[str, Mapping[str, object]],
    places: _Places | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    **facts: object,
) -> Comparison:
    """Return the comparison of a score table.

    contrasts: with their verdicts. arm_facts: further fields of `ArmLine`, by arm. places: of rollouts in logs of other
    programs. warnings: besides those of undecided and failed rollouts. facts: further fields of the comparison.
    """
    tasks = [
        TaskLine(
            task=task,
            domain=table.facts[task].domain,
            cluster=table.facts[task].cluster,
            problem=table.facts[task].problem,
            scores=tuple(_mean(table.scores[arm][task]) for arm in table.arms),
            rollouts=tuple(len(table.scores[arm][task]) for arm in table.arms),
        )
        for task in table.tasks
    ]
    computed = {
        "warnings": (*lost_rollouts(table.all, (rules.score_range or (0.0, 1.0))[0]), *warnings),
        "level": rules.level,
        "baseline": table.arms[0],
        "arms": tuple(_arm_line(table, arm, rules, arm_facts.get(arm, {})) for arm in table.arms),
        "contrasts": tuple(contrasts),
        "correction": rules.correction,
        "planned_looks": rules.planned_looks,
        "slices": tuple(_slices(table, rules)),
        "tasks": tuple(tasks),
        "flips": flips(table, contrasts, places),
        "missing": table.missing,
        "notes": (*_notes(table), *notes),
    }
    return Comparison.model_validate(computed | facts)


def _notes(table: ScoreTable) -> Iterator[str]:
    if table.dropped:
        pairs = f"{table.dropped} (task, rollout) {'pair was' if table.dropped == 1 else 'pairs were'}"
        yield f"{pairs} left out of every arm because an arm has no score there; the bounds show the possible effect"


def _arm_line(table: ScoreTable, arm: str, rules: Rules, arm_facts: Mapping[str, object]) -> ArmLine:
    """Return the results of one arm. arm_facts: further fields of `ArmLine`."""
    rollouts, interval = table.all[arm], table.score(arm, rules.level, rules.score_range)
    statuses = Counter(one.status for one in rollouts)
    seconds = sorted(one.seconds for one in rollouts if one.seconds is not None)
    calls = [one.tool_calls for one in rollouts if one.tool_calls is not None]
    # An estimate of lessons that exceeds the counted input is wrong.
    wrong = any((one.tokens_library or 0) > one.tokens_in for one in rollouts if one.tokens_in is not None)
    fields = {
        "arm": arm,
        "label": arm,
        "tasks": len(table.tasks),
        "rollouts": len(rollouts),
        "counted": sum(len(table.scores[arm][task]) for task in table.tasks),
        "score": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "passes": table.passes(arm),
        "failed": statuses["failed"],
        "undecided": statuses["undecided"],
        "errors": dict(Counter(one.error or one.status for one in rollouts if one.status != "ok")),
        "cost_usd": _total([one.cost_usd for one in rollouts]),
        "tokens_in": _total([one.tokens_in for one in rollouts]),
        "tokens_cached": _total([one.tokens_cached for one in rollouts]),
        "tokens_library": None if wrong else _total([one.tokens_library for one in rollouts]),
        "tokens_out": _total([one.tokens_out for one in rollouts]),
        "tool_calls": sum(calls) / len(calls) if calls else None,
        "seconds_p50": _percentile(seconds, 0.5),
        "seconds_p95": _percentile(seconds, 0.95),
    }
    return ArmLine.model_validate(fields | dict(arm_facts))


def _slices(table: ScoreTable, rules: Rules) -> Iterator[Slice]:
    """Yield the results of every arm in each domain, cluster and tag. A single domain or cluster is left out."""
    parts: dict[tuple[str, str], list[str]] = {}
    for task in table.tasks:
        facts = table.facts[task]
        for by, name in (("domain", facts.domain), ("cluster", facts.cluster), *(("tag", tag) for tag in facts.tags)):
            if name:
                parts.setdefault((by, name), []).append(task)
    kinds, baseline = Counter(by for by, _ in parts), table.arms[0]
    for (by, name), tasks in sorted(parts.items()):
        if kinds[by] < 2 and by != "tag":
            continue
        for arm in table.arms:
            differs: dict[str, object] = {"mean": None}
            if arm != baseline:
                found = rules.estimate(table, arm, baseline, tasks)
                differs = {"mean": found.mean}
                if not found.unsafe:
                    differs |= {"low": found.low, "high": found.high}
            score = _mean(table.means(arm, tasks))
            same = {"by": by, "name": name, "arm": arm, "score": score, "tasks": len(tasks)}
            yield Slice.model_validate(same | differs)


def flips(table: ScoreTable, contrasts: Sequence[Contrast], places: _Places | None = None) -> tuple[Flip, ...]:
    """Return the tasks on which the arms of a contrast differ, largest first, each with a rollout of both.

    places: of rollouts in logs of other programs.
    """
    places = places or {}
    records: dict[tuple[str, str], dict[int, Observation]] = {}
    for arm in table.arms:
        for one in table.all[arm]:
            records.setdefault((arm, one.task), {})[one.g] = one
    found: list[Flip] = []
    for contrast in contrasts:
        arm, baseline = contrast.arm, contrast.baseline
        of_pair: list[Flip] = []
        for task in table.tasks:
            mine, other = _mean(table.scores[arm][task]), _mean(table.scores[baseline][task])
            if mine == other:
                continue
            shown = _example_rollouts(records.get((arm, task), {}), records.get((baseline, task), {}), won=mine > other)
            of_pair.append(
                Flip(
                    task=task,
                    problem=table.facts[task].problem,
                    arm=arm,
                    baseline=baseline,
                    score=mine,
                    baseline_score=other,
                    rollout=shown[0].rollout if shown else "",
                    baseline_rollout=shown[1].rollout if shown else "",
                    place=places.get((arm, task, shown[0].g), "") if shown else "",
                    baseline_place=places.get((baseline, task, shown[1].g), "") if shown else "",
                )
            )
        found += sorted(of_pair, key=lambda one: (-abs(one.score - one.baseline_score), one.task))
    return tuple(found)


def _example_rollouts(
    mine: Mapping[int, Observation], other: Mapping[int, Observation], *, won: bool
) -> tuple[Observation, Observation] | None:
    """Return a rollout of the arm and one of the baseline that differ in the same direction as the means.

    Rollouts with the same index are preferred. None when there are none.
    """
    same_index = ((mine[g], other[g]) for g in sorted(mine.keys() & other.keys()))
    for one, two in chain(same_index, product(mine.values(), other.values())):
        if one.score is None or two.score is None or one.score == two.score:
            continue
        if (one.score > two.score) == won:
            return one, two
    return None


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known)


def _total(values: Sequence[float | None]) -> float | None:
    """Return the sum; None when any value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest value that is at least as large as this share of the values; None for no values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


_SENTENCE, _FLAGS = 500, 5
"""Largest number of characters of a sentence, and of flags, that are shown."""
_LOOKS = 3
"""Number of earlier looks of an arm that are named."""


def worst_first(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts with those first whose arm is worse, then those without a verdict for a reason."""
    return sorted(contrasts, key=lambda one: (one.verdict != "worse", not (one.withheld or one.unsafe)))


def verdict_name(contrast: Contrast) -> str:
    """Return the verdict: `better`, `worse`, `no worse` or `cannot tell`."""
    return contrast.verdict.replace("_", " ")


@dataclass(frozen=True, slots=True)
class ComparisonWords:
    """The facts of one comparison."""

    found: Comparison

    @property
    def model_caution(self) -> str:
        """What to know of simulated or lab models; empty for others."""
        if self.found.simulated:
            return (
                "A simulated model answered: these numbers show how the comparison works. They are not a result about a"
                " real model."
            )
        if self.found.of_lab_models:
            return (
                "Lab models are real but tiny transformers: these numbers show how the comparison works, not a result."
            )
        return ""

    @property
    def level(self) -> str:
        """The confidence level: `95 %`."""
        return f"{self.found.level * 100:g} %"

    def verdicts(self) -> Iterator[Note | Statement | Paragraph]:
        """Yield what to know before any verdict, then a sentence per contrast, or the score of the only arm."""
        found = self.found
        yield from (Note(kind="warning", text=text) for text in found.warnings)
        if self.model_caution:
            yield Paragraph(text=self.model_caution, quiet=True)
        if len(found.arms) == 1:
            arm = found.arms[0]
            limits = interval(arm.low, arm.high, digits=3)
            within = f" ({self.level} interval {limits})" if limits else ""
            yield Statement(text=f"score {decimal(arm.score, 3)}{within} on {arm.tasks:,} tasks")
        for one in worst_first(found.contrasts):
            said = "" if one.withheld in one.sentence else one.withheld
            words = f"{said} {one.sentence}".strip() or f"{one.arm} against {one.baseline}: {verdict_name(one)}."
            yield Statement(text=clipped(words, _SENTENCE), tone=TONES[one.verdict])
            if one.holds_if:
                yield Paragraph(text=one.holds_if)

    def controls(self) -> Iterator[tuple[str, str]]:
        """Yield what each control shows, as labels and texts: `control`, or `doubt` where it is not as expected."""
        yield from (("control" if one.holds else "doubt", one.words) for one in self.found.controls)

    def cautions(self) -> Iterator[tuple[str, str]]:
        """Yield what to see before trusting the verdicts, as labels and texts; each caution once, with its arms."""
        found = self.found
        yield from (("caution", f"{found.label(one)}: {one.unsafe}") for one in found.contrasts if one.unsafe)
        for caution in dict.fromkeys(one.caution for one in found.contrasts if one.caution):
            arms = ", ".join(found.label(one) for one in found.contrasts if one.caution == caution)
            yield "caution", f"{arms}: {caution}"
        yield from (("suspect", f"{one.arm}: {one.words}") for one in found.flags[:_FLAGS])
        if (more := len(found.flags) - _FLAGS) > 0:
            yield "suspect", f"{more:,} more; the page and --json list them"
        yield from (("look", line) for line in self.looks)

    @property
    def assumptions(self) -> list[str]:
        """What the tests assume, one line each."""
        if all(one.p is None for one in self.found.contrasts):
            return []
        return [*dict.fromkeys(filter(None, (one.assumes for one in self.found.contrasts))), PAIRED]

    def bounds(self, contrast: Contrast) -> str:
        """Return the bounds of the difference; empty when every rollout of both arms has a score."""
        lost = {one.arm for one in self.found.arms if one.undecided} | {one.arm for one in self.found.missing}
        gaps = bool(lost & {contrast.arm, contrast.baseline})
        if contrast.worst is None:
            return "unknown" if gaps else ""
        low, high = signed_difference(contrast.worst.low), signed_difference(contrast.worst.high)
        return f"{low} to {high}" if low != high or gaps else ""

    @property
    def looks(self) -> list[str]:
        """Which look at the same arms this is, one line for each arm that was looked at before."""
        found, lines = self.found, list[str]()
        planned = f" of {found.planned_looks} planned" if found.planned_looks > 1 else ""
        for one in found.contrasts:
            earlier = [look for look in found.looks if look.arm == one.arm and look.baseline in {"", one.baseline}]
            if earlier:
                named = ", ".join(f"{look.pairs:,} pairs (run {look.run})" for look in earlier[-_LOOKS:])
                label = f"{found.label(one)}: look {one.look}{planned} at these arms"
                lines.append(f"{label}; p is corrected for it; earlier: {named}")
        return [*lines, found.looks_note] if found.looks_note else lines


def rollouts_words(arm: ArmLine) -> str:
    """Return the number of rollouts that the score rests on, and of how many when some are left out."""
    counted = "" if arm.counted == arm.rollouts else f"{arm.counted:,} of "
    return f"{counted}{arm.rollouts:,}"
