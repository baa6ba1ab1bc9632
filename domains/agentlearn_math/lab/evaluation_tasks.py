"""The held-out check: problems of the test split, with no lessons, with the right ones, and with controls."""

from collections.abc import Sequence
from random import Random
from typing import Any

from agentlearn.lab.contract import EvaluationTask
from agentlearn.sandbox.tool_text import TOOL
from agentlearn.sim.controls import placebo, useless_library
from agentlearn.sim.skills import Conversation
from agentlearn.sim.trap_model import TEMPERATURE
from agentlearn_math.families import FAMILIES
from agentlearn_math.family import Family
from agentlearn_math.lab.corpus import LAW, system_with
from agentlearn_math.lab.lessons import lesson
from agentlearn_math.novice import skills
from agentlearn_math.tasks import home
from agentlearn_math.traps import TRAPS

SHOWN = 8
"""Lessons in every library but the empty one and the full one."""


def exams(condition: str, number: int, seed: int) -> Sequence[EvaluationTask]:
    """So many problems, the families in turn; the same ones under every condition."""
    return [_exam(condition, FAMILIES[at % len(FAMILIES)], Random(f"lab exam {seed} {at}")) for at in range(number)]


def _exam(condition: str, family: Family[Any], rng: Random) -> EvaluationTask:
    params = family.generate(rng, lambda one: home(family.name, one) == "test")
    assert params is not None
    question, answer = family.ask(params, rng), family.gold(params)
    lessons = lessons_for(condition, family, rng)
    situation = skills.recognise(Conversation("", question, (TOOL,)))
    assert situation is not None
    stays = 1.0
    for chance in LAW.probabilities(situation.traps, family.name, lessons, TEMPERATURE).values():
        stays *= 1 - chance
    return EvaluationTask(system=system_with(lessons), tools=(TOOL,), question=question, answer=answer, expected=stays)


def lessons_for(condition: str, family: Family[Any], rng: Random) -> Sequence[str]:
    """The lessons of that condition for a problem of that family, shuffled.

    `right`: one on each of the family's traps among some on others; `full`: one on every trap; `irrelevant`: on other
    traps alone; `neutral`, `placebo`: without sense; `inverted`: advice against what is right for the family's traps.
    """
    own = [trap for trap in TRAPS if trap.name in family.traps]
    others = [trap for trap in TRAPS if trap.name not in family.traps]
    match condition:
        case "right":
            chosen = own + rng.sample(others, SHOWN - len(own))
        case "full":
            chosen = list(TRAPS)
        case "irrelevant":
            chosen = rng.sample(others, min(SHOWN, len(others)))
        case "inverted":
            return [lesson("inverted", trap, rng) for trap in own]
        case "neutral":
            return useless_library(SHOWN, rng.getrandbits(32), skills=(skills,))
        case "placebo":
            return placebo(SHOWN * 20, rng.getrandbits(32), skills=(skills,))
        case _:
            return []
    rng.shuffle(chosen)
    return [lesson("reflector", trap, rng) for trap in chosen]
