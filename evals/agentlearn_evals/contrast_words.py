"""What the terminal and the page both say of a contrast: order, bounds, looks, and what the tests assume."""

from collections.abc import Sequence

from agentlearn.measure.contrast import Contrast
from agentlearn.measure.sentences import signed_difference
from agentlearn.views.figure import large as short_count
from agentlearn_evals.comparison import ArmLine, Comparison

_SEQUENTIAL = "p is valid at every look of the sequential comparison"
_LOOKS = 3
"""Number of earlier looks of an arm that are named."""


def worst_first(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts with those first whose arm is worse, then those without a verdict for a reason."""
    return sorted(contrasts, key=lambda one: (one.verdict != "worse", not (one.withheld or one.unsafe)))


def full_sentence(contrast: Contrast) -> str:
    """Return the contrast's sentence. The reason why a verdict is withheld comes first."""
    if contrast.withheld and contrast.withheld not in contrast.sentence:
        return f"{contrast.withheld} {contrast.sentence}".strip()
    return contrast.sentence


def cautions(found: Comparison) -> dict[str, str]:
    """Return each caution about an interval once, with the arms that it is about."""
    arms: dict[str, list[str]] = {}
    for one in found.contrasts:
        if one.caution:
            arms.setdefault(one.caution, []).append(found.label(one))
    return {caution: ", ".join(names) for caution, names in arms.items()}


def rollouts_words(arm: ArmLine) -> str:
    """Return the number of rollouts that the score rests on, and of how many when some are left out."""
    if arm.counted == arm.rollouts:
        return f"{arm.rollouts:,}"
    return f"{arm.counted:,} of {arm.rollouts:,}"


def assumptions(found: Comparison) -> list[str]:
    """Return what the tests assume, one line each."""
    if found.sequential:
        return [_SEQUENTIAL]
    if all(one.p is None for one in found.contrasts):
        return []
    return list(dict.fromkeys(filter(None, (one.assumes for one in found.contrasts))))


def bounds_words(found: Comparison, contrast: Contrast) -> str:
    """Return the bounds of the difference; empty when every rollout of both arms has a score."""
    if contrast.worst is not None:
        low, high = signed_difference(contrast.worst.low), signed_difference(contrast.worst.high)
        return f"{low} to {high}" if low != high or _has_gaps(found, contrast) else ""
    return "unknown" if _has_gaps(found, contrast) else ""


def _has_gaps(found: Comparison, contrast: Contrast) -> bool:
    sides = (contrast.arm, contrast.baseline)
    return any(one.undecided for one in found.arms if one.arm in sides) or any(
        one.arm in sides for one in found.missing
    )


def looks_words(found: Comparison) -> list[str]:
    """Return which look at the same arms this is, one line for each arm that was looked at before."""
    lines: list[str] = []
    for contrast in found.contrasts:
        earlier = [one for one in found.looks if one.arm == contrast.arm and one.baseline in {"", contrast.baseline}]
        if earlier:
            planned = f" of {found.planned_looks} planned" if found.planned_looks > 1 else ""
            named = ", ".join(f"{one.pairs:,} pairs (run {one.run})" for one in earlier[-_LOOKS:])
            lines.append(
                f"{found.label(contrast)}: look {contrast.look}{planned} at these arms; p is corrected for it;"
                f" earlier: {named}"
            )
    if found.looks_note:
        lines.append(found.looks_note)
    return lines


def estimated_tokens(arm: ArmLine) -> str:
    """Return the estimated tokens of lessons, marked as an estimate; `-` when unknown."""
    if arm.tokens_library is None:
        return "-"
    return f"~{short_count(arm.tokens_library)}" if arm.tokens_library else "0"
