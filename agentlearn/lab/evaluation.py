"""The held-out check of a lab model: it sits exams, its programs are really run, and its answers are marked."""

import json
from asyncio import Semaphore, TaskGroup
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentlearn.lab.checkpoint import read_checkpoint
from agentlearn.lab.contract import EvaluationTask, Lab
from agentlearn.lab.engine import LabEngine, open_engine
from agentlearn.lab.lab_format import LabFormat
from agentlearn.sandbox import CodeSandbox, Session, open_sandbox
from agentlearn.sandbox.tool_text import render_result
from agentlearn.serving import chatml
from agentlearn.serving.chat_request import Called, Message
from agentlearn.serving.engine import Sampling
from agentlearn.types.ids import derive_seed

TURNS = 4
MAX_TOKENS = 400
TEMPERATURE = 0.7
SANDBOX = "zygote"
SESSIONS = 8
"""Programs run at once."""


@dataclass(frozen=True, slots=True)
class ConditionScore:
    """How a model did under one condition."""

    condition: str
    number: int
    right: int
    expected: float
    """The teacher's mean probability of being right."""

    @property
    def share(self) -> float:
        """Right ones of all."""
        return self.right / self.number


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedModel:
    """Who sits the exams."""

    lab: Lab
    engine: LabEngine
    chat: LabFormat
    sandbox: CodeSandbox

    async def score(self, condition: str, number: int, seed: int) -> ConditionScore:
        """So many exams under that condition."""
        exams = self.lab.exams(condition, number, seed)
        slots = Semaphore(SESSIONS)
        async with TaskGroup() as group:
            sitting = [
                group.create_task(self._sit(exam, derive_seed(seed, at), slots)) for at, exam in enumerate(exams)
            ]
        right = sum(one.result() for one in sitting)
        return ConditionScore(condition, number, right, sum(exam.expected for exam in exams) / number)

    async def _sit(self, exam: EvaluationTask, seed: int, slots: Semaphore) -> bool:
        messages = [Message("system", exam.system), Message("user", exam.question)]
        async with slots, self.sandbox.open(seed) as session:
            for turn in range(TURNS):
                spoken = await self._answer(messages, exam.tools, derive_seed(seed, turn))
                if not spoken.calls:
                    return self.lab.is_right(exam, spoken.text)
                messages += [spoken, *await _results(spoken.calls, session)]
        return False

    async def _answer(self, messages: Sequence[Message], tools: Sequence[str], seed: int) -> Message:
        prompt = self.chat.encode(chatml.written(messages, tools))
        sampling = Sampling(seed=seed, max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
        drawn = await self.engine.sample(prompt, sampling)
        written = self.chat.decode([one for one in drawn.ids if one not in self.chat.stop_ids])
        heard = self.chat.parse(written)
        calls = tuple(Called(f"call_{at}", *call) for at, call in enumerate(heard.calls))
        return Message("assistant", heard.text, calls, spoken=written)


async def _results(calls: Sequence[Called], session: Session) -> list[Message]:
    """What the tool answers to each call."""
    results: list[Message] = []
    for call in calls:
        result = await session.run(_code(call))
        results.append(Message("tool", render_result(result), answers=call.id))
    return results


def _code(call: Called) -> str:
    """The program of a call; nothing where it has none."""
    arguments: object = json.loads(call.arguments)
    match arguments:
        case {"code": str(code)}:
            return code
        case _:
            return ""


async def checked(lab: Lab, folder: Path, number: int, seed: int, *, sandbox: str = SANDBOX) -> list[ConditionScore]:
    """How the model in that folder does under each of the lab's conditions. Raises ConfigError as `read_checkpoint`."""
    model, tokenizer = read_checkpoint(folder, lab.name)
    chat = LabFormat(tokenizer)
    (end,) = chat.stop_ids
    async with open_sandbox(sandbox) as box, open_engine(model, end) as engine:
        candidate = EvaluatedModel(lab, engine, chat, box)
        return [await candidate.score(condition, number, seed) for condition in lab.conditions]
