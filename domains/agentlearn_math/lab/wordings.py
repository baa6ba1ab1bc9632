"""Wordings of the advice on each habit, written by hand, and the frames that make lessons of them.

Every list has a part that the corpus trains on and a part that only the checks use.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Wordings:
    """The wordings of the advice on one habit, as patterns; `[a|b]` stands for either of two words."""

    right: tuple[str, ...]
    """What to do, as words that follow "to"."""
    wrong: tuple[str, ...]
    """The mistake, as words that follow "to"."""
    sentences: tuple[str, ...]
    """The advice as whole sentences."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Texts around the words of an advice. `{do}` stands for the words, `{clause}` for the words in their clause."""

    orders: tuple[str, ...]
    """Clauses that tell to do it."""
    bans: tuple[str, ...]
    """Clauses that tell not to do it."""
    needless: tuple[str, ...]
    """Clauses that say there is no reason to do it."""
    sentences: tuple[str, ...]
    """Sentences around a clause; `{situation}` is when the habit matters."""


TRAINED_FRAMES = Frames(
    orders=(
        "{do}", "{do}", "{do}", "always {do}", "first {do}", "make sure to {do}", "remember to {do}",
        "take care to {do}", "do not forget to {do}", "never forget to {do}", "you should {do}", "you have to {do}",
        "it is important to {do}", "it pays to {do}", "the program must {do}", "good solvers {do}",
        "make it a habit: {do}", "it is right to {do}", "it is a good idea to {do}",
    ),
    bans=(
        "do not {do}", "do not {do}", "don't {do}", "never {do}", "never {do}", "it is wrong to {do}",
        "you must not {do}", "you should not {do}", "nobody should {do}", "it does not pay to {do}",
        "it is no good idea to {do}", "take care not to {do}", "the program must not {do}", "in no case {do}",
    ),
    needless=(
        "there is no need to {do}", "do not bother to {do}", "you need not {do}", "it is pointless to {do}",
        "forget the advice to {do}", "nobody has to {do}", "it is not important to {do}",
    ),
    sentences=(
        "{clause}.", "{clause}.", "{clause}.", "When {situation}, {clause}.", "When {situation}: {clause}.",
        "Whenever {situation}, {clause}.", "If {situation}, {clause}.", "{clause}, above all when {situation}.",
        "{clause} when {situation}.", "In such problems {clause}.", "Before you print, {clause}.",
        "{clause}, or the result is wrong.", "{clause} every time.", "Mind this: {clause}.",
    ),
)  # fmt: skip
HELD_OUT_FRAMES = Frames(
    orders=("be sure to {do}", "a careful solver will {do}", "it is best to {do}", "please {do}", "one has to {do}"),
    bans=(
        "it is a mistake to {do}", "under no condition {do}", "by no means {do}", "you are not allowed to {do}",
        "it is a bad idea to {do}",
    ),
    needless=(
        "it is not necessary to {do}", "you do not have to {do}", "ignore the advice to {do}", "no one needs to {do}",
    ),
    sentences=(
        "{clause}.", "As soon as {situation}, {clause}.", "{clause} where {situation}.", "In code, {clause}.",
        "Before you begin: {clause}.",
    ),
)  # fmt: skip


@cache
def wordings(*, held_out: bool) -> Mapping[str, Wordings]:
    """Return the wordings by the trap's name: those of the corpus, or those that are held out from it."""
    suffix = "_held_out" if held_out else ""
    lists = tomllib.loads((Path(__file__).parent / "wordings.toml").read_text(encoding="utf-8"))
    return {
        trap: Wordings(*(tuple(found[f"{kind}{suffix}"]) for kind in ("right", "wrong", "sentences")))
        for trap, found in lists.items()
    }


def spelled_out(pattern: str, rng: Random) -> str:
    """Return the pattern with one of the words of each choice."""
    return " ".join(_CHOICE.sub(lambda found: rng.choice(found[1].split("|")), pattern).split())


def spellings(pattern: str) -> Iterator[str]:
    """Yield every text that a pattern stands for."""
    parts = _CHOICE.split(pattern)
    for words in product(*(part.split("|") if at % 2 else [part] for at, part in enumerate(parts))):
        yield " ".join("".join(words).split())
