"""The corpus: dialogues of the math agent, with the simulated solver of world 0 as the teacher.

The teacher reads the lessons in context by its own law and writes its right and its flawed programs; what a program
prints is found by running it. Problems of the test split never occur, whatever their wording.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import exp, log
from random import Random
from typing import Any

from agentlearn.lab.contract import Doubt, Heard, Scene, Talk
from agentlearn.library.render import render
from agentlearn.sandbox.protocol import CodeResult, CodeStatus
from agentlearn.sandbox.tool_text import TOOL, render_result
from agentlearn.serving.chat_request import Called, Message
from agentlearn.sim.lessons import LessonReader, ShownLesson, experiences_in
from agentlearn.sim.skills import Conversation, FinalMessage, FollowedLessons, ToolExchange, ToolUse
from agentlearn.sim.trap_model import TEMPERATURE, TrapModel
from agentlearn.types.experience import library_of
from agentlearn_math.agent import solve_prompt
from agentlearn_math.families import FAMILIES
from agentlearn_math.family import Family, printed
from agentlearn_math.lab.lessons import drawn_lesson, narrow
from agentlearn_math.novice import skills
from agentlearn_math.tasks import home
from agentlearn_math.traps import TRAPS

WORLD = 0
TALKS = 8
"""Conversations per scene."""
SIZES = ((0, 0.22), (1, 0.1), (2, 0.1), (3, 0.1), (5, 0.14), (8, 0.14), (12, 0.12), (20, 0.08))
"""Largest sizes of libraries in a scene, and how often."""
GROWN = 2_500
"""Scenes after which libraries have their full sizes."""
TO_THE_POINT = 0.6
"""How often, in the end, a scene's problems are chosen by what its lessons speak of."""
FAILURE = 0.02
"""How often a run fails for no fault of the program."""
TOOLLESS = 0.01
"""Scenes without a tool."""
FAILURES: tuple[tuple[CodeStatus, str], ...] = (
    ("timeout", ""), ("oom", ""), ("killed", ""), ("state_lost", ""), ("error", "MemoryError"),
)  # fmt: skip

_LABEL = re.compile(r" \(G\d+\)$")
_TRAPS = {trap.name: trap for trap in TRAPS}
SAYINGS = ("narrow", *(f"{stance} {trap}" for trap in _TRAPS for stance in ("addresses", "contradicts")))
"""What a lesson can say; a narrow one says it of some families alone."""
LAW = TrapModel(LessonReader(skills), WORLD)


def scenes(seed: int) -> Iterator[Scene]:
    """Scenes without end, the same for the same seed; the first ones have few lessons, all of them to the point."""
    rng = Random(f"lab corpus {seed}")
    for number in count():
        yield _scene(rng, min(1.0, number / GROWN))


def system_with(lessons: Sequence[str], *, masked: Sequence[int] = ()) -> str:
    """The system message: the agent's instructions and, where there are some, the lessons in their fence."""
    library = library_of(lessons)
    block = render(library, [library.experiences[at].id for at in masked]).text
    return "\n\n".join(filter(None, (solve_prompt().text, block)))


@dataclass(frozen=True)
class Teacher:
    """The simulated solver before one system message."""

    shown: tuple[ShownLesson, ...]
    tools: tuple[str, ...] = (TOOL,)

    def turn(
        self, question: str, turns: tuple[ToolExchange, ...], rng: Random
    ) -> tuple[ToolUse | FinalMessage, tuple[Doubt, ...]]:
        """What it does next, and what it might have done in its place."""
        situation = skills.recognise(Conversation("", question, self.tools, turns))
        assert situation is not None
        lessons = [one.text for one in self.shown]
        chances = LAW.probabilities(situation.traps, situation.family, lessons, TEMPERATURE)
        falls = {trap: at_one(trap, chances[trap]) for trap in situation.traps}
        flaws = frozenset(trap for trap in situation.traps if rng.random() < falls[trap])
        careful = [trap for trap in situation.traps if trap not in flaws]
        advice_on = LAW.advice_on(careful, situation.family, lessons)
        labels = {
            trap: self.shown[advice.addressed_by].label
            for trap, advice in advice_on.items()
            if advice.addressed_by is not None
        }
        act = situation.act(flaws, FollowedLessons(labels), rng)
        if not isinstance(act, ToolUse):
            return act, ()
        speaking = {trap: self._speaking_of(trap, situation.family) for trap in situation.traps}
        return act, tuple(_doubts(act, falls, speaking))

    def _speaking_of(self, trap: str, family: str) -> tuple[int, ...]:
        read = [LAW.reader.read(one.text) for one in self.shown]
        return tuple(at for at, one in enumerate(read) if one.on(trap, family) != "silent")


