"""Times of day: `15:30` and `3:30 pm` are one, `12.30` may be one, `3:30` has two readings. Pure."""

import re
from dataclasses import dataclass

from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, SEVERAL_READINGS, AnswerMatch
from agentlearn_web.matching.number_words import leading_number

_HALF = r"(?P<half>[ap])\.? ?m\.?"
_ZONE = r"(?: ?\(?(?P<zone>[a-z]{2,4}t|utc|gmt|cet|local time)\)?)?"
_DIGITS = re.compile(
    r"(?P<hour>\d{1,2})(?:(?P<mark>[:.h]) ?(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?"
    rf"(?: ?(?:{_HALF}|(?P<word>o'clock|uhr|hrs|hours|h)))?{_ZONE}"
)
_NAMED = {"noon": 43_200, "midday": 43_200, "12 noon": 43_200, "midnight": 0, "12 midnight": 0}
_DAY_S = 86_400
_SPOKEN = re.compile(
    r"(?P<part>half|(?:a )?quarter|\d{1,2}|[a-z]+(?:[- ][a-z]+)?)(?: minutes?)? (?P<side>past|after|to|before|till) "
    r"(?P<hour>\d{1,2}|[a-z]+)(?: ?(?P<half>[ap])\.? ?m\.?)?"
)


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day."""

    readings: frozenset[int]
    """Seconds since midnight."""
    zone: str
    sure: bool
    """Whether it can only be a time: `12.30` may be a number, and `15 h` a duration."""


def parse_time(text: str) -> ClockTime | None:
    """Return the time of day that a text names; None for any other text. text: in lower case."""
    if text in _NAMED:
        return ClockTime(frozenset({_NAMED[text]}), "", sure=True)
    if spoken := _SPOKEN.fullmatch(text):
        return _spoken_time(spoken)
    found = _DIGITS.fullmatch(text)
    if found is None or not (found["minute"] or found["half"] or found["word"] in {"o'clock", "uhr"}):
        return None
    hour, minute, second = int(found["hour"]), int(found["minute"] or 0), int(found["second"] or 0)
    if minute > 59 or second > 59 or hour > (12 if found["half"] else 24) or (found["half"] and not hour):
        return None
    half, word = found["half"], found["word"]
    sure = bool(half or word in {"o'clock", "uhr"} or (found["mark"] in {":", "h"} and word is None))
    if half:
        hours = {hour % 12 + (12 if half == "p" else 0)}
    elif 0 < hour < 12 and len(found["hour"]) == 1:
        hours = {hour, hour + 12}
    else:
        hours = {hour}
    readings = frozenset((3600 * one + 60 * minute + second) % _DAY_S for one in hours)
    return ClockTime(readings, found["zone"] or "", sure)


def _spoken_time(found: re.Match[str]) -> ClockTime | None:
    """Return a time such as `half past nine` or `ten to four pm`."""
    part, hour = found["part"].removeprefix("a "), _count(found["hour"])
    minutes = {"half": 30, "quarter": 15}.get(part) or _count(part)
    after = found["side"] in {"past", "after"}
    if minutes is None or hour is None or not 0 < hour <= 12 or not 0 < minutes < 60 or (part == "half" and not after):
        return None
    at = hour * 60 + (minutes if after else -minutes)
    halves = {"a": (0,), "p": (12,)}.get(found["half"] or "", (0, 12))
    whole = at if hour < 12 else at - 720
    return ClockTime(frozenset(60 * (whole + 60 * half) % _DAY_S for half in halves), "", sure=True)


def _count(word: str) -> int | None:
    """Return the number below 60 that digits or words name."""
    if word.isdecimal():
        return int(word)
    number = leading_number(word)
    return int(number.value) if number and not number.rest and not number.ordinal and number.value < 60 else None


def compare_times(answer: ClockTime, gold: ClockTime) -> AnswerMatch:
    """Compare two times of day. The answer may leave out the zone."""
    if not answer.readings & gold.readings:
        return SEVERAL_READINGS if answer.zone != gold.zone else OTHER_VALUE
    if answer.zone and answer.zone != gold.zone:
        return AnswerMatch("unclear", "in a time zone that the expected answer does not name")
    return SAME_VALUE if answer.readings == gold.readings else SEVERAL_READINGS
