"""Reading rows from files and from folders of files. Every error names the file, the line and the next step.

Programs for tables write more than one kind of CSV: with semicolons where the comma is the decimal sign, with a first
line `sep=;`, with an index that has no name, and with empty columns and rows around the table. All of these are read.

Tasks of Harbor are `harbor:DIR`, where DIR is a task folder, a folder of such folders, or a registry in JSON. Only the
words of a task are read. Its tests check the state of a container, so they give no expected answer here: Harbor runs
them in Docker, and `compare --logs` reads what came of it.
"""

import codecs
import csv
import gzip
import json
import os
import re
import tomllib
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import StringIO, TextIOWrapper
from itertools import chain, zip_longest
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from agentlearn.config.options import HARBOR
from agentlearn.data.row import Columns, SourceRow, StrictDecoder
from agentlearn.errors import DataError
from agentlearn.text.files import readable

WITHOUT_HEADER = ("question", "A", "B", "C", "D", "answer")
"""Columns of a file in the layout of MMLU: six fields per row, the last one a letter from A to D."""


DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_NAMED = {*Columns().problem, *Columns().answer}
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t])"?\r?(?:\n|\Z)')
_MAX_HEADER = 100_000
"""Most characters of a header that are read to tell which delimiter the file uses."""


def _csv_rows(text: str, name: str, delimiter: str = ",") -> Iterator[SourceRow]:
    """Yield the rows after the header that hold anything. Columns without a name are left out.

    delimiter: the one that the file's ending stands for. Another one is used where the header shows it. Raises
    DataError for a header with a repeated name, or where quotes break.
    """
    first_line = 1
    if separator := _SEPARATOR_LINE.match(text):
        text, delimiter, first_line = text[separator.end() :], separator[1], 2
    else:
        delimiter = _delimiter(text, delimiter)
    lines = (
        (start, fields) for start, fields in _lines(name, text, delimiter, first_line) if any(map(str.strip, fields))
    )
    start, header = next(lines, (1, []))
    named = {field.strip().casefold() for field in header}
    is_header = named & {"question", "problem", "answer"} or header[1:5] == list("ABCD")
    last = header[-1].strip() if len(header) == len(WITHOUT_HEADER) else ""
    if re.fullmatch("[A-D]", last) and not is_header:  # a row of MMLU
        lines, header = chain([(start, header)], lines), list(WITHOUT_HEADER)
    seen: dict[str, str] = {}
    for column in header:
        folded = column.strip().casefold()
        if folded and folded in seen:
            raise DataError(
                f"{name} line {start} names the columns {seen[folded]!r} and {column!r}, which are the same name; give"
                " each column a name of its own"
            )
        seen[folded] = column
    for number, fields in lines:
        if any(map(str.strip, fields[len(header) :])):
            words = f"has more fields than the header; quote fields that hold {DELIMITERS[delimiter]}"
            yield SourceRow(f"{name}:{number}", {}, fault=f"{name} line {number} {words}")
        else:
            cells = zip_longest(header, fields[: len(header)])
            yield SourceRow(f"{name}:{number}", {column: value for column, value in cells if column.strip()})


def _delimiter(text: str, usual: str) -> str:
    """Return the delimiter under which the header has most of the usual names, or else more than one name."""

    def score(delimiter: str) -> tuple[int, bool, bool]:
        try:
            header = next(filter(None, csv.reader(StringIO(text[:_MAX_HEADER], newline=""), delimiter=delimiter)), [])
        except csv.Error:
            header = []
        return len(_NAMED & {one.strip().casefold() for one in header}), len(header) > 1, delimiter == usual

    return max(DELIMITERS, key=score)


