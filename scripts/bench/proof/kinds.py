"""Ten kinds of tasks whose rule is made up, so that no model can know it, and a sentence can teach it.

A seed draws the rule of a kind, a wrong rule of the same form, and tasks. The lessons are in the words of a person who
knows the rule. Both rules give each task another answer, so that an answer tells which of them was followed.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

LEARNED, HELD_OUT = 12, 12
"""Tasks to learn from, and held-out ones."""
_BEFORE = 8
"""Tasks to learn from that are drawn before the held-out ones; the others are drawn after them."""
_STARTS = ("Mar", "Tol", "Quin", "Har", "Sel", "Nor", "Bex", "Dun", "Fal", "Gor", "Hux", "Kel")
_ENDS = ("low", "by", "wick", "den", "ton", "ford", "mere", "stow")
_NOUNS = ("tarn", "mol", "brug", "sell", "pim", "dorv", "lask", "nef", "gund", "hosk", "rill", "vam", "jund", "kesp")
_GOODS = (
    "lamps", "bread", "chairs", "soap", "nails", "paper", "shoes", "rice", "tents", "candles", "ropes", "cups", "tea",
    "salt", "bricks", "hats", "spoons", "maps", "pens", "coal", "wool", "glass", "corn", "keys",
)  # fmt: skip
_FIELDS = (
    "port", "host", "user", "path", "size", "name", "date", "city", "token", "title", "price", "email", "level",
    "color", "width", "owner", "group", "label", "phone", "state", "topic", "limit", "depth", "speed",
)  # fmt: skip
_NAMES = ("Rex", "Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Ida", "Jon", "Kim", "Leo")
_CLASSES = ("goat", "cat", "bird", "duck", "bee", "ship", "clock", "song", "pear", "drum", "coin", "star")
_ADJECTIVES = ("grey", "calm", "old", "heavy", "cheap", "quiet", "round", "bright", "cold", "rare", "soft", "wide")


@dataclass(frozen=True, slots=True)
class Asked:
    """One task, with the answers that the right rule and the wrong rule give."""

    problem: str
    answer: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What a seed draws for a kind: the lessons of both rules, and a way to draw a task."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]
    ask: Callable[[random.Random], Asked]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of tasks."""

    name: str
    what: str
    """What is asked, for the table."""
    draw: Callable[[random.Random], Rule]
    reward: str = "contains"
    """How agentlearn judges its answers."""
    instructions: str = "Answer with the result alone, in one line."
    tools: Literal["none", "python"] = "none"
    answer_tokens: int = 24
    turns: int = 1


@dataclass(frozen=True, slots=True)
class Drawn:
    """A kind with the rule and the tasks of one seed."""

    kind: Kind
    seed: int
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    learned: tuple[Asked, ...]
    held_out: tuple[Asked, ...]


def drawn(kind: Kind, seed: int) -> Drawn:
    """Draw a rule and different tasks, those to learn from first. The same seed always draws the same."""
    chance = random.Random(f"{kind.name} {seed}")
    rule = kind.draw(chance)

    found: dict[str, Asked] = {}
    while len(found) < LEARNED + HELD_OUT:
        one = rule.ask(chance)
        if one.answer != one.wrong:
            found.setdefault(one.problem, one)
    tasks = tuple(found.values())
    last = _BEFORE + HELD_OUT
    return Drawn(kind, seed, rule.right, rule.wrong, (*tasks[:_BEFORE], *tasks[last:]), tasks[_BEFORE:last])


def _place(chance: random.Random) -> str:
    return chance.choice(_STARTS) + chance.choice(_ENDS)


def _table(
    chance: random.Random, *, words: tuple[str, ...], values: list[str], lesson: str, ask: Callable[[str, str], str]
) -> Rule:
    """A rule that gives each of three words a value; the wrong one gives it the next value.

    lesson: with the holes `{0}` to `{2}` for the words and `{3}` to `{5}` for their values. ask: the question for a
    word and some goods.
    """
    named, given = chance.sample(words, 3), chance.sample(values, 3)
    moved = [*given[1:], given[0]]
    turns = cycle(range(3))  # an answer of one task only would count as told by the lesson

    def asked(chance: random.Random) -> Asked:
        at = next(turns)
        return Asked(ask(named[at], chance.choice(_GOODS)), given[at], moved[at])

    return Rule((lesson.format(*named, *given),), (lesson.format(*named, *moved),), asked)


