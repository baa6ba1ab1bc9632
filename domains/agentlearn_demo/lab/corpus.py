"""The corpus of the lab model: dialogues of the math agent, with the simulated solver of world 0 as the teacher.

The corpus knows what each lesson in context means, because it made the lesson, and tells the teacher: the rule over key
words that reads lessons elsewhere in the simulated world is not used here. The teacher writes correct and flawed
programs, and their output is found by running them. Problems of the test split never occur, in any wording.

The shipped weights were trained on a larger corpus of this kind: 25 families of problems, and also nonsense with the
key words of advice and lessons in other languages.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import count
from math import exp, log
from pathlib import Path
from random import Random

from agentlearn.sandbox import CodeResult
from agentlearn.sandbox.python_tool import TOOL, render_result
from agentlearn.serving.chat_request import CallInMessage, Message
from agentlearn.types.experience import library_of
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.novice import TRAPS, skills
from agentlearn_demo.math.problem import Problem, printed
from agentlearn_demo.sim.skills import (
    Conversation,
    FinalMessage,
    FollowedLessons,
    LessonEffect,
    LessonReader,
    ReadLesson,
    ToolExchange,
    ToolUse,
    Trap,
    experiences_in,
)
from agentlearn_demo.sim.solver import TEMPERATURE, TrapModel
from agentlearn_demo.sim.vocabulary import ADVICE, SITUATIONS, TAILS, Vocabulary, within_lesson_limits
from agentlearn_math import solve_prompt

DIALOGUES = 3
"""Dialogues per training example."""
SIZES = ((0, 0.1), (1, 0.06), (2, 0.06), (3, 0.08), (5, 0.14), (8, 0.2), (12, 0.17), (20, 0.11), (60, 0.08))
"""Upper limits of library sizes, each with its probability."""
WARMUP_EXAMPLES = 1_500
"""Number of examples after which libraries have their full sizes."""
RELEVANT_SHARE = 0.6
"""Final probability that the problems of an example are chosen to fit its lessons."""
FAILURE_SHARE = 0.02
"""Probability that running a correct program fails."""
KINDS = {
    "reflector": 0.16, "order": 0.15, "warning": 0.13, "sentence": 0.13, "narrow": 0.03, "inverted": 0.14, "ban": 0.16,
    "shuffled": 0.06, "neutral": 0.04,
}  # fmt: skip
"""Probability of each kind of lesson."""
PARAPHRASES = {"order": 5, "warning": 3, "sentence": 5}
"""Kinds of paraphrases, each with the number of its held-out patterns."""

_TRAPS = {trap.name: trap for trap in TRAPS}
MEANINGS = (
    "narrow", *(f"{said} {trap}" for trap in _TRAPS for said in ("addresses", "contradicts", "takes back"))
)  # fmt: skip
"""What a lesson can say. A narrow lesson says it only of some families. One that takes advice back has no effect."""
_WORLD = 0
_VOCABULARY = Vocabulary(skills)
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_LABEL = re.compile(r" \(G\d+\)$")
_UNKNOWN_SHARE = 0.12
"""Share of the freely worded lessons in which a made-up word stands for one of the words."""
_LONG = 6
"""Number of words from which a lesson keeps its sense without one of them, and loses it when they are shuffled."""


@dataclass(frozen=True, slots=True)
class CorpusLesson:
    """A lesson, and what the teacher takes from it."""

    text: str
    stances: Mapping[str, LessonEffect] = field(default_factory=dict[str, LessonEffect])
    """What the lesson does, by trap name; empty if it does nothing."""
    families: frozenset[str] = frozenset()
    """Families that the lesson is limited to; empty: all."""
    takes_back: str = ""
    """Name of the trap whose advice the lesson takes back, which has no effect."""


@dataclass(frozen=True, slots=True)
class _SoftTarget:
    """A position in the assistant's first message where the teacher could have continued in several ways."""

    options: tuple[tuple[str, float], ...]
    """The possible texts, the written one included, with their probabilities, which sum to 1."""
    lessons: tuple[int, ...] = ()
    """Indexes of the lessons that changed these probabilities."""


