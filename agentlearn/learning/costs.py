"""What a run will do and roughly cost, before anything is opened or spent; and a pilot, which measures it.

The sizes of rollouts and of the calls of stages come from an earlier run of the same model (`measured_size`), from what
a domain says about the models that ship, or from assumptions about models that nothing is known of (`_assumed_size`).

A pilot learns from a few tasks once. It does not measure on held-out tasks and does not publish a library.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentlearn.config import LearnSettings, RunSettings, is_lab
from agentlearn.domain.base import Domain, RolloutShape, is_domain, load_domain
from agentlearn.domain.custom.judge import JUDGE
from agentlearn.errors import ConfigError, StoreError
from agentlearn.learning.batch import VALIDATION_ROUND, Allocation
from agentlearn.learning.open_run import USUAL_TASKS, TaskCounts, TaskSets
from agentlearn.learning.wall_time import (
    ASSUMED_TOKENS_PER_S,
    ASSUMED_WAIT_S,
    Phase,
    Wave,
    call_seconds,
    wall_seconds,
)
from agentlearn.library import NO_LIBRARY, LibraryStore
from agentlearn.models.endpoint import is_paid, is_simulated
from agentlearn.models.outage import duration_words
from agentlearn.models.price import price_of
from agentlearn.models.services import address_of
from agentlearn.store import RunRow, StageTotals, StoreReader, read_store
from agentlearn.types.experience import ASKED_LESSON_WORDS
from agentlearn.types.run_event import RunKind
from agentlearn.types.task import Task
from agentlearn.types.value import Value

# arXiv:2510.08191 reports the total tokens of one run of training-free GRPO: 38M in and 6.6M out for 1,500 rollouts of
# learning, including all stages. It does not say how they are divided. The turns and lengths in `RolloutShape` and
# below are assumptions that add up to that total.
_LIBRARY, _SHIPPED_LIBRARY = 1_500, 400
"""Most tokens of lessons at the end of a run: assumed, and with the reflector that ships. The run's limit caps it."""
_MIXED = 0.5
"""Assumed share of groups whose rewards differ."""
_RIGHT = 0.25
"""Assumed share of groups that are all right: half of those whose rewards agree. Their tasks are skipped at times."""
_VALIDATED = 0.5
"""Assumed share of the largest number of rollouts on validation tasks that is made; versions behind drop out."""
_STAGE_PROMPT, _SUMMARY, _COMPARISON, _PROPOSAL = 450, 700, 700, 45
"""Assumed tokens of a stage's instructions, of a summary, of a comparison and of a proposal."""
_SHIPPED_SUMMARY, _SHIPPED_COMPARISON, _SHIPPED_CONSOLIDATION = 145, 50, 300
"""What the reflector that ships writes per call, in tokens."""
_SHOWN_RESULT = 1_000
"""Largest number of tokens of a tool's result in a transcript to summarise; longer results are cut."""
_FILE_TASK, _TOOL_TURNS = RolloutShape(turns=1, prompt=350, tool_result=0), 3
"""A rollout on a task from a file, which is one call without tools; and its number of calls with the Python tool."""
_INSTRUCTIONS = 250
"""Tokens that a prompt has besides the problem, at least."""
_SHORT_ANSWER, _LONG_ANSWER = 20, 3_000
"""Tokens per answer at the two ends of the range that is given for a model that nothing is known of."""
_FEW_MIXED, _MANY_MIXED = 0.25, 0.75
"""Share of groups whose rewards differ, at the two ends of that range."""
FEWEST_ROLLOUTS = 10
"""An earlier run with fewer rollouts is too small to go by."""
_JUDGEMENT = 90
"""Assumed tokens of a judge's verdict."""
HELD_OUT = "held out"
"""Suffix of the names of stages that measure and do not learn."""
_VALIDATION = "validation"
"""The stage that compares versions of the library on validation tasks. Versions that are behind drop out of it."""
_PER_ROLLOUT = ("rollout", "judge", "user")
"""Stages with calls for every rollout; the others have calls only for mixed groups."""


class StageEstimate(Value):
    """Calls, tokens and cost of one stage."""

    stage: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    """None when the price is unknown."""

    @classmethod
    def priced(cls, model: str, stage: str, calls: float, tokens_in: float, tokens_out: float) -> "StageEstimate":
        """Return the stage with the cost of these tokens of a model."""
        price, whole = known_price(model), (round(calls), round(tokens_in), round(tokens_out))
        cost = None if price is None else (whole[1] * price[0] + whole[2] * price[1]) / 1e6
        return cls(stage=stage, calls=whole[0], tokens_in=whole[1], tokens_out=whole[2], cost_usd=cost)

    def words(self) -> str:
        """Return the estimate as text."""
        price = "an unknown price" if self.cost_usd is None else f"${self.cost_usd:.2f}"
        return f"{self.calls:,} calls, {_short(self.tokens_in)} tokens in, {_short(self.tokens_out)} out, {price}"


