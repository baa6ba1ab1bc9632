"""Evaluation tasks of the lab model: problems of the test split with no lessons, the right ones, or controls."""

from collections.abc import Sequence
from random import Random
from typing import Any

from agentlearn.sandbox.python_tool import TOOL
from agentlearn_demo.lab.contract import EvaluationTask
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.family import Family
from agentlearn_demo.math.lab.control_lessons import control_lessons
from agentlearn_demo.math.lab.corpus import system_with
from agentlearn_demo.math.lab.corpus_lessons import CorpusLesson, lesson
from agentlearn_demo.math.lab.teacher import CorpusLessons, trap_chances
from agentlearn_demo.math.novice import skills
from agentlearn_demo.math.tasks import home
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.controls import placebo, useless_library
from agentlearn_demo.sim.skills import Conversation

SHOWN = 8
"""Number of lessons in every library except the empty, the full, the inverted and the large ones."""


def evaluation_tasks(condition: str, number: int, seed: int) -> Sequence[EvaluationTask]:
    """Return problems of the families in turn, the same ones under every condition."""
    return [_task(condition, FAMILIES[at % len(FAMILIES)], Random(f"lab exam {seed} {at}")) for at in range(number)]


def _task(condition: str, family: Family[Any], rng: Random) -> EvaluationTask:
    params = family.generate(rng, lambda one: home(family.name, one) == "test")
    assert params is not None
    question, answer = family.ask(params, rng), family.gold(params)
    lessons = condition_lessons(condition, family, rng)
    situation = skills.recognise(Conversation("", question, (TOOL,)))
    assert situation is not None
    right_probability = 1.0
    shown = [one.text for one in lessons]
    for chance in trap_chances(CorpusLessons(lessons), situation.traps, family.name, shown).values():
        right_probability *= 1 - chance
    return EvaluationTask(
        system=system_with(shown), tools=(TOOL,), question=question, answer=answer, expected=right_probability
    )


def condition_lessons(condition: str, family: Family[Any], rng: Random) -> Sequence[CorpusLesson]:
    """Return the lessons of a condition for a problem of a family, shuffled.

    `right`: one on each trap of the family and some on others. `full`: one on every trap. `irrelevant`: only on other
    traps. `neutral`, `placebo`: without content. Others: as in `control_lessons`, on the traps of `right`; `inverted`
    only on the family's traps.
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
        case "neutral":
            return list(map(CorpusLesson, useless_library(SHOWN, rng.getrandbits(32), skills=(skills,))))
        case "placebo":
            return list(map(CorpusLesson, placebo(SHOWN * 20, rng.getrandbits(32), skills=(skills,))))
        case "none":
            return []
        case _:
            chosen = own if condition == "inverted" else own + rng.sample(others, SHOWN - len(own))
            found = control_lessons(condition, chosen, rng)
            return rng.sample(found, len(found))
    rng.shuffle(chosen)
    return [lesson("reflector", trap, rng) for trap in chosen]
