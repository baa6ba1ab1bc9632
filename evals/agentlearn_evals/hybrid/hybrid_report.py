"""The result of `hybrid`: the JSON of `hybrid --json`, which the printed lines are made from."""

from collections.abc import Iterator, Sequence
from typing import Literal, Self

from rich.console import Console

from agentlearn.config.command_words import command_words
from agentlearn.measure.contrast import Contrast, ContrastVerdict
from agentlearn.text import visible
from agentlearn.types.ids import ExperienceId, LibraryVersion, RunId
from agentlearn.types.value import Value
from agentlearn.views.figure import change_words, clock_time, count_words, score_words
from agentlearn.views.terminal import print_table
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings

RemovalState = Literal["proposed", "needed", "unclear"]
"""What is known of a lesson's removal. proposed: it is shown to be not worse than the margin. needed: it is shown to
be worse. unclear: neither."""
HybridEnd = Literal["", "done", "nothing_learned", "not_published"]
"""How a run ended: after all rounds, without new lessons, or without weights. Empty: not yet."""


class StageContrast(Value):
    """One arm compared with another: what the comparison of a stage found."""

    arm: str
    baseline: str
    run: RunId
    """The comparison."""
    mean: float | None
    """Arm minus baseline."""
    low: float | None
    """Lower end of the 95 % interval."""
    high: float | None
    """Upper end of the 95 % interval."""
    verdict: ContrastVerdict
    sentence: str
    """The verdict with its numbers and cautions, in words."""

    @classmethod
    def of(cls, contrast: Contrast, run: str) -> Self:
        """Return what the comparison `run` found."""
        given = {name: getattr(contrast, name) for name in cls.model_fields if name != "run"}
        return cls.model_validate({**given, "run": run})


class LearnedStage(Value):
    """What the stage learn made."""

    run: RunId
    reference: str
    """The library, as NAME@VERSION."""
    version: LibraryVersion
    lessons: int
    tokens: int
    """Estimated tokens of all lessons."""
    simulated: bool
    """Whether a simulated model wrote the lessons, or solved the tasks."""
    published: bool
    """Whether there are lessons to distil that the round did not start with."""
    reason: str
    """Why they were selected, or why not, in words."""


class TrainedStage(Value):
    """What the stage train made."""

    run: RunId
    weights: str
    """Folder of the weights; those of a checkpoint when they were not published."""
    sha256: str
    published: bool
    withheld: str = ""
    """Why they were not published, in words."""
    before: float | None
    """Mean score on held-out tasks before training, without lessons."""
    after: float | None
    """Mean score on held-out tasks after training, without lessons."""


class HybridArm(Value):
    """The results of one arm of a round."""

    arm: str
    score: float | None
    low: float | None
    """Lower end of the 95 % interval."""
    high: float | None
    """Upper end of the 95 % interval."""
    rollouts: int
    failed: int
    """Rollouts without a usable answer; they count as 0."""
    undecided: int
    """Rollouts of which nothing is known; they are left out."""
    calls: int
    """Model calls of all rollouts."""
    tokens_in_per_call: float | None
    tokens_out_per_call: float | None


class ComparedStage(Value):
    """What the stage compare found."""

    runs: tuple[RunId, ...]
    arms: tuple[HybridArm, ...]
    contrasts: tuple[StageContrast, ...]
    """Every arm against `none`, and `distilled` against `lessons`."""
    kept: float | None
    """Share of the lessons' gain that the weights keep without lessons: the gain of `distilled` over `none` divided by
    the gain of `lessons` over `none`. None when no gain of the lessons is shown. It has no interval of its own."""


class LessonRemoval(Value):
    """What the trained model loses without one lesson, while it reads the others."""

    lesson: ExperienceId
    text: str
    tokens: int
    """Estimated tokens that the lesson takes in every call."""
    state: RemovalState
    contrast: StageContrast
    caution: str = ""
    """Why the margin test that proposes the lesson is not a verdict; empty when it is one."""


class PruningStage(Value):
    """Which lessons the trained model no longer needs."""

    runs: tuple[RunId, ...]
    removals: tuple[LessonRemoval, ...]
    not_measured: int
    """Lessons whose removal was not measured."""
    tokens_saved: int
    """Estimated tokens that every call saves when all proposed lessons are parked."""
    together: StageContrast | None
    """All proposed lessons removed at once, against none of them removed. None without a proposal."""
    together_shown: bool
    """Whether removing all of them at once is shown to be not worse, by the same rule as for a single lesson."""
    together_caution: str = ""
    parked: bool = False
    """Whether the next round starts without them."""

    @property
    def proposed(self) -> tuple[LessonRemoval, ...]:
        """The lessons that are proposed for parking."""
        return tuple(one for one in self.removals if one.state == "proposed")


class HybridRound(Value):
    """One round. A stage that was not reached is None."""

    number: int
    model: str
    """The model at the start of the round: a folder, a fetched model or lab:NAME."""
    start: str | None
    """The library at the start of the round, as NAME@VERSION; None: the one that the recipe names, or none."""
    learned: LearnedStage | None = None
    trained: TrainedStage | None = None
    compared: ComparedStage | None = None
    pruning: PruningStage | None = None


