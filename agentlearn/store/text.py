"""Text at the border of the database: whatever a model wrote goes in and comes out again, letter for letter.

DuckDB refuses lone surrogates, and other programs that read the tables choke on NUL. Both are written as U+241B (the
sign for "escape") and four hex digits: a lone U+D800 becomes `␛d800`. The sign itself becomes `␛241b`, so that nothing
is lost and every stored text has one reading.
"""

import json
import re
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

T = TypeVar("T")

_SIGN = "\u241b"
_UNSAFE = re.compile(f"[\x00{_SIGN}\ud800-\udfff]")
_ESCAPED = re.compile(f"{_SIGN}([0-9a-f]{{4}})")
_SURROGATE = re.compile("[\ud800-\udfff]")


def escape(text: str) -> str:
    """The text as the database can hold it."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSAFE.sub(lambda match: f"{_SIGN}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """The text that `escape` was given."""
    if text.isascii():
        return text
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def to_json(adapter: TypeAdapter[T], value: T) -> str:
    """The value as JSON; lone surrogates stand in it as they are, for `escape` to deal with."""
    try:
        return adapter.dump_json(value).decode()
    except PydanticSerializationError:  # pydantic writes UTF-8, which has no lone surrogates
        return json.dumps(adapter.dump_python(value, mode="json"), ensure_ascii=False, separators=(",", ":"))


def from_json(adapter: TypeAdapter[T], text: str) -> T:
    """The value that `to_json` was given. Raises pydantic.ValidationError."""
    if text.isascii() or not _SURROGATE.search(text):
        return adapter.validate_json(text)
    decoded: Any = json.loads(text)
    return adapter.validate_python(decoded)
