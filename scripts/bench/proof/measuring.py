"""One cell of the proof: a kind of tasks, a seed and a phase. Each is one run of agentlearn, and is made once.

The phases of reading come in this order: no lessons, the right lesson, no lessons again, the right lesson again, a
placebo, raw history, and a wrong lesson. A phase begins with an empty prompt cache and asks one task after the other.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from agentlearn import Library
from agentlearn.domain.custom.reward import CONTAINS, NUMBER
from agentlearn.library import LibraryStore
from agentlearn.measure.score_table import Observation
from agentlearn.store import read_store
from agentlearn.types.value import Value
from agentlearn_evals import CompareSettings
from agentlearn_evals.comparing import compare_planned
from agentlearn_evals.plan import plan_comparison
from scripts.bench.proof.kinds import Asked, Drawn, Kind, placebo_for
from scripts.bench.proof.server import Server

Phase = Literal["attempts", "off", "on", "off again", "on again", "placebo", "history", "wrong", "own"]
READING: tuple[Phase, ...] = get_args(Phase)[1:8]
ATTEMPTS = 4
"""Tasks whose attempts are the raw history."""


class Cell(Value):
    """What one phase gave, task by task."""

    kind: str
    seed: int
    phase: Phase
    lessons: tuple[str, ...]
    scores: tuple[float, ...]
    replies: tuple[str, ...]
    followed_wrong: tuple[bool, ...]
    """Whether the reply is what the wrong rule says."""
    undecided: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    wall_s: float = 0.0

    @property
    def score(self) -> float:
        """The mean score."""
        return sum(self.scores) / len(self.scores)

    def observations(self) -> list[Observation]:
        """Return its rollouts as agentlearn's statistics take them; a task keeps its name in every phase."""
        return [
            Observation(arm=self.phase, task=f"{self.kind}-{self.seed}-{at}", score=score)
            for at, score in enumerate(self.scores)
        ]


@dataclass(frozen=True, slots=True)
class Bench:
    """Where everything is kept, and the model that reads."""

    folder: Path
    reader: Server

    def cell(self, mine: Drawn, phase: Phase) -> Cell:
        """Return what a phase gave: as kept from before, or measured now."""
        kept = self.folder / "cells" / f"{mine.kind.name}-{mine.seed}-{phase.replace(' ', '-')}.json"
        if kept.is_file():
            return Cell.model_validate_json(kept.read_text(encoding="utf-8"))
        if phase == "own" and not self.lessons(mine, phase):
            made = self.cell(mine, "off").model_copy(update={"phase": phase})
        else:
            made = self._measured(mine, phase)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(made.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return made

    def learned_file(self, mine: Drawn) -> Path:
        """Write the tasks to learn from, and return the file."""
        return _written(self.store(mine) / "learned.jsonl", mine.learned)

    def store(self, mine: Drawn) -> Path:
        """The store of a kind and a seed."""
        return self.folder / "stores" / f"{mine.kind.name}-{mine.seed}"

    def lessons(self, mine: Drawn, phase: Phase) -> tuple[str, ...]:
        """Return the lessons that a phase shows."""
        match phase:
            case "on" | "on again":
                return mine.right
            case "wrong":
                return mine.wrong
            case "placebo":
                return placebo_for(mine)
            case "own":
                libraries = LibraryStore(self.store(mine) / "libraries")
                written = libraries.load("own").experiences if "own" in libraries.names() else ()
                return tuple(one.lesson for one in written)
            case _:
                return ()

    def _measured(self, mine: Drawn, phase: Phase) -> Cell:
        store, kind, lessons = self.store(mine), mine.kind, self.lessons(mine, phase)
        asked = mine.learned[:ATTEMPTS] if phase == "attempts" else mine.held_out
        tasks = _written(store / ("attempts.jsonl" if phase == "attempts" else "held-out.jsonl"), asked)
        instructions = kind.instructions
        if phase == "history":
            instructions += "\n\n" + history(self.cell(mine, "attempts"), mine.learned)
        library = "none"
        if lessons:
            library = f"{phase.replace(' ', '-')}-lessons"
            LibraryStore(store / "libraries").publish(library, Library.of(lessons))
        settings = CompareSettings(
            arms=(f"{phase.replace(' ', '-')}={library}",),
            models=(self.reader.address,),
            domains=(str(tasks),),
            instructions=instructions,
            k=1,
            temperature=0,
            fresh=True,
            concurrency=1,
            store=store,
            reward=kind.reward,
            tools=kind.tools,
            only_instructions=True,
            max_output_tokens=kind.answer_tokens,
            max_turns=kind.turns,
            call_deadline_s=600,
        )
        self.reader.forget()
        began_s = time.perf_counter()
        done = asyncio.run(compare_planned(plan_comparison(settings, fewest=1)))
        wall_s = time.perf_counter() - began_s
        found = {one.problem: one for one in done.observations}
        if missing := [one.problem for one in asked if one.problem not in found]:
            raise RuntimeError(f"no rollout counts on {missing}: {done.comparison.notes}")
        rollouts = [found[one.problem] for one in asked]
        with read_store(store) as reader:
            replies = [reader.trajectory(one.rollout).answer or "" for one in rollouts]
        return Cell(
            kind=kind.name,
            seed=mine.seed,
            phase=phase,
            lessons=lessons,
            scores=tuple(one.score or 0.0 for one in rollouts),
            replies=tuple(replies),
            followed_wrong=tuple(says(kind, reply, one.wrong) for reply, one in zip(replies, asked, strict=True)),
            undecided=sum(one.score is None for one in rollouts),
            tokens_in=sum(one.tokens_in or 0 for one in rollouts),
            tokens_out=sum(one.tokens_out or 0 for one in rollouts),
            wall_s=wall_s,
        )


def history(attempts: Cell, asked: Sequence[Asked]) -> str:
    """Return earlier attempts in words: the task, what was answered, and what was expected."""
    parts = [
        f"Task: {one.problem}\nAnswer: {reply or 'none'} ({'right' if score == 1 else 'wrong'}; expected: {one.answer})"
        for one, reply, score in zip(asked, attempts.replies, attempts.scores, strict=False)
    ]
    return "\n\n".join(["Earlier attempts at such tasks:", *parts])


def says(kind: Kind, reply: str, answer: str) -> bool:
    """Whether the reply gives this answer, judged as the reward judges the expected one."""
    reward = NUMBER if kind.reward == "number" else CONTAINS
    return reward.key(reply) is not None and reward.equal(reply, answer)


def _written(file: Path, asked: Sequence[Asked]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"problem": one.problem, "answer": one.answer} for one in asked]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file
