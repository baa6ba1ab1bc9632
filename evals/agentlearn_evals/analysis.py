"""From observations to a comparison, whoever made them. Pure."""

from collections.abc import Mapping, Sequence

from agentlearn_evals.breakdown import arm_line, flips, slices, task_lines
from agentlearn_evals.comparison import Comparison, Contrast, MethodLine, Reproducibility
from agentlearn_evals.contrasts import Rules
from agentlearn_evals.score_table import ScoreTable


def assemble(
    board: ScoreTable,
    contrasts: Sequence[Contrast],
    rules: Rules,
    *,
    title: str,
    k: int,
    told: Mapping[str, Mapping[str, object]],
    methods: Sequence[MethodLine] = (),
    notes: Sequence[str] = (),
    reproducibility: Reproducibility | None = None,
) -> Comparison:
    """The board and its judged contrasts as one value. told: by arm, what the board does not know of it."""
    return Comparison(
        title=title,
        level=rules.level,
        k=k,
        baseline=board.arms[0],
        arms=tuple(arm_line(board, arm, rules.level, told.get(arm, {})) for arm in board.arms),
        contrasts=tuple(contrasts),
        correction=rules.correction,
        methods=tuple(methods),
        slices=slices(board, rules.level),
        tasks=task_lines(board),
        flips=flips(board),
        missing=board.missing,
        notes=(*_denominators(board), *notes),
        reproducibility=reproducibility or Reproducibility(),
    )


def _denominators(board: ScoreTable) -> list[str]:
    """What was left out, in words."""
    if not board.dropped:
        return []
    pairs = f"{board.dropped} (task, rollout) {'pair' if board.dropped == 1 else 'pairs'}"
    return [f"{pairs} left every arm, because a verdict was undecided; the worst-case bounds say what they could hide"]
