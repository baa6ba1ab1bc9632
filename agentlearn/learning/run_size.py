"""How many calls and tokens one rollout and one call of a stage take, for the estimate before a run.

The sizes come from an earlier run of the same model (`measured_size`), from what a domain says about the models that
ship, or from assumptions about models that nothing is known of (`assumed_size`).
"""

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from agentlearn.config import LearnSettings, RunSettings, is_lab
from agentlearn.domain.base import RolloutShape, is_domain, load_domain
from agentlearn.domain.custom.reward import JUDGE
from agentlearn.errors import StoreError
from agentlearn.learning.batch import Allocation
from agentlearn.learning.lessons.start import starts_with_lessons
from agentlearn.models.endpoint import is_simulated
from agentlearn.store import RunRow, StoreReader, read_store
from agentlearn.types.run_event import RunKind
from agentlearn.types.task import Task
from agentlearn.types.value import Value

# arXiv:2510.08191 reports the total tokens of one run of training-free GRPO: 38M in and 6.6M out for 1,500 rollouts of
# learning, including all stages. It does not say how they are divided. The turns and lengths in `RolloutShape` and
# below are assumptions that add up to that total.
_LIBRARY, _SHIPPED_LIBRARY = 1_500, 400
"""Most tokens of lessons at the end of a run: assumed, and with the reflector that ships. The run's limit caps it."""
MIXED = 0.5
"""Assumed share of groups whose rewards differ. Only those are summarised, compared and made as large as planned."""
RIGHT = 0.25
"""Assumed share of groups that are all right: half of those whose rewards agree. Their tasks are skipped at times."""
VALIDATED = 0.5
"""Assumed share of the largest number of rollouts on validation tasks that is made; versions behind drop out."""
_STAGE_PROMPT, _SUMMARY, _COMPARISON, PROPOSAL = 450, 700, 700, 45
"""Assumed tokens of a stage's instructions, of a summary, of a comparison and of a proposal."""
_SHIPPED_SUMMARY, _SHIPPED_COMPARISON, _SHIPPED_CONSOLIDATION = 145, 50, 300
"""What the reflector that ships writes per call, in tokens."""
_SHOWN_RESULT = 1_000
"""Largest number of tokens of a tool's result in a transcript to summarise; longer results are cut."""
_FILE_TASK, _TOOL_TURNS = RolloutShape(turns=1, prompt=350, tool_result=0), 3
"""A rollout on a task from a file, which is one call without tools; and its number of calls with the Python tool."""
_INSTRUCTIONS = 250
"""Tokens that a prompt has besides the problem, at least."""
_SHIPPED = "a rough estimate, from runs with the models that ship"
SHORT_ANSWER, LONG_ANSWER = 20, 3_000
"""Tokens per answer at the two ends of the range that is given for a model that nothing is known of."""
_FEW_MIXED, _MANY_MIXED = 0.25, 0.75
"""Share of groups whose rewards differ, at the two ends of that range."""
FEWEST_ROLLOUTS = 10
"""An earlier run with fewer rollouts is too small to go by."""


class RolloutSize(Value):
    """Mean size of one rollout."""

    calls: float
    tokens_in: float
    """Input tokens of all its calls, without lessons."""
    tokens_out: float


class CallSize(Value):
    """Mean size of one call of a stage, lessons included."""

    tokens_in: float
    tokens_out: float


class RunSize(Value):
    """Mean sizes of a run's rollouts and of the calls of its stages."""

    rollout: RolloutSize
    summarise: CallSize
    compare: CallSize
    consolidate: CallSize
    mixed: float
    """Share of groups whose rewards differ."""
    right: float = RIGHT
    """Share of groups that are all right."""
    validated: float = VALIDATED
    """Share of the largest number of rollouts on validation tasks that is made."""
    library: float
    """Tokens of lessons in a prompt at the end of the run."""
    judged: bool = False
    """Whether a model judges most answers."""
    problem_tokens: int = 0
    """Mean length of a problem, if it is known."""
    basis: str
    """Where the sizes come from, as words in brackets."""
    measured: bool
    """Whether they were measured, with this model or with a model that ships. Else they are assumptions."""


