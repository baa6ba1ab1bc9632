"""The facts of a comparison in words, each worded once: for the terminal, `print`, a notebook and the page."""

from collections.abc import Sequence

from agentlearn.measure.contrast import Contrast, ContrastVerdict
from agentlearn.measure.sentences import signed_difference
from agentlearn.views.figure import Tone
from agentlearn_evals.comparison import ArmLine, Comparison

TONES: dict[ContrastVerdict, Tone] = {"better": "good", "worse": "bad", "no_worse": "held", "cannot_tell": "open"}
VERDICTS: dict[ContrastVerdict, str] = {
    "better": "better",
    "worse": "worse",
    "no_worse": "no worse",
    "cannot_tell": "cannot tell",
}
_LOOKS = 3
"""Number of earlier looks of an arm that are named."""


def model_caution(found: Comparison) -> str:
    """Return what to know of simulated or lab models; empty for others."""
    if found.simulated:
        return (
            "A simulated model answered: these numbers show how the comparison works. They are not a result about a"
            " real model."
        )
    if found.of_lab_models:
        return "Lab models are real but tiny transformers: these numbers show how the comparison works, not a result."
    return ""


def worst_first(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts with those first whose arm is worse, then those without a verdict for a reason."""
    return sorted(contrasts, key=lambda one: (one.verdict != "worse", not (one.withheld or one.unsafe)))


def full_sentence(contrast: Contrast) -> str:
    """Return the contrast's sentence. The reason why a verdict is withheld comes first."""
    if contrast.withheld and contrast.withheld not in contrast.sentence:
        return f"{contrast.withheld} {contrast.sentence}".strip()
    return contrast.sentence


def interval_cautions(found: Comparison) -> dict[str, str]:
    """Return each caution about an interval once, with the arms that it is about."""
    arms: dict[str, list[str]] = {}
    for one in found.contrasts:
        if one.caution:
            arms.setdefault(one.caution, []).append(found.label(one))
    return {caution: ", ".join(names) for caution, names in arms.items()}


def rollouts_words(arm: ArmLine) -> str:
    """Return the number of rollouts that the score rests on, and of how many when some are left out."""
    counted = "" if arm.counted == arm.rollouts else f"{arm.counted:,} of "
    return f"{counted}{arm.rollouts:,}"


def assumptions(found: Comparison) -> list[str]:
    """Return what the tests assume, one line each."""
    if found.sequential:
        return ["p is valid at every look of the sequential comparison"]
    if all(one.p is None for one in found.contrasts):
        return []
    return list(dict.fromkeys(filter(None, (one.assumes for one in found.contrasts))))


def bounds_words(found: Comparison, contrast: Contrast) -> str:
    """Return the bounds of the difference; empty when every rollout of both arms has a score."""
    lost = {one.arm for one in found.arms if one.undecided} | {one.arm for one in found.missing}
    gaps = bool(lost & {contrast.arm, contrast.baseline})
    if contrast.worst is None:
        return "unknown" if gaps else ""
    low, high = signed_difference(contrast.worst.low), signed_difference(contrast.worst.high)
    return f"{low} to {high}" if low != high or gaps else ""


def looks_words(found: Comparison) -> list[str]:
    """Return which look at the same arms this is, one line for each arm that was looked at before."""
    lines: list[str] = []
    planned = f" of {found.planned_looks} planned" if found.planned_looks > 1 else ""
    for contrast in found.contrasts:
        earlier = [one for one in found.looks if one.arm == contrast.arm and one.baseline in {"", contrast.baseline}]
        if earlier:
            named = ", ".join(f"{one.pairs:,} pairs (run {one.run})" for one in earlier[-_LOOKS:])
            lines.append(
                f"{found.label(contrast)}: look {contrast.look}{planned} at these arms; p is corrected for it;"
                f" earlier: {named}"
            )
    return [*lines, found.looks_note] if found.looks_note else lines
