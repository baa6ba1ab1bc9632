"""Compares names of which each character counts: versions, flags, paths, product codes, keys, phones, addresses."""

import re
from dataclasses import dataclass

from agentlearn.answers.answer_text import QuestionHints
from agentlearn.answers.match import OTHER_VALUE, SAME_VALUE, Match
from agentlearn.answers.times import Day
from agentlearn.answers.units import MeasureUnit

_VERSION = re.compile(
    r"(?P<name>(?:[a-z][\w+#.-]* ){0,3}?)(?P<mark>(?:version|release|ver\.?|rel\.?|build|revision) ?|)"
    r"(?P<letter>v\.? ?)?(?P<parts>\d{1,9}(?:\.\d{1,9})*)(?P<suffix>[ .-]?(?:[a-z][\w.+-]{0,20})?)"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_DAY = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}|\d{4}\.\d{1,2}\.\d{1,2}")
_LED_IN = re.compile(r"^(?:in|since|as of) ")
_NOT_A_NAME = frozenset(
    (
        *("not", "no", "never", "before", "after", "until", "till", "than", "least", "most", "except", "from", "up"),
        *("to", "by", "in", "on", "at", "of", "for", "with", "without", "only", "or", "and", "all", "any", "under"),
        *("over", "above", "below", "prior", "later", "earlier", "is", "was", "between", "about", "around", "minus"),
    )
)
_BEFORE_RELEASE = re.compile(r"(?:rc|alpha|beta|a|b|dev|pre|preview|snapshot|nightly|m)[ .-]?\d*")
_PHONE = re.compile(r"\+?[\d ()/.-]{6,30}(?:(?:x|ext\.?|extension) ?\d{1,6})?", re.IGNORECASE)

_FLAG = re.compile(r"--?[^\W\d_][\w-]*(?:=\S*)?")
_MAIL = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_WEB = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_BARE_WEB = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}(?:[:/]\S*)?", re.IGNORECASE)
_MIXED_CODE = re.compile(r"(?=[^\d]*\d)(?=[\d-]*[^\W\d_])[^\W_]+(?:[-.][^\W_]+)*")
_CASED_TOKEN = re.compile(r"-{1,2}[^\W\d_].*|.*[/\\_].*|.*\(\)|\$\w+")
_DIGITS_WITH_UNIT = re.compile(r"[-+]?[\d.,]+")
_MODIFIERS = {name: name for name in ("ctrl", "alt", "shift", "meta", "super", "fn", "win", "cmd")} | {
    "control": "ctrl", "command": "cmd", "option": "alt", "opt": "alt", "windows": "win",
}  # fmt: skip
_PLUS = re.compile(r" ?\+ ?")
_SHORT_FLAG = re.compile(r"-[^\W_]")
_LONG_FLAG = re.compile(r"--[^\W\d_][\w-]+")
_BETWEEN_FLAGS = re.compile(r"(?:, | / |/| \| |\|| or )")
_ASKS_SEVERAL = re.compile(r"\b(?:options|flags|switches|forms|both|all)\b")
_DRESSED_NAME = re.compile(r"([^\W\d][\w.:]*)\(\)|\$([^\W\d]\w*)|\$\{([^\W\d]\w*)\}")
_BARE_NAME = re.compile(r"[^\W\d][\w.:]*")
_LITERALS = tuple(
    map(
        re.compile,
        (
            r"(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2}|:\d{1,5})?",
            r"#(?:[\da-f]{6}|[\da-f]{3}|[\da-f]{8})",
            r"(?:[\da-f]{2}[:-]){5}[\da-f]{2}",
            r"[^\w\s]{1,4}",
            r"[a-z](?:\+{1,2}|-|#|\*)?",
        ),
    )
)
"""Internet addresses, colours, hardware addresses, operators, and letters with a mark such as `B+`; in lower case."""
_SHORT_FORMS = {
    "st": "street", "str": "street", "rd": "road", "ave": "avenue", "av": "avenue", "blvd": "boulevard", "ln": "lane",
    "dr": "drive", "sq": "square", "pl": "place", "hwy": "highway", "apt": "apartment",
}  # fmt: skip
_POSTAL = re.compile(r"(?=.*\d)(?=.*[^\W\d_]{2})(?=\S+ \S)[^/\\_]+")
"""Several words, one of them with a digit; not a path."""


