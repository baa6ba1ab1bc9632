"""The lab model as a ground: a real but tiny transformer that reads lessons, and a simulated reflector for it.

A rollout (the model writes a program, a sandbox runs it, the model reads the output) counts as one call. Every line of
a text is shown as a lesson, in the form that the model was trained on, whatever the learner calls it. The reflector
reads the attempts at a task: it writes about the careless habits that a wrong program shows, and one lesson in three
orders the mistake.
"""

import asyncio
import json
import re
import threading
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from agentlearn.answers.reply import boxed
from agentlearn.domain.demo import lab_model
from agentlearn.sandbox import open_sandbox
from agentlearn.sandbox.python_tool import TOOL, render_result
from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import CallInMessage, Message
from agentlearn.serving.chat_service import Sampling
from agentlearn.serving.tool_calls import parse_calls
from agentlearn.types.ids import derive_seed
from agentlearn_demo.demos import math_tasks
from agentlearn_demo.lab.corpus import system_with
from agentlearn_demo.lab.engine import LabFormat, open_lab_engine
from agentlearn_demo.lab.transformer import read_checkpoint
from agentlearn_demo.math.novice import skills
from agentlearn_demo.sim.vocabulary import Vocabulary
from agentlearn_math.verify import answer_key
from scripts.bench.arena.proxy import Conclusion, Ground, Task

TRAIN, CHOOSE, HELD_OUT = 14, 8, 40
HARMFUL = 0.3
_LABEL = re.compile(r"^(?:\[\w+\]|[-*])\s+")
_HEAD = "# Lessons"


class LabModel:
    """The model, answering in a thread of its own while `lab` is open."""

    def __init__(self, folder: Path, name: str) -> None:
        model, tokenizer = read_checkpoint(folder, name)
        self.chat, self._model = LabFormat(tokenizer), model
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._stack = AsyncExitStack()
        self._wait(self._open())

    async def _open(self) -> None:
        (end,) = self.chat.stop_ids
        self._box = await self._stack.enter_async_context(open_sandbox("zygote"))
        self._engine: Any = await self._stack.enter_async_context(open_lab_engine(self._model, end))

    def close(self) -> None:
        """End the sandbox and the engine."""
        self._wait(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def answers(self, lessons: Sequence[str], problems: Sequence[str], seed: int) -> list[tuple[str, str]]:
        """The answer to each problem, and all that the model wrote for it."""
        made = [self._rollout(lessons, problem, derive_seed(seed, at)) for at, problem in enumerate(problems)]

        async def together() -> list[tuple[str, str]]:
            return await asyncio.gather(*made)

        return self._wait(together())

    async def _rollout(self, lessons: Sequence[str], problem: str, seed: int) -> tuple[str, str]:
        messages, said = [Message("system", system_with(lessons)), Message("user", problem)], list[str]()
        async with self._box.open(seed) as session:
            for turn in range(4):
                prompt = self.chat.encode(chatml.conversation_text(messages, (TOOL,)))
                sampling = Sampling(seed=derive_seed(seed, turn), max_tokens=400, temperature=0.7)
                sampled = await self._engine.sample(prompt, sampling)
                written = self.chat.decode([one for one in sampled.ids if one not in self.chat.stop_ids])
                parsed = parse_calls(written)
                said.append(written)
                if not parsed.calls:
                    return boxed(parsed.text) or "", "\n".join(said)
                calls = tuple(CallInMessage(f"call_{at}", *call) for at, call in enumerate(parsed.calls))
                messages.append(Message("assistant", parsed.text, calls, verbatim=written))
                for call in calls:
                    given: Any = json.loads(call.arguments)
                    result = await session.run(str(given.get("code", "")) if isinstance(given, dict) else "")
                    messages.append(Message("tool", render_result(result), answers=call.id))
        return "", "\n".join(said)


@dataclass
class Lab:
    """The problems of one seed. Implements `Ground`."""

    model: LabModel
    seed: int
    name: str = "lab model"
    exact: bool = False
    start: str = f"{_HEAD}\n"
    train: Sequence[Task] = field(init=False)
    choose: Sequence[Task] = field(init=False)
    _calls: int = 0
    _seen: dict[str, list[tuple[bool, str]]] = field(default_factory=dict[str, list[tuple[bool, str]]])

    def __post_init__(self) -> None:
        def tasks(split: Any, number: int) -> list[Task]:
            return [(one.problem, one.answer or "") for one in math_tasks(split, self.seed, number)]

        self.train, self.choose = tasks("train", TRAIN), tasks("validation", CHOOSE)
        self._held_out = tasks("test", HELD_OUT)
        self._gold = dict([*self.train, *self.choose])
        self._vocabulary, self._random = Vocabulary(skills), Random(f"lab {self.seed}")
        written = [self._vocabulary.lesson(trap, self._random) for trap in self._vocabulary.traps]
        self.person = "\n".join([_HEAD, *written]) + "\n"

    def solve(self, text: str, problem: str) -> str:
        """One rollout."""
        self._calls += 1
        ((answer, said),) = self.model.answers(lessons_in(text), [problem], derive_seed(self.seed, self._calls))
        self._seen.setdefault(problem, []).append((self.right(answer, self._gold.get(problem, "")), said))
        return answer

    def right(self, answer: str, gold: str) -> bool:
        """Whether both are the same number."""
        return answer_key(answer) == answer_key(gold)

    def score(self, text: str) -> float:
        """The share of held-out problems solved, one rollout each; the same seeds for every text."""
        answers = self.model.answers(lessons_in(text), [one for one, _ in self._held_out], self.seed)
        right = [self.right(said, gold) for (said, _), (_, gold) in zip(answers, self._held_out, strict=True)]
        return sum(right) / len(right)

    def learned(self, text: str, task: Task, calls: int) -> list[Conclusion]:
        """Lessons on the careless habits of the last wrong attempts, unless the text has one."""
        wrong = [said for right, said in self._seen.get(task[0], [])[-5:] if not right]
        shown = {one.trap for said in wrong for one in self._vocabulary.habits_in(said) if one.careless}
        found = list[Conclusion]()
        for trap in self._vocabulary.traps:
            if trap.name not in shown:
                continue
            lines = [(one, self._vocabulary.reader.read(one).stances.get(trap.name)) for one in lessons_in(text)]
            old = next((one for one, stance in lines if stance == "contradicts"), "")
            if not old and any(stance == "addresses" for _, stance in lines):
                continue
            harmful = self._random.random() < HARMFUL
            bad = self._vocabulary.defective("harmful", trap, self._random) if harmful else None
            found.append((old, bad or self._vocabulary.lesson(trap, self._random)))
        return found[:2]

    def about(self, sentence: str) -> str:
        """The habit that a lesson is on."""
        return next(iter(self._vocabulary.reader.read(sentence).stances), "")


def lessons_in(text: str) -> list[str]:
    """The lines of a text that are lessons: no headings, marks or examples."""
    lines = (_LABEL.sub("", line.strip()) for line in text.splitlines())
    return [line for line in lines if line and line[0] not in "#<" and " -> " not in line and line.endswith(".")]


@contextmanager
def lab(seeds: int, first: int = 0) -> Generator[list[tuple[str, int, Any]]]:
    """The grounds of these seeds, while the model is open."""
    model = LabModel(lab_model("novice").folder, "novice")
    try:
        made: list[tuple[str, int, Any]] = [
            ("lab model", seed, partial(_ground, model, seed)) for seed in range(first, first + seeds)
        ]
        yield made
    finally:
        model.close()


def _ground(model: LabModel, seed: int) -> Ground:
    return Lab(model, seed)
