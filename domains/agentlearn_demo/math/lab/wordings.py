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
        "{do}", "{do}", "{do}", "{do}", "{do}", "always {do}", "first {do}", "make sure to {do}", "remember to {do}",
        "take care to {do}", "do not forget to {do}", "never forget to {do}", "you should {do}", "you have to {do}",
        "it is important to {do}", "it pays to {do}", "the program must {do}", "good solvers {do}",
        "make it a habit: {do}", "it is right to {do}", "it is a good idea to {do}", "see to it that you {do}",
        "you need to {do}", "it is wise to {do}", "try to {do}", "let the program {do}", "the rule is to {do}",
        "the best programs {do}", "there is every reason to {do}", "the advice to {do} is good", "it helps to {do}",
        "listen to those who {do}", "do not go on until you {do}", "never print before you {do}",
        "it would be a mistake not to {do}", "nothing is better than to {do}", "you lose points unless you {do}",
        "it is allowed and right to {do}", "your first step is to {do}", "ask the program to {do}",
    ),
    bans=(
        "do not {do}", "do not {do}", "don't {do}", "never {do}", "never {do}", "it is wrong to {do}",
        "you must not {do}", "you should not {do}", "nobody should {do}", "it does not pay to {do}",
        "it is no good idea to {do}", "take care not to {do}", "the program must not {do}", "in no case {do}",
        "you may not {do}", "one must never {do}", "we do not {do}", "none of us should {do}", "no solver may {do}",
        "on no account {do}", "at no time {do}", "it is forbidden to {do}", "it is not allowed that you {do}",
        "whoever starts to {do} makes a mistake", "the usual mistake is to {do}", "only bad programs {do}",
        "one common error is to {do}", "it would be foolish to {do}", "it costs points to {do}", "refuse to {do}",
        "resist the wish to {do}", "nothing is worse than to {do}", "stop everyone who wants to {do}",
        "the worst idea is to {do}", "programs that {do} are wrong", "it is harmful to {do}", "avoid it: do not {do}",
        "you had better not {do}", "by all means refuse to {do}", "the condition is that you do not {do}",
    ),
    needless=(
        "there is no need to {do}", "do not bother to {do}", "you need not {do}", "it is pointless to {do}",
        "forget the advice to {do}", "nobody has to {do}", "it is not important to {do}",
        "there is no reason to {do}", "nothing is gained if you {do}", "it is a waste of time to {do}",
        "it is useless to {do}", "feel free not to {do}", "no rule says that you have to {do}",
        "nothing forces you to {do}", "the old advice to {do} can be ignored", "ignore everyone who tells you to {do}",
        "it was once necessary to {do}, but not now", "nobody needs you to {do}", "it does not help to {do}",
        "it does not matter whether you {do}", "whether you {do} is of no interest", "it is up to you whether you {do}",
        "do not think that you have to {do}", "pay no attention to those who {do}", "you gain nothing when you {do}",
        "you can do without a rule to {do}", "the task does not want you to {do}",
    ),
    sentences=(
        "{clause}.", "{clause}.", "{clause}.", "When {situation}, {clause}.", "When {situation}: {clause}.",
        "Whenever {situation}, {clause}.", "If {situation}, {clause}.", "{clause}, above all when {situation}.",
        "{clause} when {situation}.", "In such problems {clause}.", "Before you print, {clause}.",
        "{clause}, or the result is wrong.", "{clause} every time.", "Mind this: {clause}.",
        "{clause} in every problem of this kind.", "If you see that {situation}, {clause}.",
        "{clause} whenever {situation}.", "Here is a rule: {clause}.", "One more thing: {clause}.",
        "{clause}, and then go on.",
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
