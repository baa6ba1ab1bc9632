"""Which lessons are proposed for parking, from the contrasts of their removal. No I/O."""

from collections.abc import Sequence

from agentlearn.library.render import render
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.verdicts import decide
from agentlearn.types.experience import Experience, Library, estimated_tokens
from agentlearn.types.ids import ExperienceId
from agentlearn_evals.hybrid.hybrid_report import RemovalState
from agentlearn_evals.hybrid.hybrid_settings import ProposalEvidence

_ALPHA = 0.05


def removal_state(contrast: Contrast, evidence: ProposalEvidence) -> RemovalState:
    """What the contrast of an arm without lessons against the arm with them shows.

    Undecided rollouts are never taken as wrong or right: they withhold the proposal as they withhold a verdict.
    evidence: `margin` also accepts the margin test on fewer tasks than a verdict needs.
    """
    if contrast.verdict in {"no_worse", "better"}:
        return "proposed"
    if contrast.verdict == "worse":
        return "needed"
    return "proposed" if evidence == "margin" and _margin_holds(contrast) else "unclear"


def small_sample(contrast: Contrast) -> str:
    """Why a contrast that the margin test proposes has no verdict; empty when it has one."""
    return "" if contrast.verdict != "cannot_tell" else contrast.caution or contrast.withheld or contrast.left_open


def _margin_holds(contrast: Contrast) -> bool:
    """Whether the corrected margin test holds, and nothing but the number of tasks stands against a verdict."""
    if contrast.margin is None or not contrast.margin.holds:
        return False
    without_caution = decide(contrast.model_copy(update={"caution": ""}), _ALPHA)
    return without_caution["verdict"] == "no_worse" or without_caution["withheld_code"] == "unseen"


def lessons_to_measure(library: Library, most: int) -> tuple[Experience, ...]:
    """The lessons whose removal is measured, in the order of the library; those with the most tokens where there are
    more than `most`."""
    longest = sorted(library.experiences, key=lambda one: (-estimated_tokens(one.lesson), one.id))[:most]
    chosen = {one.id for one in longest}
    return tuple(one for one in library.experiences if one.id in chosen)


def tokens_without(library: Library, lessons: Sequence[ExperienceId]) -> int:
    """The estimated tokens that a prompt saves without these lessons, where all lessons of a library are shown."""
    whole = estimated_tokens(render(library).text)
    return whole - estimated_tokens(render(library, masked=tuple(lessons)).text)
