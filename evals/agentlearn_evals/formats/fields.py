"""Single values of a log as numbers, counts and texts; each refusal names the place, the value and what to do."""

import json
import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from agentlearn.errors import ConfigError, DataError
from agentlearn.text import storable
from agentlearn_evals.formats.log_file import LogFile
from agentlearn_evals.observation import Observation

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_CODE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def short(value: object) -> str:
    """The value for a message, cut where it is long."""
    return reprlib.repr(value)


def number(value: object, what: str, place: str, *, letters: bool = False) -> float:
    """A finite number, written as one or as text; a bool is 1 or 0. Raises DataError.

    letters: whether inspect_ai's grades C, P, I, N and the words yes, no, true, false are numbers, too.
    """
    read = _read(value, letters)
    if read is None:
        raise DataError(f"{place} has {short(value)} as {what}, which is no number; write a number", code="bad_score")
    if not math.isfinite(read):
        raise DataError(
            f"{place} has {short(value)} as {what}, which is not finite; write a number, or status 'failed' with 0",
            code="bad_score",
        )
    return read


def _read(value: object, letters: bool) -> float | None:
    if letters and isinstance(value, str):
        graded = _LETTERS.get(value, _LETTERS.get(value.lower()) if len(value) > 1 else None)
        if graded is not None:
            return graded
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text) and text.lower().lstrip("+-") not in {"nan", "inf", "infinity"}:
            return None
        return float(text)
    if not isinstance(value, bool | int | float | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def is_number(value: object) -> bool:
    """Whether it is written as a number; NaN is."""
    return isinstance(value, bool | int | float | Decimal)


def optional_number(value: object, what: str, place: str) -> float | None:
    """As `number`; None for nothing."""
    return None if nothing(value) else number(value, what, place)


def optional_count(value: object, what: str, place: str) -> int | None:
    """A whole number from 0; None for nothing. Raises DataError."""
    if nothing(value):
        return None
    count = _count(value)
    if count is None:
        raise DataError(
            f"{place} has {short(value)} as {what}; write a whole number from 0, or nothing", code="bad_count"
        )
    return count


def _count(value: object) -> int | None:
    if isinstance(value, str):
        whole = re.fullmatch(r"([0-9]{1,19})(?:\.0*)?", value.strip())  # tables with gaps write 3 as 3.0
        return int(whole[1]) if whole else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return None
    return int(value) if value >= 0 and int(value) == value else None


def nothing(value: object) -> bool:
    """Whether a cell is empty; NaN is how tables of numbers say so."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def text(value: object) -> str:
    """Text as it is, lone surrogates written out; a number as written; a structure as JSON; None and NaN as nothing."""
    if value is None or value != value:
        return ""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return storable(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))
    return str(value)


def texts(value: object) -> tuple[str, ...]:
    """Several texts: a list, the JSON of one, or a text with `;` between them."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, str):
        return tuple(part.strip() for part in storable(value).split(";") if part.strip())
    if isinstance(value, Sequence):
        return tuple(text(one) for one in value)
    return () if value is None else (text(value),)


def said(content: object) -> str:
    """What is asked, of a prompt: the text itself, or the last message that a user wrote."""
    if not isinstance(content, Sequence) or isinstance(content, str):
        return text(content)
    messages = [one for one in content if isinstance(one, Mapping)]
    asked = [one for one in messages if one.get("role") == "user"] or messages
    if not asked:
        return text(content)
    parts = asked[-1].get("content")
    if isinstance(parts, Sequence) and not isinstance(parts, str):
        return "\n".join(text(part.get("text")) for part in parts if isinstance(part, Mapping) and part.get("text"))
    return text(parts)


def error_code(message: str) -> str:
    """The name of the exception that a message begins with."""
    named = _CODE.match(message)
    return named[0].rpartition(".")[2] if named else "error"


def choose(log: LogFile, names: Sequence[str]) -> str:
    """The score that counts: the one that is asked for, or the only one. Raises ConfigError, DataError."""
    file, listed = log.path.name, ", ".join(map(repr, names))
    if not names:
        raise DataError(f"{file} holds no score; score its samples, and give the log with the scores", code="no_score")
    if log.score:
        if log.score not in names:
            raise ConfigError(
                f"{file} has no score {log.score!r} (it has {listed}); write one of them after the '#'",
                code="unknown_score",
            )
        return log.score
    if len(names) > 1:
        raise ConfigError(
            f"{file} holds several scores ({listed}); choose one, such as {f'{file}#{names[0]}'!r}", code="which_score"
        )
    return names[0]


def observe(place: str, **fields: Any) -> Observation:
    """The observation with these fields. Raises DataError where one is out of its range."""
    try:
        return Observation(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "score"
        raise DataError(
            f"{place} has {short(first['input'])} as {where} ({first['msg']}); correct it", code="bad_observation"
        ) from error