def _short(tokens: int) -> str:
    """Return a number of tokens in millions, or in thousands when it is small."""
    return f"{tokens / 1e6:.1f}M" if tokens >= 950_000 else f"{tokens / 1e3:.0f}k"


class CostEstimate(Value):
    """A rough estimate of the rollouts, calls, tokens and cost of a run."""

    rollouts: int
    stages: tuple[StageEstimate, ...]
    """`rollout`, `summarise`, `compare` and `consolidate` are learning, and so is `validation`, which chooses among
    versions; `held out` is measuring before and after.

    With the reward `judge` there are also `judge` and `judge held out`, with one question per rollout; where a model
    plays the users of tasks, `user` and `user held out`.
    """
    basis: str = "a rough estimate"
    """What the estimate rests on."""
    most: tuple[int, int] | None = None
    """Rollouts, and tokens in and out together, if no version drops out of the comparison on validation tasks.

    None where nothing is compared.
    """
    tokens_range: tuple[int, int] | None = None
    """Tokens in and out together, with short and with long answers; None when the sizes were measured."""

    @property
    def learning(self) -> tuple[StageEstimate, ...]:
        """The stages without measuring, as papers report costs."""
        return tuple(one for one in self.stages if not one.stage.endswith(HELD_OUT))

    @property
    def tokens_in(self) -> int:
        """Input tokens of all stages."""
        return sum(one.tokens_in for one in self.stages)

    @property
    def tokens_out(self) -> int:
        """Output tokens of all stages."""
        return sum(one.tokens_out for one in self.stages)

    @property
    def cost_usd(self) -> float | None:
        """Cost of all stages, without discounts for cached input; None when a price is unknown."""
        known = [one.cost_usd for one in self.stages if one.cost_usd is not None]
        return sum(known) if len(known) == len(self.stages) else None

    def short(self) -> str:
        """Return the estimate as a few words, without what it rests on."""
        price = "an unknown price" if self.cost_usd is None else f"about ${self.cost_usd:.2f}"
        tokens = f"{_short(self.tokens_in)} tokens in and {_short(self.tokens_out)} out"
        return f"about {self.rollouts:,} rollouts, {tokens}, {price}"

    def sentence(self) -> str:
        """Return the estimate as one sentence, with what it rests on."""
        most = basis = ""
        if self.most is not None:
            most = f", at most {self.most[0]:,} rollouts and {_short(self.most[1])} tokens"
        if self.tokens_range is not None:
            low, high = map(_short, self.tokens_range)
            ends = f"{_SHORT_ANSWER} to {_LONG_ANSWER:,} tokens make it {low} to {high} tokens"
            basis = f"; answers of {ends}, and --pilot 10 measures it"
        return f"{self.short()}{most} ({self.basis}{basis})"


class RolloutSize(Value):
    """Mean size of one rollout, or of one call of another stage."""

    calls: float = 1.0
    tokens_in: float
    """Input tokens of all its calls: of a rollout without lessons, of a stage with them."""
    tokens_out: float

    @classmethod
    def of(cls, shape: RolloutShape) -> "RolloutSize":
        """Return the size of a rollout of that shape. Each turn reads the prompt and all earlier turns."""
        turns = shape.turns
        earlier = (shape.turn_out + shape.tool_result) * turns * (turns - 1) // 2
        return cls(calls=turns, tokens_in=turns * shape.prompt + earlier, tokens_out=turns * shape.turn_out)

    def times(self, count: float, model: str, stage: str, *, library: float = 0.0) -> StageEstimate:
        """Return the estimate for that many rollouts or calls. library: tokens of lessons in each prompt."""
        tokens_in = self.tokens_in + self.calls * library
        return StageEstimate.priced(model, stage, count * self.calls, count * tokens_in, count * self.tokens_out)