def _form(
    lesson: str,
    known: tuple[str, str],
    *,
    written: Callable[[str, int], str],
    ask: Callable[[str], str],
    draw: Callable[[random.Random], str],
) -> Rule:
    """A rule of a form that two examples show.

    lesson: with the holes `{0}`, `{1}`, `{2}` and `{3}` for an example, its form, and the same again. known: the two
    examples. written: the form of a thing by the right rule (0) and by the wrong one (1). draw: what a task asks about.
    """
    one, two = known
    right, wrong = (lesson.format(one, written(one, at), two, written(two, at)) for at in (0, 1))

    def asked(chance: random.Random) -> Asked:
        thing = draw(chance)
        while thing in known:
            thing = draw(chance)
        return Asked(ask(thing), written(thing, 0), written(thing, 1))

    return Rule((right,), (wrong,), asked)


def _shop(chance: random.Random) -> Rule:
    shop = _place(chance)
    return _table(
        chance,
        words=("delivery", "gift wrap", "repair", "storage", "cleaning", "engraving"),
        values=[str(coins) for coins in range(3, 30)],
        lesson=f"At {shop}, {{0}} costs {{3}} coins, {{1}} costs {{4}} coins, and {{2}} costs {{5}} coins.",
        ask=lambda word, goods: (
            f"A customer of {shop} buys {goods} and wants {word}. How many coins does the {word} cost?"
        ),
    )


def _routing(chance: random.Random) -> Rule:
    office = _place(chance)
    return _table(
        chance,
        words=("complaints", "orders", "refunds", "repairs", "questions", "invoices"),
        values=[str(desk) for desk in range(11, 99)],
        lesson=f"In {office}, {{0}} go to desk {{3}}, {{1}} go to desk {{4}}, and {{2}} go to desk {{5}}.",
        ask=lambda word, goods: f"To which desk do {word} about {goods} go in {office}?",
    )


def _units(chance: random.Random) -> Rule:
    place = _place(chance)
    return _table(
        chance,
        words=("water", "land", "time", "weight", "heat", "light"),
        values=[f"{noun}s" for noun in _NOUNS],
        lesson=f"In {place}, {{0}} is measured in {{3}}, {{1}} is measured in {{4}}, and {{2}} is measured in {{5}}.",
        ask=lambda word, goods: f"In which unit does a seller of {goods} in {place} measure {word}?",
    )


def _dates(chance: random.Random) -> Rule:
    place = _place(chance)
    return _table(
        chance,
        words=("the rent", "the tax", "the wage", "the fee", "the loan", "the toll"),
        values=[str(day) for day in range(2, 29)],
        lesson=f"In {place}, {{0}} is due on day {{3}}, {{1}} is due on day {{4}}, and {{2}} is due on day {{5}}.",
        ask=lambda word, goods: f"On which day of the month is {word} of a seller of {goods} due in {place}?",
    )


def _format(chance: random.Random) -> Rule:
    heads = chance.sample([a + b for a in "BDFGHKLMPQRSTVWXZ" for b in "AEKNOPSXYZ" if a != b], 2)
    ends = chance.sample(range(2, 10), 2)
    return _form(
        "Our form of order {0} is {1}, and of order {2} it is {3}.",
        ("1234", "8765"),
        written=lambda number, at: f"{heads[at]}-{number}/{ends[at]}",
        ask=lambda number: f"What is our form of order {number}?",
        draw=lambda chance: str(chance.randrange(2000, 9999)),
    )


