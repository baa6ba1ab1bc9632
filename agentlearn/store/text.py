"""Escape text for the database, so that any text a model writes is stored without loss.

DuckDB refuses lone surrogates, and other programs that read the tables fail on NUL. Both are written as U+241B (symbol
for escape) and four hex digits: a lone U+D800 becomes `␛d800`. U+241B itself becomes `␛241b`, so the escape is unique.
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
    """The text in a form that the database can store."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSAFE.sub(lambda match: f"{_SIGN}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """The original of a text escaped by `escape`."""
    if text.isascii():
        return text
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def to_json(adapter: TypeAdapter[T], value: T) -> str:
    """The value as JSON. Lone surrogates are kept; `escape` handles them."""
    try:
        return adapter.dump_json(value).decode()
    except PydanticSerializationError:  # pydantic writes UTF-8, which has no lone surrogates
        return json.dumps(adapter.dump_python(value, mode="json"), ensure_ascii=False, separators=(",", ":"))


def from_json(adapter: TypeAdapter[T], text: str) -> T:
    """The value in JSON written by `to_json`. Raises pydantic.ValidationError."""
    if text.isascii() or not _SURROGATE.search(text):
        return adapter.validate_json(text)
    decoded: Any = json.loads(text)
    return adapter.validate_python(decoded)


def error_line(error: BaseException | None) -> str:
    """First line of an error's message, without a final full stop, for use inside a sentence."""
    return str(error).partition("\n")[0].rstrip(".")


def sql_string(text: object) -> str:
    """The text (or path) as a quoted SQL string."""
    escaped = str(text).replace("'", "''")
    return f"'{escaped}'"
