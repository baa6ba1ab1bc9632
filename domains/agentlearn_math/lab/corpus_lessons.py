"""Lessons of the corpus: as reflectors write them, in freer words, inverted, too narrow, or without content.

What a lesson says about a trap is not recorded here: the simulated solver's reader decides it from the words.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from agentlearn.sim.controls import placebo
from agentlearn.sim.habits import Vocabulary
from agentlearn.sim.lesson_writer import LessonSource, LessonWriter, within_lesson_limits
from agentlearn.sim.neutral import ADVICE, SITUATIONS, TAILS
from agentlearn.sim.skills import Trap
from agentlearn_math.family import Family
from agentlearn_math.novice import skills
from agentlearn_math.traps import TRAPS

KINDS = {
    "reflector": 0.50,
    "free": 0.14,
    "inverted": 0.08,
    "freely_inverted": 0.04,
    "half": 0.04,
    "narrow": 0.06,
    "neutral": 0.09,
    "placebo": 0.05,
}
"""Probability of each kind of lesson."""

ENDINGS = ("", "s", "es", "e", "ed", "ing", "ies", "y", "ion")
FREE_CLAUSES = (
    "{advice}", "remember to {advice}", "make sure to {advice}", "take care to {advice}", "do not forget to {advice}",
    "it pays to {advice}",
)  # fmt: skip
FREE_FRAMES = (
    "{clause}.", "When {situation}: {clause}.", "{clause}, above all when {situation}.",
    "In such problems {clause}.", "Before you print, {clause}.", "If {situation}, {clause}.",
)  # fmt: skip
CUED = (
    "Mind the {first} and {second} them.", "{first}: {second} with care.", "Always {second} every {first}.",
    "The {first} must be {second}.", "Pay attention to the {first}, then {second}.", "Write code to {second} {first}.",
    "Look at the {first} first and {second} what is there.", "A good program will {second} each {first}.",
)  # fmt: skip
TURNED = (
    "Do not {second} the {first}.", "Never {second} the {first}.", "There is no need to {second} the {first}.",
    "It is pointless to {second} the {first}.", "The {first} need not be {second}.", "Forget the {first}.",
)  # fmt: skip
HALVES = ("Mind the {word}.", "Look at the {word} with care.", "Think of the {word} before you write code.")

_WRITER = LessonWriter(Vocabulary(skills))


def random_lesson(rng: Random, traps: Sequence[Trap] = TRAPS) -> str:
    """Return a lesson of a random kind about one of the traps."""
    kind = rng.choices(tuple(KINDS), tuple(KINDS.values()))[0]
    return lesson(kind, rng.choice(traps), rng)


def lesson(kind: str, trap: Trap, rng: Random) -> str:
    """Return a lesson of a kind. Lessons without content do not concern the trap."""
    match kind:
        case "reflector":
            return _WRITER.lesson(trap, rng)
        case "inverted":
            return _WRITER.defective("harmful", trap, LessonSource(), rng) or lesson("freely_inverted", trap, rng)
        case "free":
            return _free(trap, rng) if rng.random() < 0.5 else _cued(CUED, trap, rng)
        case "freely_inverted":
            return _cued(TURNED, trap, rng)
        case "half":
            word = _inflected(rng.choice(rng.choice(trap.cues)), rng)
            return rng.choice(HALVES).format(word=word)
        case "narrow":
            return narrow(trap, rng)
        case "neutral":
            return f"When {rng.choice(SITUATIONS)}, {rng.choice(ADVICE)}{rng.choice(TAILS)}."
        case _:
            return placebo(rng.randint(8, 24), rng.getrandbits(32), skills=(skills,))[0]


def narrow(trap: Trap, rng: Random, family: Family[Any] | None = None) -> str:
    """Return good advice that is limited to one topic."""
    topics = family.topics if family else rng.choice(tuple(skills.topics.values()))
    topic = " and ".join(rng.sample(topics, min(len(topics), rng.randint(1, 2))))
    return f"When facing a problem on {topic}, {rng.choice(trap.advice)}."


def _free(trap: Trap, rng: Random) -> str:
    clause = rng.choice(FREE_CLAUSES).format(advice=rng.choice(trap.advice))
    text = rng.choice(FREE_FRAMES).format(clause=clause, situation=rng.choice(trap.situations))
    text = text[:1].upper() + text[1:]
    return text if within_lesson_limits(text) else _WRITER.lesson(trap, rng)


def _cued(frames: Sequence[str], trap: Trap, rng: Random) -> str:
    words = [_inflected(rng.choice(group), rng) for group in trap.cues]
    first, second = (words[0], words[-1]) if len(words) > 1 else (words[0], "check")
    text = rng.choice(frames).format(first=first, second=second)
    return text[:1].upper() + text[1:]


def _inflected(stem: str, rng: Random) -> str:
    return stem + rng.choice(ENDINGS)
