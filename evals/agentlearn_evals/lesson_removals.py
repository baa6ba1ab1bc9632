"""Which lessons a trained model no longer needs: what is measured of each removal, and what is said of it."""

from collections.abc import Iterator, Sequence
from typing import Literal

from agentlearn.config.command_words import command_words
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import decide
from agentlearn.types.experience import Experience, Library, estimated_tokens
from agentlearn.types.ids import ExperienceId, RunId
from agentlearn.types.value import Value
from agentlearn.views.figure import change_words, count_words
from agentlearn_evals.hybrid_settings import HybridSettings, ProposalEvidence

RemovalState = Literal["proposed", "needed", "unclear"]
"""What is known of a lesson's removal. proposed: it is shown to be not worse than the margin. needed: it is shown to
be worse. unclear: neither."""
_ALPHA = 0.05
SHORT = 12
"""Characters of versions and lesson ids in the names of libraries and arms, in tables and commands."""


class LessonRemoval(Value):
    """What the trained model loses without one lesson, while it reads the others."""

    lesson: ExperienceId
    text: str
    tokens: int
    """Estimated tokens that the lesson takes in every call."""
    state: RemovalState
    contrast: Contrast
    caution: str = ""
    """Why the margin test that proposes the lesson is not a verdict; empty when it is one."""


class PruningStage(Value):
    """Which lessons the trained model no longer needs."""

    runs: tuple[RunId, ...] = ()
    removals: tuple[LessonRemoval, ...] = ()
    not_measured: int
    """Lessons whose removal was not measured."""
    tokens_saved: int = 0
    """Estimated tokens that every call saves when all proposed lessons are parked."""
    together: Contrast | None = None
    """All proposed lessons removed at once, against none of them removed. None without a proposal."""
    together_shown: bool = False
    """Whether removing all of them at once is shown to be not worse, by the same rule as for a single lesson."""
    parked: bool = False
    """Whether the next round starts without them."""

    @property
    def proposed(self) -> tuple[LessonRemoval, ...]:
        """The lessons that are proposed for parking."""
        return tuple(one for one in self.removals if one.state == "proposed")


def removal_state(contrast: Contrast, evidence: ProposalEvidence) -> RemovalState:
    """What the contrast of an arm without lessons against the arm with them shows.

    Undecided rollouts are never taken as wrong or right: they withhold the proposal as they withhold a verdict.
    evidence: `margin` also accepts the margin test on fewer tasks than a verdict needs.
    """
    if contrast.verdict in {"no_worse", "better"}:
        return "proposed"
    if contrast.verdict == "worse":
        return "needed"
    if evidence == "verdict" or contrast.margin is None or not contrast.margin.holds:
        return "unclear"
    # The corrected margin test holds; is the number of tasks all that stands against a verdict?
    without_caution = decide(contrast.model_copy(update={"caution": ""}), _ALPHA)
    only_few = without_caution["verdict"] == "no_worse" or without_caution["withheld_code"] == "unseen"
    return "proposed" if only_few else "unclear"


def small_sample(contrast: Contrast) -> str:
    """Why a contrast that the margin test proposes has no verdict; empty when it has one."""
    return "" if contrast.verdict != "cannot_tell" else contrast.caution or contrast.withheld or contrast.left_open


def lessons_to_measure(library: Library, most: int) -> tuple[Experience, ...]:
    """The lessons whose removal is measured, in the order of the library; those with the most tokens where there are
    more than `most`."""
    longest = sorted(library.experiences, key=lambda one: (-estimated_tokens(one.lesson), one.id))[:most]
    chosen = {one.id for one in longest}
    return tuple(one for one in library.experiences if one.id in chosen)


def tokens_without(library: Library, lessons: Sequence[ExperienceId]) -> int:
    """The estimated tokens that a prompt saves without these lessons, where all lessons of a library are shown."""
    whole = estimated_tokens(library.render().text)
    return whole - estimated_tokens(library.render(masked=tuple(lessons)).text)


def pruning_sentences(pruning: PruningStage, settings: HybridSettings) -> Iterator[str]:
    """What was found, and the command that parks lessons."""
    removals, proposed, together = pruning.removals, pruning.proposed, pruning.together
    if not removals:
        yield "no removal of a lesson was measured"
        return
    # The margin test needs a spread, so it says nothing about lessons whose removal changed no task.
    same = [one for one in removals if one.state == "unclear" and one.contrast.mean == 0 == one.contrast.low]
    if same:
        yield (
            f"the removal of {count_words(len(same), 'lesson')} changed the score of no task, so the spread is not"
            " known and the margin cannot be tested; a larger removal_rollouts would show more"
        )
    if not proposed or together is None:
        yield (
            f"no lesson is proposed for parking: of {len(removals)} measured, none is shown to be removable without a"
            f" loss above {settings.margin:g}"
        )
        return
    yield (
        f"{len(proposed)} of {count_words(len(removals), 'measured lesson')} proposed for parking: for the trained"
        f" model, the loss without each is shown to be below {settings.margin:g}; parking all of them saves about"
        f" {count_words(pruning.tokens_saved, 'token')} per call"
    )
    change = change_words(
        together.mean, None if together.low is None or together.high is None else (together.low, together.high)
    )
    if pruning.together_shown:
        yield f"removing all of them at once is shown to lose less than {settings.margin:g}: {change}"
    else:
        worse = "is shown to be worse"
        found = worse if together.verdict == "worse" else f"is not shown to lose less than {settings.margin:g}"
        yield f"removing all of them at once {found}: {change}; the lessons may back each other up"
    if cautions := [one.caution for one in proposed if one.caution]:
        yield f"these proposals rest on the margin test alone, because there is no verdict: {cautions[0]}"
    to_park = proposed if pruning.together_shown else (max(proposed, key=lambda one: one.tokens),)
    ids = (one.lesson[:SHORT] for one in to_park)
    command = command_words("library", "park", settings.result_name, *ids, store=settings.store)
    if pruning.parked:
        yield f"they are parked in {settings.result_name}, and the next round starts without them"
    elif pruning.together_shown:
        yield f"nothing was parked; park them with: {command}"
    else:
        yield f"nothing was parked; park one of them and run again with another --seed: {command}"