def _lines(file: str, text: str, delimiter: str, start: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line where it starts; a quoted field may span several lines."""
    reader = csv.reader(StringIO(text, newline=""), strict=True, delimiter=delimiter)
    before = start - 1
    try:
        for fields in reader:
            yield start, fields
            start = before + reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{file} line {start} is not CSV ({error}); check its quotes") from error


PACKED = ".gz"
MAX_UNPACKED_BYTES = 1 << 30
"""Most bytes that a packed file may unpack to. A small file can unpack to more than the memory holds."""

MAX_LINE = 1 << 28
"""A line of as many characters is refused where a file is read line by line."""


def ending(path: PurePath) -> str:
    """Return the ending that gives a file's format, in lower case and without `.gz`: `.jsonl` of `a.jsonl.gz`."""
    return PurePath(path.name[: -len(PACKED)] if _is_packed(path) else path.name).suffix.lower()


def stem(path: Path) -> str:
    """Return a file's name without its ending and without `.gz`."""
    return Path(path.name[: -len(PACKED)]).stem if _is_packed(path) else path.stem


def _is_packed(path: PurePath) -> bool:
    """Whether a file is packed with gzip, by its name."""
    return path.suffix.lower() == PACKED


def read_text(path: Path, name: str, *, keep_nul: bool = False) -> str:
    """Return the text of a file. name: what messages call it. keep_nul: NUL is no fault. Raises DataError."""
    body = _unpacked(path, name) if _is_packed(path) else read_bytes(path)
    wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = body.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise DataError(f"{name} line {line} is not {'UTF-16' if wide else 'UTF-8'}; save the file as UTF-8") from error
    if "\0" in text and not keep_nul:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _not_plain(name, line)
    return text


def text_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of an open file without their ends, one at a time in memory. Raises DataError.

    name: what messages call the file. Only a line feed ends a line: JSON text may contain Unicode line separators.
    """
    start, number = file.tell(), 0
    wide = file.read(2) in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}
    file.seek(start)
    text = TextIOWrapper(file, "utf-16" if wide else "utf-8-sig", newline="\n")
    try:
        while line := text.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE:
                raise DataError(f"{name} line {number} has {MAX_LINE:,} characters or more; leave it out")
            if "\0" in line:
                raise _not_plain(name, number)
            yield line.removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} line {number + 1} or one shortly after it is not {'UTF-16' if wide else 'UTF-8'}; save the file as"
            " UTF-8"
        ) from error
    finally:
        text.detach()


def _not_plain(name: str, line: int) -> DataError:
    return DataError(f"{name} line {line} holds a NUL character, so it is not plain UTF-8; save the file as UTF-8")


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Return the first bytes of a file, or all of them. Raises DataError."""
    try:
        with readable(path).open("rb") as file:
            return file.read(most)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(path)!r}; check the path") from error
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read ({error.strerror}); give a readable file") from error


def _unpacked(path: Path, name: str) -> bytes:
    read_bytes(path, most=1)  # a missing file gets the same message as an unpacked one
    try:
        with gzip.open(path) as file:
            body = file.read(MAX_UNPACKED_BYTES + 1)
    except EOFError as error:
        raise DataError(f"{name} ends in the middle of its packed data; get the whole file again") from error
    except (zlib.error, OSError) as error:
        raise DataError(f"{name} is not a gzip file ({error}); pack it again, or give it unpacked") from error
    if len(body) > MAX_UNPACKED_BYTES:
        raise DataError(f"{name} unpacks to more than {MAX_UNPACKED_BYTES:,} bytes; divide it into smaller files")
    return body


_OVER_LINES = re.compile(r"\s*(?:\[|\{(?:[^\n]*[^\n}\s])?[ \t\r]*\n)")
"""A JSON text that begins with an array, or with an object which its first line does not end."""
_PER_LINE = "write one JSON object per line"
_ARRAY = "write one array of JSON objects"


def line_rows(lines: Iterable[str], name: str) -> Iterator[SourceRow]:
    """Yield one row per object, of which a line may hold several. The lines can come from a file one at a time."""
    decoder = StrictDecoder()
    for number, text in enumerate(lines, start=1):
        rows, at = list[SourceRow](), _skip_space(text, 0)
        try:
            while at < len(text):
                with _json_words(name, number, _PER_LINE):
                    value, at = decoder.decode_at(text, at)
                rows.append(_row(value, decoder, name, number, "per line"))
                at = _skip_space(text, at)
        except DataError as error:
            decoder.take_faults()
            rows = [SourceRow(f"{name}:{number}", {}, fault=error.message)]
        yield from rows