class _Sizes(Value):
    """Mean sizes of a run's rollouts and of the calls of its stages."""

    rollout: RolloutSize
    summarise: RolloutSize
    compare: RolloutSize
    consolidate: RolloutSize
    mixed: float
    """Share of groups whose rewards differ."""
    right: float = _RIGHT
    """Share of groups that are all right."""
    wrong: float = 0.0
    """Share of groups that are all wrong and teach."""
    validated: float = _VALIDATED
    """Share of the largest number of rollouts on validation tasks that is made."""
    library: float
    """Tokens of lessons in a prompt at the end of the run."""
    judge: RolloutSize | None = None
    """One question to the model that judges; None: no model judges most answers."""
    user: RolloutSize | None = None
    """The calls that play the user of one rollout; None: no model plays one."""
    problem_tokens: int = 0
    """Mean length of a problem, if it is known."""
    basis: str
    """Where the sizes come from, as words in brackets."""
    measured: bool
    """Whether they were measured, with this model or with a model that ships. Else they are assumptions."""
    own_s: float = 0.0
    """Mean seconds of a rollout outside its calls, as measured."""
    call_s: Mapping[str, float] = {}
    """Mean seconds of one call by stage, as measured; without one that is missing it is assumed by its tokens."""


@dataclass(frozen=True, slots=True)
class _Course:
    """How long a run over a number of tasks is expected to be."""

    settings: LearnSettings
    tasks: int
    right: float = _RIGHT
    """Share of groups that are all right."""

    @property
    def epochs(self) -> list[float]:
        """Expected number of groups of each epoch."""
        shares = Allocation.of(self.settings).expected_visits(self.settings.epochs, self.right)
        return [self.tasks * share for share in shares]

    @property
    def visits(self) -> float:
        """Expected number of groups."""
        return sum(self.epochs)

    @property
    def batches(self) -> int:
        """Expected number of batches."""
        return sum(math.ceil(groups / self.settings.batch_size) for groups in self.epochs)

    @property
    def final_library(self) -> int:
        """Assumed tokens of lessons at the end: no more than the proposals can hold."""
        settings = self.settings
        most = _SHIPPED_LIBRARY if is_simulated(settings.reflector_name) else _LIBRARY
        mixed = round(self.visits * _MIXED) if settings.group_size > 1 else 0
        return min(most, settings.max_library_tokens, _proposal(settings) * mixed * settings.max_proposals)

    def average_library(self, final: float | None = None) -> int:
        """Return the mean tokens of lessons in a prompt of learning. The first batch has none.

        final: tokens at the end of the run; None: the assumed number.
        """
        return round((self.final_library if final is None else final) * (1 - 1 / max(1, self.batches)))

    def most_validation(self, batches: int | None = None) -> int:
        """Return the largest number of rollouts that compare versions at the end.

        The versions compared are the finalists, the start, and the empty library where the start has lessons. batches:
        how many the run had; None: the expected number. The tasks are the domain's own, or those learned from.
        """
        settings = self.settings
        if settings.select == "last" or settings.pilot is not None or not self.tasks:
            return 0
        history = LibraryStore(settings.store / "libraries").history(settings.library_name)
        has_lessons = settings.library != NO_LIBRARY if settings.library is not None else history.exists
        others = 2 if has_lessons else 1  # the start, and the empty library
        versions = min(settings.finalists, self.batches if batches is None else batches) + others
        own = settings.data is None and settings.reward is None and not settings.given and not settings.from_store
        count = 0
        if own and is_domain(settings.domain):
            count = _count_validation(load_domain(settings.domain).tasks, settings.seed)
        return versions * settings.validation_rollouts * (count or self.tasks)


@lru_cache(maxsize=8)
def _count_validation(tasks_of: Callable[..., Sequence[Task]], seed: int) -> int:
    """Count the validation tasks that a domain gives. Its method is the key: domains of one name can differ."""
    return len(tasks_of("validation", seed=seed))


def estimate(
    settings: LearnSettings,
    *,
    train: int | None = None,
    test: int | None = None,
    size: _Sizes | None = None,
    problem_tokens: int = 0,
) -> CostEstimate:
    """Return the estimate for a run.

    train, test: numbers of tasks; None: the settings' limit, else a usual number. size: what rollouts and stages take;
    None: as assumed for that model and problems of that mean length.
    """
    learned_from = train if train is not None else settings.limit or USUAL_TASKS
    held_out = 0 if not settings.evaluate else test if test is not None else USUAL_TASKS
    if settings.pilot is not None:
        settings, learned_from, held_out = settings.as_pilot(), min(settings.pilot, learned_from), 0
    size = size or _assumed_size(settings, tasks=learned_from, problem_tokens=problem_tokens)
    found = _of_size(settings, learned_from, held_out, size)
    usual = found.tokens_in + found.tokens_out
    whole = _of_size(settings, learned_from, held_out, size.model_copy(update={"validated": 1.0}))
    if whole.rollouts > found.rollouts:
        found = found.model_copy(update={"most": (whole.rollouts, whole.tokens_in + whole.tokens_out)})
    if size.measured:
        return found
    ends = list[int]()
    for answer in (_SHORT_ANSWER, _LONG_ANSWER):
        end = _assumed_size(settings, tasks=learned_from, problem_tokens=size.problem_tokens, answer=answer)
        cost = _of_size(settings, learned_from, held_out, end)
        ends.append(cost.tokens_in + cost.tokens_out)
    return found.model_copy(update={"tokens_range": (min(ends[0], usual), max(ends[1], usual))})


