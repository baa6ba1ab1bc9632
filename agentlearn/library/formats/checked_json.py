"""JSON from outside: a text is a value, or one sentence says why not. A key that stands twice is never passed over."""

import json
from typing import Any

from agentlearn.errors import LibraryError

_SHOWN = 60


def json_value(text: str, source: str) -> object:
    """Return the value of a JSON text. source: the file's name, for messages. Raises LibraryError."""

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise LibraryError(f"{source!r} has the key {twice!r} twice in one object; keep one of them")
        return found

    try:
        return json.loads(text, object_pairs_hook=checked)
    except ValueError as error:
        raise LibraryError(f"{source!r} is not JSON: {error}") from error
    except RecursionError as error:
        raise LibraryError(f"{source!r} is not a library file: its lists and objects are nested too deep") from error


def shown_value(value: object) -> str:
    """A value for a message, at most 60 characters of it."""
    if isinstance(value, str):
        return repr(value if len(value) < _SHOWN else value[:_SHOWN] + "…")
    text = repr(value)
    return text if len(text) < _SHOWN else text[:_SHOWN] + "…"