def _jsonl_rows(text: str, name: str) -> Iterator[SourceRow]:
    """Yield one row per line; of a text whose objects go on over lines, as programs print them, one per object."""
    if _OVER_LINES.match(text) or "\n{\n" in text:
        with suppress(DataError):
            return iter(list(_json_rows(text, name)))
    return line_rows(text.split("\n"), name)  # not splitlines(): JSON text may contain Unicode line separators


def _json_rows(text: str, name: str) -> Iterator[SourceRow]:
    """Yield the objects of an array, or objects that follow each other, one by one, so that each keeps its line.

    Raises DataError where the text stops being JSON.
    """
    decoder, at = StrictDecoder(), _skip_space(text, 0)
    if at < len(text) and text[at] not in "[{":
        raise DataError(f"{name} has no JSON array; {_ARRAY}, or name it '.jsonl'")
    if listed := text[at : at + 1] == "[":
        at = _skip_space(text, at + 1)
    advice, each = (_ARRAY, "per entry") if listed else (f"{_ARRAY}, or one object per line", "per line")
    while text[at : at + 1] != "]" if listed else at < len(text):
        number = _line(text, at)
        with _json_words(name, 1, advice):
            value, at = decoder.decode_at(text, at)
        yield _row(value, decoder, name, number, each)
        at = _skip_space(text, at)
        if listed and text[at : at + 1] not in {",", "]"}:
            raise DataError(f"{name} line {_line(text, at)} has no ',' or ']' after an object; {_ARRAY}")
        at = _skip_space(text, at + 1) if listed and text[at] == "," else at
    if listed and (after := _skip_space(text, at + 1)) < len(text):
        raise DataError(f"{name} line {_line(text, after)} goes on after the array; {_ARRAY}")


