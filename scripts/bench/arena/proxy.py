"""The one way to a model in the arena: counts calls and tokens, notes the texts that were tried, ends at the budget."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Task = tuple[str, str]
"""A problem and its expected answer."""
Conclusion = tuple[str, str]
"""The sentence that a reflector wants replaced, or nothing; and the new one."""


class Spent(Exception):
    """The calls of a learner are used up."""


class Ground(Protocol):
    """Tasks, a model that reads a text and solves them, and a reflector that writes sentences for such a text."""

    name: str
    seed: int
    exact: bool
    """Whether `score` is exact and free, so that many texts can be scored."""
    start: str
    """The text to start from."""
    train: Sequence[Task]
    choose: Sequence[Task]
    person: str
    """The text of a person who knows every rule."""

    def solve(self, text: str, problem: str) -> str:
        """The model's answer after it has read a text."""
        ...

    def right(self, answer: str, gold: str) -> bool:
        """Whether an answer is the expected one."""
        ...

    def learned(self, text: str, task: Task, calls: int) -> list[Conclusion]:
        """What the reflector concludes from the attempts at a task. calls: of the run so far."""
        ...

    def about(self, sentence: str) -> str:
        """What a sentence is about, so that sentences on the same can be counted; empty for nothing."""
        ...

    def score(self, text: str) -> float:
        """Expected share of held-out tasks solved after reading a text, 0 to 1. Not counted."""
        ...


@dataclass
class Proxy:
    """Everything a learner asks in one ground. `most`: calls, of any kind, after which the next raises Spent."""

    ground: Ground
    most: int = 1_000_000
    calls: int = 0
    tokens: int = 0
    """Characters of prompts and replies, divided by four."""
    inside_s: float = 0.0
    """Wall seconds inside the model."""
    inside_cpu_s: float = 0.0
    tried: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Every text that a task was solved with: calls and tokens when it was first tried."""

    def solve(self, text: str, problem: str) -> str:
        """Solve a task after reading a text. One call."""
        self._may_ask()
        self.tried.setdefault(text, (self.calls, self.tokens))
        return self._asked(len(text) + len(problem), lambda: self.ground.solve(text, problem))

    def solves(self, text: str, task: Task) -> bool:
        """Whether the model solves a task after reading a text. One call."""
        return self.ground.right(self.solve(text, task[0]), task[1])

    def reflect(self, prompt: str, reply: Callable[[], str]) -> str:
        """Let the reflector answer a prompt. One call."""
        self._may_ask()
        return self._asked(len(prompt), reply)

    def concluded(self, prompt: str, text: str) -> list[Conclusion]:
        """What the reflector concludes from the tasks that a prompt shows with their expected answers."""
        shown = sorted((at, task) for task in self.ground.train for at in [prompt.find(task[0])] if at >= 0)
        ends = [*(at for at, _ in shown[1:]), len(prompt)]
        return [
            one
            for (at, task), end in zip(shown, ends, strict=False)
            if task[1] in prompt[at + len(task[0]) : end]
            for one in self.ground.learned(text, task, self.calls)
        ]

    @property
    def left(self) -> int:
        """Calls that are left."""
        return self.most - self.calls

    def _may_ask(self) -> None:
        if self.calls >= self.most:
            raise Spent(f"{self.most} calls are used up")
        self.calls += 1

    def _asked(self, characters: int, ask: Callable[[], str]) -> str:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            reply = ask()
        finally:
            self.inside_s += time.perf_counter() - wall
            self.inside_cpu_s += time.process_time() - cpu
        self.tokens += (characters + len(reply)) // 4
        return reply


def rewritten(text: str, conclusions: Sequence[Conclusion]) -> str:
    """A text with conclusions in it."""
    for old, new in conclusions:
        if old and old in text:
            text = text.replace(old, new, 1)
        elif new not in text:
            text = f"{text.rstrip()}\n{new}\n"
    return text
