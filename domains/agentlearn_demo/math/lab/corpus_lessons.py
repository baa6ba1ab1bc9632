"""Lessons of the corpus: advice in many wordings, orders to make the mistake, bans on the advice, and nonsense.

Each lesson says what the teacher takes from it. That follows from how the lesson is made, not from its words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from agentlearn_demo.math.family import Family
from agentlearn_demo.math.lab.nonsense import (
    HELD_OUT_ABSURDITIES,
    TRAINED_ABSURDITIES,
    absurd,
    bag_of_words,
    capitalised,
    cued,
    half,
    made_up_word,
    shuffled,
)
from agentlearn_demo.math.lab.other_languages import TRAINED_LANGUAGES
from agentlearn_demo.math.lab.wordings import HELD_OUT_FRAMES, TRAINED_FRAMES, spelled_out, wordings
from agentlearn_demo.math.novice import skills
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.controls import placebo
from agentlearn_demo.sim.habits import Vocabulary
from agentlearn_demo.sim.lesson_writer import LessonSource, LessonWriter, within_lesson_limits
from agentlearn_demo.sim.lessons import LessonEffect
from agentlearn_demo.sim.neutral import ADVICE, SITUATIONS, TAILS
from agentlearn_demo.sim.skills import Trap

KINDS = {
    "reflector": 0.14,
    "order": 0.13,
    "warning": 0.11,
    "sentence": 0.12,
    "narrow": 0.03,
    "inverted": 0.12,
    "ban": 0.15,
    "absurd": 0.05,
    "bag": 0.01,
    "cued": 0.02,
    "half": 0.01,
    "shuffled": 0.05,
    "neutral": 0.03,
    "placebo": 0.01,
    "other_language": 0.02,
}
"""Probability of each kind of lesson."""
_UNKNOWN_SHARE = 0.12
"""Share of the freely worded lessons in which a made-up word stands for one of the words."""
_LONG = 6
"""Number of words from which a lesson keeps its sense without one of them."""
_VOCABULARY = Vocabulary(skills)
_WRITER = LessonWriter(_VOCABULARY)


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


def random_lesson(rng: Random, traps: Sequence[Trap] = TRAPS) -> CorpusLesson:
    """Return a lesson of a random kind about one of the traps."""
    kind = rng.choices(tuple(KINDS), tuple(KINDS.values()))[0]
    return lesson(kind, rng.choice(traps), rng)


def lesson(kind: str, trap: Trap, rng: Random, *, held_out: bool = False) -> CorpusLesson:
    """Return a lesson of a kind. held_out: in wordings and frames that the corpus does not train on.

    `reflector`: as the simulated reflector writes it. `order`, `warning`, `sentence`: the advice in other words, as an
    order, as a ban on the mistake, and as a whole sentence. `narrow`: limited to one topic. `inverted`: an order to
    make the mistake. `ban`: the advice with an order not to follow it, or with the remark that there is no need to.
    This takes the advice back and does nothing. All other kinds do nothing either.
    """
    addressed: Mapping[str, LessonEffect] = {trap.name: "addresses"}
    words = wordings(held_out=held_out)[trap.name]
    frames = HELD_OUT_FRAMES if held_out else TRAINED_FRAMES
    match kind:
        case "reflector":
            return CorpusLesson(_WRITER.lesson(trap, rng), addressed)
        case "order":
            return CorpusLesson(_framed(frames.orders, words.right, trap, rng, held_out=held_out), addressed)
        case "warning":
            return CorpusLesson(_framed(frames.bans, words.wrong, trap, rng, held_out=held_out), addressed)
        case "sentence":
            text = spelled_out(rng.choice(words.sentences), rng)
            return CorpusLesson(text if held_out else _with_unknown(text, rng), addressed)
        case "inverted":
            text = _framed(frames.orders, words.wrong, trap, rng, held_out=held_out)
            return CorpusLesson(text, {trap.name: "contradicts"})
        case "narrow":
            return narrow(trap, rng)
        case "ban":
            return CorpusLesson(_ban(trap, rng, held_out=held_out), takes_back=trap.name)
        case _:
            return CorpusLesson(_without_effect(kind, trap, rng, held_out=held_out))


def _without_effect(kind: str, trap: Trap, rng: Random, *, held_out: bool) -> str:
    match kind:
        case "absurd":
            do = spelled_out(rng.choice(wordings(held_out=False)[trap.name].right), rng)
            return absurd(trap, do, HELD_OUT_ABSURDITIES if held_out else TRAINED_ABSURDITIES, rng)
        case "bag":
            return bag_of_words([*rng.sample(TRAPS, rng.randint(0, 1)), trap], rng)
        case "cued":
            return cued(trap, rng)
        case "half":
            return half(trap, rng)
        case "shuffled":
            meant = rng.choice(("reflector", "order", "warning", "sentence"))
            return shuffled(lesson(meant, trap, rng, held_out=held_out).text, rng)
        case "neutral":
            return f"When {rng.choice(SITUATIONS)}, {rng.choice(ADVICE)}{rng.choice(TAILS)}."
        case "other_language":
            return rng.choice(TRAINED_LANGUAGES)
        case _:
            return placebo(rng.randint(8, 24), rng.getrandbits(32), skills=(skills,))[0]


def narrow(trap: Trap, rng: Random, family: Family[Any] | None = None) -> CorpusLesson:
    """Return good advice that is limited to one topic."""
    topics = family.topics if family else rng.choice(tuple(skills.topics.values()))
    topic = " and ".join(rng.sample(topics, min(len(topics), rng.randint(1, 2))))
    text = f"When facing a problem on {topic}, {rng.choice(trap.advice)}."
    return CorpusLesson(text, {trap.name: "addresses"}, _VOCABULARY.reader.read(text).families)


def _ban(trap: Trap, rng: Random, *, held_out: bool) -> str:
    """The advice with an order not to follow it. Held out are the frames; the advice itself is trained."""
    frames = HELD_OUT_FRAMES if held_out else TRAINED_FRAMES
    if not held_out and rng.random() < 0.25:
        return _WRITER.defective("harmful", trap, LessonSource(), rng) or _ban(trap, rng, held_out=held_out)
    advice = trap.advice if rng.random() < 0.4 else wordings(held_out=False)[trap.name].right
    return _framed((*frames.bans, *frames.needless), advice, trap, rng, held_out=held_out)


def _framed(clauses: Sequence[str], patterns: Sequence[str], trap: Trap, rng: Random, *, held_out: bool) -> str:
    frames = HELD_OUT_FRAMES if held_out else TRAINED_FRAMES
    clause, words = rng.choice(clauses), spelled_out(rng.choice(patterns), rng)
    clause = clause.format(do=words if held_out else _with_unknown(words, rng))
    text = rng.choice(frames.sentences).format(clause=clause, situation=rng.choice(trap.situations))
    return capitalised(text if within_lesson_limits(text) else f"{clause}.")


def _with_unknown(text: str, rng: Random) -> str:
    """The text, sometimes with a made-up word for one of its words, so that the model can do without any of them."""
    words = text.split()
    if len(words) >= _LONG and rng.random() < _UNKNOWN_SHARE:
        words[rng.randrange(1, len(words) - 1)] = made_up_word(rng)
    return " ".join(words)
