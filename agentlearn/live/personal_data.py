"""Find personal data by its form before anything is stored: e-mail, phone, payment card, IBAN, keys, own patterns.

Names and postal addresses have no form, and are not found. All patterns take time in proportion to the text: a
possessive run (`++`) is read once. Known recognisers are no dependency: phonenumbers and python-stdnum find numbers of
every country, also in what is no phone number, and presidio needs a language model of hundreds of megabytes.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast, get_args

from agentlearn.errors import ConfigError
from agentlearn.text import storable
from agentlearn.text.secret_values import KEY_FORM, without_secrets

PersonalDataMode = Literal["off", "tag", "redact"]
"""What happens to personal data: it is stored as it is, it is stored and counted, or a placeholder takes its place."""

_Span = tuple[int, int]
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PASSES = 4
"""Most times that a text is searched: what stood next to a replaced value may be found only then."""
_EDGES = ".+~-"

_EMAIL = re.compile(r"(?<![\w.+~-])[\w.+~-]++(?:@|%40)[\w-]++(?:\.[\w-]++)++")
_PHONE = re.compile(
    r"(?<![\w+])(?:\+\d(?:[ \u00a0().\-/]{0,3}\d){7,14}"  # international
    r"|\(\d{2,5}\)[ \u00a0-]?\d{3,4}[ \u00a0.-]?\d{3,4}"  # with an area code in brackets
    r"|\d{3}([.\u00a0 -])\d{3}\1\d{4})(?!\d)"
)
_CARD = re.compile(
    r"(?<![^\W_])(?<!\d\.)(?:[2-6]\d{12,18}|[2-6]\d{3}([ \u00a0-])\d{4}\1\d{4}\1\d{4}(\1\d{1,3}(?!\d))?"
    r"|3\d{3}([ \u00a0-])\d{6}\3\d{4,5})(?![^\W_])"
)
_IBAN = re.compile(r"(?<![^\W_])([A-Za-z]{2})[0-9]{2}(?=[ \u00a0-]?[A-Za-z0-9])")
_IBAN_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29"
    " ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20"
    " LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29"
    " PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
    " YE30"
)
_IBANS = {
    one[:2]: re.compile(rf"[A-Za-z0-9]{{4}}(?:[ \u00a0-]?[A-Za-z0-9]){{{int(one[2:]) - 4}}}(?![^\W_])")
    for one in _IBAN_LENGTHS.split()
}
"""The form of an account number by country; its length is fixed."""
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def _emails(text: str) -> Iterator[_Span]:
    for found in _EMAIL.finditer(text):
        yield found.start() + len(found[0]) - len(found[0].lstrip(_EDGES)), found.end()


def _cards(text: str) -> Iterator[_Span]:
    """Payment cards: 13 to 19 digits, in one group or in those of a card, with a right check digit (Luhn)."""
    at = 0
    while (found := _CARD.search(text, at)) is not None:
        first, last = found.span()
        ends = (last, found.start(2)) if found[2] else (last,)  # a number that follows may be another one
        end = next((one for one in ends if _has_check_digit(text[first:one])), None)
        if end is not None:
            yield first, end
        at = end or first + 1


def _has_check_digit(text: str) -> bool:
    digits = [int(sign) for sign in text if sign.isdigit()]
    return (sum(digits[-1::-2]) + sum(_DOUBLED[one] for one in digits[-2::-2])) % 10 == 0


def _ibans(text: str) -> Iterator[_Span]:
    """Bank accounts with the length of their country and right check digits."""
    for start in _IBAN.finditer(text):
        form = _IBANS.get(start[1].upper())
        if form is not None and (found := form.match(text, start.start())) is not None:
            plain = "".join(filter(str.isalnum, found[0]))
            if int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1:
                yield found.span()


def _matches(pattern: re.Pattern[str]) -> Callable[[str], Iterator[_Span]]:
    return lambda text: (found.span() for found in pattern.finditer(text) if found[0])


_KINDS: Mapping[str, Callable[[str], Iterator[_Span]]] = {
    "key": _matches(KEY_FORM),
    "email": _emails,
    "iban": _ibans,
    "card": _cards,
    "phone": _matches(_PHONE),
}
"""What finds each kind. A text is searched in this order, after patterns of the application."""
_IN_GROUPS = frozenset({"iban", "card", "phone"})
"""Kinds whose values are the same whatever separates their groups."""


class PersonalData:
    """How a recorder treats personal data. Raises ConfigError.

    mode: `off`, `tag` or `redact`. patterns: further kinds, by name, as regular expressions. Such a pattern is tried at
    each place of a text, so write one that cannot match one text in many ways.
    """

    def __init__(self, mode: PersonalDataMode = "off", patterns: Mapping[str, str] | None = None) -> None:
        if mode not in get_args(PersonalDataMode):
            raise ConfigError(f"personal_data is {mode!r}; pass 'off', 'tag' or 'redact'")
        if patterns and mode == "off":
            raise ConfigError(
                "personal_patterns has no effect with personal_data='off'; pass personal_data='tag' or 'redact'"
            )
        self.mode, self.kinds = mode, dict[str, Callable[[str], Iterator[_Span]]]()
        for name, pattern in (patterns or {}).items():
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                raise ConfigError(f"the pattern {pattern!r} for {name!r} is no regular expression: {error}") from error
            if not _NAME.fullmatch(name) or name in _KINDS or compiled.match("") is not None:
                raise ConfigError(
                    f"the pattern {pattern!r} cannot have the name {name!r}; a name has lower-case letters, digits and"
                    f" '_' and is none of {', '.join(_KINDS)}, and a pattern matches at least one character"
                )
            self.kinds[name] = _matches(compiled)
        self.kinds |= _KINDS

    def cleaning(self) -> "Cleaning":
        """Return what cleans the texts of one record."""
        return Cleaning(self)


class Cleaning:
    """Cleans the texts of one record: of lone surrogates, known secrets and, as set, of personal data."""

    def __init__(self, personal: PersonalData) -> None:
        self._personal = personal
        self._numbers = dict[tuple[str, str], int]()
        self._counts = Counter[str]()
        self._known = dict[str, str]()
        self.searches = personal.mode != "off"
        """Whether it looks for personal data."""

    @property
    def numbers(self) -> dict[str, int]:
        """How many different values of each kind were found; empty where nothing is searched for."""
        return dict(sorted(self._counts.items()))

    def text(self, text: str) -> str:
        """The text as it may be stored."""
        text = without_secrets(storable(text))
        if not self.searches:
            return text
        if text in self._known:  # keys of mappings; and each text stands in the messages and in the steps
            return self._known[text]
        original = text
        for _ in range(_PASSES):
            before = text
            for kind, find in self._personal.kinds.items():
                text = self._replaced(text, kind, find)
            if text == before:
                break
        self._known[original] = text
        return text

    def json(self, value: Any) -> Any:
        """A JSON value with all its texts cleaned, also those of JSON in a text. Files in messages stay as they are."""
        if isinstance(value, str):
            if not self.searches or value[:1] not in {"{", "["}:
                return self.text(value)
            try:
                inner = json.loads(value)
                cleaned = self.json(inner)
            except (ValueError, RecursionError):
                return self.text(value)
            return without_secrets(storable(value if cleaned == inner else json.dumps(cleaned, ensure_ascii=False)))
        if isinstance(value, list):
            return [self.json(one) for one in cast("list[Any]", value)]
        if not isinstance(value, dict) or cast("dict[str, Any]", value).get("kind") == "binary":
            return value  # pyright: ignore[reportUnknownVariableType]
        return {self.text(key): self.json(one) for key, one in cast("dict[str, Any]", value).items()}

    def _replaced(self, text: str, kind: str, find: Callable[[str], Iterator[_Span]]) -> str:
        parts, last = list[str](), 0
        for first, end in find(text):
            value = text[first:end].casefold()
            key = kind, "".join(filter(str.isalnum, value)) if kind in _IN_GROUPS else value
            if key not in self._numbers:
                self._counts[kind] += 1
                self._numbers[key] = self._counts[kind]
            if self._personal.mode == "redact":
                parts += (text[last:first], f"[{kind} {self._numbers[key]}]")
                last = end
        return "".join((*parts, text[last:])) if parts else text