def _skip_space(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


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


def file_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a file, whose ending gives the format, or of all task files in a folder.

    Of a file in a folder, a row with a fault is the last where reading stops. Raises DataError.
    """
    if not path.is_dir():
        yield from _rows(path, path.name)
        return
    found, _ = files_in(path)
    if not found:
        raise DataError(f"the folder {str(path)!r} holds no task file; give one with files that end in {_endings()}")
    for name in found:
        try:
            yield from _rows(path / name, name)
        except DataError as error:
            yield SourceRow(f"{name}:1", {}, fault=f"{error.message} (nothing after it was read in this file)")


def files_in(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the task files in a folder and the folders inside it, and its other files, relative and sorted.

    Files whose name begins with a dot are left out.
    """
    found = sorted(
        Path(root, name).relative_to(folder).as_posix()
        for root, _, names in os.walk(folder)
        for name in names
        if not name.startswith(".")
    )
    known = {name for name in found if ending(Path(name)) in _TEXT_READERS or Path(name).suffix.lower() == _TABLE}
    return tuple(name for name in found if name in known), tuple(name for name in found if name not in known)


def _rows(path: Path, name: str) -> Iterator[SourceRow]:
    if path.suffix.lower() == _TABLE:
        from agentlearn.store.parquet import parquet_rows  # imports DuckDB

        read_bytes(path, most=1)  # a missing file gets the same message as for other formats
        return (SourceRow(f"{name}#{number}", fields) for number, fields in enumerate(parquet_rows(path, name)))
    if (read := _TEXT_READERS.get(ending(path))) is not None:
        return read(read_text(path, name), name)
    what = f"{ending(path)}{PACKED}" if _is_packed(path) else path.suffix
    objects = "; tasks in Python, MODULE:NAME, go with an agent or a function of your own" if ":" in name else ""
    words = f"{name} has the ending {what!r}; give a file that ends in {_endings()}, also packed as '.gz'"
    raise DataError(f"{words}{objects}")


def _endings() -> str:
    *some, last = map(repr, (*_TEXT_READERS, _TABLE))
    return f"{', '.join(some)} or {last}"


_TABLE = ".parquet"
_TEXT_READERS: dict[str, Callable[[str, str], Iterator[SourceRow]]] = {
    ".jsonl": _jsonl_rows,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".tsv": partial(_csv_rows, delimiter="\t"),
}


_TASK, _WORDS, _STEPS = "task.toml", "instruction.md", "steps"
_CANARY = "canary"
_NO_ANSWER = (
    "is a task of Harbor, whose tests run in Docker, which agentlearn does not start; run it with Harbor and compare"
    " its jobs with `agentlearn compare --logs before=JOBS after=JOBS`, or give a --reward that needs no answer"
)


def harbor_path(source: str) -> Path:
    """Return the folder or the registry that `harbor:DIR` names. Raises DataError when there is none."""
    path = Path(source.removeprefix(HARBOR)).expanduser()
    if source == HARBOR or not path.exists():
        raise DataError(
            f"there is no folder {source.removeprefix(HARBOR)!r}; write 'harbor:DIR', where DIR is a folder with tasks"
            " of Harbor"
        )
    return path


def harbor_rows(source: str) -> Iterator[SourceRow]:
    """Yield the tasks in the order of their names. A task that cannot be read has a fault. Raises DataError."""
    path = harbor_path(source)
    folders = _registered(path) if path.is_file() else _task_folders(path)
    root, empty = path.parent if path.is_file() else path, True
    for folder in folders:
        empty = False
        name = folder.relative_to(root).as_posix() if folder != root and folder.is_relative_to(root) else folder.name
        try:
            yield SourceRow(f"{name}/{_WORDS}:1", {"problem": _words(folder, name)}, unanswered=_NO_ANSWER)
        except DataError as error:
            yield SourceRow(f"{name}/{_TASK}:1", {}, fault=error.message)
    if empty:
        raise DataError(f"{str(path)!r} holds no task of Harbor; give a folder whose folders hold {_TASK!r}")


def _task_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders that hold `task.toml`. What a task's own folders hold belongs to the task."""
    for root, folders, names in os.walk(folder):
        folders.sort()
        if _TASK in names:
            folders.clear()
            yield Path(root)


def _registered(file: Path) -> Iterator[Path]:
    """Yield the task folders that a registry names. Raises DataError for one that has to be downloaded first."""
    try:
        listed: Any = json.loads(read_text(file, file.name))
    except ValueError as error:
        raise DataError(f"{file.name} is not JSON ({error}); give a registry of Harbor or a folder") from error
    listed = listed.get("datasets", [listed]) if isinstance(listed, dict) else listed
    sets = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    for task in (task for one in sets for task in one.get("tasks") or () if isinstance(task, dict)):
        folder = file.parent / str(task.get("path", ""))
        if not (folder / _TASK).is_file():
            place = task.get("git_url") or str(folder)
            raise DataError(
                f"{file.name} names the task {task.get('name')!r}, which is not here but in {place!r}; download it with"
                " Harbor and give its folder"
            )
        yield folder


def _words(folder: Path, name: str) -> str:
    """Return what a task tells the agent, its steps one after the other. Raises DataError."""
    try:
        table = tomllib.loads(read_text(folder / _TASK, f"{name}/{_TASK}"))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{name}/{_TASK} is not TOML ({error}); correct it") from error
    steps = [str(one["name"]) for one in table.get(_STEPS, ()) if isinstance(one, dict) and one.get("name")]
    files = [folder / _STEPS / step / _WORDS for step in steps] or [folder / _WORDS]
    texts = [_without_canary(read_text(file, f"{name}/{file.relative_to(folder).as_posix()}")) for file in files]
    if not any(texts):
        raise DataError(f"{name}/{_WORDS} is empty; write there what the agent is to do")
    return "\n\n".join(filter(None, texts))


def _without_canary(text: str) -> str:
    """The text without the comments at its beginning that mark a benchmark for trainers; no agent is shown them."""
    lines = text.split("\n")
    while lines and (not lines[0].strip() or (lines[0].startswith(("<!--", "#")) and _CANARY in lines[0].casefold())):
        lines.pop(0)
    return "\n".join(lines).strip()
