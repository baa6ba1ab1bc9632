"""Decides the verdict of a contrast, and why one is withheld.

`better` and `worse` need four things: the test by signs, the interval, the test of the mean, and that undecided
rollouts could not change the result. `no_worse` needs the interval and the test of the mean against the margin, and
the same about undecided rollouts.
`python -m scripts.bench false_verdicts` measures how often verdicts are wrong.
"""

from typing import Literal

from agentlearn.measure.contrast import Contrast, ContrastVerdict, WithheldCode
from agentlearn.text import number_text

_LIKELY_MISSED = 0.05
"""Probability from which a sample is said to miss hidden tasks easily."""

_WORST_CASE = 0.8
"""Share of alpha for the worst case of `better` and `worse`. Its test is one-sided, and the decided rollouts can also
be wrong in the other direction; together they stay near alpha."""

Decision = dict[str, ContrastVerdict | WithheldCode | str]


def decide(contrast: Contrast, alpha: float, hint: str = "") -> Decision:
    """Return the verdict, and the reason when it is withheld, as fields of the contrast.

    alpha: accepted chance of a false verdict. hint: what to do about undecided rollouts, to complete a sentence.
    """
    if contrast.unsafe or contrast.mean is None:
        return _nothing()
    shown = shown_without_gaps(contrast, alpha)
    if shown == "cannot_tell":
        return _nothing() | {"left_open": _left_open(contrast)}
    if contrast.undecided.total and not _certain(contrast, shown, alpha):
        return _withheld("bounds", f"No verdict: {_open_bounds(contrast)}; {_next_step(contrast, hint)}.")
    p_mean = contrast.p_mean_adjusted
    if shown == "no_worse":
        p_mean = contrast.margin and contrast.margin.p_mean
    if p_mean is not None and p_mean > alpha:
        return _withheld("unseen", f"No verdict: {_unseen(contrast, shown, p_mean)}.")
    return _nothing() | {"verdict": shown}


def _nothing() -> Decision:
    return {"verdict": "cannot_tell", "withheld": "", "withheld_code": "", "left_open": ""}


def _withheld(code: WithheldCode, why: str) -> Decision:
    return _nothing() | {"withheld": why, "withheld_code": code}


def _left_open(contrast: Contrast) -> str:
    """Return what rollouts without a score leave open; empty when the interval includes all of it."""
    lost, worst = contrast.undecided, contrast.worst
    if not lost.total:
        return ""
    many = f"{lost.total:,} of {lost.rollouts:,} rollouts have no score"
    if worst is None:
        return f"{many}, and the range of the scores is not known, so the difference could be anything"
    shown = None if contrast.low is None or contrast.high is None else (contrast.low, contrast.high)
    if shown is not None and shown[0] <= worst.low and worst.high <= shown[1]:
        return ""
    low, high = number_text(worst.low, 3, sign=True), number_text(worst.high, 3, sign=True)
    return f"{many}, so the difference could be between {low} and {high}"


def shown_without_gaps(contrast: Contrast, alpha: float) -> ContrastVerdict:
    """Return what the decided rollouts show by p and the interval together, or by the margin test."""
    significant = contrast.p_adjusted is not None and contrast.p_adjusted <= alpha
    if significant and contrast.high is not None and contrast.high < 0:
        return "worse"
    if significant and contrast.low is not None and contrast.low > 0:
        return "better"
    holds = contrast.margin is not None and contrast.margin.holds and not contrast.caution
    return "no_worse" if holds else "cannot_tell"


def _certain(contrast: Contrast, shown: Literal["better", "worse", "no_worse"], alpha: float) -> bool:
    """Return whether the verdict holds whatever the scores of the undecided rollouts are, beyond chance."""
    if contrast.worst is None:
        return False
    if shown == "no_worse":
        p = contrast.worst.p_margin_adjusted
        return p is not None and p <= alpha
    return contrast.worst.p_adjusted is not None and contrast.worst.p_adjusted <= _WORST_CASE * alpha


def _open_bounds(contrast: Contrast) -> str:
    found = contrast.undecided
    sides = ((found.arm, contrast.arm, found.arm_codes), (found.baseline, contrast.baseline, found.baseline_codes))
    said = " and ".join(f"{count:,} rollouts of {name} ({_named(codes)})" for count, name, codes in sides if count)
    if contrast.worst is None:
        return f"{said} have no score, and the range of the scores is not known, so they could change the result"
    return f"{said} have no score, and their true scores could change the result"


def _named(codes: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{code} {count:,}" for code, count in codes)


def _next_step(contrast: Contrast, hint: str) -> str:
    repeat = hint or "find the cause and repeat these rollouts"
    return repeat if contrast.worst is not None else f"state the range of the scores, or {repeat}"


def _unseen(contrast: Contrast, shown: ContrastVerdict, p_mean: float) -> str:
    units = "clusters" if contrast.clusters < contrast.tasks else "tasks"
    does = "gained all that they lack" if shown == "worse" else "lost all that they have"
    hidden, then = contrast.hidden or 0.0, "the arms would be equal"
    if shown == "no_worse" and contrast.margin is not None:
        hidden = contrast.margin.hidden or 0.0
        then = f"{contrast.arm} would be worse by {contrast.margin.margin:g}"
    if hidden and (1 - hidden) ** contrast.clusters > _LIKELY_MISSED:
        return (
            f"if {_share(hidden)} {units} {does}, {then}, and a sample of {contrast.clusters:,} {units} can easily miss"
            " those"
        )
    return (
        "the interval would allow one, but the test of the mean, which allows for a few large differences the other"
        f" way, does not (p = {p_mean:.3f})"
    )


def _share(share: float) -> str:
    """Return a share as a number out of 100, or as one of many."""
    return f"{round(100 * share)} of 100" if share >= 0.015 else f"1 of {round(1 / share):,}"