def rollout_size(shape: RolloutShape) -> RolloutSize:
    """Return the size of a rollout of that shape. Each turn reads the prompt and all earlier turns."""
    earlier = (shape.turn_out + shape.tool_result) * shape.turns * (shape.turns - 1) // 2
    return RolloutSize(
        calls=shape.turns, tokens_in=shape.turns * shape.prompt + earlier, tokens_out=shape.turns * shape.turn_out
    )


def shipped_shape(shape: RolloutShape, model: str) -> RolloutShape | None:
    """Return the domain's shape for a model that ships; None for any other model, or when the domain gives none."""
    kind = "lab:" if is_lab(model) else "sim:" if is_simulated(model) else None
    return None if kind is None else shape.shipped.get(kind)


def batches_of(settings: LearnSettings, tasks: int, right: float = RIGHT) -> int:
    """Return the expected number of batches of a run. right: share of groups that are all right."""
    visits = Allocation.of(settings).expected_visits(settings.epochs, right)
    return sum(math.ceil(tasks * share / settings.batch_size) for share in visits)


def visits_of(settings: LearnSettings, tasks: int, right: float = RIGHT) -> float:
    """Return the expected number of groups of a run. right: share of groups that are all right."""
    return tasks * sum(Allocation.of(settings).expected_visits(settings.epochs, right))


def most_validation_rollouts(settings: LearnSettings, tasks: int, batches: int) -> int:
    """Return the largest number of rollouts that compare versions after learning from `tasks` tasks in `batches`.

    The versions compared are the finalists, the start, and the empty library where the start has lessons.
    """
    if settings.select == "last" or settings.pilot is not None or not tasks:
        return 0
    versions = min(settings.finalists, batches) + (2 if starts_with_lessons(settings) else 1)
    return versions * settings.validation_rollouts * _validation_tasks(settings, tasks)


def _validation_tasks(settings: LearnSettings, tasks: int) -> int:
    """Return the number of validation tasks: the domain's own; of other tasks, those learned from."""
    own = settings.data is None and settings.reward is None and not settings.given and not settings.from_store
    if not own or not is_domain(settings.domain):
        return tasks
    return _count_validation(load_domain(settings.domain).tasks, settings.seed) or tasks


@lru_cache(maxsize=8)
def _count_validation(tasks_of: Callable[..., Sequence[Task]], seed: int) -> int:
    """Count the validation tasks that a domain gives. Its method is the key: domains of one name can differ."""
    return len(tasks_of("validation", seed=seed))


def assumed_size(settings: LearnSettings, *, tasks: int, problem_tokens: int = 0, answer: int | None = None) -> RunSize:
    """Return the sizes of a run on that many tasks when no earlier run is known.

    problem_tokens: mean length of a problem. answer: tokens per call, instead of the domain's usual number.
    """
    usual = usual_shape(settings)
    shipped = shipped_shape(usual, settings.model)
    shape = shipped or _assumed_shape(usual, problem_tokens, answer)
    terse = answer is not None and answer < usual.turn_out
    library = final_library(settings, tasks) // (4 if terse else 1)
    small = terse or is_simulated(settings.reflector_name)
    summary, comparison = (_SHIPPED_SUMMARY, _SHIPPED_COMPARISON) if small else (_SUMMARY, _COMPARISON)
    question = _STAGE_PROMPT + average_library(settings, tasks, library)
    batches = batches_of(settings, tasks)
    proposals = PROPOSAL * round(visits_of(settings, tasks) * MIXED) * settings.max_proposals // max(1, batches)
    transcript = shape.turns * (shape.turn_out + min(shape.tool_result, _SHOWN_RESULT))
    return RunSize(
        rollout=rollout_size(shape),
        summarise=CallSize(tokens_in=question + transcript, tokens_out=summary),
        compare=CallSize(tokens_in=question + settings.group_size * summary, tokens_out=comparison),
        consolidate=CallSize(
            tokens_in=question + proposals, tokens_out=min(proposals, _SHIPPED_CONSOLIDATION) if small else proposals
        ),
        mixed=MIXED if answer is None else _FEW_MIXED if terse else _MANY_MIXED,
        library=library,
        judged=usual.judged,
        problem_tokens=problem_tokens,
        basis=_SHIPPED if shipped else assumption(shape),
        measured=shipped is not None,
    )


