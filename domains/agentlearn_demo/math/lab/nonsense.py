"""Lessons that hold the key words of an advice and say nothing: absurd sentences, shuffled words, bags of words."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from agentlearn_demo.sim.skills import Trap

ENDINGS = ("", "s", "es", "e", "ed", "ing", "ies", "y", "ion")
"""Endings that make words of key-word stems."""
CUED = (
    "Mind the {first} and {second} them.", "{first}: {second} with care.", "Always {second} every {first}.",
    "The {first} must be {second}.", "Pay attention to the {first}, then {second}.", "Write code to {second} {first}.",
    "Look at the {first} first and {second} what is there.", "A good program will {second} each {first}.",
)  # fmt: skip
"""Frames around two stems of any kind, which make no sense."""
HALVES = ("Mind the {word}.", "Look at the {word} with care.", "Think of the {word} before you write code.")
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwz", "aeiou"
_UNKNOWN_SHARE = 0.3
"""Share of an absurd sentence's nouns that are made-up words."""
_LEAST_WORDS = 6
"""Number of words from which a shuffled sentence has lost its sense."""


@dataclass(frozen=True, slots=True)
class Absurdities:
    """Words and frames of absurd sentences; `{first}` and `{second}` are key words, `{do}` is the advice."""

    frames: tuple[str, ...]
    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]


TRAINED_ABSURDITIES = Absurdities(
    frames=(
        "The {adjective} {noun} wants to {second} a {first}.", "My uncle's {first} will {second} every {noun}.",
        "A {first} and a {noun} {verb} when it rains.", "In the {noun} seven {adjective} {first} {second} at night.",
        "Never {verb} a {first} before the {noun} can {second}.",
        "When the {noun} is {adjective}, {second} the {first}.", "{second} the {noun} with {first} and {verb} it.",
        "Her {adjective} {noun} may {second} no {first}.",
        "The {first} of the {noun} is {adjective}, so {second} a {noun}.",
        "Seven {noun}s {verb} and {second} in the {first}.", "Ask the {noun} to {do}.",
        "The {adjective} {noun} likes to {do}, and the king must {verb}.",
        "It is {adjective} to {verb} the {noun} and to {do} at sea.",
        "{verb} the {noun} if your {first} can {second}.",
        "Always {verb} the {first} of your {noun}, then {second} the {adjective} {noun}.",
        "A {noun} without {first} cannot {second} the {noun}.",
        "Include the {noun} and count the {adjective} {first}.",
        "Please {second} both ends of the {adjective} {noun}.", "Before you {verb}, check the {first} of the {noun}.",
        "The {noun} asks the {first}: why {second}?",
    ),
    nouns=(
        "dragon", "carpet", "soup", "duck", "sofa", "castle", "pirate", "guitar", "sausage", "cousin", "tiger",
        "pillow", "potato", "wizard", "bicycle", "spoon", "tulip", "ghost", "nose", "piano", "onion", "lamp", "pony",
        "queen",
    ),
    verbs=("eat", "paint", "kiss", "sing", "dance", "wash", "cook", "sleep", "tickle", "fly", "bake", "swim"),
    adjectives=("green", "lazy", "hungry", "wooden", "sad", "golden", "noisy", "fat", "blue", "old", "wet", "proud"),
)  # fmt: skip
HELD_OUT_ABSURDITIES = Absurdities(
    frames=(
        "My aunt's {first} likes to {second} the {noun}.",
        "A {adjective} {first} will {second} seven {adjective} {noun}s.",
        "Under the {noun} a {first} may {second} his {noun}.", "A {noun} with a {first} shall {second} the {noun}.",
        "If a {noun} should {verb}, {second} it and {first} it.",
        "Let the {noun} {second} while the {first} can {verb}.",
    ),
    nouns=("moon", "baker", "hat", "bridge", "turnip", "monkey", "velvet", "gnome", "kettle", "walrus"),
    verbs=("whistle", "juggle", "knit", "yodel"),
    adjectives=("purple", "sleepy", "greedy", "crunchy"),
)  # fmt: skip


def absurd(trap: Trap, do: str, words: Absurdities, rng: Random) -> str:
    """Return an absurd sentence with key words of a trap. do: the words of an advice on it."""
    first, second = _two_words(trap, rng)
    frame = rng.choice(words.frames)
    while "{noun}" in frame:
        noun = made_up_word(rng) if rng.random() < _UNKNOWN_SHARE else rng.choice(words.nouns)
        frame = frame.replace("{noun}", noun, 1)
    while "{adjective}" in frame:
        frame = frame.replace("{adjective}", rng.choice(words.adjectives), 1)
    return capitalised(frame.format(first=first, second=second, verb=rng.choice(words.verbs), do=do))


def cued(trap: Trap, rng: Random) -> str:
    """Return a frame around two key words of a trap."""
    first, second = _two_words(trap, rng)
    return capitalised(rng.choice(CUED).format(first=first, second=second))


def bag_of_words(traps: Sequence[Trap], rng: Random) -> str:
    """Return key words of these traps, at random, and nothing else."""
    stems = [inflected(rng.choice(group), rng) for trap in traps for group in trap.cues]
    return " ".join(rng.sample(stems, len(stems)))


def half(trap: Trap, rng: Random) -> str:
    """Return a sentence with a single key word."""
    return rng.choice(HALVES).format(word=inflected(rng.choice(rng.choice(trap.cues)), rng))


def shuffled(text: str, rng: Random) -> str:
    """Return the words of a text in random order. A short text is said twice before."""
    words = text.rstrip(".").replace(",", "").split()
    if len(words) < _LEAST_WORDS:
        words *= 2
    mixed = rng.sample(words, len(words))
    while mixed == words:
        mixed = rng.sample(words, len(words))
    return " ".join(mixed)


def made_up_word(rng: Random) -> str:
    """Return a word that does not exist."""
    return "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.randint(2, 3)))


def inflected(stem: str, rng: Random) -> str:
    """Return the stem with a random ending."""
    return stem + rng.choice(ENDINGS)


def capitalised(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


def _two_words(trap: Trap, rng: Random) -> tuple[str, str]:
    words = [inflected(rng.choice(group), rng) for group in trap.cues]
    return (words[0], words[-1]) if len(words) > 1 else (words[0], "check")