def at_one(trap: str, chance: float) -> float:
    """How often to show a fall at temperature 1, so that it is drawn with that chance at the law's temperature.

    Careless and careful phrases are drawn evenly, and colder sampling favours the side with fewer of them.
    """
    phrases = log(len(_TRAPS[trap].careless) / len(_TRAPS[trap].careful))
    odds = TEMPERATURE * log(chance / (1 - chance)) + (1 - TEMPERATURE) * phrases
    return 1 / (1 + exp(-odds))


def _doubts(act: ToolUse, falls: Mapping[str, float], speaking: Mapping[str, tuple[int, ...]]) -> Iterator[Doubt]:
    """One for each comment on a decision, in the program's order."""
    by_phrase = {phrase: name for name in falls for phrase in (*_TRAPS[name].careless, *_TRAPS[name].careful)}
    for line in str(act.arguments["code"]).splitlines():
        comment = line.strip().removeprefix("# ")
        if (name := by_phrase.get(_LABEL.sub("", comment))) is not None:
            trap, fall = _TRAPS[name], falls[name]
            careless = [(phrase, fall / len(trap.careless)) for phrase in trap.careless]
            careful = [(phrase, (1 - fall) / len(trap.careful)) for phrase in trap.careful]
            yield Doubt((*careless, *careful), speaking[name])


def _scene(rng: Random, grown: float) -> Scene:
    lessons, families = _library(rng, grown)
    masked = [at for at in range(len(lessons)) if rng.random() < 0.1] if rng.random() < 0.2 else []
    system = system_with(lessons, masked=masked)
    tools = () if rng.random() < TOOLLESS else (TOOL,)
    teacher = Teacher(experiences_in(system), tools)
    talks = tuple(_talk(teacher, rng.choice(families), rng) for _ in range(TALKS))
    return Scene(system=system, tools=tools, talks=talks, heard=tuple(_heard(system, teacher.shown)))


def _heard(system: str, shown: Sequence[ShownLesson]) -> Iterator[Heard]:
    at = 0
    for one in shown:
        line = f"[{one.label}] {one.text}"
        at = system.index(line, at) + len(line)
        read = LAW.reader.read(one.text)
        sayings = [f"{stance} {trap}" for trap, stance in read.stances.items()]
        yield Heard(end=at, sayings=(*(["narrow"] if read.families else []), *sayings))


def _library(rng: Random, grown: float) -> tuple[list[str], Sequence[Family[Any]]]:
    """Lessons, and the families that the scene's problems are drawn from."""
    size = _size(rng, grown)
    family = rng.choice(FAMILIES)
    near = rng.random() < 1 - grown * (1 - TO_THE_POINT)
    traps = [_TRAPS[name] for name in family.traps] if near and size <= 5 else list(TRAPS)
    lessons = [
        narrow(rng.choice(traps), rng, family) if rng.random() < 0.04 else drawn_lesson(rng, traps) for _ in range(size)
    ]
    spoken_of = {trap for text in lessons for trap in LAW.reader.read(text).stances}
    related = [one for one in FAMILIES if spoken_of & set(one.traps)]
    return list(dict.fromkeys(lessons)), related if near and related else FAMILIES


def _size(rng: Random, grown: float) -> int:
    sizes, weights = zip(*SIZES, strict=True)
    at = rng.choices(range(len(sizes)), weights)[0]
    size = rng.randint(sizes[at - 1] + 1, sizes[at]) if at else 0
    return min(size or int(rng.random() > grown + 0.1), 1 + int(grown * sizes[-1]))


def _talk(teacher: Teacher, family: Family[Any], rng: Random) -> Talk:
    question = family.ask(schooling(family, rng), rng)
    messages: list[Message] = [Message("user", question)]
    turns: tuple[ToolExchange, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    while True:
        act, might = teacher.turn(question, turns, rng)
        if isinstance(act, FinalMessage):
            return Talk((*messages, Message("assistant", act.text)), doubts)
        doubts = doubts or might
        arguments = json.dumps(act.arguments, ensure_ascii=False, separators=(",", ":"))
        call = Called(f"call_{len(turns)}", act.tool, arguments)
        result = _result(str(act.arguments["code"]), rng)
        messages += [Message("assistant", act.text, (call,)), Message("tool", result, answers=call.id)]
        turns = (*turns, ToolExchange(act.tool, act.arguments, result))


def schooling(family: Family[Any], rng: Random) -> Any:
    """A problem of the family that does not live in the test split."""
    while True:
        params = family.draw(rng)
        if home(family.name, params) != "test":
            return params


def _result(code: str, rng: Random) -> str:
    if rng.random() < FAILURE:
        status, error = rng.choice(FAILURES)
        return render_result(CodeResult(status=status, error=error))
    return render_result(CodeResult(status="ok", stdout=printed(code)))