def assumed_rollouts(shape: RolloutShape, model: str, problem_tokens: int) -> tuple[RolloutSize, str]:
    """Return the size of a model's rollouts when nothing was measured, and what it rests on."""
    shipped = shipped_shape(shape, model)
    if shipped is not None:
        return rollout_size(shipped), _SHIPPED
    assumed = _assumed_shape(shape, problem_tokens, None)
    return rollout_size(assumed), assumption(assumed)


def _assumed_shape(usual: RolloutShape, problem_tokens: int, answer: int | None) -> RolloutShape:
    short = _INSTRUCTIONS + problem_tokens
    given = {"prompt": max(usual.prompt, short), "turn_out": answer or usual.turn_out}
    if answer is not None and answer < usual.turn_out:
        given |= {"turns": math.ceil(usual.turns / 2), "prompt": min(usual.prompt, short)}
    return usual.model_copy(update=given)


def assumption(shape: RolloutShape) -> str:
    """Return what an estimate without any measurement assumes of the rollouts."""
    calls = "1 call" if shape.turns == 1 else f"{shape.turns} calls"
    return f"a rough estimate, which assumes {calls} per rollout and {shape.turn_out:,} tokens per answer"


def final_library(settings: LearnSettings, tasks: int) -> int:
    """Return the assumed tokens of lessons at the end of a run: no more than its proposals can hold."""
    most = _SHIPPED_LIBRARY if is_simulated(settings.reflector_name) else _LIBRARY
    mixed = round(visits_of(settings, tasks) * MIXED) if settings.group_size > 1 else 0
    proposals = mixed * settings.max_proposals
    return min(most, settings.max_library_tokens, PROPOSAL * proposals)


def average_library(settings: LearnSettings, tasks: int, final: float | None = None) -> int:
    """Return the mean tokens of lessons in a prompt of learning. The first batch has none.

    final: tokens at the end of the run; None: the assumed number.
    """
    batches = batches_of(settings, tasks)
    end = final_library(settings, tasks) if final is None else final
    return round(end * (1 - 1 / max(1, batches)))


def usual_shape(settings: RunSettings) -> RolloutShape:
    """Return turns and lengths of rollouts: those of the installed domain, else those of tasks from a file."""
    if is_domain(settings.domain) and settings.reward != JUDGE.name:
        return load_domain(settings.domain).rollout_shape(settings.data)
    return file_task_shape(settings.tools).model_copy(update={"judged": settings.reward == JUDGE.name})


def file_task_shape(tools: str) -> RolloutShape:
    """Return the assumed shape of a rollout on a task from a file: one call, or several with the Python tool."""
    return _FILE_TASK if tools == "none" else _FILE_TASK.model_copy(update={"turns": _TOOL_TURNS, "tool_result": 400})


def measured_size(settings: LearnSettings, *, tasks: int) -> RunSize | None:
    """Return the sizes of the latest finished run on the same source with the same models; None when there is none.

    Do not call it while this process has the store open.
    """
    try:
        with read_store(settings.store) as reader:
            for row in reader.runs():
                if _is_alike(row, settings) and (found := _size_of(reader, row, settings, tasks)) is not None:
                    return found
    except StoreError:
        return None
    return None


def _is_alike(row: RunRow, settings: LearnSettings) -> bool:
    if (row.kind, row.state, row.domain, row.model) != ("learn", "done", settings.domain, settings.model):
        return False
    given: dict[str, Any] = json.loads(row.settings)
    theirs = given.get("reflector"), given.get("data"), given.get("reward"), given.get("tools"), given.get("from_store")
    ours = settings.reflector, settings.data, settings.reward, settings.tools, False
    return theirs == ours