@dataclass(frozen=True, slots=True)
class CorpusDialogue:
    """A conversation from the user's question to the assistant's final message."""

    messages: tuple[Message, ...]
    soft_targets: tuple[_SoftTarget, ...] = ()
    """Soft targets in the order of the text."""


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """Dialogues with the same system message, like the rollouts of a learner."""

    system: str
    dialogues: tuple[CorpusDialogue, ...]
    lessons: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Of each lesson, its end in characters of the system message, and its meanings, out of `MEANINGS`."""


def examples(seed: int) -> Iterator[TrainingExample]:
    """Yield examples without end, the same for the same seed. The first ones have few lessons, all of them relevant."""
    rng = Random(f"lab corpus {seed}")
    for number in count():
        yield _example(rng, min(1.0, number / WARMUP_EXAMPLES))


def system_with(lessons: Sequence[str]) -> str:
    """Return the system message: the agent's instructions and, if there are any, the fenced lessons."""
    return "\n\n".join(filter(None, (solve_prompt().text, library_of(lessons).render().text)))


def _example(rng: Random, progress: float) -> TrainingExample:
    lessons, families = _library(rng, progress)
    system = system_with([one.text for one in lessons])
    teacher = Teacher(system, lessons)
    dialogues = tuple(teacher.dialogue(rng.choice(families), rng) for _ in range(DIALOGUES))
    takes_back = {one.text: one.takes_back for one in lessons}
    ends: list[tuple[int, tuple[str, ...]]] = []
    at = 0
    for one in teacher.shown:
        line = f"[{one.label}] {one.text}"
        at = system.index(line, at) + len(line)
        read = teacher.reader.read(one.text)
        meanings = ["narrow"] if read.families else []
        meanings += [f"{stance} {trap}" for trap, stance in read.stances.items()]
        meanings += [f"takes back {trap}" for trap in filter(None, [takes_back[one.text]])]
        ends.append((at, tuple(meanings)))
    return TrainingExample(system, dialogues, tuple(ends))


def _library(rng: Random, progress: float) -> tuple[list[CorpusLesson], Sequence[type[Problem]]]:
    """Lessons, and the families that the problems of the example are drawn from."""
    sizes, weights = zip(*SIZES, strict=True)
    at = rng.choices(range(len(sizes)), weights)[0]
    size = rng.randint(sizes[at - 1] + 1, sizes[at]) if at else int(rng.random() > progress + 0.1)
    size = min(size, 1 + int(progress * sizes[-1]))
    family = rng.choice(FAMILIES)
    near = rng.random() < 1 - progress * (1 - RELEVANT_SHARE)
    traps = [_TRAPS[name] for name in family.traps] if near and size <= 5 else list(TRAPS)
    kinds = rng.choices(tuple(KINDS), tuple(KINDS.values()), k=size)
    lessons = [lesson(kind, rng.choice(traps), rng) for kind in kinds]
    spoken_of = {trap for one in lessons for trap in one.stances}
    related = [one for one in FAMILIES if spoken_of & set(one.traps)]
    return list({one.text: one for one in lessons}.values()), related if near and related else FAMILIES


class _CorpusReader(LessonReader):
    """Says what lessons of the corpus mean. All other texts say nothing."""

    def __init__(self, lessons: Sequence[CorpusLesson]) -> None:
        super().__init__(skills)
        known = {one.text: ReadLesson(one.stances, one.families, cues=0, tokens=0) for one in lessons}
        silent = ReadLesson(stances={}, families=frozenset(), cues=0, tokens=0)

        def read(lesson: str) -> ReadLesson:
            return known.get(lesson, silent)

        self.read = lru_cache(maxsize=1_024)(read)


