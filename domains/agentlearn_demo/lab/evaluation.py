"""Evaluating a lab model on problems of the test split, with no lessons, the right ones, or controls.

Its programs are run in a sandbox, and its answers are checked.
"""

import json
import math
from asyncio import Semaphore, TaskGroup
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agentlearn.answers.reply import boxed
from agentlearn.sandbox import open_sandbox
from agentlearn.sandbox.python_tool import TOOL, render_result
from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import CallInMessage, Message
from agentlearn.serving.chat_service import Sampling
from agentlearn.serving.tool_calls import parse_calls
from agentlearn.types.ids import derive_seed
from agentlearn_demo.lab.corpus import PARAPHRASES, CorpusLesson, Teacher, lesson, system_with
from agentlearn_demo.lab.engine import LabFormat, open_lab_engine
from agentlearn_demo.lab.transformer import read_checkpoint
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.novice import TRAPS
from agentlearn_demo.math.problem import Problem
from agentlearn_math.verify import answer_key

CONDITIONS = ("none", "right", "paraphrase", "negation", "inverted", "shuffled", "sixty", "irrelevant")
SHOWN = 8
"""Number of lessons in every library except the empty, the inverted and the large one."""
TURNS = 4
MAX_TOKENS = 400
TEMPERATURE = 0.7
SANDBOX = "zygote"
SESSIONS = 8
"""Largest number of questions answered at once."""


@dataclass(frozen=True, slots=True)
class _EvaluationTask:
    """One question."""

    system: str
    question: str
    answer: str
    expected: float
    """Probability that the teacher answers it correctly with this system message."""


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


def evaluation_tasks(condition: str, number: int, seed: int) -> list[_EvaluationTask]:
    """Return problems of the families in turn, the same ones under every condition."""
    return [_task(condition, FAMILIES[at % len(FAMILIES)], Random(f"lab exam {seed} {at}")) for at in range(number)]


def _task(condition: str, family: type[Problem], rng: Random) -> _EvaluationTask:
    problem = family.generate(rng, lambda one: one.home == "test")
    assert problem is not None
    question = problem.ask(rng)
    lessons = _condition_lessons(condition, family, rng)
    system = system_with([one.text for one in lessons])
    falls = Teacher(system, lessons).chances(family.traps, family.name).values()
    return _EvaluationTask(system, question, problem.gold(), math.prod(1 - fall for fall in falls))


def _condition_lessons(condition: str, family: type[Problem], rng: Random) -> list[CorpusLesson]:
    """Return the lessons of a condition for a problem of a family, shuffled.

    `right`: one on each trap of the family and some on others. `irrelevant`: only on other traps. On the traps of
    `right`: `paraphrase`, the advice in wordings held out from the corpus; `negation`, orders not to follow the advice,
    in frames held out from the corpus; `shuffled`, the right lessons with their words in random order; `sixty`, the
    right ones among 60. `inverted`: orders to make the mistakes of the family, in held-out wordings.
    """
    own = [trap for trap in TRAPS if trap.name in family.traps]
    others = [trap for trap in TRAPS if trap.name not in family.traps]
    traps = rng.sample(others, min(SHOWN, len(others))) if condition == "irrelevant" else own
    if condition not in {"irrelevant", "inverted", "none"}:
        traps = own + rng.sample(others, SHOWN - len(own))
    match condition:
        case "none":
            return []
        case "paraphrase":
            kinds = rng.choices(tuple(PARAPHRASES), tuple(PARAPHRASES.values()), k=len(traps))
            found = [lesson(kind, trap, rng, held_out=True) for kind, trap in zip(kinds, traps, strict=True)]
        case "negation" | "inverted":
            kind = "ban" if condition == "negation" else "inverted"
            found = [lesson(kind, trap, rng, held_out=True) for trap in traps]
        case "shuffled":
            found = [lesson("shuffled", trap, rng) for trap in traps]
        case _:
            found = [lesson("reflector", trap, rng) for trap in traps]
    if condition == "sixty":
        by_text = {one.text: one for one in found}
        while len(by_text) < 60:
            one = lesson("reflector" if len(by_text) < 30 else "neutral", rng.choice(TRAPS), rng)
            by_text[one.text] = one
        found = list(by_text.values())
    return rng.sample(found, len(found))


async def evaluate_lab_model(name: str, folder: Path, number: int, seed: int) -> list[ConditionScore]:
    """Evaluate the model in a folder under each condition. Raises ConfigError as `read_checkpoint` does."""
    model, tokenizer = read_checkpoint(folder, name)
    chat, slots, scores = LabFormat(tokenizer), Semaphore(SESSIONS), list[ConditionScore]()
    (end,) = chat.stop_ids
    async with open_sandbox(SANDBOX) as box, open_lab_engine(model, end) as engine:

        async def is_right(task: _EvaluationTask, seed: int) -> bool:
            async with slots, box.open(seed) as session:
                messages = [Message("system", task.system), Message("user", task.question)]
                for turn in range(TURNS):
                    prompt = chat.encode(chatml.conversation_text(messages, (TOOL,)))
                    sampling = Sampling(seed=derive_seed(seed, turn), max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
                    sampled = await engine.sample(prompt, sampling)
                    written = chat.decode([one for one in sampled.ids if one not in chat.stop_ids])
                    parsed = parse_calls(written)
                    if not parsed.calls:
                        return answer_key(boxed(parsed.text) or "") == answer_key(task.answer)
                    calls = tuple(CallInMessage(f"call_{at}", *call) for at, call in enumerate(parsed.calls))
                    messages.append(Message("assistant", parsed.text, calls, verbatim=written))
                    for call in calls:
                        arguments: object = json.loads(call.arguments)
                        code = arguments.get("code") if isinstance(arguments, dict) else None
                        result = await session.run(code if isinstance(code, str) else "")
                        messages.append(Message("tool", render_result(result), answers=call.id))
            return False

        for condition in CONDITIONS:
            tasks = evaluation_tasks(condition, number, seed)
            async with TaskGroup() as group:
                seeds = (derive_seed(seed, at) for at in range(number))
                running = [group.create_task(is_right(*one)) for one in zip(tasks, seeds, strict=True)]
            right, expected = sum(one.result() for one in running), sum(task.expected for task in tasks)
            scores.append(ConditionScore(condition, number, right, expected / number))
    return scores
