"""Reads tasks: WebWalkerQA in both of its column layouts, or rows with a question, an answer and a start address.

WebWalkerQA keeps the known path in `info`. If its golden path consists of clicks (`root->call>workshop`) and not of
addresses, the pages of `source_website`, which contain the answer, are used instead.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentlearn import data
from agentlearn.config.endpoint_address import has_login
from agentlearn.errors import ConfigError
from agentlearn.types.task import Split, Task
from agentlearn_web.boundary.access_policy import host_port
from agentlearn_web.matching import answer_match_key

DOMAIN = "web"
STARTS = ("root_url", "start", "url")
"""Columns that can hold the start address."""
WAYS = ("info.golden_path", "golden_path", "path", "info.source_website", "source_website")
"""Columns that can hold the known path. The first one that contains only addresses is used."""
COLUMNS = data.Columns()


def read_walk_tasks(
    source: str | Path,
    *,
    split: Split,
    limit: int | None = None,
    domain: str = DOMAIN,
    columns: data.Columns = COLUMNS,
) -> tuple[Task, ...]:
    """Return the source's tasks in order, without duplicates. Raises DataError with file, line and next step.

    The family is that of the row, else the site: questions about one site are right and wrong together.
    """
    found = data.read_tasks(
        source,
        domain=domain,
        split=split,
        limit=limit,
        columns=columns,
        key=lambda text: answer_match_key(text) or text,
        start_and_path=way_of,
    )
    return tuple(found)


def way_of(row: data.SourceRow) -> tuple[str, tuple[str, ...]]:
    """Return the start address and the addresses of the known path. Raises ValueError without a valid start."""
    info = data.cell(row.fields, "info")
    if isinstance(info, str) and info.strip() and not isinstance(_json(info), Mapping):
        raise ValueError("has a text in 'info' that is not a JSON object; write one, or remove the column")
    start = next((text for name in STARTS if (text := row.text(name))), "")
    if not start:
        wanted = " or ".join(map(repr, STARTS))
        raise ValueError(f"has no start address; put one such as https://example.org/ into the column {wanted}")
    if has_login(start):
        raise ValueError("starts at an address with a login, which the model would see; leave out what is before '@'")
    if not is_address(start):
        raise ValueError(
            f"starts at {start!r}, which is not a web address; write one that begins with http:// or https://"
        )
    return start, next((way for name in WAYS if (way := _addresses(data.cell(row.fields, name)))), ())


def is_address(text: str) -> bool:
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
    return tuple(texts) if all(map(is_address, texts)) else ()


def _json(text: str) -> object:
    """Return the parsed JSON; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