def _of_size(settings: LearnSettings, train: int, test: int, size: _Sizes) -> CostEstimate:
    allocation, course = Allocation.of(settings), _Course(settings, train, size.right)
    visits = train * settings.epochs if settings.from_store else course.visits
    learning = 0 if settings.from_store else round(visits * allocation.expected_size(1 - size.mixed - size.right))
    measuring = test * settings.eval_rollouts
    # Rewards of a group of one cannot differ.
    mixed = round(visits * size.mixed) if settings.group_size > 1 else 0
    wrong = round(visits * size.wrong) if settings.all_wrong == "teach" else 0
    lessons = _Course(settings, train).average_library(size.library)
    validating = round(course.most_validation() * size.validated)

    model, reflector = settings.model, settings.reflector_name
    stages = [
        size.rollout.times(learning, model, "rollout", library=lessons),
        size.summarise.times(mixed * allocation.first_wave + wrong * settings.group_size, reflector, "summarise"),
        size.compare.times(mixed + wrong, reflector, "compare"),
        size.consolidate.times(course.batches if mixed + wrong else 0, reflector, "consolidate"),
        *([size.rollout.times(validating, model, _VALIDATION, library=lessons)] if validating else []),
        # half of these rollouts are measured before there are lessons
        size.rollout.times(2 * measuring, model, HELD_OUT, library=size.library / 2),
    ]
    if (question := size.judge) is not None:
        stages.append(question.times(learning + validating, reflector, "judge"))
        stages.append(question.times(2 * measuring, reflector, f"judge {HELD_OUT}"))
    if size.user is not None:
        player = settings.user_model or reflector
        stages.append(size.user.times(learning + validating, player, "user"))
        stages.append(size.user.times(2 * measuring, player, f"user {HELD_OUT}"))
    return CostEstimate(rollouts=learning + validating + 2 * measuring, stages=tuple(stages), basis=size.basis)


def _wall_seconds(settings: LearnSettings, train: int, test: int, size: _Sizes) -> float | None:
    """Return how long a run takes; None for a model in this process of which no run is known."""
    if not size.call_s and is_simulated(settings.model):
        return None
    allocation, course = Allocation.of(settings), _Course(settings, train, size.right)
    calls = size.rollout.calls
    call_s = call_seconds(size.call_s, "rollout", size.rollout.tokens_out / calls)
    stage_s = {
        stage: call_seconds(size.call_s, stage, one.tokens_out)
        for stage, one in (("summarise", size.summarise), ("compare", size.compare), ("consolidate", size.consolidate))
    }
    teaching = size.mixed + (size.wrong if settings.all_wrong == "teach" else 0.0)
    further = allocation.expected_size(1 - size.mixed - size.right) - allocation.first_wave
    phases = list[Phase]()
    for groups in course.epochs:
        batches = max(1, math.ceil(groups / settings.batch_size))
        tasks = groups / batches
        teach = tasks * teaching if settings.group_size > 1 else 0.0
        waves = [
            Wave(tasks * allocation.first_wave, calls, call_s, size.own_s),
            Wave(tasks * further, calls, call_s, size.own_s),
            Wave(teach * allocation.first_wave, 1, stage_s["summarise"]),
            Wave(teach, 1, stage_s["compare"]),
        ]
        consolidated = [Wave(1, 1, stage_s["consolidate"])] if teach else []
        phases += [Phase(part, times=batches) for part in (waves, consolidated) if part]
    if validating := course.most_validation():
        versions = min(settings.finalists, course.batches) + 1
        rounds = math.ceil(validating / versions / VALIDATION_ROUND)
        phases.append(Phase([Wave(validating / rounds, calls, call_s, size.own_s)], times=rounds * size.validated))
    phases.append(Phase([Wave(2 * test * settings.eval_rollouts, calls, call_s, size.own_s)]))
    return wall_seconds(phases, concurrency=settings.concurrency, workers=settings.workers)


def refuse_unpriced(models: Sequence[str], max_cost_usd: float | None) -> None:
    """Raise ConfigError when there is a limit in dollars and the price of one of the models is unknown."""
    for model in dict.fromkeys(models) if max_cost_usd is not None else ():
        if known_price(model) is None:
            raise ConfigError(
                f"--max-cost-usd {max_cost_usd:g} cannot be kept: the price of {model!r} is not known;"
                " limit the run with --max-tokens or --max-minutes",
                code="unknown_price",
            )


