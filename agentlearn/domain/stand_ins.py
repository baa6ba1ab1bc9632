"""What `agentlearn domain check` puts in place of a model, a rollout and a sandbox, so that a check spends nothing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from agentlearn.sandbox.protocol import CodeResult, SandboxReport, Session
from agentlearn.types.ids import LibraryVersion, RunId, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory
from agentlearn.types.treatment import Treatment

WRONG_ANSWER = "an answer that nobody expects"


def rollout_ending_in(task: Task, answer: str | None) -> Trajectory:
    """Return the record of a rollout whose final answer is this one."""
    run = RunId("contract")
    return Trajectory(
        id=rollout_id(run, "contract", task.id, 0, 0),
        run=run,
        phase="contract",
        task=task.id,
        g=0,
        seed=0,
        treatment=Treatment(model="none", library=LibraryVersion("none")),
        steps=(ModelTurn(text=answer or ""),),
        answer=answer,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


async def run_agent(agent: Any, question: str, answer: str | None, deps: object) -> Any:
    """Run the agent with stand-ins for a model until it accepts what one of them answers; return pydantic-ai's result.

    They answer with `answer` as text, then through an output tool, then with empty texts. Raises
    UnexpectedModelBehavior when the agent accepts none of them.
    """
    from pydantic_ai.exceptions import UnexpectedModelBehavior
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.test import TestModel

    as_text = TestModel(call_tools=[], custom_output_text=answer or WRONG_ANSWER)
    try:
        return await agent.run(question, model=as_text, deps=deps)
    except (AssertionError, UnexpectedModelBehavior):  # TestModel asserts that the agent accepts text
        pass
    try:
        return await agent.run(question, model=TestModel(call_tools=[]), deps=deps)
    except UnexpectedModelBehavior:
        return await agent.run(question, model=FunctionModel(_empty_texts), deps=deps)


def _empty_texts(_messages: Any, info: Any) -> Any:
    """Answer with empty texts, which an agent cannot check against anything."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    if not info.output_tools:
        return ModelResponse(parts=[TextPart("")])
    tool = info.output_tools[0]
    properties = tool.parameters_json_schema.get("properties", {})
    texts = {name: "" for name, schema in properties.items() if schema.get("type") == "string"}
    return ModelResponse(parts=[ToolCallPart(tool.name, texts)])


class _IdleSession:
    """A session in which every program prints nothing."""

    async def run(self, code: str, *, timeout_s: float | None = None) -> CodeResult:
        return CodeResult(status="ok")


class IdleSandbox:
    """A sandbox that runs nothing."""

    @property
    def report(self) -> SandboxReport:
        return SandboxReport(name="idle")

    @asynccontextmanager
    async def open(self, seed: int) -> AsyncGenerator[Session]:
        yield _IdleSession()