@dataclass(frozen=True, slots=True)
class _ReleaseVersion:
    """A version of software: `3.10` is not `3.1`."""

    name: str
    """Of the software; may be empty."""
    parts: tuple[int, ...]
    suffix: str
    """Such as `rc1`."""
    marked: bool
    """Whether it can only be a version: `v3.1`, `release 3.1`, `3.1.4`."""

    @classmethod
    def read(cls, text: str) -> "_ReleaseVersion | None":
        """Return the version that a text names; None for any other text. text: in lower case."""
        found = _VERSION.fullmatch(_LED_IN.sub("", text, count=1)) if len(text) <= 80 else None
        if found is None or _NOT_A_NAME & set(found["name"].split()):
            return None
        parts = tuple(int(one) for one in found["parts"].split("."))
        shaped = len(parts) > 2 and not (_THOUSANDS.fullmatch(found["parts"]) or _DAY.fullmatch(found["parts"]))
        marked = bool(found["mark"] or found["letter"]) or shaped
        return cls(found["name"].strip(), parts, found["suffix"].strip(" .-"), marked)


def is_flag(text: str) -> bool:
    """Return whether a text is a flag such as `-v` or `--dry-run`."""
    return bool(_FLAG.fullmatch(text))


@dataclass(frozen=True, slots=True)
class CodeComparator:
    """Compares two names of which each character counts, as answers to one question."""

    hints: QuestionHints

    def versions(self, one: str, other: str) -> Match | None:
        """Compare two versions part by part; None if they are none. `3` and `3.0`, or `3.1` and `3.1.4`, are unclear.

        The texts are in lower case. A name that only the answer (first) has must occur in the question.
        """
        answer, gold = _ReleaseVersion.read(one), _ReleaseVersion.read(other)
        if answer is None or gold is None or not (self.hints.asks("version") or answer.marked or gold.marked):
            return None
        if Day.readings(one) or Day.readings(other):
            return None
        if answer.name and answer.name != gold.name and (gold.name or answer.name not in self.hints.text):
            return Match.unclear("a version of something else")
        shared = min(len(answer.parts), len(gold.parts))
        if answer.parts[:shared] != gold.parts[:shared]:
            return Match.different("another version")
        if len(answer.parts) != len(gold.parts):
            return Match.unclear("a version with more or fewer parts")
        if answer.suffix == gold.suffix:
            return SAME_VALUE
        early = any(_BEFORE_RELEASE.fullmatch(one) for one in (answer.suffix, gold.suffix))
        return OTHER_VALUE if early else Match.unclear("a version with another addition")

    def phones(self, answer: str, gold: str) -> Match | None:
        """Compare two telephone numbers; None if one is none. A number with and without area code is unclear."""
        if not (self.hints.asks("phone") and _PHONE.fullmatch(answer) and _PHONE.fullmatch(gold)):
            return None
        one, other = (re.sub(r"^00(?=[1-9])|\D", "", text) for text in (answer, gold))
        if one == other:
            return SAME_VALUE
        short, long = sorted((one.lstrip("0"), other.lstrip("0")), key=len)
        return Match.unclear("has more or fewer digits") if long.endswith(short[-6:]) else OTHER_VALUE

    def codes(self, answer: str, gold: str) -> Match | None:
        """Compare two flags, addresses, codes, keys or names of code; None if they are not both of one kind.

        The order of the keys in `Ctrl+P` does not matter, nor `()` or `$` at a name that the question asks for, nor
        commas and short forms such as `St.` in a postal address. A short and a long flag, or one with and without a
        value, may be the same option.
        """
        one, other = answer.casefold(), gold.casefold()

        def both(kind: re.Pattern[str]) -> bool:
            return bool(kind.fullmatch(answer) and kind.fullmatch(gold))

        if both(_FLAG):
            related = (
                answer.startswith("--") != gold.startswith("--")
                or answer.split("=", maxsplit=1)[0] == gold.split("=", maxsplit=1)[0]
            )
            return (
                SAME_VALUE
                if answer == gold
                else Match.unclear("another spelling of a flag")
                if related
                else OTHER_VALUE
            )
        if both(_MAIL):
            return SAME_VALUE if one == other else OTHER_VALUE
        texts = (answer, gold)
        if any(map(_WEB.fullmatch, texts)) and all(_WEB.fullmatch(text) or _BARE_WEB.fullmatch(text) for text in texts):
            bare = (
                re.sub(r"^(?:https?://)?(?:www\.)?", "", text, flags=re.IGNORECASE).partition("/") for text in texts
            )
            hosts = {f"{host.casefold()}{slash}{path}".rstrip("/") for host, slash, path in bare}
            if len(hosts) == 1:
                return SAME_VALUE
        elif both(_MIXED_CODE):
            letters, others = (re.sub(r"[\W\d_]", "", text) for text in (one, other))
            digits, wanted = (re.sub(r"\D", " ", text).split() for text in (one, other))
            near = any(a != b and (a.endswith(b) or b.endswith(a)) for a, b in zip(digits, wanted, strict=False))
            if letters == others and len(digits) == len(wanted) and digits != wanted and not near:
                return OTHER_VALUE
        if self.hints.asks("identifier"):
            plain, wanted = (re.sub(r"[ .-]", "", text) for text in (one, other))
            alike = plain.isalnum() and wanted.isalnum() and len(plain) == len(wanted)
            if alike and re.search(r"\d", plain) and re.search(r"\d", wanted):
                return SAME_VALUE if plain == wanted else OTHER_VALUE
        if (
            self.hints.text
            and one != other
            and any(kind.fullmatch(one) and kind.fullmatch(other) for kind in _LITERALS)
        ):
            return OTHER_VALUE
        if match := self._chords(answer, gold) or self._flag_forms(answer, gold):
            return match
        if self.hints.asks("code") and not self.hints.asks("choice"):
            for name, bare in (texts, texts[::-1]):
                if (dressed := _DRESSED_NAME.fullmatch(name)) and _BARE_NAME.fullmatch(bare):
                    return SAME_VALUE if bare in dressed.groups() else None
        if not (self.hints.asks("address") and _POSTAL.fullmatch(one) and _POSTAL.fullmatch(other)):
            return None
        parts, wanted = (
            [_SHORT_FORMS.get(part, part) for part in re.findall(r"[\w'-]+", text)] for text in (one, other)
        )
        return SAME_VALUE if parts == wanted else None

    @staticmethod
    def _chords(answer: str, gold: str) -> Match | None:
        def chord(text: str) -> tuple[frozenset[str], str] | None:
            *held, key = _PLUS.split(text) if not text.endswith("+") else [text]
            names = [_MODIFIERS.get(one.casefold(), "") for one in held]
            return (frozenset(names), key) if held and all(names) and key and " " not in key else None

        one, other = chord(answer), chord(gold)
        if one is None or other is None:
            return None
        if one == other:
            return SAME_VALUE
        same_letter = one[0] == other[0] and one[1].casefold() == other[1].casefold()
        return Match.unclear("the same keys in another case") if same_letter else OTHER_VALUE

    def _flag_forms(self, answer: str, gold: str) -> Match | None:
        """Compare an answer with a flag that the expected answer gives in its short and its long form."""

        def forms(text: str) -> frozenset[str]:
            """Return the one or two forms of a flag that a text consists of; empty for any other text."""
            parts = [one.strip("`'\" ") for one in _BETWEEN_FLAGS.split(text)]
            short, long = (sum(bool(form.fullmatch(one)) for one in parts) for form in (_SHORT_FLAG, _LONG_FLAG))
            return frozenset(parts) if short + long == len(parts) and short < 2 and long < 2 else frozenset()

        given, wanted = forms(answer), forms(gold)
        if not given or len(wanted) < 2 or (self.hints.asks("listed") and not self.hints.asks("code")):
            return None
        if given == wanted:
            return SAME_VALUE
        if given < wanted:
            return None if _ASKS_SEVERAL.search(self.hints.text) else Match.equal("one form of the same flag")
        return None if given & wanted else OTHER_VALUE

    def case(self, answer: str, gold: str) -> Match:
        """Compare two texts that differ only in case. Case counts in flags, paths, identifiers and symbols of units."""
        one, other = answer.split(), gold.split()
        pairs = zip(one, other, strict=True) if len(one) == len(other) else ()
        for at, (word, wanted) in enumerate(pairs):
            if word == wanted:
                continue
            if _CASED_TOKEN.fullmatch(word) or _CASED_TOKEN.fullmatch(wanted):
                return Match.different("the same letters in another case")
            stuck = _DIGITS_WITH_UNIT.match(word)
            is_unit = at > 0 and _DIGITS_WITH_UNIT.fullmatch(one[at - 1]) and MeasureUnit.case_matters(word, wanted)
            is_stuck = stuck and MeasureUnit.case_matters(word[stuck.end() :], wanted[stuck.end() :])
            if (self.hints.asks("code") and len(one) == 1) or is_unit or is_stuck:
                return Match.unclear("the same letters in another case")
        return Match.equal("the same words")