class Teacher:
    """The simulated solver with the lessons of one system message. Their number makes no difference to it."""

    def __init__(self, system: str, lessons: Sequence[CorpusLesson]) -> None:
        self.shown = experiences_in(system)
        self.reader = _CorpusReader(lessons)
        self._model = TrapModel(self.reader, _WORLD)

    def chances(self, traps: Sequence[str], family: str) -> dict[str, float]:
        """Return the probability of falling into each trap. Only lessons that speak of a trap have an effect."""
        texts = [one.text for one in self.shown]
        speaking = [text for text in texts if any(self.reader.read(text).on(one, family) != "silent" for one in traps)]
        return self._model.probabilities(traps, family, speaking, TEMPERATURE)

    def turn(
        self, question: str, turns: tuple[ToolExchange, ...], rng: Random
    ) -> tuple[ToolUse | FinalMessage, tuple[_SoftTarget, ...]]:
        """Return its next action, and the soft targets of that action: what it might have done instead."""
        situation = skills.recognise(Conversation("", question, (TOOL,), turns))
        assert situation is not None
        traps, family = situation.traps, situation.family
        falls = {trap: _at_temperature_one(trap, fall) for trap, fall in self.chances(traps, family).items()}
        flaws = frozenset(trap for trap in traps if rng.random() < falls[trap])
        careful = [trap for trap in traps if trap not in flaws]
        advice_on = self._model.advice_on(careful, family, [one.text for one in self.shown])
        labels = {
            trap: self.shown[advice.addressed_by].label
            for trap, advice in advice_on.items()
            if advice.addressed_by is not None
        }
        act = situation.act(flaws, FollowedLessons(labels), rng)
        return act, tuple(self._soft_targets(act, falls, family)) if isinstance(act, ToolUse) else ()

    def _soft_targets(self, act: ToolUse, falls: Mapping[str, float], family: str) -> Iterator[_SoftTarget]:
        """One soft target for each comment on a decision, in the order of the program."""
        by_phrase = {phrase: name for name in falls for phrase in (*_TRAPS[name].careless, *_TRAPS[name].careful)}
        read = [self.reader.read(one.text) for one in self.shown]
        for line in str(act.arguments["code"]).splitlines():
            if (name := by_phrase.get(_LABEL.sub("", line.strip().removeprefix("# ")))) is not None:
                trap, fall = _TRAPS[name], falls[name]
                careless = [(phrase, fall / len(trap.careless)) for phrase in trap.careless]
                careful = [(phrase, (1 - fall) / len(trap.careful)) for phrase in trap.careful]
                speaking = tuple(at for at, one in enumerate(read) if one.on(name, family) != "silent")
                yield _SoftTarget((*careless, *careful), speaking)

    def dialogue(self, family: type[Problem], rng: Random) -> CorpusDialogue:
        """Return a conversation about a drawn problem of a family that is not one of the test split."""
        problem = family.draw(rng)
        while problem.home == "test":
            problem = family.draw(rng)
        question = problem.ask(rng)
        messages: list[Message] = [Message("user", question)]
        turns: tuple[ToolExchange, ...] = ()
        soft_targets: tuple[_SoftTarget, ...] = ()
        while True:
            act, targets = self.turn(question, turns, rng)
            if isinstance(act, FinalMessage):
                return CorpusDialogue((*messages, Message("assistant", act.text)), soft_targets)
            soft_targets = soft_targets or targets
            arguments = json.dumps(act.arguments, ensure_ascii=False, separators=(",", ":"))
            call = CallInMessage(f"call_{len(turns)}", act.tool, arguments)
            if rng.random() < FAILURE_SHARE:
                result = render_result(CodeResult(status="timeout"))
            else:
                result = render_result(CodeResult(status="ok", stdout=printed(str(act.arguments["code"]))))
            messages += [Message("assistant", act.text, (call,)), Message("tool", result, answers=call.id)]
            turns = (*turns, ToolExchange(act.tool, act.arguments, result))


def _at_temperature_one(trap: str, chance: float) -> float:
    """Return the training probability of falling into a trap, which is sampled at temperature 1.

    Sampling at the trap model's temperature then gives `chance`. Careless and careful phrases are equally likely, and a
    lower temperature favours the kind with fewer phrases.
    """
    phrases = log(len(_TRAPS[trap].careless) / len(_TRAPS[trap].careful))
    odds = TEMPERATURE * log(chance / (1 - chance)) + (1 - TEMPERATURE) * phrases
    return 1 / (1 + exp(-odds))


