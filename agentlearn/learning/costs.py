"""What a run will roughly cost, before anything is opened or spent.

The sizes of rollouts and of the calls of stages come from an earlier run of the same model (`measured_size`), from what
a domain says about the models that ship, or from assumptions about models that nothing is known of (`assumed_size`).
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from agentlearn.config import LearnSettings, RunSettings, is_lab
from agentlearn.domain.base import RolloutShape, is_domain, load_domain
from agentlearn.domain.custom.judge import JUDGE
from agentlearn.errors import ConfigError, StoreError
from agentlearn.learning.batch import Allocation
from agentlearn.learning.open_run import USUAL_TASKS, TaskSize
from agentlearn.library import NO_LIBRARY, LibraryStore
from agentlearn.models.endpoint import is_paid, is_simulated
from agentlearn.models.services import address_of
from agentlearn.models.token_estimate import USUAL_TOKENS, Price, price_of
from agentlearn.store import RunRow, StageTotals, StoreReader, read_store
from agentlearn.types.rendering import ASKED_LESSON_WORDS
from agentlearn.types.run_event import RunKind
from agentlearn.types.task import Task
from agentlearn.types.value import Value

# arXiv:2510.08191 reports the total tokens of one run of training-free GRPO: 38M in and 6.6M out for 1,500 rollouts of
# learning, including all stages. It does not say how they are divided. The turns and lengths in `RolloutShape` and
# below are assumptions that add up to that total.
_LIBRARY, _SHIPPED_LIBRARY = 1_500, 400
"""Most tokens of lessons at the end of a run: assumed, and with the reflector that ships. The run's limit caps it."""
MIXED = 0.5
"""Assumed share of groups whose rewards differ."""
_RIGHT = 0.25
"""Assumed share of groups that are all right: half of those whose rewards agree. Their tasks are skipped at times."""
VALIDATED = 0.5
"""Assumed share of the largest number of rollouts on validation tasks that is made; versions behind drop out."""
TRIED = 2.5
"""Assumed rollouts in which changes are tried, for each group that teaches: 2.2 to 2.7 with the models that ship."""
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
_USER_PROMPT, _USER_MESSAGE = 450, 40
"""Assumed tokens of what a model is told that plays a user, and of a message that it writes."""
_LEAST_READ, _MOST = 0.25, (2.0, 8.0, 8.0)
"""The ends of the range of an assumed size. At least: one call, with this share of its input, and one token as answer.
At most: calls, input and output over those expected. More calls: rollouts with tools or a user can take more turns, and
questions of stages are asked again after a malformed reply."""
_MEASURED_SPREAD = 2.0
"""The same factor, up and down, for all sizes that were measured."""
FEWEST_ROLLOUTS = 10
"""An earlier run with fewer rollouts is too small to go by."""
_JUDGEMENT = 90
"""Assumed tokens of a judge's verdict."""
HELD_OUT = "held out"
"""Suffix of the names of stages that measure and do not learn."""
VALIDATION = "validation"
"""The stage that compares versions of the library on validation tasks. Versions that are behind drop out of it."""


class StageEstimate(Value):
    """Calls, tokens and cost of one stage."""

    stage: str
    calls: int
    tokens_in: int
    tokens_cached: int = 0
    """Part of `tokens_in` that the service is expected to have cached: as much as it had in the run measured."""
    tokens_out: int
    cost_usd: float | None
    """None when the price is unknown. Cached input has the price that the price list has for it."""

    @classmethod
    def priced(
        cls, model: str, stage: str, calls: float, tokens_in: float, tokens_out: float, tokens_cached: float = 0.0
    ) -> "StageEstimate":
        """Return the stage with the cost of these tokens of a model."""
        tokens = {"tokens_in": round(tokens_in), "tokens_out": round(tokens_out), "tokens_cached": round(tokens_cached)}
        price = known_price(model, round(tokens_in / calls) if calls else USUAL_TOKENS)
        return cls(stage=stage, calls=round(calls), cost_usd=None if price is None else price.usd(**tokens), **tokens)

    def words(self) -> str:
        """Return the estimate as text."""
        price = "an unknown price" if self.cost_usd is None else f"${self.cost_usd:.2f}"
        return (
            f"{self.calls:,} calls, {_read(self.tokens_in, self.tokens_cached)}, {_short(self.tokens_out)} out, {price}"
        )


