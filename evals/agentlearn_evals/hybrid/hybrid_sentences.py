"""What a hybrid run found, in sentences: for the terminal, the report and `runs show`."""

from collections.abc import Iterator, Sequence

from agentlearn.cli.words import change_words, count_words, score_words
from agentlearn.config.command_words import command_words
from agentlearn_evals.hybrid.hybrid_report import (
    ComparedStage,
    HybridArm,
    HybridReport,
    HybridRound,
    LearnedStage,
    LessonRemoval,
    PruningStage,
    TrainedStage,
)
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings

_ID = 12


def sentences(report: HybridReport, settings: HybridSettings) -> tuple[str, ...]:
    """What the stages that are done found, and what to do next."""
    found: list[str] = []
    for one in report.rounds:
        start = f"round {one.number}: " if settings.rounds > 1 else ""
        found += [f"{start}{words}" for words in _round(one, settings)]
    return tuple(found)


def _round(one: HybridRound, settings: HybridSettings) -> Iterator[str]:
    if one.learned is not None:
        yield _learned(one.learned)
    if one.trained is not None:
        yield _trained(one.trained, settings)
    if one.compared is not None:
        yield from _compared(one.compared)
    if one.pruning is not None:
        yield from _pruning(one.pruning, settings)


def _learned(learned: LearnedStage) -> str:
    by = " (written by a simulated model)" if learned.simulated else ""
    size = f"{count_words(learned.lessons, 'lesson')} with {count_words(learned.tokens, 'token')}{by}"
    if learned.published:
        return f"learned {learned.reference}: {size}"
    why = f": {learned.reason}" if learned.reason else ""
    return f"nothing to distil, so the run ends here: no new version of the library was published{why}"


def _trained(trained: TrainedStage, settings: HybridSettings) -> str:
    scores = f"held out, without lessons: {score_words(trained.before)} → {score_words(trained.after)}"
    if trained.published:
        return f"distilled into {trained.weights}; {scores}"
    return (
        f"the weights were not published, so the run ends here, because {trained.worse_on} got worse; {scores}; the"
        f" lessons are kept: {command_words('library', 'show', settings.result_name, store=settings.store)}"
    )


def _compared(compared: ComparedStage) -> Iterator[str]:
    lessons, distilled = compared.arm("lessons"), compared.arm("distilled")
    if compared.kept is None:
        yield "no gain of the lessons is shown, so no share of it is given"
    else:
        yield (
            f"the weights keep {compared.kept:.0%} of the lessons' gain without reading them (gain of distilled over"
            " none, divided by gain of lessons over none)"
        )
    yield from (one.sentence for one in compared.contrasts if one.baseline == "lessons")
    if lessons is not None and distilled is not None:
        yield f"input tokens per call: {_tokens(lessons)} with the lessons, {_tokens(distilled)} without"


def _tokens(arm: HybridArm) -> str:
    return "-" if arm.tokens_in_per_call is None else f"{arm.tokens_in_per_call:,.0f}"


def _pruning(pruning: PruningStage, settings: HybridSettings) -> Iterator[str]:
    proposed = pruning.proposed
    if not pruning.removals:
        yield "no removal of a lesson was measured"
        return
    yield from _unchanged(pruning)
    if not proposed:
        yield (
            f"no lesson is proposed for parking: of {len(pruning.removals)} measured, none is shown to be removable"
            f" without a loss above {settings.margin:g}"
        )
        return
    all_of = count_words(len(pruning.removals), "measured lesson")
    yield (
        f"{len(proposed)} of {all_of} proposed for parking: for the trained model, the loss without each is shown to be"
        f" below {settings.margin:g}; parking all of them saves about {count_words(pruning.tokens_saved, 'token')} per"
        " call"
    )
    yield _together(pruning, settings)
    if cautions := [one.caution for one in proposed if one.caution]:
        yield f"these proposals rest on the margin test alone, because there is no verdict: {cautions[0]}"
    yield _next_step(pruning, settings)


def _unchanged(pruning: PruningStage) -> Iterator[str]:
    """Lessons whose removal changed no task. The margin test needs a spread, so it says nothing about them."""
    same = [one for one in pruning.removals if one.state == "unclear" and one.contrast.mean == 0 == one.contrast.low]
    if same:
        named = count_words(len(same), "lesson")
        yield (
            f"the removal of {named} changed the score of no task, so the spread is not known and the margin cannot be"
            " tested; a larger removal_rollouts would show more"
        )


def _together(pruning: PruningStage, settings: HybridSettings) -> str:
    together = pruning.together
    assert together is not None
    interval = None if together.low is None or together.high is None else (together.low, together.high)
    change = change_words(together.mean, interval)
    if pruning.together_shown:
        return f"removing all of them at once is shown to lose less than {settings.margin:g}: {change}"
    found = (
        "is shown to be worse" if together.verdict == "worse" else f"is not shown to lose less than {settings.margin:g}"
    )
    return f"removing all of them at once {found}: {change}; the lessons may back each other up"


def _next_step(pruning: PruningStage, settings: HybridSettings) -> str:
    if pruning.parked:
        return f"they are parked in {settings.result_name}, and the next round starts without them"
    if pruning.together_shown:
        return f"nothing was parked; park them with: {_park_command(pruning.proposed, settings)}"
    longest = max(pruning.proposed, key=lambda one: one.tokens)
    return f"nothing was parked; park one of them and run again, such as: {_park_command((longest,), settings)}"


def _park_command(lessons: Sequence[LessonRemoval], settings: HybridSettings) -> str:
    words = ("library", "park", settings.result_name, *(one.lesson[:_ID] for one in lessons))
    return command_words(*words, store=settings.store)
