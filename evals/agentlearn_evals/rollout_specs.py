"""Which rollouts a comparison needs, in which order, and which of them the store already holds.

A rollout is stored under everything that determines it, so that no rollout is paid for twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from pydantic import Field

from agentlearn.config import RequestOptions, SiteOptions
from agentlearn.measure.observation import Observation
from agentlearn.store import EvaluatedRow, StoreReader
from agentlearn.types.ids import RunId, TaskId, content_hash, derive_seed
from agentlearn.types.ranking import Retrieval
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Treatment
from agentlearn.types.value import Value
from agentlearn_evals.arms import Arm

_FORM = 1
"""Raise this number when stored rollouts may no longer be reused."""


class Conditions(Value):
    """Everything besides task, seed and index that determines a rollout of an arm."""

    domain: str
    judged_by: str
    """Reward of tasks from a file; empty when the domain judges its own answers."""
    treatment: Treatment
    prompts: tuple[PromptRef, ...]
    sandbox: str
    max_turns: int
    deadline_s: float
    judge: str
    """Endpoint that judges answers; empty when no model judges them."""
    package: str
    """Version of agentlearn, because its tools and verifiers affect the result."""
    request: RequestOptions | None = Field(default=None, exclude_if=lambda request: request is None)
    """What is sent with each request, where that differs from the defaults."""
    retrieval: Retrieval | None = Field(default=None, exclude_if=lambda retrieval: retrieval is None)
    """How lessons are chosen, where not every lesson of the arm's library is shown."""
    history_tokens: int | None = Field(default=None, exclude_if=lambda tokens: tokens is None)
    """Largest size of a request, above which the history is shortened."""
    sites: SiteOptions | None = Field(default=None, exclude_if=lambda sites: sites is None)
    """How sites are reached, where that differs from the defaults."""
    weights: str = Field(default="", exclude_if=lambda weights: not weights)
    """Hash of the files of the arm's model, where it is a folder on this machine. Training may write them again."""
    judge_weights: str = Field(default="", exclude_if=lambda weights: not weights)
    """The same of the model that judges answers."""
    version: str = Field(default="", exclude_if=lambda version: not version)
    """Version of a program's own agent or function; empty for an installed domain."""

    @property
    def phase(self) -> str:
        """Name under which such rollouts are stored, the same for every comparison."""
        return f"compare:{content_hash('compare', _FORM, self.model_dump(mode='json'))[:24]}"


@dataclass(frozen=True, slots=True)
class RolloutSpec:
    """One rollout that a comparison needs."""

    arm: Arm
    task: Task
    g: int
    """Index among the arm's rollouts on this task, from 0."""
    seed: int
    phase: str
    """Phase under which the rollout is stored."""


def rollout_seed(seed: int, task: Task, g: int) -> int:
    """Return the seed of a rollout, the same in every arm."""
    return derive_seed(seed, "compare", task.id, g)


def treatment_of(arm: Arm) -> Treatment:
    """Return the treatment of the arm's rollouts. It does not contain the arm's name, so equal arms share rollouts."""
    return Treatment(
        model=arm.model,
        library=arm.library.version,
        masked=arm.without,
        arm="compare",
        temperature=arm.temperature,
    )


def schedule(
    tasks: Sequence[Task], arms: Sequence[Arm], k: int, seed: int, phases: Mapping[str, str]
) -> Iterator[RolloutSpec]:
    """Yield all rollouts, interleaved so that drift of a service affects all arms alike.

    The order is by index, then by task in a random order per index, then by arm; every arm goes first equally often.
    phases: by arm name.
    """
    turn = 0
    for g in range(k):
        order = list(tasks)
        Random(derive_seed(seed, "interleave", g)).shuffle(order)
        for task in order:
            first = turn % len(arms)
            turn += 1
            for arm in (*arms[first:], *arms[:first]):
                yield RolloutSpec(arm, task, g, rollout_seed(seed, task, g), phases[arm.name])


_CODES = {"undecided": "verifier", "no_answer": "no_answer"}
"""Codes of rollouts by the status of their verdict."""

StoredRollouts = Mapping[tuple[TaskId, int], EvaluatedRow]
"""Stored rollouts by task and index."""


def stored_rollouts(
    reader: StoreReader, phase: str, tasks: Sequence[Task], k: int, seed: int, *, run: RunId | None = None
) -> StoredRollouts:
    """Return the stored rollouts of these tasks with an index below k, made under this phase and seed.

    Of several rollouts with the same task and index, the latest is returned, because failed ones can be repeated.
    run: only rollouts that this run made.
    """
    return {(row.task, row.g): row for row in _wanted(reader, phase, tasks, k, seed) if run in (None, row.run)}


def made_together(
    reader: StoreReader, phases: Mapping[str, str], tasks: Sequence[Task], k: int, seed: int
) -> Mapping[str, StoredRollouts]:
    """Return, by arm, the stored rollouts whose counterparts in all other arms were made by the same run.

    A run interleaves its arms, so a service that changes between two runs affects both sides of such a pair alike. Of
    several runs that made a task and index in every arm, the latest counts. phases: by arm name.
    """
    by_run: dict[tuple[RunId, TaskId, int], dict[str, EvaluatedRow]] = {}
    for arm, phase in phases.items():
        for row in _wanted(reader, phase, tasks, k, seed):
            by_run.setdefault((row.run, row.task, row.g), {})[arm] = row
    found: dict[str, dict[tuple[TaskId, int], EvaluatedRow]] = {arm: {} for arm in phases}
    for (_, task, g), rows in by_run.items():  # in order of start
        if len(rows) == len(phases):
            for arm, row in rows.items():
                found[arm][task, g] = row
    return found


def _wanted(reader: StoreReader, phase: str, tasks: Sequence[Task], k: int, seed: int) -> Iterator[EvaluatedRow]:
    """Yield the rollouts of a phase that a comparison can use, in order of start."""
    wanted = {task.id: task for task in tasks}
    for row in reader.evaluated(phase):
        if row.g < k and row.task in wanted and row.seed == rollout_seed(seed, wanted[row.task], row.g):
            yield row


def to_observation(row: EvaluatedRow, arm: Arm, task: Task, library_tokens: int) -> Observation:
    """Return a stored rollout as an observation.

    library_tokens: estimated tokens of the arm's lessons in one prompt.
    """
    return Observation.model_validate(
        {
            "arm": arm.name,
            "task": task.id,
            "g": row.g,
            "score": row.reward,
            "status": row.outcome,
            "error": row.failure_code or _CODES.get(row.verdict or "", ""),
            "cluster": task.cluster,
            "tags": task.tags,
            "domain": task.domain,
            "problem": task.problem,
            "rollout": row.id,
            "cost_usd": row.cost_usd,
            "tokens_in": row.tokens_in,
            "tokens_library": library_tokens * row.requests,
            "tokens_out": row.tokens_out,
            "tool_calls": row.tool_calls,
            "seconds": row.seconds,
        }
    )