def _short(tokens: int) -> str:
    """Return a number of tokens in millions, or in thousands when it is small."""
    return f"{tokens / 1e6:.1f}M" if tokens >= 950_000 else f"{tokens / 1e3:.0f}k"


def _read(tokens: int, cached: int) -> str:
    return f"{_short(tokens)} tokens in{f' ({_short(cached)} cached)' if cached else ''}"


def tokens_words(stages: Sequence[StageEstimate]) -> str:
    """Return the tokens of stages as text."""
    kinds = ("tokens_in", "tokens_cached", "tokens_out")
    read, cached, written = (sum(getattr(one, name) for one in stages) for name in kinds)
    return f"{_read(read, cached)} and {_short(written)} out"


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
    least: "CostEstimate | None" = None
    """What the run takes if every task is right at once, in short answers, so that nothing is learned."""
    most: "CostEstimate | None" = None
    """What it takes if every task teaches at each visit, no version drops out of the comparison on validation tasks,
    and answers are long."""

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
        """Cost of all stages; None when a price is unknown."""
        known = [one.cost_usd for one in self.stages if one.cost_usd is not None]
        return sum(known) if len(known) == len(self.stages) else None

    def short(self) -> str:
        """Return the estimate as a few words, without what it rests on."""
        price = "an unknown price" if self.cost_usd is None else f"about ${self.cost_usd:.2f}"
        return f"about {self.rollouts:,} rollouts, {tokens_words(self.stages)}, {price}"

    def sentence(self) -> str:
        """Return the estimate as one sentence, with what it rests on."""
        return f"{self.short()}{self.ends_words()} ({self.basis})"

    def ends_words(self) -> str:
        """Return the ends of what can happen as text that follows the estimate; empty without them."""
        words = ""
        for start, one in (("; at least", self.least), (", at most", self.most)):
            if one is not None:
                price = "" if one.cost_usd is None else f" (${one.cost_usd:.2f})"
                calls, tokens = sum(stage.calls for stage in one.stages), one.tokens_in + one.tokens_out
                words += f"{start} {calls:,} calls and {_short(tokens)} tokens{price}"
        return words


class RolloutSize(Value):
    """Mean size of one rollout, or of one call of another stage."""

    calls: float = 1.0
    tokens_in: float
    """Input tokens of all its calls: of a rollout without lessons, of a stage with them."""
    tokens_out: float
    cached: float = 0.0
    """Share of the input that the service had cached, and told. Lessons are assumed to be cached alike."""

    @classmethod
    def of(cls, shape: RolloutShape) -> "RolloutSize":
        """Return the size of a rollout of that shape. Each turn reads the prompt and all earlier turns."""
        turns = shape.turns
        earlier = (shape.turn_out + shape.tool_result) * turns * (turns - 1) // 2
        return cls(calls=turns, tokens_in=turns * shape.prompt + earlier, tokens_out=turns * shape.turn_out)

    @classmethod
    def mean(cls, totals: StageTotals, units: int) -> "RolloutSize":
        """Return the mean size of one of the rollouts or calls that a stage's calls were made for."""
        return cls(
            calls=totals.calls / units,
            tokens_in=totals.tokens_in / units,
            tokens_out=totals.tokens_out / units,
            cached=totals.tokens_cached / max(1, totals.tokens_in),
        )

    def ends(self, *, measured: bool) -> "tuple[RolloutSize, RolloutSize]":
        """Return the smallest and the largest size that can be expected. measured: whether this one was."""
        one, written = 1 / max(1.0, self.calls), 1 / max(1.0, self.tokens_out)
        assumed, spread = ((one, _LEAST_READ * one, written), _MOST), _MEASURED_SPREAD
        low, high = ((1 / spread,) * 3, (spread,) * 3) if measured else assumed
        least, most = (
            RolloutSize(calls=self.calls * calls, tokens_in=self.tokens_in * read, tokens_out=self.tokens_out * written)
            for calls, read, written in (low, high)
        )
        few = {"calls": max(least.calls, min(1.0, self.calls)), "cached": self.cached}
        return least.model_copy(update=few), most  # at most, nothing is cached any more

    def times(self, count: float, model: str, stage: str, *, library: float = 0.0) -> StageEstimate:
        """Return the estimate for that many rollouts or calls. library: tokens of lessons in each prompt."""
        tokens_in = count * (self.tokens_in + self.calls * library)
        cached = self.cached * tokens_in
        return StageEstimate.priced(model, stage, count * self.calls, tokens_in, count * self.tokens_out, cached)


