"""What `print` and a notebook show of a comparison."""

from typing import TYPE_CHECKING

from agentlearn.text import number_text, wrapped
from agentlearn.views.notebook import SUMMARY_COLUMNS, NotebookSummary, summary_html
from agentlearn.views.terminal import parts_of_table
from agentlearn_evals.contrast_words import cautions as interval_cautions
from agentlearn_evals.contrast_words import full_sentence, rollouts_words, worst_first

if TYPE_CHECKING:
    from agentlearn_evals.comparison import ArmLine, Comparison


_HEADER = ("arm", "score", "95 % interval", "rollouts", "failed", "undecided")


def comparison_text(found: "Comparison") -> str:
    """Return the comparison as a few lines of at most 80 columns: the verdicts, a row for each arm, cautions."""
    rows = [
        line for part in parts_of_table([_HEADER, *map(_row, found.arms)], columns=SUMMARY_COLUMNS) for line in part
    ]
    lines = [*_sentences(found), *rows, *_cautions(found), _footer(found)]
    return "\n".join(wrapped(line, SUMMARY_COLUMNS) for line in lines)


def comparison_html(found: "Comparison") -> str:
    """Return the comparison as HTML: the verdicts, cautions, and a row for each arm."""
    from agentlearn_evals.page.findings import TONES

    contrasts = worst_first(found.contrasts)
    return summary_html(
        NotebookSummary(
            sentences=_sentences(found),
            tone=TONES[contrasts[0].verdict] if contrasts else "plain",
            cautions=_cautions(found),
            header=_HEADER,
            rows=tuple(map(_row, found.arms)),
            footer=_footer(found),
        )
    )


def _sentences(found: "Comparison") -> tuple[str, ...]:
    contrasts = worst_first(found.contrasts)
    said = [words for one in contrasts for words in (full_sentence(one), one.holds_if) if words]
    return tuple(said) or ("There is nothing to compare.",)


def _cautions(found: "Comparison") -> tuple[str, ...]:
    from agentlearn_evals.page.findings import SIMULATED

    cautions = [
        *found.warnings,
        *(f"{found.label(one)}: {one.unsafe}" for one in worst_first(found.contrasts) if one.unsafe),
        *(f"{arms}: {caution}" for caution, arms in interval_cautions(found).items()),
        *(f"{one.arm}: {one.words}" for one in found.flags),
        *([SIMULATED] if found.simulated else []),
        *found.notes,
    ]
    return tuple(dict.fromkeys(cautions))


def _footer(found: "Comparison") -> str:
    return f"{found.title} · {found.k} rollouts per task and arm" + (f" · run {found.run}" * bool(found.run))


def _row(arm: "ArmLine") -> tuple[str, ...]:
    score = "-" if arm.score is None else number_text(arm.score, 3)
    interval = (
        "-" if arm.low is None or arm.high is None else f"{number_text(arm.low, 3)} to {number_text(arm.high, 3)}"
    )
    return arm.arm, score, interval, rollouts_words(arm), f"{arm.failed:,}", f"{arm.undecided:,}"
