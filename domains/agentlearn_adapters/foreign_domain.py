"""What the domains of all adapters share: their rollouts run themselves, and errors of foreign code are failures."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.data.split import hold_out
from agentlearn.domain.base import Answer, Domain, RolloutContext, checked_limit
from agentlearn.errors import ConfigError, VerifierError
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict

if TYPE_CHECKING:
    from pydantic_ai import Agent

HELD_OUT = 0.3
"""Share of the other project's tasks that is the test split."""
NEARLY_ONE = 1 - 1e-9
"""Smallest reward that counts as right. Weighted sums of floats may miss 1 by their last digits."""


class ForeignDomain(Domain):
    """Tasks of another project. A subclass gives `all_tasks` and `work`, and `verify` or `judge`."""

    runs_itself = True
    errors_are_failures = True
    threshold = NEARLY_ONE

    @abstractmethod
    def all_tasks(self) -> Sequence[Task]:
        """Return every task of the other project, in its order. Called once. Raises ConfigError."""

    @cached_property
    def _splits(self) -> dict[Split, tuple[Task, ...]]:
        tasks = {task.id: task for task in self.all_tasks()}
        train, test = hold_out(tuple(tasks.values()), HELD_OUT, self.answer_key)
        return {"train": train, "validation": (), "test": test}

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        """Return tasks of a split in an order that depends on the seed. Near-copies are in one split."""
        ranked = sorted(self._splits[split], key=lambda task: content_hash("order", seed, task.id))
        return tuple(ranked[: checked_limit(limit)])

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        """Raises ConfigError: the tasks come from the other project."""
        raise ConfigError(
            f"{self.name!r} has its own tasks and cannot judge those in {str(path)!r}; leave out --data, or name a"
            " domain or --reward that judges the file",
            code="own_tasks",
        )

    def agent(self) -> "Agent[Any, Any]":
        """Raises ConfigError: a domain that runs itself has no agent."""
        raise ConfigError(f"{self.name!r} runs the other project's own loop and has no agent", code="no_agent")

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return no prompt: the other project writes them, and the stored messages show them."""
        return ()

    def question(self, task: Task) -> str:
        """Return the problem."""
        return task.problem

    def open(self, context: RolloutContext) -> AbstractAsyncContextManager[object]:
        """Open nothing."""
        return nullcontext()

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Raises VerifierError: the other project's scorer needs the whole output."""
        raise VerifierError(
            f"{self.name!r} is scored by the other project's code, which needs the output of the rollout",
            code="no_output",
        )

    def answer_key(self, answer: str) -> str | None:
        """Return the answer without surrounding white space."""
        return answer.strip()

    def answer_of(self, output: Any) -> Answer:
        """Return the answer in the output of `work`."""
        return Answer(text=output.reply, answer=output.reply or None)


def verdict_of(reward: float, reason: str = "") -> Verdict:
    """Return the verdict for a reward from 0 to 1."""
    status = "correct" if reward >= NEARLY_ONE else "incorrect" if reward <= 0 else "partial"
    return Verdict(status=status, reward=reward, reason=reason)


def undecided(reason: str) -> Verdict:
    """Return the verdict for a rollout that the other project's scorer did not judge."""
    return Verdict(status="undecided", reason=reason)


def unknown(kind: str, name: str, known: Sequence[str], next_step: str) -> ConfigError:
    """Return the error for a name that the other project does not have. known: the names that it has."""
    found = ", ".join(repr(one) for one in known) or "none"
    return ConfigError(f"there is no {kind} {name!r} (found: {found}); {next_step}", code="unknown_adapter_name")
