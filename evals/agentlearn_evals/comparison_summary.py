"""What a notebook shows of a comparison."""

from typing import TYPE_CHECKING

from agentlearn.html.summary import NotebookSummary, summary_html
from agentlearn.text import number_text
from agentlearn_evals.contrast_words import full_sentence, worst_first

if TYPE_CHECKING:
    from agentlearn_evals.comparison import ArmLine, Comparison


def comparison_html(found: "Comparison") -> str:
    """Return the comparison as HTML: the verdicts, cautions, and a row for each arm."""
    from agentlearn_evals.page.findings import SIMULATED, TONES

    contrasts = worst_first(found.contrasts)
    cautions = [
        *found.warnings,
        *(f"{one.arm}: {words}" for one in contrasts for words in (one.unsafe, one.caution) if words),
        *(f"{one.arm}: {one.words}" for one in found.flags),
        *([SIMULATED] if found.simulated else []),
        *found.notes,
    ]
    return summary_html(
        NotebookSummary(
            sentences=tuple(map(full_sentence, contrasts)) or ("There is nothing to compare.",),
            tone=TONES[contrasts[0].verdict] if contrasts else "plain",
            cautions=tuple(dict.fromkeys(cautions)),
            header=("arm", "score", "95 % interval", "rollouts", "failed", "undecided"),
            rows=tuple(map(_row, found.arms)),
            footer=f"{found.title} · {found.k} rollouts per task and arm" + (f" · run {found.run}" * bool(found.run)),
        )
    )


def _row(arm: "ArmLine") -> tuple[str, ...]:
    score = "-" if arm.score is None else number_text(arm.score, 3)
    interval = (
        "-" if arm.low is None or arm.high is None else f"{number_text(arm.low, 3)} to {number_text(arm.high, 3)}"
    )
    return arm.arm, score, interval, f"{arm.rollouts:,}", f"{arm.failed:,}", f"{arm.undecided:,}"