def known_price(model: str) -> tuple[float, float] | None:
    """Return dollars per million input and output tokens; 0 for models on this machine, None when unknown."""
    provider, _, name = model.partition(":")
    if provider.casefold() in {"http", "https"}:
        base_url, _, name = model.partition("#")
        return price_of(name, None, base_url)
    if not is_paid(model):
        return 0.0, 0.0
    return price_of(name, provider.removeprefix("gateway/"), address_of(provider))


def assumed_rollouts(shape: RolloutShape, model: str, problem_tokens: int) -> tuple[RolloutSize, str]:
    """Return the size of a model's rollouts when nothing was measured, and what it rests on."""
    found, basis, _ = _assumed_shape(shape, model, problem_tokens)
    return RolloutSize.of(found), basis


def _assumed_shape(
    usual: RolloutShape, model: str, problem_tokens: int, answer: int | None = None
) -> tuple[RolloutShape, str, bool]:
    """Return the shape of a model's rollouts, what it rests on, and whether it was measured, as for models that ship.

    answer: tokens per call, instead of the usual number.
    """
    kind = "lab:" if is_lab(model) else "sim:" if is_simulated(model) else ""
    if (shipped := usual.shipped.get(kind)) is not None:
        return shipped, "a rough estimate, from runs with the models that ship", True
    short = _INSTRUCTIONS + problem_tokens
    given = {"prompt": max(usual.prompt, short), "turn_out": answer or usual.turn_out}
    if answer is not None and answer < usual.turn_out:
        given |= {"turns": math.ceil(usual.turns / 2), "prompt": min(usual.prompt, short)}
    shape = usual.model_copy(update=given)
    calls = "1 call" if shape.turns == 1 else f"{shape.turns} calls"
    basis = f"a rough estimate, which assumes {calls} per rollout and {shape.turn_out:,} tokens per answer"
    return shape, basis, False


def _proposal(settings: LearnSettings) -> int:
    """Assumed tokens of a proposal, by the length that the reflector is asked for."""
    return round(_PROPOSAL * settings.lesson_words / ASKED_LESSON_WORDS)


def _assumed_size(settings: LearnSettings, *, tasks: int, problem_tokens: int = 0, answer: int | None = None) -> _Sizes:
    """Return the sizes of a run on that many tasks when no earlier run is known.

    problem_tokens: mean length of a problem. answer: tokens per call, instead of the domain's usual number.
    """
    usual, course = usual_shape(settings), _Course(settings, tasks)
    shape, basis, shipped = _assumed_shape(usual, settings.model, problem_tokens, answer)
    terse = answer is not None and answer < usual.turn_out
    library = course.final_library // (4 if terse else 1)
    small = terse or is_simulated(settings.reflector_name)
    summary, comparison = (_SHIPPED_SUMMARY, _SHIPPED_COMPARISON) if small else (_SUMMARY, _COMPARISON)
    question = _STAGE_PROMPT + course.average_library(library)
    proposals = _proposal(settings) * round(course.visits * _MIXED) * settings.max_proposals // max(1, course.batches)
    transcript = shape.turns * (shape.turn_out + min(shape.tool_result, _SHOWN_RESULT))
    return _Sizes(
        rollout=RolloutSize.of(shape),
        summarise=RolloutSize(tokens_in=question + transcript, tokens_out=summary),
        compare=RolloutSize(tokens_in=question + settings.group_size * summary, tokens_out=comparison),
        consolidate=RolloutSize(
            tokens_in=question + proposals, tokens_out=min(proposals, _SHIPPED_CONSOLIDATION) if small else proposals
        ),
        mixed=_MIXED if answer is None else _FEW_MIXED if terse else _MANY_MIXED,
        wrong=1 - _MIXED - _RIGHT if answer is None else 0.0,
        library=library,
        judge=judged_size(usual),
        user=None if usual.user is None else RolloutSize.of(usual.user),
        problem_tokens=problem_tokens,
        basis=basis,
        measured=shipped,
    )


def judged_size(shape: RolloutShape) -> RolloutSize | None:
    """Return the size of the question to a judge about one rollout; None where no model judges most answers."""
    return RolloutSize(tokens_in=shape.question_to_judge, tokens_out=_JUDGEMENT) if shape.judged else None


def usual_shape(settings: RunSettings) -> RolloutShape:
    """Return turns and lengths of rollouts: those of the installed domain, else those of tasks from a file."""
    if is_domain(settings.domain) and settings.reward != JUDGE.name:
        return load_domain(settings.domain).rollout_shape(settings.data)
    return file_task_shape(settings.tools).model_copy(update={"judged": settings.reward == JUDGE.name})


