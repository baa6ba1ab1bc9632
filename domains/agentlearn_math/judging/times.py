r"""Reading times of day: `9:30 a.m.`, `5\text{ PM}`, `noon`, `3 o'clock`. A bare `9:30` may also be a ratio."""

import re

from agentlearn_math.judging.forms import Number, Ratio, TimeOfDay

HOUR_S, DAY_S = 3_600, 86_400
HALF_DAY_S = DAY_S // 2

_WRAPPER = re.compile(r"\\(?:text|textrm|textbf|textit|textsc|mathrm|mathbf|mbox) ?\{([^{}]*)\}")
_HALF = r"a\.? ?m\.?|p\.? ?m\.?|noon|midnight"
_NAMED = r"in the morning|in the afternoon|in the evening|at night"
_TIME = re.compile(
    rf"(?:at )?(?P<hour>\d{{1,2}})(?: ?[:.] ?(?P<minute>[0-5]\d)(?: ?: ?(?P<second>[0-5]\d))?)? ?"
    rf"(?P<clock>o ?'? ?clock)?(?: ?,? ?(?P<half>{_HALF}|{_NAMED}))?",
    re.ASCII,
)
_START = re.compile(r"\d{1,2}(?!\d)(?! ?[-+*/^,=<>])|at |noon|mid|\\(?:text|math|mbox)", re.ASCII | re.IGNORECASE)
_WORDS = {"noon": 12, "midday": 12, "midnight": 0}
_MORNING = ("a", "in the morning", "midnight")


def time_in(text: str) -> TimeOfDay | None:
    """Return the time of day in a normalised text; None for a text that does not say that it is a time."""
    if not _START.match(text):
        return None
    plain = " ".join(_WRAPPER.sub(r" \1 ", text).split()).casefold().strip(" .")
    if plain.removeprefix("12 ") in _WORDS:
        return TimeOfDay(_WORDS[plain.removeprefix("12 ")] * HOUR_S, knows_half=True)
    found = _TIME.fullmatch(plain)
    if not found or not (found["clock"] or found["half"]):
        return None
    return _time(int(found["hour"]), int(found["minute"] or 0), int(found["second"] or 0), found["half"] or "")


def time_of_ratio(ratio: Ratio) -> TimeOfDay | None:
    """Return `9:30` or `9:30:15` as a time; None when it is none. Hours up to 12 leave the half of the day open."""
    numbers = [part.value for part in ratio.parts if isinstance(part, Number) and isinstance(part.value, int)]
    if len(numbers) != len(ratio.parts) or len(numbers) not in {2, 3}:
        return None
    hour, minute, second = (*numbers, 0)[:3]
    return _time(hour, minute, second, "") if max(minute, second) < 60 else None


def hours_and_minutes(ratio: Ratio) -> tuple[int, int] | None:
    """Return the two numbers of a ratio that looks like `1:30`; None for any other ratio."""
    match ratio:
        case Ratio(parts=(Number(value=int() as one), Number(value=int() as other)), is_clock_like=True):
            return one, other
        case _:
            return None


def _time(hour: int, minute: int, second: int, half: str) -> TimeOfDay | None:
    if not 0 <= hour <= 24 or (half in {"noon", "midnight"} and hour % 12):
        return None
    since_midnight_s = (hour * HOUR_S + minute * 60 + second) % DAY_S
    if hour > 12 or hour == 0 or not half:
        return TimeOfDay(since_midnight_s, knows_half=hour > 12 or hour == 0 or bool(half))
    in_half_s = since_midnight_s % HALF_DAY_S
    if half == "at night":
        return TimeOfDay(in_half_s, knows_half=False)
    return TimeOfDay(in_half_s if half.startswith(_MORNING) else in_half_s + HALF_DAY_S, knows_half=True)
