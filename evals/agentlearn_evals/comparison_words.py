"""The facts of a comparison in words, each worded once: for the terminal, `print`, a notebook and the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentlearn.measure.contrast import PAIRED, Contrast
from agentlearn.measure.contrasts import signed_difference
from agentlearn.pages.figure import TONES, decimal, interval
from agentlearn.pages.markup import clipped
from agentlearn.pages.table import Note, Paragraph, Statement
from agentlearn_evals.comparison import ArmLine, Comparison

_SENTENCE, _FLAGS = 500, 5
"""Largest number of characters of a sentence, and of flags, that are shown."""
_LOOKS = 3
"""Number of earlier looks of an arm that are named."""


def worst_first(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts with those first whose arm is worse, then those without a verdict for a reason."""
    return sorted(contrasts, key=lambda one: (one.verdict != "worse", not (one.withheld or one.unsafe)))


def verdict_name(contrast: Contrast) -> str:
    """Return the verdict: `better`, `worse`, `no worse` or `cannot tell`."""
    return contrast.verdict.replace("_", " ")


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

    def verdicts(self) -> Iterator[Note | Statement | Paragraph]:
        """Yield what to know before any verdict, then a sentence per contrast, or the score of the only arm."""
        found = self.found
        yield from (Note(kind="warning", text=text) for text in found.warnings)
        if self.model_caution:
            yield Paragraph(text=self.model_caution, quiet=True)
        if len(found.arms) == 1:
            arm = found.arms[0]
            limits = interval(arm.low, arm.high, digits=3)
            within = f" ({self.level} interval {limits})" if limits else ""
            yield Statement(text=f"score {decimal(arm.score, 3)}{within} on {arm.tasks:,} tasks")
        for one in worst_first(found.contrasts):
            said = "" if one.withheld in one.sentence else one.withheld
            words = f"{said} {one.sentence}".strip() or f"{one.arm} against {one.baseline}: {verdict_name(one)}."
            yield Statement(text=clipped(words, _SENTENCE), tone=TONES[one.verdict])
            if one.holds_if:
                yield Paragraph(text=one.holds_if)

    def controls(self) -> Iterator[tuple[str, str]]:
        """Yield what each control shows, as labels and texts: `control`, or `doubt` where it is not as expected."""
        yield from (("control" if one.holds else "doubt", one.words) for one in self.found.controls)

    def cautions(self) -> Iterator[tuple[str, str]]:
        """Yield what to see before trusting the verdicts, as labels and texts; each caution once, with its arms."""
        found = self.found
        yield from (("caution", f"{found.label(one)}: {one.unsafe}") for one in found.contrasts if one.unsafe)
        for caution in dict.fromkeys(one.caution for one in found.contrasts if one.caution):
            arms = ", ".join(found.label(one) for one in found.contrasts if one.caution == caution)
            yield "caution", f"{arms}: {caution}"
        yield from (("suspect", f"{one.arm}: {one.words}") for one in found.flags[:_FLAGS])
        if (more := len(found.flags) - _FLAGS) > 0:
            yield "suspect", f"{more:,} more; the page and --json list them"
        yield from (("look", line) for line in self.looks)

    @property
    def assumptions(self) -> list[str]:
        """What the tests assume, one line each."""
        if all(one.p is None for one in self.found.contrasts):
            return []
        return [*dict.fromkeys(filter(None, (one.assumes for one in self.found.contrasts))), PAIRED]

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