def file_task_shape(tools: str) -> RolloutShape:
    """Return the assumed shape of a rollout on a task from a file: one call, or several with the Python tool."""
    return _FILE_TASK if tools == "none" else _FILE_TASK.model_copy(update={"turns": _TOOL_TURNS, "tool_result": 400})


def measured_size(settings: LearnSettings, *, tasks: int) -> _Sizes | None:
    """Return the sizes of the latest finished run on the same source with the same models; None when there is none.

    Do not call it while this process has the store open.
    """
    alike = {name: getattr(settings, name) for name in ("reflector", "data", "reward", "tools")}
    try:
        with read_store(settings.store) as reader:
            found = latest_run(reader, "learn", settings.domain, settings.model, **alike, from_store=False)
            return None if found is None else _size_of(reader, *found, settings, tasks)
    except StoreError:
        return None


def _size_of(reader: StoreReader, row: RunRow, size: RolloutSize, settings: LearnSettings, tasks: int) -> _Sizes:
    """Return the sizes that an earlier run had, for a run with these settings on that many tasks."""
    totals = {one.stage: one for one in reader.stage_totals(row.run) if one.calls}
    rollouts = reader.trajectories(row.run)
    groups = {
        (one.phase, one.batch, one.task)
        for one in rollouts
        if one.outcome != "failed" and one.phase.startswith("epoch")
    }
    calling_s = totals["rollout"].seconds if "rollout" in totals else 0.0
    report: dict[str, Any] = json.loads(row.report or "{}")
    kinds: dict[str, int] = report.get("groups") or {}
    taught: dict[str, int] = report.get("taught") or {}
    visited, wrong = sum(kinds.values()), taught.get("all_wrong", 0) + taught.get("single", 0)
    course, lessons = _Course(settings, tasks), report.get("library", {}).get("tokens")
    library = course.final_library
    if isinstance(lessons, int) and groups:
        library = max(lessons, min(library, lessons * max(1.0, course.visits / len(groups))))
    made = (report.get("selection") or {}).get("rollouts")
    then = _Course(LearnSettings.model_validate_json(row.settings), report.get("tasks", {}).get("train", 0))
    most = then.most_validation(len({(phase, batch) for phase, batch, _ in groups}))
    stages = {
        name: RolloutSize(tokens_in=one.tokens_in / one.calls, tokens_out=one.tokens_out / one.calls)
        for name in ("summarise", "compare", "consolidate")
        if (one := totals.get(name)) is not None
    }
    answers = f"{size.calls:.1f} calls and {size.tokens_out:,.0f} tokens of answers per rollout"
    return _assumed_size(settings, tasks=tasks).model_copy(
        update={
            **stages,
            "rollout": size,
            "mixed": kinds.get("mixed", 0) / visited if visited else _MIXED,
            "wrong": wrong / visited if visited else 0.0,
            "right": kinds.get("all_right", 0) / visited if visited else _RIGHT,
            "validated": min(1.0, made / most) if made and most else 1.0,
            "library": library,
            "own_s": max(0.0, sum(one.seconds for one in rollouts) - calling_s) / len(rollouts),
            "call_s": reader.call_seconds(row.run, then.settings.concurrency),
            "measured": True,
            "basis": f"as run {row.run[:8]} had: {answers}",
        }
    )


def latest_run(
    reader: StoreReader, kind: RunKind, domain: str, model: str, **settings: object
) -> tuple[RunRow, RolloutSize] | None:
    """Return the latest finished run of that kind and model with these settings, and the mean size of its rollouts.

    Those of its first batch show the prompts before lessons were added. None when there is no run that is large enough
    to go by.
    """
    for row in reader.runs():
        if (row.kind, row.state, row.domain, row.model) != (kind, "done", domain, model):
            continue
        given: dict[str, Any] = json.loads(row.settings)
        if any(given.get(name) != value for name, value in settings.items()):
            continue
        rollouts = [one for one in reader.trajectories(row.run) if one.outcome != "failed"]
        calls = next((one.calls for one in reader.stage_totals(row.run) if one.stage == "rollout"), 0)
        if len(rollouts) < FEWEST_ROLLOUTS or not calls:
            continue
        first = [one for one in rollouts if (one.phase, one.batch) == (rollouts[0].phase, rollouts[0].batch)]
        return row, RolloutSize(
            calls=calls / len(rollouts),
            tokens_in=sum(one.tokens_in for one in first) / len(first),
            tokens_out=sum(one.tokens_out for one in rollouts) / len(rollouts),
        )
    return None


