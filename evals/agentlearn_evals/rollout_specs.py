"""Cells: one rollout each of one arm on one task. What determines a rollout names it, so that it is paid for once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from agentlearn.store import EvaluatedRow, StoreReader
from agentlearn.types.ids import TaskId, content_hash, derive_seed
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef
from agentlearn.types.treatment import Treatment
from agentlearn.types.value import Value
from agentlearn_evals.arms import Arm
from agentlearn_evals.observation import Observation

_FORM = 1
"""Raised when rollouts made before may no longer stand for what would be made now."""


class Conditions(Value):
    """Everything beside task, seed and index that determines what a rollout of an arm does."""

    domain: str
    judged_by: str
    treatment: Treatment
    prompts: tuple[PromptRef, ...]
    sandbox: str
    max_turns: int
    deadline_s: float
    judge: str
    package: str
    """Version of agentlearn: its tools and verifiers take part."""

    @property
    def phase(self) -> str:
        """The name under which such rollouts are stored, by whichever comparison."""
        return f"compare:{content_hash('compare', _FORM, self.model_dump(mode='json'))[:24]}"


@dataclass(frozen=True, slots=True)
class RolloutSpec:
    """A rollout that a comparison wants."""

    arm: Arm
    task: Task
    g: int
    seed: int
    phase: str


def rollout_seed(seed: int, task: Task, g: int) -> int:
    """The rollout's own seed: the same in every arm."""
    return derive_seed(seed, "compare", task.id, g)


def treatment_of(arm: Arm) -> Treatment:
    """What the arm's rollouts are run under. Its name takes no part: arms that differ in name alone share rollouts."""
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
    """All cells, interleaved: whatever drifts while they are run, drifts under all arms alike.

    By index, then by task in an order of its own per index, and the arms of a cell one after another, each first
    as often as the others. phases: by the arm's name.
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


StoredRollouts = Mapping[tuple[TaskId, int], EvaluatedRow]


def stored_rollouts(reader: StoreReader, phase: str, tasks: Sequence[Task], k: int, seed: int) -> StoredRollouts:
    """What is stored of each task and index below k, made under these conditions with that seed.

    Of several the latest counts: failed rollouts can be made anew.
    """
    wanted = {task.id: task for task in tasks}
    return {
        (row.task, row.g): row
        for row in reader.evaluated(phase)
        if row.g < k and row.task in wanted and row.seed == rollout_seed(seed, wanted[row.task], row.g)
    }


def to_observation(row: EvaluatedRow, arm: Arm, task: Task, library_tokens: int) -> Observation:
    """The rollout as the comparison reads it: what failed counts as zero, what is undecided as unknown.

    library_tokens: of the arm's lessons in one prompt, estimated.
    """
    timed_out = row.failure_boundary == "deadline"
    status = "timeout" if timed_out else row.outcome if row.outcome in {"failed", "undecided"} else "ok"
    return Observation.model_validate(
        {
            "arm": arm.name,
            "task": task.id,
            "g": row.g,
            "score": None if status == "undecided" else 0.0 if status in {"failed", "timeout"} else row.reward,
            "status": status,
            "error": row.failure_code or "",
            "cluster": f"{task.domain}/{task.family}" if task.family else "",
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
