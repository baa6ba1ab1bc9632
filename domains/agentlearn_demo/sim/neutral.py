"""Neutral words that do not affect the simulated solver, for useless lessons and for controls."""

from collections.abc import Callable, Iterator
from itertools import product
from random import Random

SITUATIONS = (
    "a problem looks hard", "the text is long", "you feel unsure", "work goes slowly", "the day is long",
    "a task seems new", "the first idea fails", "things look messy", "you are about to begin", "the topic is familiar",
    "others would hurry", "the wording is dense", "a plan comes easily", "pressure is high", "nothing seems to work",
    "there is plenty of time",
)  # fmt: skip
ADVICE = (
    "think carefully about it", "stay focused and calm", "work in a tidy way", "read the text slowly",
    "be attentive to details", "write neatly", "take a deep breath", "trust good method", "aim for quality",
    "stay curious", "proceed patiently", "keep a clear head", "do your best work", "stay organised",
    "give it proper thought", "mind your concentration",
)  # fmt: skip
TAILS = ("", " from the start", " all along", " as a matter of course")
# Words of at most six letters: each counts as one token in our estimate.
WORDS = (
    "quiet", "river", "garden", "paper", "yellow", "window", "noon", "gentle", "music", "travel", "summer", "bread",
    "cloud", "silver", "market", "kind", "story", "winter", "bridge", "candle", "forest", "letter", "harbor", "meadow",
    "pencil", "ribbon", "sailor", "teapot", "valley", "violin",
)  # fmt: skip


def neutral_lessons(rng: Random, allowed: Callable[[str], bool]) -> Iterator[str]:
    """Well-formed lessons without content for which `allowed` holds, in random order."""
    combinations = list(product(SITUATIONS, ADVICE, TAILS))
    rng.shuffle(combinations)
    lessons = (f"When {situation}, {advice}{tail}." for situation, advice, tail in combinations)
    return (lesson for lesson in lessons if allowed(lesson))