@cache
def _wordings() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the wordings by the trap's name, and the frames; lists that end with `_held_out` are not trained on."""
    return tomllib.loads((Path(__file__).parent / "wordings.toml").read_text(encoding="utf-8"))


def lesson(kind: str, trap: Trap, rng: Random, *, held_out: bool = False) -> CorpusLesson:
    """Return a lesson of a kind. held_out: in wordings and frames that the corpus does not train on.

    `reflector`: as the simulated reflector writes it. `order`, `warning`, `sentence`: the advice in other words, as an
    order, as a ban on the mistake, and as a whole sentence. `narrow`: limited to one topic. `inverted`: an order to
    make the mistake. `ban`: the advice with an order not to follow it, or with the remark that there is no need to.
    This takes the advice back and does nothing. `shuffled` words and `neutral` lessons do nothing either.
    """
    addressed: Mapping[str, LessonEffect] = {trap.name: "addresses"}
    suffix = "_held_out" if held_out else ""
    words, frames = _wordings()[trap.name], _wordings()["frames"]

    def framed(clauses: Sequence[str], patterns: Sequence[str]) -> str:
        do = _spelled_out(rng.choice(patterns), rng, held_out=held_out)
        clause = rng.choice(clauses).format(do=do)
        text = rng.choice(frames[f"sentences{suffix}"]).format(clause=clause, situation=rng.choice(trap.situations))
        text = text if within_lesson_limits(text) else f"{clause}."
        return text[:1].upper() + text[1:]

    match kind:
        case "reflector":
            return CorpusLesson(_VOCABULARY.lesson(trap, rng), addressed)
        case "order":
            return CorpusLesson(framed(frames[f"orders{suffix}"], words[f"right{suffix}"]), addressed)
        case "warning":
            return CorpusLesson(framed(frames[f"bans{suffix}"], words[f"wrong{suffix}"]), addressed)
        case "sentence":
            text = rng.choice(words[f"sentences{suffix}"])
            return CorpusLesson(_spelled_out(text, rng, held_out=held_out), addressed)
        case "narrow":
            topics = rng.choice(tuple(skills.topics.values()))
            text = f"When facing a problem on {rng.choice(topics)}, {rng.choice(trap.advice)}."
            return CorpusLesson(text, addressed, _VOCABULARY.reader.read(text).families)
        case "inverted":
            text = framed(frames[f"orders{suffix}"], words[f"wrong{suffix}"])
            return CorpusLesson(text, {trap.name: "contradicts"})
        case "ban":
            harmful = None if held_out or rng.random() > 0.25 else _VOCABULARY.defective("harmful", trap, rng)
            advice = trap.advice if rng.random() < 0.4 else words["right"]
            bans = (*frames[f"bans{suffix}"], *frames[f"needless{suffix}"])
            return CorpusLesson(harmful or framed(bans, advice), takes_back=trap.name)
        case "shuffled":
            meant = lesson(rng.choice(("reflector", *PARAPHRASES)), trap, rng, held_out=held_out)
            return CorpusLesson(_shuffled(meant.text, rng))
        case _:
            return CorpusLesson(f"When {rng.choice(SITUATIONS)}, {rng.choice(ADVICE)}{rng.choice(TAILS)}.")


def _shuffled(text: str, rng: Random) -> str:
    """Return the words of a text in random order. A short text is said twice before."""
    words = text.rstrip(".").replace(",", "").split()
    if len(words) < _LONG:
        words *= 2
    mixed = rng.sample(words, len(words))
    while mixed == words:
        mixed = rng.sample(words, len(words))
    return " ".join(mixed)


def _spelled_out(pattern: str, rng: Random, *, held_out: bool) -> str:
    """A pattern with one of the words of each choice, and in training sometimes with a made-up word for one of them.

    So the model can do without any of them.
    """
    words = _CHOICE.sub(lambda found: rng.choice(found[1].split("|")), pattern).split()
    if not held_out and len(words) >= _LONG and rng.random() < _UNKNOWN_SHARE:
        syllables = rng.randint(2, 3)
        made_up = "".join(rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(syllables))
        words[rng.randrange(1, len(words) - 1)] = made_up
    return " ".join(words)
