"""A learner's surroundings without a network: a scripted model behind a real door, a journal in memory."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.advantage.lens import Lens
from agentlearn.calls.account import Account
from agentlearn.calls.budget import Budget, Limits
from agentlearn.calls.door import Gate
from agentlearn.calls.endpoint import Endpoint
from agentlearn.calls.journal import CallRecord
from agentlearn.calls.limiter import Limiter
from agentlearn.calls.retry import RetryPolicy
from agentlearn.experience import EMPTY_LIBRARY, Library
from agentlearn.group import Group
from agentlearn.ids import CallId, RunId, rollout_id
from agentlearn.retrieve import render
from agentlearn.task import Task
from agentlearn.trajectory import ModelTurn, Trajectory, Verdict
from agentlearn.treatment import Treatment

RUN = RunId("01test")
Reply = Callable[[str], object]
"""From the last user message to what the model hands in: a dict for the tool, a str for plain text."""


class ListJournal:
    """A journal in memory."""

    def __init__(self) -> None:
        self.records: list[CallRecord] = []

    async def record(self, record: CallRecord) -> None:
        self.records.append(record)

    def began(self, unit: str) -> bool:
        """Nothing: no run is resumed."""
        return False

    def recorded(self, identity: CallId) -> CallRecord | None:
        """Nothing: no run is resumed."""
        return None


def last_user_text(messages: Sequence[ModelMessage]) -> str:
    """The newest words of the user."""
    for message in reversed(messages):
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                    return part.content
    return ""


def scripted(reply: Reply) -> Endpoint:
    """An endpoint whose model submits what `reply` gives; a `Raw` string of arguments is sent as it is."""

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given = reply(last_user_text(messages))
        if isinstance(given, str):
            return ModelResponse(parts=[TextPart(given)])
        arguments = given.text if isinstance(given, Arguments) else json.dumps(given)
        return ModelResponse(parts=[ToolCallPart("submit", arguments)])

    gate = Gate(Limiter(8), deadline_s=60, retry=RetryPolicy(attempts=2, base_s=0))
    return Endpoint(name="scripted", model=FunctionModel(script), gate=gate, simulated=False, url="scripted")


class Arguments:
    """Arguments of the tool call exactly as the model wrote them, valid JSON or not."""

    def __init__(self, text: str) -> None:
        self.text = text


def lens(reply: Reply, library: Library = EMPTY_LIBRARY, step: str = "epoch-1/1") -> Lens:
    """A lens on a scripted model."""
    return Lens(
        account=Account(RUN, ListJournal(), Budget(Limits())),
        endpoint=scripted(reply),
        seed=0,
        step=step,
        library=library,
        shown=render(library),
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
