"""Tasks from a source: WebWalkerQA in both of its spellings, or plain rows with a question, an answer and an address.

WebWalkerQA keeps the way in `info`. Where its golden path names clicks (`root->call>workshop`) and no addresses, the
pages of `source_website`, which hold the answer, stand for it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentlearn import data
from agentlearn.errors import ConfigError
from agentlearn.types.task import Split, Task
from agentlearn_web.boundary.access_policy import host_port
from agentlearn_web.matching import answer_key

DOMAIN = "web"
STARTS = ("root_url", "start", "url")
"""Columns in which the address stands where a walk begins."""
WAYS = ("info.golden_path", "golden_path", "path", "info.source_website", "source_website")
"""Columns of the known way; the first that holds addresses and nothing else wins."""
COLUMNS = data.Columns(family=("info.domain", "family", "domain", "type", "subject"))


def read_tasks(source: str | Path, *, split: Split, limit: int | None = None, domain: str = DOMAIN) -> tuple[Task, ...]:
    """The source's tasks in its order, each once. Raises DataError naming file, line and next step.

    The family is the kind of site: conference, education, game or organization.
    """
    found = data.read_tasks(
        source,
        domain=domain,
        split=split,
        limit=limit,
        columns=COLUMNS,
        key=lambda text: answer_key(text) or text,
        start_and_path=way_of,
    )
    return tuple(task.model_copy(update={"family": task.family.casefold()}) for task in found)


def way_of(row: data.SourceRow) -> tuple[str, tuple[str, ...]]:
    """Where the walk begins, and the addresses on the known way. Raises ValueError without a sound beginning."""
    info = data.cell(row.fields, "info")
    if isinstance(info, str) and info.strip() and not isinstance(_json(info), Mapping):
        raise ValueError("holds in 'info' a text that is no JSON object; write one, or take the column out")
    start = next((text for name in STARTS if (text := row.text(name))), "")
    if not start:
        wanted = " or ".join(map(repr, STARTS))
        raise ValueError(f"has no address to begin at; put one such as https://example.org/ into the column {wanted}")
    if not is_address(start):
        raise ValueError(
            f"begins at {start!r}, which is no web address; write one that begins with http:// or https://"
        )
    return start, next((way for name in WAYS if (way := _addresses(data.cell(row.fields, name)))), ())


def is_address(text: str) -> bool:
    """Whether a walk can go there."""
    try:
        host_port(text)
    except ConfigError:
        return False
    return not any(letter.isspace() for letter in text)


def _addresses(value: object) -> tuple[str, ...]:
    """The addresses of a cell, in order; none where it holds anything else."""
    value = _json(value) if isinstance(value, str) and value.lstrip().startswith("[") else value
    given = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else []
    texts = [one.strip() if isinstance(one, str) else "" for one in given]
    return tuple(texts) if all(map(is_address, texts)) else ()


def _json(text: str) -> object:
    """What the text holds; None where it is no JSON."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
