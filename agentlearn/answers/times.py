"""Times of day and dates, with every reading: `15:30` and `3:30 pm` are one time, `3:30` is two.

`03/04/2024` is in April or in March. Texts are in lower case, as `normal_text` returns them.
"""

import re
from dataclasses import dataclass
from datetime import date

from agentlearn.answers.match import OTHER_VALUE, SAME_VALUE, SEVERAL_READINGS, Match
from agentlearn.answers.numbers import leading_number

HOUR_S, _DAY_S = 3_600, 86_400
_HALF_DAY_S = _DAY_S // 2

_ZONE = r"(?: ?\(?(?P<zone>[a-z]{2,4}t|utc|gmt|cet|local time)\)?)?"
_TIME = re.compile(
    r"(?:at )?(?P<hour>\d{1,2})(?: ?(?P<mark>[:.h]) ?(?P<minute>[0-5]\d)(?: ?: ?(?P<second>[0-5]\d))?)?"
    r"(?: ?(?P<word>o ?'? ?clock|uhr|hrs|hours|h)\b)?"
    r"(?: ?,? ?(?P<half>[ap]\.? ?m\.?|noon|midnight|in the (?:morning|afternoon|evening)|at night))?" + _ZONE,
    re.ASCII,
)
_NAMED = {"noon": 12, "midday": 12, "midnight": 0}
_SPOKEN = re.compile(
    r"(?P<part>half|(?:a )?quarter|\d{1,2}|[a-z]+(?:[- ][a-z]+)?)(?: minutes?)? (?P<side>past|after|to|before|till) "
    r"(?P<hour>\d{1,2}|[a-z]+)(?: ?(?P<half>[ap])\.? ?m\.?)?"
)


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day."""

    readings: frozenset[int]
    """Seconds since midnight."""
    zone: str = ""
    sure: bool = True
    """Whether it can only be a time: `12.30` may be a number, and `15 h` a duration."""
    marked: bool = True
    """Whether words mark it as a time, so that it cannot be a ratio such as `9:30`."""

    @classmethod
    def of(cls, hour: int, minute: int, second: int) -> "ClockTime | None":
        """Return a time without the half of the day: hours from 1 to 12 leave it open. None for more than 24 hours."""
        if not 0 <= hour <= 24 or max(minute, second) > 59:
            return None
        at = (hour * HOUR_S + minute * 60 + second) % _DAY_S
        halves = (0,) if hour > 12 or not hour else (0, _HALF_DAY_S)
        return cls(frozenset((at + half) % _DAY_S for half in halves), sure=False, marked=False)

    @classmethod
    def read(cls, text: str) -> "ClockTime | None":
        """Return the time of day that a text names; None for any other text.

        A time in digits without the half of the day is one of 24 hours, unless its hour has one digit.
        """
        if (hour := _NAMED.get(text.removeprefix("12 "))) is not None:
            return cls(frozenset({hour * HOUR_S}))
        if spoken := _SPOKEN.fullmatch(text):
            return cls._spoken(spoken)
        if (found := _TIME.fullmatch(text)) is None:
            return None
        hour, half, word = int(found["hour"]), found["half"] or "", found["word"] or ""
        time = cls.of(hour, int(found["minute"] or 0), int(found["second"] or 0))
        marked = bool(half) or word.startswith(("o", "uhr"))
        if time is None or not (found["minute"] or marked) or (half in {"noon", "midnight"} and hour % 12):
            return None
        readings = time.readings
        if half and half != "at night":
            is_morning = half.startswith(("a", "midnight", "in the morning"))
            readings = frozenset(at for at in readings if is_morning == (at < _HALF_DAY_S))
        elif not half and not word.startswith("o") and (len(found["hour"]) == 2 or not hour):
            readings = frozenset({(hour % 24) * HOUR_S + min(readings) % HOUR_S})
        sure = marked or (found["mark"] in {":", "h"} and not word)
        return cls(readings, found["zone"] or "", sure, marked) if readings else None

    @classmethod
    def _spoken(cls, found: re.Match[str]) -> "ClockTime | None":
        """Return a time such as `half past nine` or `ten to four pm`."""

        def count(word: str) -> int | None:
            """Return the number below 60 that digits or words name."""
            if word.isdecimal():
                return int(word)
            named = leading_number(word)
            return int(named.value) if named and not named.rest and not named.ordinal and named.value < 60 else None

        part, hour = found["part"].removeprefix("a "), count(found["hour"])
        minutes = {"half": 30, "quarter": 15}.get(part) or count(part)
        after = found["side"] in {"past", "after"}
        if minutes is None or hour is None or not 0 < hour <= 12 or not 0 < minutes < 60:
            return None
        if part == "half" and not after:
            return None
        at = (hour % 12) * HOUR_S + (minutes if after else -minutes) * 60
        halves = {"a": (0,), "p": (_HALF_DAY_S,)}.get(found["half"] or "", (0, _HALF_DAY_S))
        is_ratio = part.isdecimal() and found["hour"].isdecimal()  # `10 to 4`
        return cls(frozenset((at + half) % _DAY_S for half in halves), marked=not is_ratio)

    def compare(self, gold: "ClockTime") -> Match:
        """Compare the time of an answer with the expected one. The answer may leave out the zone."""
        if not self.readings & gold.readings:
            return SEVERAL_READINGS if self.zone != gold.zone else OTHER_VALUE
        if self.zone and self.zone != gold.zone:
            return Match.unclear("in a time zone that the expected answer does not name")
        return SAME_VALUE if self.readings == gold.readings else SEVERAL_READINGS


_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_BY_NAME = {name: number for number, full in enumerate(_MONTHS, start=1) for name in (full[:3], full)} | {"sept": 9}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAME = rf"(?P<month>{'|'.join(sorted(_BY_NAME, key=len, reverse=True))})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:the )?{_DAY}\.? (?:of )?{_NAME}(?:,? {_YEAR})?",
        rf"{_NAME} {_DAY}(?:,? {_YEAR})?",
        rf"{_NAME},? {_YEAR}",
        rf"{_DAY}-{_NAME}-{_YEAR}",
        rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}})",
    )
)
_SHORT = re.compile(r"(?P<first>\d{1,2})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})")
_WEEKDAY = re.compile(rf"(?P<weekday>{'|'.join(f'{name}|{name[:3]}' for name in _WEEKDAYS)})\.?,? ")


@dataclass(frozen=True, slots=True)
class Day:
    """A date, possibly without year or day."""

    year: int | None
    month: int
    day: int | None

    def __str__(self) -> str:
        """Return the date in a form with one reading: `2024-05-03`, `may 2024`, `3 may`."""
        if self.year is not None and self.day is not None:
            return f"{self.year:04}-{self.month:02}-{self.day:02}"
        return " ".join(str(part) for part in (self.day, _MONTHS[self.month - 1], self.year) if part is not None)

    @classmethod
    def readings(cls, text: str) -> "tuple[Day, ...]":
        """Return every reading of a text as a date, day before month first; empty if it is not a date.

        text: as `normal_text` returns it. With points the day comes first. A wrong weekday makes the text invalid.
        """
        weekday, wanted = _WEEKDAY.match(text), None
        if weekday:
            wanted, text = [name[:3] for name in _WEEKDAYS].index(weekday["weekday"][:3]), text[weekday.end() :]
        readings: list[Day] = []
        if found := next(filter(None, (pattern.fullmatch(text) for pattern in _DATES)), None):
            month = found["month"]
            year, day = (int(part) if part else None for part in map(found.groupdict().get, ("year", "day")))
            readings = [cls(year, int(month) if month.isdecimal() else _BY_NAME[month], day)]
        elif found := _SHORT.fullmatch(text):
            first, second, year = int(found["first"]), int(found["second"]), int(found["year"])
            readings = [cls(year, second, first)]
            if first != second and found["mark"] != ".":
                readings.append(cls(year, first, second))

        def exists(one: Day) -> bool:
            try:
                at = date(one.year or 2000, one.month, 1 if one.day is None else one.day)  # 2000 is a leap year
            except ValueError:
                return False
            return wanted is None or one.year is None or (one.day is not None and at.weekday() == wanted)

        return tuple(filter(exists, readings))

    @staticmethod
    def compare(answer: "tuple[Day, ...]", gold: "tuple[Day, ...]") -> Match:
        """Compare the readings of two dates. Dates that agree, of which one leaves out the year or day, are unclear."""
        if answer == gold:
            return SAME_VALUE

        def conflict(one: Day, other: Day) -> bool:
            pairs = ((one.year, other.year), (one.month, other.month), (one.day, other.day))
            return any(a is not None and b is not None and a != b for a, b in pairs)

        if all(conflict(one, other) for one in answer for other in gold):
            return OTHER_VALUE
        if len(answer) > 1 or len(gold) > 1:
            return SEVERAL_READINGS
        return Match.unclear("names more or fewer parts of the date")


def calendar_name(text: str) -> tuple[str, int] | None:
    """Return the weekday or month that a text names, as kind and number; None for any other text."""
    name = text.removesuffix(".")
    if name in _BY_NAME:
        return "month", _BY_NAME[name]
    days = {day: at for at, full in enumerate(_WEEKDAYS) for day in (full, full[:3], f"{full}s")}
    days |= {"tues": 1, "weds": 2, "thur": 3, "thurs": 3}
    return ("weekday", days[name]) if name in days else None