class Sizes(Value):
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
    validated: float = VALIDATED
    """Share of the largest number of rollouts on validation tasks that is made."""
    tried: float = TRIED
    """Rollouts in which changes are tried, for each group that teaches."""
    library: float
    """Tokens of lessons in a prompt at the end of the run."""
    judge: RolloutSize | None = None
    """One question to the model that judges; None: no model judges most answers."""
    user: RolloutSize | None = None
    """The calls that play the user of one rollout; None: no model plays one."""
    basis: str
    """Where the sizes come from, as words in brackets."""
    measured: bool
    """Whether they were measured, with this model or with a model that ships. Else they are assumptions."""
    own_s: float = 0.0
    """Mean seconds of a rollout outside its calls, as measured."""
    call_s: Mapping[str, float] = {}
    """Mean seconds of one call by stage, as measured; without one that is missing it is assumed by its tokens."""

    def ends(self, settings: LearnSettings) -> "list[Sizes]":
        """Return the sizes at the ends of the range: all is right at once, or everything teaches."""
        stages = {name: one.ends(measured=self.measured) for name, one in self if isinstance(one, RolloutSize)}
        library = min(settings.max_library_tokens, _MEASURED_SPREAD * self.library)
        teaches = "wrong" if settings.all_wrong == "teach" else "mixed"
        kinds = (
            {"right": 1.0, "library": 0.0},
            {teaches: 1.0, "validated": 1.0, "tried": 2 * TRIED, "library": library},
        )
        nothing = {"mixed": 0.0, "right": 0.0, "wrong": 0.0}
        return [
            self.model_copy(update={**nothing, **kind, **{name: both[end] for name, both in stages.items()}})
            for end, kind in enumerate(kinds)
        ]


@dataclass(frozen=True, slots=True)
class Course:
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
        mixed = round(self.visits * MIXED) if settings.group_size > 1 else 0
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
        made = (self.batches if batches is None else batches) * settings.drafts
        versions = min(settings.finalists, made) + 1 + has_lessons
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
    size: Sizes | None = None,
    task: TaskSize = TaskSize(),  # noqa: B008  frozen
) -> CostEstimate:
    """Return the estimate for a run.

    train, test: numbers of tasks; None: the settings' limit, else a usual number. size: what rollouts and stages take;
    None: as assumed for that model and tasks of that mean size.
    """
    learned_from = train if train is not None else settings.limit or USUAL_TASKS
    held_out = 0 if not settings.evaluate else test if test is not None else USUAL_TASKS
    if settings.pilot is not None:
        settings, learned_from, held_out = settings.as_pilot(), min(settings.pilot, learned_from), 0
    size = size or assumed_size(settings, tasks=learned_from, task=task)
    found, least, most = (_of_size(settings, learned_from, held_out, one) for one in (size, *size.ends(settings)))
    return found.model_copy(update={"least": least, "most": most})


