"""Inputs of a learner without a network: an endpoint with a scripted model, and a journal in memory."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import BudgetOptions
from agentlearn.learning.lessons.stages import Stages
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.outage import RetryPolicy
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.group import Group
from agentlearn.types.ids import CallId, RunId, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory, Treatment, Verdict

RUN = RunId("01test")
Reply = Callable[[str], object]
"""Maps the last user message to the model's answer: a dict for a tool call, a str for plain text."""


class ListJournal:
    """A journal in memory."""

    def __init__(self) -> None:
        self.records: list[CallRecord] = []

    async def record(self, record: CallRecord) -> None:
        self.records.append(record)

    def began(self, unit: str) -> bool:
        """Return False, because no run is resumed."""
        return False

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return None, because no run is resumed."""
        return None


def last_user_text(messages: Sequence[ModelMessage]) -> str:
    """Return the last user message."""
    for message in reversed(messages):
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                    return part.content
    return ""


def scripted(reply: Reply, instructions: list[str] | None = None) -> Endpoint:
    """An endpoint whose model submits what `reply` returns. `Arguments` are sent unchanged.

    instructions: collects the instructions of every request.
    """

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if instructions is not None:
            instructions.append(info.instructions or "")
        given = reply(last_user_text(messages))
        if isinstance(given, str):
            return ModelResponse(parts=[TextPart(given)])
        arguments = given.text if isinstance(given, Arguments) else json.dumps(given)
        return ModelResponse(parts=[ToolCallPart("submit", arguments)])

    endpoint_state = EndpointState(Limiter(8), deadline_s=60, retry=RetryPolicy(attempts=2, base_s=0))
    return Endpoint(
        name="scripted", model=FunctionModel(script), endpoint_state=endpoint_state, simulated=False, url="scripted"
    )


class Arguments:
    """Arguments of the tool call exactly as the model wrote them, valid JSON or not."""

    def __init__(self, text: str) -> None:
        self.text = text


def stage_context(reply: Reply, library: Library = EMPTY_LIBRARY, step: str = "epoch-1/1") -> Stages:
    """The stages with a scripted model."""
    return Stages(
        call_context=CallContext(RUN, ListJournal(), Budget(BudgetOptions())),
        endpoint=scripted(reply),
        seed=0,
        step=step,
        library=library,
        shown=library.render(),
    )


def task(problem: str = "How many integers lie from 3 to 9?", answer: str = "7") -> Task:
    """A small task."""
    return Task.of("math", problem, answer, family="counting")


def trajectory(of: Task, g: int, reward: float | None, text: str = "range(3, 9)") -> Trajectory:
    """A judged rollout of one model turn."""
    status = "undecided" if reward is None else "correct" if reward == 1 else "incorrect"
    return Trajectory(
        id=rollout_id(RUN, "epoch-1", of.id, g, 0),
        run=RUN,
        phase="epoch-1",
        task=of.id,
        g=g,
        seed=g,
        treatment=Treatment(model="scripted", library=EMPTY_LIBRARY.version),
        steps=(ModelTurn(text=text),),
        answer="7",
        verdict=Verdict(status=status, reward=reward),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def group(rewards: Sequence[float | None], of: Task | None = None) -> Group:
    """A group with these rewards."""
    one = of or task()
    return Group(task=one, trajectories=tuple(trajectory(one, g, reward) for g, reward in enumerate(rewards)))
