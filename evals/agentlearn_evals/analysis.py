"""From observations to a comparison, whoever made them. Pure."""

from collections.abc import Mapping, Sequence

from agentlearn_evals.breakdown import arm_line, flips, slices, task_lines
from agentlearn_evals.comparison import Comparison, Contrast, MethodLine, Reproducibility
from agentlearn_evals.contrasts import Rules
from agentlearn_evals.score_table import ScoreTable


def assemble(
    table: ScoreTable,
    contrasts: Sequence[Contrast],
    rules: Rules,
    *,
    title: str,
    k: int,
    arm_facts: Mapping[str, Mapping[str, object]],
    methods: Sequence[MethodLine] = (),
    notes: Sequence[str] = (),
    reproducibility: Reproducibility | None = None,
) -> Comparison:
    """The board and its judged contrasts as one value. told: by arm, what the board does not know of it."""
    return Comparison(
        title=title,
        level=rules.level,
        k=k,
        baseline=table.arms[0],
        arms=tuple(arm_line(table, arm, rules.level, arm_facts.get(arm, {})) for arm in table.arms),
        contrasts=tuple(contrasts),
        correction=rules.correction,
        methods=tuple(methods),
        slices=slices(table, rules.level),
        tasks=task_lines(table),
        flips=flips(table),
        missing=table.missing,
        notes=(*_denominators(table), *notes),
        reproducibility=reproducibility or Reproducibility(),
    )


def _denominators(table: ScoreTable) -> list[str]:
    """What was left out, in words."""
    if not table.dropped:
        return []
    pairs = f"{table.dropped} (task, rollout) {'pair' if table.dropped == 1 else 'pairs'}"
    return [f"{pairs} left every arm, because a verdict was undecided; the worst-case bounds say what they could hide"]
