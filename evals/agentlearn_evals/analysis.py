"""Builds a comparison from observations, whatever program made them. No I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence

from agentlearn.errors import DataError
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable
from agentlearn_evals.breakdown import Places, arm_line, flips, slices, task_lines
from agentlearn_evals.comparison import Comparison, MethodLine, Reproducibility

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
                " compared; run them again, or leave the arm out",
                code="no_decided_rollout",
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
    title: str,
    k: int,
    arm_facts: Mapping[str, Mapping[str, object]],
    methods: Sequence[MethodLine] = (),
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    places: Places | None = None,
    reproducibility: Reproducibility | None = None,
) -> Comparison:
    """Return the comparison of a score table.

    contrasts: with their verdicts. arm_facts: further fields of `ArmLine`, by arm. warnings: besides those of undecided
    and failed rollouts. places: of rollouts in logs of other programs.
    """
    return Comparison(
        title=title,
        warnings=(*lost_rollouts(table.all, (rules.score_range or (0.0, 1.0))[0]), *warnings),
        level=rules.level,
        k=k,
        baseline=table.arms[0],
        arms=tuple(arm_line(table, arm, rules.level, arm_facts.get(arm, {})) for arm in table.arms),
        contrasts=tuple(contrasts),
        correction=rules.correction,
        planned_looks=rules.planned_looks,
        methods=tuple(methods),
        slices=slices(table, rules),
        tasks=task_lines(table),
        flips=flips(table, contrasts, places),
        missing=table.missing,
        notes=(*_undecided_note(table), *_same_text_note(table), *notes),
        reproducibility=reproducibility or Reproducibility(),
    )


def _same_text_note(table: ScoreTable) -> list[str]:
    if not table.same_text:
        return []
    many = f"{len(table.same_text):,} {'task has' if len(table.same_text) == 1 else 'tasks have'}"
    words = "tasks with the same text gain or lose alike, so each text counts as one cluster"
    return [f"{many} the same text as another task (such as {table.same_text[0]!r}); {words}"]


def _undecided_note(table: ScoreTable) -> list[str]:
    if not table.dropped:
        return []
    pairs = f"{table.dropped} (task, rollout) {'pair was' if table.dropped == 1 else 'pairs were'}"
    return [f"{pairs} left out of every arm because an arm has no score there; the bounds show the possible effect"]
