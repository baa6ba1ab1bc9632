"""Reads tasks: WebWalkerQA in both of its column layouts, or rows with a question, an answer and a start address.

WebWalkerQA keeps the known path in `info`. If its golden path consists of clicks (`root->call>workshop`) and not of
addresses, the pages of `source_website`, which contain the answer, are used instead.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlearn import data
from agentlearn.answers.matching import answer_match_key
from agentlearn.config.endpoint_address import has_login
from agentlearn.data.reading import PUBLISHED
from agentlearn.errors import ConfigError
from agentlearn.types.task import Split, Task
from agentlearn_web.boundary.access_policy import host_port
from agentlearn_web.browser.walk_settings import name_files

_STARTS = ("root_url", "start", "url")
"""Columns that can hold the start address."""
_WAYS = ("info.golden_path", "golden_path", "path", "info.source_website", "source_website")
"""Columns that can hold the known path. The first one that contains only addresses is used."""
_FILES = "files"
"""Column that can name files to upload: one name, or a list of names."""
_LABELS = (("type", ("type", "hop")), ("difficulty", ("difficulty_level",)), ("lang", ("lang", "language")))
"""Labels of WebWalkerQA's questions, with the columns that can hold each of them, also in `info`."""
COLUMNS = data.Columns()


def read_walk_tasks(
    source: str | Path, *, split: Split, limit: int | None = None, columns: data.Columns = COLUMNS
) -> tuple[Task, ...]:
    """Return the source's tasks in order, without duplicates. Raises DataError with file, line and next step.

    The family is that of the row, else the site: questions about one site are right and wrong together. A row can name
    files to upload in the column `files`, by their paths below the folder of the source. The type, difficulty and
    language of a row become tags, by which `compare` breaks its results down.
    """
    fields: dict[str, Mapping[str, Any]] = {}

    def start_and_path(row: data.SourceRow) -> data.StartAndPath:
        fields[row.where] = {**_files_of(row, source), **_tags_of(row)}
        return way_of(row)

    found = data.read_tasks(
        source,
        domain="web",
        split=split,
        limit=limit,
        columns=columns,
        key=lambda text: answer_match_key(text) or text,
        start_and_path=start_and_path,
    )
    kept = {"domain", "problem", "answer", "family", "split", "source", "start", "path"}
    return tuple(Task.of(**task.model_dump(include=kept), fields=fields[task.source]) for task in found)


def way_of(row: data.SourceRow) -> tuple[str, tuple[str, ...]]:
    """Return the start address and the addresses of the known path. Raises ValueError without a valid start."""
    info = data.cell(row.fields, "info")
    if isinstance(info, str) and info.strip() and not isinstance(_json(info), Mapping):
        raise ValueError("has a text in 'info' that is not a JSON object; write one, or remove the column")
    start = next((text for name in _STARTS if (text := row.text(name))), "")
    if not start:
        wanted = " or ".join(map(repr, _STARTS))
        raise ValueError(f"has no start address; put one such as https://example.org/ into the column {wanted}")
    if has_login(start):
        raise ValueError("starts at an address with a login, which the model would see; leave out what is before '@'")
    if not _is_address(start):
        raise ValueError(
            f"starts at {start!r}, which is not a web address; write one that begins with http:// or https://"
        )
    return start, next((way for name in _WAYS if (way := _addresses(data.cell(row.fields, name)))), ())


def _files_of(row: data.SourceRow, source: str | Path) -> dict[str, Any]:
    """Return the task fields for the files that a row names. Raises ValueError for a file that cannot be used."""
    cell = data.cell(row.fields, _FILES)
    cell = _json(cell) if isinstance(cell, str) and cell.lstrip().startswith("[") else cell
    names = [cell] if isinstance(cell, str) else list(cell) if isinstance(cell, Sequence) else []
    if (cell and not names) or not all(isinstance(name, str) for name in names):
        raise ValueError(f'has no list of file names in {_FILES!r}; write names such as ["cv.pdf"]')
    named = [str(name).strip() for name in names if str(name).strip()]
    if not named:
        return {}
    if str(source).startswith(PUBLISHED):
        raise ValueError(f"names files in {_FILES!r}, which a published source cannot have; remove the column")
    place = Path(source)
    return name_files(named, place if place.is_dir() else place.parent)


def _tags_of(row: data.SourceRow) -> dict[str, Any]:
    """Return the task fields for the labels of a row, such as `{"tags": ["difficulty=easy", ...]}`; empty without any.

    The six cells of WebWalkerQA's published table are the tags `type=... difficulty=...`.
    """
    found: dict[str, str] = {}
    for label, columns in _LABELS:
        texts = (row.text(name).casefold().replace("-", "_") for one in columns for name in (f"info.{one}", one))
        if text := next(filter(None, texts), ""):
            found[label] = f"{label}={text}"
    cell = [f"{found['type']} {found['difficulty']}"] if {"type", "difficulty"} <= found.keys() else []
    return {"tags": [*found.values(), *cell]} if found else {}


def _is_address(text: str) -> bool:
    """Return whether a text is a web address without spaces."""
    try:
        host_port(text)
    except ConfigError:
        return False
    return not any(letter.isspace() for letter in text)


def _addresses(value: object) -> tuple[str, ...]:
    """Return the addresses in a cell, in order; empty if the cell contains anything else."""
    value = _json(value) if isinstance(value, str) and value.lstrip().startswith("[") else value
    given = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else []
    texts = [one.strip() if isinstance(one, str) else "" for one in given]
    return tuple(texts) if all(map(_is_address, texts)) else ()


def _json(text: str) -> object:
    """Return the parsed JSON; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