def _of_size(settings: LearnSettings, train: int, test: int, size: Sizes) -> CostEstimate:
    allocation, course = Allocation.of(settings), Course(settings, train, size.right)
    visits = train * settings.epochs if settings.from_store else course.visits
    learning = 0 if settings.from_store else round(visits * allocation.expected_size(1 - size.mixed - size.right))
    # Rewards of a group of one cannot differ.
    mixed = round(visits * size.mixed) if settings.group_size > 1 else 0
    wrong = round(visits * size.wrong) if settings.all_wrong == "teach" else 0
    lessons = Course(settings, train).average_library(size.library)
    # Where nothing is learned, there are no versions to compare, and the held-out tasks are measured once.
    teaches = (size.mixed and settings.group_size > 1) or (size.wrong and settings.all_wrong == "teach")
    validating = round(course.most_validation() * size.validated) if teaches else 0
    validating += round(size.tried * (mixed + wrong)) if settings.tries_updates else 0
    measuring = test * settings.eval_rollouts * (2 if teaches else 1)

    model, reflector = settings.model, settings.reflector_name
    batches = course.batches if teaches else 0
    read, compared = mixed * allocation.first_wave + wrong * settings.group_size, mixed + wrong
    if settings.reflect == "once":
        read, compared, batches = 0, batches * settings.drafts, 0
    stages = [
        size.rollout.times(learning, model, "rollout", library=lessons),
        size.summarise.times(read, reflector, "summarise"),
        size.compare.times(compared, reflector, "compare"),
        size.consolidate.times(batches, reflector, "consolidate"),
        *([size.rollout.times(validating, model, VALIDATION, library=lessons)] if validating else []),
        # half of these rollouts are measured before there are lessons
        size.rollout.times(measuring, model, HELD_OUT, library=size.library / 2),
    ]
    for one, asked, stage in (size.judge, reflector, "judge"), (size.user, settings.user_model or reflector, "user"):
        if one is not None:
            stages.append(one.times(learning + validating, asked, stage))
            stages.append(one.times(measuring, asked, f"{stage} {HELD_OUT}"))
    return CostEstimate(rollouts=learning + validating + measuring, stages=tuple(stages), basis=size.basis)


def refuse_unpriced(
    models: Sequence[str], max_cost_usd: float | None, limit: str = "--max-cost-usd", other: str = "--max-tokens"
) -> None:
    """Raise ConfigError when there is a limit in dollars and the price of one of the models is unknown.

    limit: the option that the limit comes from. other: the option that limits tokens in its place.
    """
    for model in dict.fromkeys(models) if max_cost_usd is not None else ():
        if known_price(model) is None:
            raise ConfigError(
                f"{limit} {max_cost_usd:g} cannot be kept: the price of {model!r} is not known; limit the run with"
                f" {other} or --max-minutes"
            )


def known_price(model: str, tokens_in: int = USUAL_TOKENS) -> Price | None:
    """Return the price of a model as settings name it; 0 for models on this machine, None when unknown.

    tokens_in: input tokens of one call.
    """
    provider, _, name = model.partition(":")
    if provider.casefold() in {"http", "https"}:
        base_url, _, name = model.partition("#")
        return price_of(name, None, base_url, tokens_in)
    if not is_paid(model):
        return Price(0.0, 0.0, 0.0)
    return price_of(name, provider.removeprefix("gateway/"), address_of(provider), tokens_in)