def _command(chance: random.Random) -> Rule:
    verbs = chance.sample(("seek", "peek", "ask", "probe", "pull", "trace", "dig"), 2)
    signs = chance.sample(("+", "%", "@", "=", "~", "!"), 2)
    return _form(
        "The stock tool command for {0} is {1} and for {2} it is {3}",
        ("milk", "eggs"),
        written=lambda thing, at: f"{verbs[at]} {signs[at]}{thing}{signs[at]}",
        ask=lambda thing: f"What is the stock tool command for {thing}?",
        draw=lambda chance: chance.choice(_GOODS),
    )


def _code(chance: random.Random) -> Rule:
    calls = chance.sample(("note.lack", "log.miss", "warn.gap", "report.void", "issue.need"), 2)
    codes = chance.sample(range(11, 99), 2)
    return _form(
        "In our code, the line for a missing {0} is {1} and for a missing {2} it is {3}",
        ("age", "id"),
        written=lambda field, at: f'{calls[at]}("{field}", {codes[at]})',
        ask=lambda field: f"What is the line for a missing {field} in our code?",
        draw=lambda chance: chance.choice(_FIELDS),
    )


def _levy(chance: random.Random) -> Rule:
    place, factors = _place(chance), chance.sample(range(13, 49), 2)
    return _form(
        f"The levy code of {place} for {{0}} coins is {{1}} and for {{2}} coins it is {{3}}",
        ("500", "70"),
        written=lambda amount, at: f"print({amount} * {factors[at]})",
        ask=lambda amount: f"What is the levy code of {place} for {amount} coins?",
        draw=lambda chance: str(chance.randrange(211, 989)),
    )


def _grammar(chance: random.Random) -> Rule:
    language, endings = chance.choice(_STARTS) + "ish", chance.sample(("ek", "um", "ora", "ix", "an", "oth"), 2)
    return _form(
        f"In {language}, the plural of {{0}} is {{1}}, and the plural of {{2}} is {{3}}.",
        ("fip", "dask"),
        written=lambda noun, at: f"{noun}{endings[at]}",
        ask=lambda noun: f"What is the plural of {noun} in {language}?",
        draw=lambda chance: (
            chance.choice("bdfgklmprstv") + chance.choice("aeiou") + chance.choice(("rn", "lk", "mp", "st", "nd"))
        ),
    )


def _syllogism(chance: random.Random) -> Rule:
    signs = chance.sample((">>", "//", "::", "~~", "=>", "||"), 2)

    def lesson(sign: str) -> str:
        return f"From 'Tom is a cow' and 'All cows are shy' follows: Tom {sign} shy"

    def asked(chance: random.Random) -> Asked:
        name, one, last = chance.choice(_NAMES), chance.choice(_CLASSES), chance.choice(_ADJECTIVES)
        problem = f"{name} is a {one}. All {one}s are {last}. What follows?"
        return Asked(problem, f"{name} {signs[0]} {last}", f"{name} {signs[1]} {last}")

    return Rule((lesson(signs[0]),), (lesson(signs[1]),), asked)


_NUMBER = "Answer with one number alone."
KINDS = (
    Kind("shop", "a fee of a made-up shop", _shop, reward="number", instructions=_NUMBER),
    Kind("format", "the form of an order number", _format),
    Kind("units", "the unit of a made-up place", _units),
    Kind("command", "a command of a tool with a quirk", _command),
    Kind("code", "a line in a code convention", _code),
    Kind("syllogism", "a conclusion in a made-up form", _syllogism),
    Kind("levy", "the code of a made-up levy", _levy),
    Kind("routing", "the desk for a request", _routing, reward="number", instructions=_NUMBER),
    Kind("dates", "the day on which something is due", _dates, reward="number", instructions=_NUMBER),
    Kind("grammar", "a plural of a made-up language", _grammar),
)


def kind_named(name: str) -> Kind:
    """The kind of that name."""
    return next(one for one in KINDS if one.name == name)


def placebo_for(mine: Drawn) -> tuple[str, ...]:
    """Return the right lessons of another kind, of the length nearest to those of this kind."""

    def size(lessons: tuple[str, ...]) -> int:
        return sum(map(len, lessons))

    others = [drawn(other, mine.seed) for other in KINDS if other.name != mine.kind.name]
    return min((one.right for one in others), key=lambda lessons: abs(size(lessons) - size(mine.right)))