class HybridReport(Value):
    """The result of a run, or of the stages that are done so far."""

    run: RunId
    domain: str
    model: str
    margin: float
    seed: int
    rounds: tuple[HybridRound, ...] = ()
    ended: HybridEnd = ""
    sentences: tuple[str, ...] = ()
    """What was found, and what to do next, in sentences."""
    wall_s: float = 0.0
    """Seconds that the stages took in the latest start of the run."""


_ID = 12


def sentences(report: HybridReport, settings: HybridSettings) -> tuple[str, ...]:
    """What the stages that are done found, and what to do next."""
    found: list[str] = []
    for one in report.rounds:
        start = f"round {one.number}: " if settings.rounds > 1 else ""
        found += [f"{start}{words}" for words in _round(one, settings)]
    return tuple(found)


def _round(one: HybridRound, settings: HybridSettings) -> Iterator[str]:
    if (learned := one.learned) is not None:
        by = " (written by a simulated model)" if learned.simulated else ""
        why = f": {learned.reason}" if learned.reason else ""
        if learned.published:
            size = f"{count_words(learned.lessons, 'lesson')} with {count_words(learned.tokens, 'token')}"
            yield f"learned {learned.reference}: {size}{by}"
        else:
            yield f"nothing to distil, so the run ends here: no new version of the library was published{why}"
    if (trained := one.trained) is not None:
        scores = f"held out, without lessons: {score_words(trained.before)} → {score_words(trained.after)}"
        if trained.published:
            yield f"distilled into {trained.weights}; {scores}"
        else:
            yield (
                f"the weights were not published, so the run ends here, because {trained.withheld}; {scores};"
                f" the lessons are kept: {command_words('library', 'show', settings.result_name, store=settings.store)}"
            )
    if (compared := one.compared) is not None:
        if compared.kept is None:
            yield "no gain of the lessons is shown, so no share of it is given"
        else:
            yield (
                f"the weights keep {compared.kept:.0%} of the lessons' gain without reading them (gain of distilled"
                " over none, divided by gain of lessons over none)"
            )
        yield from (one.sentence for one in compared.contrasts if one.baseline == "lessons")
        tokens = {one.arm: _count(one.tokens_in_per_call) for one in compared.arms}
        if {"lessons", "distilled"} <= tokens.keys():
            yield f"input tokens per call: {tokens['lessons']} with the lessons, {tokens['distilled']} without"
    if one.pruning is not None:
        yield from _pruning(one.pruning, settings)


def _pruning(pruning: PruningStage, settings: HybridSettings) -> Iterator[str]:
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
    ids = (one.lesson[:_ID] for one in to_park)
    command = command_words("library", "park", settings.result_name, *ids, store=settings.store)
    if pruning.parked:
        yield f"they are parked in {settings.result_name}, and the next round starts without them"
    elif pruning.together_shown:
        yield f"nothing was parked; park them with: {command}"
    else:
        yield f"nothing was parked; park one of them and run again, such as: {command}"


def print_hybrid(report: HybridReport, settings: HybridSettings, out: Console) -> None:
    """Print what was found."""
    if settings.of_lab or any(one.learned is not None and one.learned.simulated for one in report.rounds):
        out.print(
            "simulated or lab models took part: these numbers show how the stages work; they are no result about a real"
            " model"
        )
    for one in report.rounds:
        if settings.rounds > 1:
            out.print(f"round {one.number}")
        if one.compared is not None:
            _print(out, _arms(one.compared))
        if one.pruning is not None and one.pruning.removals:
            removals = one.pruning.removals
            rows = [(one.lesson[:_ID], f"{one.tokens:,}", *_change(one.contrast), one.state) for one in removals]
            _print(out, [("without", "tokens", "change", "95 % interval", "state"), *rows])
            for removal in removals:
                out.print(f"  {removal.lesson[:_ID]}  {visible(removal.text)}")
            out.print()
    for sentence in report.sentences:
        out.print(sentence)
    shown = command_words("runs", "show", report.run, "--short", store=settings.store)
    out.print(f"  {'spent'.ljust(10)}{clock_time(report.wall_s)}      {shown}")


def _print(out: Console, rows: Sequence[Sequence[str]]) -> None:
    print_table(out, rows, label=_ID, indent=2)
    out.print()


def _arms(compared: ComparedStage) -> list[tuple[str, ...]]:
    gains = {one.arm: one for one in compared.contrasts if one.baseline == "none"}
    rows: list[tuple[str, ...]] = [
        ("arm", "score", "95 % interval", "gain", "95 % interval", "in/call", "out/call", "rollouts", "undecided")
    ]
    for arm in compared.arms:
        gain = _change(gains[arm.arm]) if arm.arm in gains else ("", "")
        tokens = _count(arm.tokens_in_per_call), _count(arm.tokens_out_per_call)
        counts = f"{arm.rollouts:,}", f"{arm.undecided:,}"
        rows.append((arm.arm, score_words(arm.score), _interval(arm.low, arm.high), *gain, *tokens, *counts))
    return rows


def _change(one: StageContrast) -> tuple[str, str]:
    """A difference and its interval."""
    return "-" if one.mean is None else f"{one.mean:+.2f}", _interval(one.low, one.high, "+")


def _interval(low: float | None, high: float | None, sign: str = "") -> str:
    return "-" if low is None or high is None else f"{low:{sign}.2f} to {high:{sign}.2f}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
