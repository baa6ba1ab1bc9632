"""The corpus of the lab model: dialogues of the math agent, with the simulated solver of world 0 as the teacher.

The corpus knows what each lesson in context means, because it made the lesson, and tells the teacher. The teacher
writes correct and flawed programs, and their output is found by running them. Problems of the test split never occur,
in any wording.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

from agentlearn.lab.contract import Dialogue, LessonMeaning, SoftTarget, TrainingExample
from agentlearn.library.shown import render
from agentlearn.sandbox.protocol import CodeResult, CodeStatus
from agentlearn.sandbox.python_tool import TOOL, render_result
from agentlearn.serving.chat_request import CallInMessage, Message
from agentlearn.sim.lessons import experiences_in
from agentlearn.sim.skills import FinalMessage, ToolExchange
from agentlearn.types.experience import library_of
from agentlearn_math.agent import solve_prompt
from agentlearn_math.families import FAMILIES
from agentlearn_math.family import Family, printed
from agentlearn_math.lab.corpus_lessons import CorpusLesson, narrow, random_lesson
from agentlearn_math.lab.teacher import CorpusLessons, Teacher
from agentlearn_math.tasks import home
from agentlearn_math.traps import TRAPS

DIALOGUES = 3
"""Dialogues per training example."""
SIZES = (
    (0, 0.1), (1, 0.06), (2, 0.06), (3, 0.08), (5, 0.14), (8, 0.2), (12, 0.17), (20, 0.11), (60, 0.08),
)  # fmt: skip
"""Upper limits of library sizes, each with its probability."""
WARMUP_EXAMPLES = 1_500
"""Number of examples after which libraries have their full sizes."""
RELEVANT_SHARE = 0.6
"""Final probability that the problems of an example are chosen to fit its lessons."""
FAILURE_SHARE = 0.02
"""Probability that running a correct program fails."""
NO_TOOL_SHARE = 0.01
"""Share of examples without a tool."""
FAILURES: tuple[tuple[CodeStatus, str], ...] = (
    ("timeout", ""), ("oom", ""), ("killed", ""), ("state_lost", ""), ("error", "MemoryError"),
)  # fmt: skip

_TRAPS = {trap.name: trap for trap in TRAPS}
MEANINGS = (
    "narrow", *(f"{said} {trap}" for trap in _TRAPS for said in ("addresses", "contradicts", "takes back"))
)  # fmt: skip
"""What a lesson can say. A narrow lesson says it only of some families. One that takes advice back has no effect."""


def examples(seed: int) -> Iterator[TrainingExample]:
    """Yield examples without end, the same for the same seed. The first ones have few lessons, all of them relevant."""
    rng = Random(f"lab corpus {seed}")
    for number in count():
        yield _example(rng, min(1.0, number / WARMUP_EXAMPLES))


def system_with(lessons: Sequence[str], *, masked: Sequence[int] = ()) -> str:
    """Return the system message: the agent's instructions and, if there are any, the fenced lessons."""
    library = library_of(lessons)
    block = render(library, [library.experiences[at].id for at in masked]).text
    return "\n\n".join(filter(None, (solve_prompt().text, block)))


def _example(rng: Random, progress: float) -> TrainingExample:
    lessons, families = _library(rng, progress)
    masked = [at for at in range(len(lessons)) if rng.random() < 0.1] if rng.random() < 0.2 else []
    system = system_with([one.text for one in lessons], masked=masked)
    tools = () if rng.random() < NO_TOOL_SHARE else (TOOL,)
    teacher = Teacher(experiences_in(system), CorpusLessons(lessons), tools)
    dialogues = tuple(_dialogue(teacher, rng.choice(families), rng) for _ in range(DIALOGUES))
    return TrainingExample(
        system=system, tools=tools, dialogues=dialogues, lessons=tuple(_lesson_meanings(system, teacher, lessons))
    )


def _lesson_meanings(system: str, teacher: Teacher, lessons: Sequence[CorpusLesson]) -> Iterator[LessonMeaning]:
    taken_back = {one.text: one.takes_back for one in lessons}
    at = 0
    for one in teacher.shown:
        line = f"[{one.label}] {one.text}"
        at = system.index(line, at) + len(line)
        read = teacher.reader.read(one.text)
        meanings = [f"{stance} {trap}" for trap, stance in read.stances.items()]
        meanings += [f"takes back {trap}" for trap in filter(None, [taken_back[one.text]])]
        yield LessonMeaning(end=at, meanings=(*(["narrow"] if read.families else []), *meanings))


def _library(rng: Random, progress: float) -> tuple[list[CorpusLesson], Sequence[Family[Any]]]:
    """Lessons, and the families that the problems of the example are drawn from."""
    size = _size(rng, progress)
    family = rng.choice(FAMILIES)
    near = rng.random() < 1 - progress * (1 - RELEVANT_SHARE)
    traps = [_TRAPS[name] for name in family.traps] if near and size <= 5 else list(TRAPS)
    lessons = [
        narrow(rng.choice(traps), rng, family) if rng.random() < 0.04 else random_lesson(rng, traps)
        for _ in range(size)
    ]
    spoken_of = {trap for one in lessons for trap in one.stances}
    related = [one for one in FAMILIES if spoken_of & set(one.traps)]
    return list({one.text: one for one in lessons}.values()), related if near and related else FAMILIES


def _size(rng: Random, progress: float) -> int:
    sizes, weights = zip(*SIZES, strict=True)
    at = rng.choices(range(len(sizes)), weights)[0]
    size = rng.randint(sizes[at - 1] + 1, sizes[at]) if at else 0
    return min(size or int(rng.random() > progress + 0.1), 1 + int(progress * sizes[-1]))


def _dialogue(teacher: Teacher, family: Family[Any], rng: Random) -> Dialogue:
    question = family.ask(training_params(family, rng), rng)
    messages: list[Message] = [Message("user", question)]
    turns: tuple[ToolExchange, ...] = ()
    soft_targets: tuple[SoftTarget, ...] = ()
    while True:
        act, targets = teacher.turn(question, turns, rng)
        if isinstance(act, FinalMessage):
            return Dialogue((*messages, Message("assistant", act.text)), soft_targets)
        soft_targets = soft_targets or targets
        arguments = json.dumps(act.arguments, ensure_ascii=False, separators=(",", ":"))
        call = CallInMessage(f"call_{len(turns)}", act.tool, arguments)
        result = _result(str(act.arguments["code"]), rng)
        messages += [Message("assistant", act.text, (call,)), Message("tool", result, answers=call.id)]
        turns = (*turns, ToolExchange(act.tool, act.arguments, result))


def training_params(family: Family[Any], rng: Random) -> Any:
    """Return parameters of a problem of the family that is not in the test split."""
    while True:
        params = family.draw(rng)
        if home(family.name, params) != "test":
            return params


def _result(code: str, rng: Random) -> str:
    if rng.random() < FAILURE_SHARE:
        status, error = rng.choice(FAILURES)
        return render_result(CodeResult(status=status, error=error))
    return render_result(CodeResult(status="ok", stdout=printed(code)))
