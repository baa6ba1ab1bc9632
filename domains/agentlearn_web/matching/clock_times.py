"""Times of day: `15:30` and `3:30 pm` are one, `12.30` may be one, `3:30` has two readings. Pure."""

import re
from dataclasses import dataclass

from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, SEVERAL_READINGS, AnswerMatch

_HALF = r"(?P<half>[ap])\.? ?m\.?"
_ZONE = r"(?: ?\(?(?P<zone>[a-z]{2,4}t|utc|gmt|cet|local time)\)?)?"
_DIGITS = re.compile(
    r"(?P<hour>\d{1,2})(?:(?P<mark>[:.h]) ?(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?"
    rf"(?: ?(?:{_HALF}|(?P<word>o'clock|uhr|hrs|hours|h)))?{_ZONE}"
)
_NAMED = {"noon": 43_200, "midday": 43_200, "12 noon": 43_200, "midnight": 0, "12 midnight": 0}
_DAY_S = 86_400


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


def compare_times(answer: ClockTime, gold: ClockTime) -> AnswerMatch:
    """Compare two times of day. The answer may leave out the zone."""
    if not answer.readings & gold.readings:
        return SEVERAL_READINGS if answer.zone != gold.zone else OTHER_VALUE
    if answer.zone and answer.zone != gold.zone:
        return AnswerMatch("unclear", "in a time zone that the expected answer does not name")
    return SAME_VALUE if answer.readings == gold.readings else SEVERAL_READINGS