def assumed_shape(
    usual: RolloutShape, model: str, task: TaskSize, answer: float = 0.0
) -> tuple[RolloutShape, str, bool]:
    """Return the shape of a model's rollouts, what it rests on, and whether it was measured, with a model that ships.

    task: mean size of a task. answer: tokens per call as the model wrote them on other tasks; 0: not known.
    """
    kind = "lab:" if is_lab(model) else "sim:" if is_simulated(model) else ""
    if (shipped := usual.shipped.get(kind)) is not None:
        return shipped, "a rough estimate, from runs with the models that ship", True
    prompt = max(usual.prompt, _INSTRUCTIONS + task.problem)
    shape = usual.model_copy(update={"prompt": prompt, "turn_out": round(answer) or usual.turn_out})
    calls = "1 call" if shape.turns == 1 else f"{shape.turns} calls"
    wrote = "as this model wrote in an earlier run" if answer else "until a run or --pilot 10 measures it"
    words = f"a rough estimate, which assumes {calls} per rollout and {shape.turn_out:,} tokens per answer, {wrote}"
    return shape, words, False


def _proposal(settings: LearnSettings) -> int:
    """Assumed tokens of a proposal, by the length that the reflector is asked for."""
    return round(_PROPOSAL * settings.lesson_words / ASKED_LESSON_WORDS)


def assumed_size(settings: LearnSettings, *, tasks: int, task: TaskSize, answer: float = 0.0) -> Sizes:
    """Return the sizes of a run on that many tasks when no earlier run is known.

    task: mean size of a task. answer: tokens per call, instead of the domain's usual number; 0: not known.
    """
    usual, course = with_replies(usual_shape(settings), task), Course(settings, tasks)
    shape, basis, shipped = assumed_shape(usual, settings.model, task, answer)
    small = is_simulated(settings.reflector_name)
    summary, comparison = (_SHIPPED_SUMMARY, _SHIPPED_COMPARISON) if small else (_SUMMARY, _COMPARISON)
    question = _STAGE_PROMPT + course.average_library()
    proposals = _proposal(settings) * round(course.visits * MIXED) * settings.max_proposals // max(1, course.batches)
    transcript = shape.turns * (shape.turn_out + min(shape.tool_result, _SHOWN_RESULT))
    return Sizes(
        rollout=RolloutSize.of(shape),
        summarise=RolloutSize(tokens_in=question + transcript, tokens_out=summary),
        compare=RolloutSize(tokens_in=question + settings.group_size * summary, tokens_out=comparison),
        consolidate=RolloutSize(
            tokens_in=question + proposals, tokens_out=min(proposals, _SHIPPED_CONSOLIDATION) if small else proposals
        ),
        mixed=MIXED,
        wrong=1 - MIXED - _RIGHT,
        library=course.final_library,
        judge=judged_size(usual),
        user=None if shape.user is None else RolloutSize.of(shape.user),
        basis=basis,
        measured=shipped,
    )


def judged_size(shape: RolloutShape) -> RolloutSize | None:
    """Return the size of the question to a judge about one rollout; None where no model judges most answers."""
    return RolloutSize(tokens_in=shape.question_to_judge, tokens_out=_JUDGEMENT) if shape.judged else None


def with_replies(usual: RolloutShape, task: TaskSize) -> RolloutShape:
    """Return the shape with the replies of the tasks' users, if it has none: each takes the calls of one problem."""
    if usual.user is not None or not task.replies:
        return usual
    player = RolloutShape(
        turns=math.ceil(task.played), prompt=_USER_PROMPT, turn_out=_USER_MESSAGE, tool_result=usual.turn_out
    )
    turns = math.ceil(usual.turns * (1 + task.replies))
    return usual.model_copy(update={"turns": turns, "user": player if task.played else None})


def usual_shape(settings: RunSettings) -> RolloutShape:
    """Return turns and lengths of rollouts: those of the installed domain, else those of tasks from a file."""
    if is_domain(settings.domain) and settings.reward != JUDGE.name:
        return load_domain(settings.domain).rollout_shape(settings.data)
    return file_task_shape(settings.tools).model_copy(update={"judged": settings.reward == JUDGE.name})


