"""Reading rows from JSON Lines and from JSON. A line that cannot be read is a row with a fault, and reading goes on."""

import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from agentlearn.data.row import SourceRow
from agentlearn.data.strict_json import StrictDecoder
from agentlearn.errors import DataError

_PER_LINE = "write one JSON object per line"
_ARRAY = "write one array of JSON objects"


def jsonl_rows(text: str, name: str) -> Iterator[SourceRow]:
    """Yield one row per line that is not empty."""
    # Not splitlines(): JSON text may contain Unicode line separators.
    return line_rows(text.split("\n"), name)


def line_rows(lines: Iterable[str], name: str) -> Iterator[SourceRow]:
    """Yield one row per line that is not empty. The lines can come from a file one at a time."""
    decoder = StrictDecoder()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            with _json_words(name, number, _PER_LINE):
                value = decoder.decode(line)
        except DataError as error:
            decoder.take_faults()
            yield SourceRow(f"{name}:{number}", {}, fault=error.message)
        else:
            yield _row(value, decoder, name, number, "per line")


def json_rows(text: str, name: str) -> Iterator[SourceRow]:
    """Yield the objects of one array one by one, so that each keeps its line; or the object or objects of the file.

    Raises DataError where the text stops being JSON.
    """
    at = skip_space(text, 0)
    if text[at : at + 1] == "{":
        yield from _objects(text, name, at)
        return
    if at == len(text):
        return
    if text[at] != "[":
        raise DataError(f"{name} has no JSON array; {_ARRAY}, or name it '.jsonl'")
    decoder, at = StrictDecoder(), skip_space(text, at + 1)
    while text[at : at + 1] != "]":
        number = _line(text, at)
        with _json_words(name, 1, _ARRAY):
            value, at = decoder.decode_at(text, at)
        yield _row(value, decoder, name, number, "per entry")
        at = skip_space(text, at)
        if text[at : at + 1] not in {",", "]"}:
            raise DataError(f"{name} line {_line(text, at)} has no ',' or ']' after an object; {_ARRAY}")
        at = skip_space(text, at + 1) if text[at] == "," else at
    if (after := skip_space(text, at + 1)) < len(text):
        raise DataError(f"{name} line {_line(text, after)} goes on after the array; {_ARRAY}")


def skip_space(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _objects(text: str, name: str, at: int) -> Iterator[SourceRow]:
    """Yield objects that follow each other without an array: one problem per file, or JSON Lines named `.json`."""
    decoder = StrictDecoder()
    while at < len(text):
        number = _line(text, at)
        with _json_words(name, 1, f"{_ARRAY}, or one object per line"):
            value, at = decoder.decode_at(text, at)
        yield _row(value, decoder, name, number, "per line")
        at = skip_space(text, at)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _row(value: object, decoder: StrictDecoder, name: str, number: int, each: str) -> SourceRow:
    where, faults = f"{name}:{number}", decoder.take_faults()
    if not isinstance(value, dict):
        words = f"is not a JSON object; write one object with 'problem' and 'answer' {each}"
        return SourceRow(where, {}, fault=f"{name} line {number} {words}")
    return SourceRow(where, value, fault=f"{name} line {number} {faults[0]}" if faults else "")


@contextmanager
def _json_words(file: str, first_line: int, advice: str) -> Generator[None]:
    """Turn errors about JSON text that starts on that line into DataErrors."""
    try:
        yield
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise DataError(f"{file} line {line} column {error.colno} is not JSON ({error.msg}); {advice}") from error
    except RecursionError as error:
        raise DataError(f"{file} line {first_line} nests too deeply; write one flat JSON object per line") from error
