"""One sound value of each noun that the store keeps, with any field replaced."""

from datetime import UTC, datetime, timedelta
from typing import Any

from agentlearn.models.call_context import CallRecord
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Summary, SummaryStep
from agentlearn.types.ids import CallId, ExperienceId, ProposalId, RolloutId, RunId, content_hash, rollout_id
from agentlearn.types.operation import Add, Applied, Ended, Proposal
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import (
    ModelTurn,
    PromptRef,
    ToolCall,
    ToolResult,
    Trajectory,
    Treatment,
    Usage,
    Verdict,
)

RUN = RunId("01jd" + "0" * 22)
AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
TASK = Task.of("math", "What is 2 + 2?", "4", family="sums", source="generated")
WALK = Task.of("web", "Who leads it?", "Ada", start="http://a.test/", path=("http://a.test/", "http://a.test/people"))


def run_event(**changes: Any) -> RunEvent:
    """A run that has begun."""
    values: dict[str, Any] = {
        "run": RUN,
        "domain": "math",
        "kind": "learn",
        "state": "running",
        "model": "sim:novice",
        "simulated": True,
        "seed": 7,
        "settings": '{"epochs":3}',
        "package_version": "0.1.0",
        "at": AT,
    }
    return RunEvent(**values | changes)


def trajectory(g: int = 0, **changes: Any) -> Trajectory:
    """The g-th rollout of the task: a question, a tool, an answer."""
    phase, run = changes.get("phase", "epoch-1"), changes.get("run", RUN)
    turn = ModelTurn(
        call=CallId("c1"),
        text="let me compute",
        thinking="hm",
        tool_calls=(ToolCall(id="t1", tool="python", arguments='{"code":"2+2"}'),),
        usage=Usage(requests=1, tokens_in=100, tokens_cached=20, tokens_out=10),
        seconds=0.5,
        finish="tool_call",
    )
    result = ToolResult(call="t1", tool="python", content="4", ok=True, seconds=0.01)
    values: dict[str, Any] = {
        "id": rollout_id(run, phase, TASK.id, g, 0),
        "run": run,
        "phase": phase,
        "batch": 1,
        "task": TASK.id,
        "g": g,
        "seed": 11,
        "treatment": Treatment(model="sim:novice", library=EMPTY_LIBRARY.version, temperature=0.7),
        "steps": (turn, result, ModelTurn(text="4", usage=Usage(requests=1, tokens_in=130, tokens_out=2))),
        "answer": "4",
        "verdict": Verdict(status="correct", reward=1.0, reason="equal"),
        "usage": Usage(requests=2, tokens_in=230, tokens_cached=20, tokens_out=12),
        "cost_usd": 0.001,
        "started_at": AT + timedelta(seconds=g),
        "seconds": 1.25,
        "prompts": (PromptRef(name="math:solve", version=1, sha256="ab" * 32),),
        "isolation": "zygote: process, rlimits",
    }
    return Trajectory(**values | changes)


def call(ordinal: int = 0, **changes: Any) -> CallRecord:
    """An answered model call."""
    values: dict[str, Any] = {
        "id": CallId(content_hash("call", ordinal, changes.get("kind", "model"), changes.get("unit", "u"))),
        "run": RUN,
        "stage": "rollout",
        "unit": "u",
        "ordinal": ordinal,
        "kind": "model",
        "name": "novice",
        "ok": True,
        "response": '{"parts":[]}',
        "request_hash": "f" * 32,
        "tokens_in": 100,
        "tokens_out": 10,
        "cost_usd": 0.25,
        "seconds": 0.5,
        "at": AT,
    }
    return CallRecord(**values | changes)


def proposal(identity: str = "p1", **changes: Any) -> Proposal:
    """A lesson that a group asked for."""
    values: dict[str, Any] = {
        "id": ProposalId(identity),
        "stage": "compare",
        "ordinal": 0,
        "operation": Add(lesson="When counting, check the ends.", tags=("counting",)),
        "raw": '{"op":"add"}',
        "task": TASK.id,
        "evidence": (RolloutId("r1"), RolloutId("r2")),
    }
    return Proposal(**values | changes)


def applied(identity: str = "p1", experience: str = "e1", **changes: Any) -> Ended:
    """The same, taken into the library."""
    return Ended(proposal=proposal(identity, **changes), end=Applied(experience=ExperienceId(experience)))


def summary(identity: str = "s1", **changes: Any) -> Summary:
    """A trajectory told in two steps."""
    steps = (SummaryStep(text="adds", used=(ExperienceId("e1"),)), SummaryStep(text="answers"))
    values: dict[str, Any] = {
        "id": identity,
        "run": RUN,
        "rollout": RolloutId("r1"),
        "steps": steps,
        "raw": "1. adds",
        "library": EMPTY_LIBRARY.version,
    }
    return Summary(**values | changes)
