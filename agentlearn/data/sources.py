"""Reading rows by kind of source: a file, `hf:` for the Hugging Face hub, `gym:` for reasoning-gym."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agentlearn.data.files import file_rows
from agentlearn.data.gym import GYM, gym_rows, parse_gym
from agentlearn.data.hub import HUB, hub_name, hub_rows
from agentlearn.data.row import SourceRow


def rows(source: str | Path, *, limit: int | None = None) -> Iterator[SourceRow]:
    """Yield the rows of a source in order. Raises DataError, or MissingExtra when its reader is not installed."""
    text = str(source)
    if text.startswith(HUB):
        found = hub_rows(text)
    elif text.startswith(GYM):
        found = gym_rows(text)
    else:
        found = file_rows(Path(source))
    return islice(found, limit)


def name_of(source: str | Path) -> str:
    """Return a short name: the file's stem, the dataset's name or the gym's task."""
    text = str(source)
    if text.startswith(HUB):
        return hub_name(text)
    return parse_gym(text).name if text.startswith(GYM) else Path(source).stem
