"""Parser for calendar dates that returns every reading of a text: `03/04/2024` is in April or in March."""

import re
from dataclasses import dataclass
from datetime import date

from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, AnswerMatch

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_NAMES = {name: number for number, name in enumerate(_MONTHS, start=1)}
_BY_NAME = {name[:3]: number for name, number in _NAMES.items()} | {"sept": 9} | _NAMES
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAME = rf"(?P<month>{'|'.join(sorted(_BY_NAME, key=len, reverse=True))})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_NAMED = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:the )?{_DAY}\.? (?:of )?{_NAME}(?:,? {_YEAR})?",
        rf"{_NAME} {_DAY}(?:,? {_YEAR})?",
        rf"{_NAME},? {_YEAR}",
        rf"{_DAY}-{_NAME}-{_YEAR}",
    )
)
_ISO = re.compile(r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})")
_SHORT = re.compile(r"(?P<first>\d{1,2})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})")
_WEEKDAY = re.compile(rf"(?P<weekday>{'|'.join(f'{name}|{name[:3]}' for name in _WEEKDAYS)})\.?,? ")
_SHORT_WEEKDAYS = {"tues": 1, "weds": 2, "thur": 3, "thurs": 3}


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


def parse_dates(text: str) -> tuple[Day, ...]:
    """Return every reading of a text as a date, day before month first; empty if it is not a date.

    text: as `normal_text` returns it. With points the day comes first. A wrong weekday makes the text invalid.
    """
    weekday = _WEEKDAY.match(text)
    if weekday is None:
        return tuple(filter(_exists, _readings(text)))
    wanted = [name[:3] for name in _WEEKDAYS].index(weekday["weekday"][:3])
    return tuple(one for one in _readings(text[weekday.end() :]) if _exists(one) and _falls_on(one, wanted))


def parse_calendar_name(text: str) -> tuple[str, int] | None:
    """Return the weekday or month that a text names, as kind and number; None for any other text."""
    name = text.removesuffix(".")
    if name in _BY_NAME:
        return "month", _BY_NAME[name]
    days = {day: at for at, full in enumerate(_WEEKDAYS) for day in (full, full[:3], f"{full}s")} | _SHORT_WEEKDAYS
    return ("weekday", days[name]) if name in days else None


def compare_dates(answer: tuple[Day, ...], gold: tuple[Day, ...]) -> AnswerMatch:
    """Compare the readings of two dates. Dates that agree, but of which one leaves out the year or day, are unclear."""
    if answer == gold:
        return SAME_VALUE
    if all(_conflict(one, other) for one in answer for other in gold):
        return OTHER_VALUE
    if len(answer) > 1 or len(gold) > 1:
        return AnswerMatch("unclear", "can be read in several ways")
    return AnswerMatch("unclear", "names more or fewer parts of the date")


def _conflict(one: Day, other: Day) -> bool:
    pairs = ((one.year, other.year), (one.month, other.month), (one.day, other.day))
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _readings(text: str) -> tuple[Day, ...]:
    for pattern in _NAMED:
        if found := pattern.fullmatch(text):
            parts = found.groupdict()
            year, day = parts.get("year"), parts.get("day")
            return (Day(int(year) if year else None, _BY_NAME[parts["month"]], int(day) if day else None),)
    if found := _ISO.fullmatch(text):
        return (Day(int(found["year"]), int(found["month"]), int(found["day"])),)
    if found := _SHORT.fullmatch(text):
        first, second, year = int(found["first"]), int(found["second"]), int(found["year"])
        if first == second or found["mark"] == ".":
            return (Day(year, second, first),)
        return (Day(year, second, first), Day(year, first, second))
    return ()


def _exists(one: Day) -> bool:
    try:
        date(one.year or 2000, one.month, 1 if one.day is None else one.day)  # 2000 is a leap year
    except ValueError:
        return False
    return True


def _falls_on(one: Day, weekday: int) -> bool:
    return one.year is None or (one.day is not None and date(one.year, one.month, one.day).weekday() == weekday)
