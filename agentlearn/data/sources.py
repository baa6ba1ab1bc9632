"""Reading rows by kind of source: a file, `hf:` for the Hugging Face hub, `gym:` for reasoning-gym."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agentlearn.data.files import file_rows, files_in, stem
from agentlearn.data.gym import GYM, gym_rows, parse_gym
from agentlearn.data.hub import HUB, hub_name, hub_rows, published
from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError


def rows(source: str | Path, *, limit: int | None = None) -> Iterator[SourceRow]:
    """Yield the rows of a source in order. Raises DataError, or MissingExtra when its reader is not installed."""
    text = _not_empty(source)
    if text.startswith(HUB):
        found = hub_rows(text)
    elif text.startswith(GYM):
        found = gym_rows(text)
    else:
        found = file_rows(Path(source))
    return islice(found, limit)


def name_of(source: str | Path) -> str:
    """Return a short name: the file's stem, the dataset's name or the gym's task."""
    text = _not_empty(source)
    if text.startswith(HUB):
        return hub_name(text)
    if text.startswith(GYM):
        return parse_gym(text).name
    path = Path(source)
    return path.resolve().name if path.is_dir() else stem(path)


def has_fixed_columns(source: str | Path) -> bool:
    """Whether the columns of a source are known here: a published dataset with a short name, or reasoning-gym."""
    text = str(source)
    return text.startswith(GYM) or (text.startswith(HUB) and published(text)[1].columns is not None)


def passed_over(source: str | Path) -> tuple[str, ...]:
    """Return the files of a folder that are not read, because their endings are not those of task files."""
    path = Path(source)
    online = str(source).startswith((HUB, GYM))
    return () if online or not path.is_dir() else files_in(path).other


def _not_empty(source: str | Path) -> str:
    """Return the source as text. Raises DataError for the empty text, which a path would take for this folder."""
    if not (text := str(source)).strip():
        raise DataError(f"the source {text!r} is empty; give a file, a folder, hf:NAME or gym:TASK", code="no_source")
    return text
