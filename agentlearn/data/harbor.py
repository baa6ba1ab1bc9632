"""Tasks of Harbor: `harbor:DIR`, where DIR is a task folder, a folder of such folders, or a registry in JSON.

Only the words of a task are read. Its tests check the state of a container, so they give no expected answer here:
Harbor runs them in Docker, and `compare --logs` reads what came of it.
"""

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentlearn.config.options import HARBOR
from agentlearn.data.files import read_text
from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError

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
