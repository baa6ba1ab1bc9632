"""Any JSON value as lines: one per value that is not a list or an object, after the path to it."""

import json
from collections.abc import Iterator, Mapping, Sequence

from agentlearn.text import Block, block, visible_line


def leaf_lines(value: object, path: str = "") -> Iterator[Block]:
    """The lines of a value. A list of plain values is one line. Numbers have all their digits."""
    rows = [(visible_line(name), text) for name, text in _leaves(value, path)]
    width = min(48, max((len(name) for name, _ in rows), default=0))
    for name, text in rows:
        yield block(text, f"  {name.ljust(width)}  ", " " * (width + 4))


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case Mapping() if value:
            for key, one in value.items():
                yield from _leaves(one, f"{path}.{key}" if path else str(key))
        case list() | tuple() if any(isinstance(one, Mapping | list | tuple) for one in value):
            for number, one in enumerate(value, start=1):
                yield from _leaves(one, f"{path}.{number}" if path else str(number))
        case Mapping() | list() | tuple():
            yield path, _plain_list(value) if value else "none"
        case _:
            yield path, plain(value)


def _plain_list(value: object) -> str:
    assert isinstance(value, Sequence)
    return ", ".join(plain(one) for one in value)


def plain(value: object) -> str:
    """One value: a text as it is, a number with all its digits, `-` for null."""
    if isinstance(value, str):
        return value or '""'
    return "-" if value is None else json.dumps(value)