def file_task_shape(tools: str) -> RolloutShape:
    """Return the assumed shape of a rollout on a task from a file: one call, or several with the Python tool."""
    return _FILE_TASK if tools == "none" else _FILE_TASK.model_copy(update={"turns": _TOOL_TURNS, "tool_result": 400})


def measured_size(settings: LearnSettings, *, tasks: int, task: TaskSize = TaskSize()) -> Sizes | None:  # noqa: B008
    """Return the sizes of the latest finished run on the same source with the same models.

    Without one, those that are assumed for tasks of that mean size, with answers as long as the model's in its latest
    run of any kind; None when it has none. Do not call it while this process has the store open.
    """
    alike = {name: getattr(settings, name) for name in ("reflector", "data", "reward", "tools")}
    try:
        with read_store(settings.store) as reader:
            found = measured_run(reader, "learn", settings.domain, settings.model, **alike, from_store=False)
            if found is not None:
                return _size_of(reader, *found, settings, tasks)
            other = measured_run(reader, "", "", settings.model)
            return other and assumed_size(settings, tasks=tasks, task=task, answer=other[1].tokens_out / other[1].calls)
    except StoreError:
        return None


def _size_of(reader: StoreReader, row: RunRow, size: RolloutSize, settings: LearnSettings, tasks: int) -> Sizes:
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
    course, lessons = Course(settings, tasks), report.get("library", {}).get("tokens")
    library = course.final_library
    if isinstance(lessons, int) and groups:
        library = max(lessons, min(library, lessons * max(1.0, course.visits / len(groups))))
    made = (report.get("selection") or {}).get("rollouts")
    then = Course(LearnSettings.model_validate_json(row.settings), report.get("tasks", {}).get("train", 0))
    most = then.most_validation(len({(phase, batch) for phase, batch, _ in groups}))
    stages = {
        name: RolloutSize.mean(one, one.calls)
        for name in ("summarise", "compare", "consolidate")
        if (one := totals.get(name)) is not None
    }
    roles = {
        name: RolloutSize.mean(one, len(rollouts))
        for name in ("judge", "user")
        if (one := totals.get(name)) is not None
    }
    answers = f"{size.calls:.1f} calls and {size.tokens_out:,.0f} tokens of answers per rollout"
    return assumed_size(settings, tasks=tasks, task=TaskSize()).model_copy(
        update={
            **stages,
            **roles,
            "rollout": size,
            "mixed": kinds.get("mixed", 0) / visited if visited else MIXED,
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


def measured_run(
    reader: StoreReader, kind: RunKind | Literal[""], domain: str, model: str, **settings: object
) -> tuple[RunRow, RolloutSize] | None:
    """Return the latest finished run of that kind and model with these settings, and the mean size of its rollouts.

    kind, domain: empty for any.

    Those of its first batch show the prompts before lessons were added. None when there is no run that is large enough
    to go by.
    """
    for row in reader.runs():
        if (row.state, row.model) != ("done", model) or kind not in ("", row.kind) or domain not in ("", row.domain):
            continue
        given: dict[str, Any] = json.loads(row.settings)
        if any(given.get(name) != value for name, value in settings.items()):
            continue
        rollouts = [one for one in reader.trajectories(row.run) if one.outcome != "failed"]
        totals = next((one for one in reader.stage_totals(row.run) if one.stage == "rollout"), None)
        if len(rollouts) < FEWEST_ROLLOUTS or totals is None or not totals.calls:
            continue
        first = [one for one in rollouts if (one.phase, one.batch) == (rollouts[0].phase, rollouts[0].batch)]
        size = RolloutSize.mean(totals, len(rollouts))
        of_rollouts = {
            "tokens_in": sum(one.tokens_in for one in first) / len(first),
            "tokens_out": sum(one.tokens_out for one in rollouts) / len(rollouts),
        }
        return row, size.model_copy(update=of_rollouts)
    return None
