"""Text from outside, made safe to store and to show on a terminal."""

import re

_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, separators of lines, marks that reorder text, and lone surrogates."""


def storable(text: str) -> str:
    """The text with each lone surrogate replaced by its escape `\\udXXX`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def visible(text: str) -> str:
    """The text with an escape, such as `\\x1b`, for each character that a terminal would obey and not show."""
    return _INVISIBLE.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))
