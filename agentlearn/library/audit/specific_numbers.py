"""Numbers in a lesson that look as if they came from one problem: large or odd, without a unit or a role. Pure."""

import re

_NUMBER = re.compile(r"(?<![\w.^/*+=:−-])(\d[\d,]*(?:\.\d+)?)(?![\w/*^=+]|[.:-]\d)")
_STATUS = re.compile(r"40[013459]|42[29]|50[0234]")
_SMALL = 12
_USUAL = frozenset({"24", "30", "45", "50", "60", "90", "100", "180", "270", "360", "365", "366", "0.5", "0.1", "0.01"})
_POWER = re.compile(r"10+|16|32|64|128|256|512|1024")
_ROLE = re.compile(
    r"(?:\b(?:mod|modulo|base|step|page|status|code|error|codes|top|first|last|least|most|about|around|approximately|"
    r"roughly|over|under|below|above|within|every|each|exceeds?|exceeding|between|port|version|chapter|rule|"
    r"level|max|min|maximum|minimum|limit|up to|than|python|type)\s*|[≤≥<>\[{~√]\s*)$",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s*[-–]?\s*(?:%|°|degrees?\b|percent\b|words?\b|digits?\b|characters?\b|items?\b|lines?\b|tokens?\b|bits?\b|"
    r"bytes?\b|seconds?\b|minutes?\b|hours?\b|days?\b|weeks?\b|months?\b|years?\b|times\b|pages?\b|steps?\b|"
    r"decimals?\b|decimal places?\b|results?\b|attempts?\b|columns?\b|rows?\b|k?m\b|cm\b|mm\b|kg\b|g\b|ms\b|s\b|th\b|"
    r"status\b|errors?\b|codes?\b|responses?\b)",
    re.IGNORECASE,
)


_WITH = re.compile(r"\bwith (\d+) and (\d+)\b")


def specific_numbers(text: str) -> tuple[str, ...]:
    """The numbers of a text that look as if they came from one problem, in order."""
    if named := _WITH.search(text):
        return named.groups()
    return tuple(
        found[1]
        for found in _NUMBER.finditer(text)
        if not (_usual(found[1]) or _UNIT.match(text, found.end()) or _has_role(text[: found.start()]))
    )


def _usual(number: str) -> bool:
    plain = number.replace(",", "")
    if plain in _USUAL or _POWER.fullmatch(plain) or _STATUS.fullmatch(plain):
        return True
    return "." not in plain and int(plain[:20]) <= _SMALL


def _has_role(before: str) -> bool:
    """Whether the words before a number say what it is for."""
    return _ROLE.search(before) is not None
