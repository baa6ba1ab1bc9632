"""The facts of a comparison in words, each worded once: for the terminal, `print`, a notebook and the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.measure.contrast import Contrast, ContrastVerdict
from agentlearn.measure.contrasts import signed_difference
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


def worst_first(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts with those first whose arm is worse, then those without a verdict for a reason."""
    return sorted(contrasts, key=lambda one: (one.verdict != "worse", not (one.withheld or one.unsafe)))


def full_sentence(contrast: Contrast) -> str:
    """Return the contrast's sentence. The reason why a verdict is withheld comes first."""
    if contrast.withheld and contrast.withheld not in contrast.sentence:
        return f"{contrast.withheld} {contrast.sentence}".strip()
    return contrast.sentence


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

    @property
    def interval_cautions(self) -> dict[str, str]:
        """Each caution about an interval once, with the arms that it is about."""
        arms: dict[str, list[str]] = {}
        for one in self.found.contrasts:
            if one.caution:
                arms.setdefault(one.caution, []).append(self.found.label(one))
        return {caution: ", ".join(names) for caution, names in arms.items()}

    @property
    def assumptions(self) -> list[str]:
        """What the tests assume, one line each."""
        if all(one.p is None for one in self.found.contrasts):
            return []
        return list(dict.fromkeys(filter(None, (one.assumes for one in self.found.contrasts))))

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
