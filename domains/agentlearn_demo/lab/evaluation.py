"""Evaluating a lab model on held-out questions: its programs are run in a sandbox, and its answers are checked."""

import json
import math
from asyncio import Semaphore, TaskGroup
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentlearn.sandbox import CodeSandbox, Session, open_sandbox
from agentlearn.sandbox.python_tool import render_result
from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import CallInMessage, Message
from agentlearn.serving.engine import Sampling
from agentlearn.serving.tool_calls import parse_calls
from agentlearn.types.ids import derive_seed
from agentlearn_demo.lab.checkpoint import read_checkpoint
from agentlearn_demo.lab.contract import EvaluationTask, Lab
from agentlearn_demo.lab.engine import LabEngine, open_lab_engine
from agentlearn_demo.lab.lab_format import LabFormat

TURNS = 4
MAX_TOKENS = 400
TEMPERATURE = 0.7
SANDBOX = "zygote"
SESSIONS = 8
"""Largest number of questions answered at once."""


@dataclass(frozen=True, slots=True)
class ConditionScore:
    """Result of a model under one condition."""

    condition: str
    number: int
    """Number of questions."""
    right: int
    """Number of correct answers."""
    expected: float
    """The teacher's mean probability of a correct answer."""

    @property
    def share(self) -> float:
        """Share of correct answers."""
        return self.right / self.number

    @property
    def standard_error(self) -> float:
        """Standard error of `share`, with one right and one wrong answer added so that it is never 0."""
        share = (self.right + 1) / (self.number + 2)
        return math.sqrt(share * (1 - share) / (self.number + 2))


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedModel:
    """The model that is evaluated, with its engine and sandbox."""

    lab: Lab
    engine: LabEngine
    chat: LabFormat
    sandbox: CodeSandbox

    async def score(self, condition: str, number: int, seed: int) -> ConditionScore:
        """Evaluate `number` questions under a condition."""
        tasks = self.lab.evaluation_tasks(condition, number, seed)
        slots = Semaphore(SESSIONS)
        async with TaskGroup() as group:
            attempts = [
                group.create_task(self._attempt(task, derive_seed(seed, at), slots)) for at, task in enumerate(tasks)
            ]
        right = sum(one.result() for one in attempts)
        return ConditionScore(condition, number, right, sum(task.expected for task in tasks) / number)

    async def _attempt(self, task: EvaluationTask, seed: int, slots: Semaphore) -> bool:
        messages = [Message("system", task.system), Message("user", task.question)]
        async with slots, self.sandbox.open(seed) as session:
            for turn in range(TURNS):
                spoken = await self._answer(messages, task.tools, derive_seed(seed, turn))
                if not spoken.calls:
                    return self.lab.is_right(task, spoken.text)
                messages += [spoken, *await _results(spoken.calls, session)]
        return False

    async def _answer(self, messages: Sequence[Message], tools: Sequence[str], seed: int) -> Message:
        prompt = self.chat.encode(chatml.conversation_text(messages, tools))
        sampling = Sampling(seed=seed, max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
        sampled = await self.engine.sample(prompt, sampling)
        written = self.chat.decode([one for one in sampled.ids if one not in self.chat.stop_ids])
        parsed = parse_calls(written)
        calls = tuple(CallInMessage(f"call_{at}", *call) for at, call in enumerate(parsed.calls))
        return Message("assistant", parsed.text, calls, verbatim=written)


async def _results(calls: Sequence[CallInMessage], session: Session) -> list[Message]:
    """Run each tool call; returns the tool messages."""
    results: list[Message] = []
    for call in calls:
        result = await session.run(_code(call))
        results.append(Message("tool", render_result(result), answers=call.id))
    return results


def _code(call: CallInMessage) -> str:
    """The program of a call; empty when it has none."""
    arguments: object = json.loads(call.arguments)
    match arguments:
        case {"code": str(code)}:
            return code
        case _:
            return ""


async def evaluate_lab_model(
    lab: Lab, folder: Path, number: int, seed: int, *, conditions: Sequence[str] = (), sandbox: str = SANDBOX
) -> list[ConditionScore]:
    """Evaluate the model in a folder under these conditions, or under all of the lab's if none are given.

    Raises ConfigError as `read_checkpoint` does.
    """
    model, tokenizer = read_checkpoint(folder, lab.name)
    chat = LabFormat(tokenizer)
    (end,) = chat.stop_ids
    async with open_sandbox(sandbox) as box, open_lab_engine(model, end) as engine:
        evaluated = EvaluatedModel(lab, engine, chat, box)
        return [await evaluated.score(condition, number, seed) for condition in conditions or lab.conditions]
