"""Numbers written as words: `twelve`, `two dozen`, `one and a half`, `twenty-first`. Pure."""

import re
from dataclasses import dataclass
from fractions import Fraction

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {word: number for number, word in enumerate(_ONES)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
_LARGE = {"hundred": 100, "dozen": 12, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_IRREGULAR = {
    "first": "one",
    "second": "two",
    "third": "three",
    "fifth": "five",
    "eighth": "eight",
    "ninth": "nine",
    "twelfth": "twelve",
}
_HALF = re.compile(r"(?:an?|one) (?P<noun>[^\W\d_]+) and a half")
_PARTS = (
    {"half": 2, "quarter": 4, "fourth": 4, "tenth": 10, "hundredth": 100}
    | {name: number for number, name in enumerate(("fifth", "sixth", "seventh", "eighth", "ninth"), start=5)}
    | {"third": 3}
)
_FRACTION = re.compile(
    rf"(?:(?P<top>[a-z]+)[ -]|(?=quarter of ))(?P<part>{'|'.join(_PARTS)})(?P<plural>s|)"
    r"(?:(?P<of> of)(?: (?:an?|the))?(?: (?P<rest>.+))?)?"
)
_WORD = re.compile(r"[^\s,-]+")
_ORDINAL_DIGITS = re.compile(r"(?P<digits>\d{1,12})(?:st|nd|rd|th)\b ?")


@dataclass(frozen=True, slots=True)
class WordNumber:
    """The number that the first words of a text name."""

    value: Fraction
    ordinal: bool
    rest: str
    """The words after the number."""


def leading_number(text: str) -> WordNumber | None:
    """Return the number that the first words of a text name; None if it begins with no such words.

    text: in lower case. `half a million euros` gives 500,000 and `euros`. None if a second number follows the first.
    """
    if found := _HALF.fullmatch(text):
        return WordNumber(Fraction(3, 2), ordinal=False, rest=f"{found['noun']}s")
    if (found := _FRACTION.fullmatch(text)) and (fraction := _fraction(found)):
        return fraction
    words = _WORD.findall(text)
    used, ordinal, sum_ = 0, False, _Sum()
    while used < len(words) and not ordinal:
        ahead = words[used + 1] if used + 1 < len(words) else ""
        word = _cardinal(words[used])
        if sum_.started and words[used] == "and" and words[used + 1 : used + 3] == ["a", "half"]:
            sum_, used = sum_.plus_half(), used + 3
            break
        if (not sum_.started and word in {"a", "an"} and ahead in _LARGE) or _joins(sum_, words[used], ahead):
            used += 1
            continue
        if (longer := sum_.plus(word)) is None:
            break
        ordinal, sum_, used = word != words[used], longer, used + 1
        if words[used - 1 : used + 1] == ["half", "a"] and used + 1 < len(words) and words[used + 1] in _LARGE:
            used += 1
    rest = words[used:]
    if not sum_.started or (rest and _names_number(rest[rest[0] == "and" :])):
        return None
    return WordNumber(sum_.value, ordinal, " ".join(rest))


def _fraction(found: re.Match[str]) -> WordNumber | None:
    """Return a fraction such as `two thirds`. `three quarters` counts quarters, unless it is `three quarters of`."""
    top = _SMALL.get(found["top"] or "one")
    if top is None or (top == 1) == bool(found["plural"]) or (found["part"] == "quarter" and not found["of"]):
        return None
    return WordNumber(Fraction(top, _PARTS[found["part"]]), ordinal=False, rest=found["rest"] or "")


def leading_ordinal(text: str) -> tuple[int, str] | None:
    """Return the ordinal number with which a text begins, and the rest: `third edition` gives 3 and `edition`."""
    if found := _ORDINAL_DIGITS.match(text):
        return int(found["digits"]), text[found.end() :]
    number = leading_number(text)
    return (int(number.value), number.rest) if number is not None and number.ordinal else None


@dataclass(frozen=True, slots=True)
class _Sum:
    """The number that the words so far name."""

    total: int = 0
    group: Fraction = Fraction(0)
    """The part after the last `thousand`, `million` or larger word."""
    last: int = 10**15
    """The last such word; a larger one cannot follow."""
    started: bool = False

    @property
    def value(self) -> Fraction:
        return self.total + self.group

    def plus(self, word: str) -> "_Sum | None":
        """Return the sum with the word; None if the word does not continue the number."""
        group = self.group
        if word in _SMALL:
            small = _SMALL[word]
            fits = not group % 100 or (group % 100 >= 20 and not group % 10 and 0 < small < 10)
            return (
                _Sum(self.total, group + small, self.last, started=True)
                if fits and self.value.denominator == 1
                else None
            )
        if word == "half" and not self.started:
            return _Sum(group=Fraction(1, 2), started=True)
        large = _LARGE.get(word)
        if large is None or large >= self.last or (self.started and not group):
            return None
        group = group if self.started else Fraction(1)
        if large in {12, 100}:
            return _Sum(self.total, group * large, self.last, started=True) if group < 100 else None
        scaled = group * large
        whole = int(scaled)
        return _Sum(self.total + whole, scaled - whole, large, started=True)

    def plus_half(self) -> "_Sum":
        """Return the sum with one half more."""
        return _Sum(self.total, self.group + Fraction(1, 2), self.last, started=True)


def _joins(sum_: _Sum, word: str, ahead: str) -> bool:
    """Return whether a word is the `and` of a number such as `three hundred and five`."""
    return word == "and" and sum_.started and sum_.value >= 100 and _cardinal(ahead) in _SMALL


def _names_number(words: list[str]) -> bool:
    if not words or words[0] == "second":
        return False
    return _cardinal(words[0]) in _SMALL or words[0] in _LARGE or words[0][0].isdigit()


def _cardinal(word: str) -> str:
    """Return the cardinal number of an ordinal: `four` for `fourth`; the word itself for any other word."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    stem = f"{word[:-4]}y" if word.endswith("ieth") else word.removesuffix("th")
    return stem if stem in _SMALL or stem in _LARGE else word
