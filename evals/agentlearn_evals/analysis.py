"""Builds a comparison from observations, whatever program made them. No I/O."""

from collections.abc import Mapping, Sequence

from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules
from agentlearn.measure.score_table import ScoreTable
from agentlearn_evals.breakdown import Places, arm_line, flips, slices, task_lines
from agentlearn_evals.comparison import Comparison, MethodLine, Reproducibility
from agentlearn_evals.lost_rollouts import lost_rollouts


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
