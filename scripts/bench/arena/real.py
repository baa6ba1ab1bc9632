"""The real 0.5B of `just proof` as a ground: three of its kinds, whose rule is made up and said by one sentence.

The model reads a text as its system message. The reflector is simulated, since no such small model writes these
sentences: after a wrong answer it says the rule, and one time in three the wrong rule.
"""

import json
import sys
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from scripts.bench.arena.proxy import Conclusion, Ground, Task
from scripts.bench.proof.kinds import KINDS, Drawn, drawn
from scripts.bench.proof.measuring import says
from scripts.bench.proof.models import cache_folder
from scripts.bench.proof.server import Server

CHOOSE, KINDS_USED, HARMFUL = 3, 3, 0.3


@dataclass
class Real:
    """One kind with the rule of one seed. Implements `Ground`."""

    server: Server
    mine: Drawn
    seed: int
    exact: bool = False
    train: Sequence[Task] = field(init=False)
    choose: Sequence[Task] = field(init=False)
    _calls: int = 0
    _wrong: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        tasks = [(one.problem, one.answer) for one in self.mine.learned]
        self.train, self.choose = tasks[CHOOSE:], tasks[:CHOOSE]
        self.name, self.start = f"0.5B, {self.mine.kind.name}", f"{self.mine.kind.instructions}\n"
        self.person = "\n".join([self.start, *self.mine.right]) + "\n"
        self._random = Random(f"real {self.name} {self.seed}")

    def solve(self, text: str, problem: str) -> str:
        """One answer, sampled."""
        self._calls += 1
        answer = self._asked(text, problem, 0.7)
        gold = dict([*self.train, *self.choose]).get(problem, "")
        (self._wrong.discard if self.right(answer, gold) else self._wrong.add)(problem)
        return answer

    def _asked(self, text: str, problem: str, temperature: float) -> str:
        body = {
            "messages": [{"role": "system", "content": text}, {"role": "user", "content": problem}],
            "max_tokens": self.mine.kind.answer_tokens,
            "temperature": temperature,
            "seed": self._calls,
        }
        url = f"http://127.0.0.1:{self.server.port}/v1/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            found: Any = json.loads(reply.read())
        return str(found["choices"][0]["message"]["content"])

    def right(self, answer: str, gold: str) -> bool:
        """Judged as the kind is."""
        return says(self.mine.kind, answer, gold)

    def score(self, text: str) -> float:
        """The share of the held-out tasks, answered greedily."""
        asked = self.mine.held_out
        return sum(self.right(self._asked(text, one.problem, 0.0), one.answer) for one in asked) / len(asked)

    def learned(self, text: str, task: Task, calls: int) -> list[Conclusion]:
        """The rule after a wrong answer, or the wrong rule."""
        if task[0] not in self._wrong:
            return []
        new = self.mine.wrong if self._random.random() < HARMFUL else self.mine.right
        old = next((one for one in (*self.mine.wrong, *self.mine.right) if one in text), "")
        return [] if old in new else [(old, new[0])]

    def about(self, sentence: str) -> str:
        """Every sentence is on the one rule."""
        return "rule" if sentence in (*self.mine.right, *self.mine.wrong) else ""


@contextmanager
def real(seeds: int, first: int = 0) -> Generator[list[tuple[str, int, Any]]]:
    """The grounds of these seeds, while the model is served."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with Server("0.5b", threads=2, say=lambda words: print(words, file=sys.stderr), log=folder / "arena.log") as server:

        def ground(at: int, seed: int) -> Ground:
            return Real(server, drawn(KINDS[at], seed), seed)

        yield [
            (f"0.5B, {KINDS[at].name}", seed, partial(ground, at, seed))
            for seed in range(first, first + seeds)
            for at in range(KINDS_USED)
        ]