def _size_of(reader: StoreReader, row: RunRow, settings: LearnSettings, tasks: int) -> RunSize | None:
    size = _rollouts_of(reader, row)
    if size is None:
        return None
    totals = {one.stage: one for one in reader.stage_totals(row.run) if one.calls}
    groups = {
        (one.phase, one.batch, one.task)
        for one in reader.trajectories(row.run)
        if one.outcome != "failed" and one.phase.startswith("epoch")
    }
    stages = {
        name: CallSize(tokens_in=one.tokens_in / one.calls, tokens_out=one.tokens_out / one.calls)
        for name, one in totals.items()
    }
    assumed = assumed_size(settings, tasks=tasks)
    return assumed.model_copy(
        update={name: stages[name] for name in ("summarise", "compare", "consolidate") if name in stages}
        | {
            "rollout": size,
            "mixed": min(1.0, totals["compare"].calls / len(groups)) if "compare" in totals and groups else MIXED,
            "right": _right_share(row),
            "validated": _validated_share(row, batches=len({(phase, batch) for phase, batch, _ in groups})),
            "library": _library_of(row, settings, tasks, len(groups)),
            "measured": True,
            "basis": (
                f"as run {row.run[:8]} had: {size.calls:.1f} calls and"
                f" {size.tokens_out:,.0f} tokens of answers per rollout"
            ),
        }
    )


def measured_rollouts(reader: StoreReader, domain: str, model: str, data: str | None) -> RolloutSize | None:
    """Return the size of rollouts in the latest finished learning run of the model on that source; None without one."""
    found = latest_run(reader, "learn", domain, model, data=data)
    return None if found is None else found[1]


def latest_run(
    reader: StoreReader, kind: RunKind, domain: str, model: str, **settings: object
) -> tuple[RunRow, RolloutSize] | None:
    """Return the latest finished run of that kind and model with these settings, and the size of its rollouts.

    None when there is none that is large enough to go by.
    """
    for row in reader.runs():
        if (row.kind, row.state, row.domain, row.model) == (kind, "done", domain, model):
            given: dict[str, Any] = json.loads(row.settings)
            same = all(given.get(name) == value for name, value in settings.items())
            if same and (found := _rollouts_of(reader, row)) is not None:
                return row, found
    return None


def _rollouts_of(reader: StoreReader, row: RunRow) -> RolloutSize | None:
    """Return the mean size of a run's rollouts. Those of its first batch show the prompts before lessons were added."""
    rollouts = [one for one in reader.trajectories(row.run) if one.outcome != "failed"]
    calls = next((one.calls for one in reader.stage_totals(row.run) if one.stage == "rollout"), 0)
    if len(rollouts) < FEWEST_ROLLOUTS or not calls:
        return None
    first = [one for one in rollouts if (one.phase, one.batch) == (rollouts[0].phase, rollouts[0].batch)]
    return RolloutSize(
        calls=calls / len(rollouts),
        tokens_in=sum(one.tokens_in for one in first) / len(first),
        tokens_out=sum(one.tokens_out for one in rollouts) / len(rollouts),
    )


def _library_of(row: RunRow, settings: LearnSettings, tasks: int, groups: int) -> float:
    """Return the tokens of lessons at the end of a run, from those of an earlier one with that many groups."""
    report: dict[str, Any] = json.loads(row.report or "{}")
    found = report.get("library", {}).get("tokens")
    most = final_library(settings, tasks)
    if not isinstance(found, int) or not groups:
        return most
    grown = found * max(1.0, visits_of(settings, tasks) / groups)
    return max(found, min(most, grown))


def _right_share(row: RunRow) -> float:
    """Return the share of a run's groups that were all right."""
    groups: dict[str, int] = json.loads(row.report or "{}").get("groups") or {}
    total = sum(groups.values())
    return groups.get("all_right", 0) / total if total else RIGHT


def _validated_share(row: RunRow, batches: int) -> float:
    """Return the share of the largest number of rollouts on validation tasks that a run made; 1 where none was due."""
    report: dict[str, Any] = json.loads(row.report or "{}")
    made = (report.get("selection") or {}).get("rollouts")
    settings = LearnSettings.model_validate_json(row.settings)
    most = most_validation_rollouts(settings, report.get("tasks", {}).get("train", 0), batches)
    return min(1.0, made / most) if made and most else 1.0
