"""Groups of rollouts with sampled tokens, and a sampler that records what the learner does with it. Needs torch."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from agentlearn.types.group import Group
from agentlearn.types.ids import LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Failure, ModelTurn, SampledTokens, Trajectory, Treatment, Verdict


def sampled_group(
    name: str,
    rewards: Sequence[float | None],
    *,
    answer: Sequence[int] = (4, 4, 4),
    answers: Sequence[str] = ("yes",),
    weights_step: int | None = 0,
    second: Literal["none", "clean", "forked"] = "none",
) -> Group:
    """Return a group whose rollouts have these rewards; None: the agent gave no usable answer.

    answer: number of tokens of each rollout's answer, repeated as needed. answers: their texts, repeated as needed.
    second: a second answer of one token, whose prompt continues the first answer (clean) or not (forked).
    """
    made: list[Trajectory] = []
    for g, reward in enumerate(rewards):
        count = answer[g % len(answer)]
        tokens = SampledTokens(prompt=(5, 6, 7), ids=tuple(8 + g + n for n in range(count)), logprobs=(-1.5,) * count)
        again = (*tokens.prompt, *tokens.ids, 30) if second == "clean" else (30, 31)
        further = SampledTokens(prompt=again, ids=(32,), logprobs=(-1.5,))
        made.append(
            Trajectory(
                id=RolloutId(f"{name}-{g}"),
                run=RunId("0" * 26),
                phase="epoch-1",
                task=TaskId(name),
                g=g,
                seed=g,
                treatment=Treatment(model="local:x", library=LibraryVersion("a" * 16), weights_step=weights_step),
                steps=(ModelTurn(tokens=tokens), *([] if second == "none" else [ModelTurn(tokens=further)])),
                answer=None if reward is None else answers[g % len(answers)],
                verdict=None if reward is None else Verdict(status="partial", reward=reward),
                failure=Failure(code="bad_output", message="no answer", boundary="output") if reward is None else None,
                started_at=datetime(2026, 1, 1, tzinfo=UTC),
            )
        )
    return Group(task=Task(id=TaskId(name), domain="letters", problem="?"), trajectories=tuple(made))


async def in_order(groups: Sequence[Group]) -> AsyncGenerator[Group]:
    """Yield the groups in this order."""
    for group in groups:
        yield group


@dataclass
class RecordingSampler:
    """A sampler that samples nothing, and records each call."""

    events: list[str] = field(default_factory=list[str])

    def weights_sha256(self) -> str:
        return ""

    def rounds(self, rollouts: int, *, at_once: int) -> None:
        return None

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        self.events.append("pause")
        yield
        self.events.append("go on")

    async def synchronise(self, model: Any) -> None:
        self.events.append("synchronise")