class RunPlan(Value):
    """What a run will do, for `--dry-run`. It is made without opening an endpoint, a store or the network."""

    domain: str
    model: str
    reflector: str
    data: str
    """Source of the tasks to learn from."""
    test_data: tuple[str, ...]
    train: int
    test: int
    counted: bool
    """Whether the tasks were read and counted. Otherwise the sizes are published or usual ones."""
    epochs: int
    group_size: int
    first_wave: int
    """Rollouts after which a group stops when their rewards agree; `group_size`: never."""
    batches: int
    """Most batches of the run."""
    eval_rollouts: int
    saved: str = ""
    """What the estimate assumes of groups that stop early and of tasks that are skipped; empty without such."""
    estimate: CostEstimate
    wall_s: float | None = None
    """How long the run takes, in seconds; None for a model in this process of which no run is known."""
    wall_basis: str = ""

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the plan as pairs of label and text."""
        by = "" if self.reflector == self.model else f", reflector {self.reflector}"
        tests = f", held out from {' and '.join(self.test_data)}" if self.test_data else ""
        tasks = TaskCounts(train=self.train, test=self.test, counted=self.counted)
        least = "" if self.first_wave == self.group_size else f"{self.first_wave} to "
        most = "up to " if "skipped" in self.saved else ""
        learning = self.estimate.learning
        tokens_in, tokens_out = sum(one.tokens_in for one in learning), sum(one.tokens_out for one in learning)
        rounds = f"{least}{self.group_size} rollouts each, {self.epochs} epochs, {most}{self.batches} batches"
        return (
            ("model", f"{self.model}{by}"),
            ("data", f"{self.data}{tests}"),
            ("tasks", tasks.words(self.eval_rollouts)),
            ("rounds", rounds),
            *((("saved", self.saved),) if self.saved else ()),
            *((one.stage, one.words()) for one in self.estimate.stages),
            ("learning", f"{_short(tokens_in)} tokens in and {_short(tokens_out)} out, without measuring"),
            ("total", self.estimate.sentence()),
            *(() if self.wall_s is None else (("time", f"about {duration_words(self.wall_s)} ({self.wall_basis})"),)),
        )


def plan(settings: LearnSettings, domain: Domain) -> RunPlan:
    """Return what a run with these settings will do. Local tasks are read; online tasks are not downloaded.

    Raises DataError or ConfigError, as the run would.
    """
    refuse_unpriced(settings.endpoints, settings.max_cost_usd)
    counts = TaskCounts.of(settings, domain)
    train, test = counts.train, counts.test
    if settings.pilot is not None:
        settings, train, test = settings.as_pilot(), min(settings.pilot, train), 0
    size = measured_size(settings, tasks=train)
    size = size or _assumed_size(settings, tasks=train, problem_tokens=counts.problem_tokens)
    allocation, saved = Allocation.of(settings), list[str]()
    if allocation.first_wave < allocation.group_size:
        agree, first = f"{size.mixed + size.right:.0%}", allocation.first_wave
        saved.append(f"{agree} of groups stop after {first} rollouts, which are enough to tell")
    if settings.epochs > 1 < allocation.revisit_every:
        skipped = f"{allocation.revisit_every - 1} of {allocation.revisit_every} epochs"
        saved.append(f"{size.right:.0%} are all right, and their tasks are skipped in {skipped}")
    return RunPlan(
        domain=settings.domain,
        model=settings.model,
        reflector=settings.reflector_name,
        data=settings.data or f"{settings.domain}'s own tasks",
        test_data=settings.test_data,
        train=train,
        test=test,
        counted=counts.counted,
        epochs=settings.epochs,
        group_size=settings.group_size,
        first_wave=allocation.first_wave,
        batches=math.ceil(train / settings.batch_size) * settings.epochs,
        eval_rollouts=settings.eval_rollouts,
        saved="; ".join(saved),
        estimate=estimate(settings, train=train, test=test, size=size),
        wall_s=_wall_seconds(settings, train, test if settings.evaluate else 0, size),
        wall_basis=f"{settings.concurrency} calls at once; {_time_of_calls(size)}",
    )


def _time_of_calls(size: _Sizes) -> str:
    """What an estimate of the wall time rests on."""
    if (seconds := size.call_s.get("rollout")) is not None:
        return f"{seconds:.1f} s for a call of a rollout, as in that run"
    return f"assumed: {ASSUMED_WAIT_S:.0f} s for a call, and {ASSUMED_TOKENS_PER_S:.0f} tokens a second"


class PilotReport(Value):
    """What a pilot measured, and the estimate for the whole run."""

    tasks: int
    """Tasks that the pilot learned from."""
    of_tasks: int
    """Tasks that the whole run would learn from."""
    rollouts: int
    """Rollouts that the pilot made."""
    groups: int
    mixed: int
    """Groups whose rewards differ."""
    mixed_share: float | None
    """Share of mixed groups; None when there is no group."""
    assumed_mixed_share: float
    """Share of mixed groups that the first estimate assumes."""
    turns: float | None
    """Model calls per rollout."""
    whole: CostEstimate
    """The whole run, extrapolated from the pilot. Stages that the pilot never called are left out."""
    assumed: CostEstimate
    """The whole run, as estimated before the pilot."""

    @classmethod
    def of(
        cls,
        settings: LearnSettings,
        *,
        tasks: int,
        whole: TaskSets,
        groups: Mapping[str, int],
        taught_wrong: int = 0,
        drawn: int,
        stages: Sequence[StageTotals],
        library: int,
    ) -> "PilotReport":
        """Return the report of a pilot, with its measured costs scaled to the whole run.

        Rollouts, summaries and comparisons are scaled by the expected visits to tasks, consolidations by batches. The
        whole run is assumed to have as many lessons in its prompts as an estimate does.

        tasks: number of tasks it learned from. taught_wrong: groups that were all wrong and taught. drawn: rollouts
        that it made. library: tokens of the lessons in its prompts.
        """
        settings = settings.model_copy(update={"pilot": None})
        total, mixed, train = sum(groups.values()), groups.get("mixed", 0), len(whole.train)
        course = _Course(settings, train, groups.get("all_right", 0) / total if total else 0.0)
        learning, made = course.visits / tasks, max(1, drawn)
        more_batches = course.batches / math.ceil(tasks / settings.batch_size)
        held_out = 2 * len(whole.test) * settings.eval_rollouts
        validating = round(_VALIDATED * course.most_validation())
        lessons = max(0, _Course(settings, train).average_library() - library)
        scaled: list[StageEstimate] = []
        for one in stages:
            others = {"rollout": settings.model, "user": settings.user_model or settings.reflector_name}
            model = others.get(one.stage, settings.reflector_name)
            more = 0 if one.stage in ("judge", "user") else lessons  # every other stage reads the library
            if one.stage in _PER_ROLLOUT or mixed + taught_wrong:
                calls = more_batches if one.stage == "consolidate" else learning
                scaled.append(_scaled(one.stage, one, model, times=learning, calls=calls, lessons=more))
            if one.stage in _PER_ROLLOUT:
                # half of the held-out rollouts are measured with the pilot's library, half with the whole run's
                for suffix, rollouts, read in ((_VALIDATION, validating, more), (HELD_OUT, held_out, more / 2)):
                    if rollouts:
                        title, times = suffix if one.stage == "rollout" else f"{one.stage} {suffix}", rollouts / made
                        scaled.append(_scaled(title, one, model, times=times, calls=times, lessons=read))
        return cls(
            tasks=tasks,
            of_tasks=train,
            rollouts=drawn,
            groups=total,
            mixed=mixed,
            mixed_share=mixed / total if total else None,
            assumed_mixed_share=_MIXED,
            turns=next((one.calls / drawn for one in stages if one.stage == "rollout" and drawn), None),
            whole=CostEstimate(rollouts=round(drawn * learning) + validating + held_out, stages=tuple(scaled)),
            assumed=estimate(settings, train=train, test=len(whole.test)),
        )

    def lines(self) -> tuple[str, ...]:
        """Return the report as text, line by line."""
        share = "-" if self.mixed_share is None else f"{self.mixed_share:.0%}"
        turns = "-" if self.turns is None else f"{self.turns:.1f}"
        mixed = f"{self.mixed} of {self.groups} groups were mixed: {share}"
        tasks = f"{self.tasks} of {self.of_tasks:,} tasks"
        return (
            f"{mixed} (the estimate assumes {self.assumed_mixed_share:.0%}); {turns} turns per rollout; {tasks}",
            f"whole run, measured: {self.whole.sentence()}",
            f"whole run, assumed: {self.assumed.sentence()}",
        )


def _scaled(name: str, one: StageTotals, model: str, *, times: float, calls: float, lessons: float) -> StageEstimate:
    """Scale one stage. times: factor for tokens; calls: factor for calls; lessons: extra tokens in each call."""
    asked = round(one.calls * calls)
    more = round(asked * lessons)
    price = known_price(model)
    cost = None if one.unpriced or (price is None and more) else one.cost_usd * times
    if cost is not None and price is not None:
        cost += more * price[0] / 1e6
    return StageEstimate(
        stage=name,
        calls=asked,
        tokens_in=round(one.tokens_in * times) + more,
        tokens_out=round(one.tokens_out * times),
        cost_usd=cost,
    )
