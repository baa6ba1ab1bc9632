"""Where a comparison is written: the page that always is, and what else was asked for."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.types.ids import content_hash

if TYPE_CHECKING:
    from agentlearn.store import StoreReader
    from agentlearn_evals.comparing import Compared
    from agentlearn_evals.comparison import Comparison

_KINDS = (".html", ".json", ".csv", ".parquet")
PYDANTIC_EVALS = ".pydantic-evals.json"
_MOST_CHARACTERS = 20_000


def refuse_unknown(out: Sequence[Path]) -> None:
    """Raises ConfigError for a file that could not be written at the end, before anything is spent."""
    for path in out:
        if path.suffix not in _KINDS:
            kinds = ", ".join((*_KINDS, PYDANTIC_EVALS))
            raise ConfigError(
                f"--out {str(path)!r} says no kind that can be written; end it in one of {kinds}", code="bad_out"
            )
        if path.is_dir():
            raise ConfigError(f"--out {str(path)!r} is a folder; name a file in it", code="bad_out")
        if not path.parent.is_dir():
            raise ConfigError(f"--out {str(path)!r}: there is no folder {str(path.parent)!r}; make it", code="bad_out")


def write_all(done: "Compared", *, store: Path, out: Sequence[Path]) -> Path:
    """Write the page below the store's `reports`, and what else is asked for. Returns the page's path.

    Raises AgentlearnError where a file cannot be written, which loses nothing: the rollouts and the result are stored.
    """
    try:
        return _write_all(done, store, out)
    except OSError as error:
        run = done.comparison.run
        kept = f"; the comparison is kept, see agentlearn runs show {run}" if run else ""
        raise AgentlearnError(f"the result could not be written: {error}{kept}", code="not_written") from error


def _write_all(done: "Compared", store: Path, out: Sequence[Path]) -> Path:
    from agentlearn.store import read_store
    from agentlearn_evals.page import comparison_page

    found = done.comparison
    if found.run:
        with read_store(store) as reader:
            html = comparison_page(found, trace_of=_traces(reader))
    else:
        html = comparison_page(found)
    page = store / "reports" / f"{found.run or _logs_name(found)}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    _write(page, html)
    for path in out:
        _write_one(done, path, html)
    return page


def _logs_name(found: "Comparison") -> str:
    """The same for the same logs and arms."""
    return f"logs-{content_hash('logs', found.names, found.reproducibility.sources)[:12]}"


def _write_one(done: "Compared", path: Path, html: str) -> None:
    from agentlearn_evals.formats import to_pydantic_evals, write_observations

    found = done.comparison
    if path.name.endswith(PYDANTIC_EVALS):
        stem = path.name.removesuffix(PYDANTIC_EVALS)
        for arm, name in zip(found.names, _file_names(found.names), strict=True):
            report = json.dumps(to_pydantic_evals(found, done.observations, arm), indent=1)
            _write(path.with_name(f"{stem}.{name}{PYDANTIC_EVALS}"), report)
        return
    match path.suffix:
        case ".html":
            _write(path, html)
        case ".json":
            _write(path, found.model_dump_json(indent=1))
        case _:
            write_observations(done.observations, path)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _file_names(arms: Sequence[str]) -> list[str]:
    """A name for each arm's file, no two alike, also where letters of either case are the same."""
    names: list[str] = []
    for arm in arms:
        stem = "".join(one if one.isalnum() or one in "-_.@" else "-" for one in arm)
        taken, name, count = {one.casefold() for one in names}, stem, 1
        while name.casefold() in taken:
            count += 1
            name = f"{stem}-{count}"
        names.append(name)
    return names


def _traces(reader: "StoreReader") -> Callable[[str], str]:
    """What a rollout's steps were, as text; nothing for one that the store does not hold."""
    from agentlearn.rollout.transcript import transcript

    def trace_of(rollout: str) -> str:
        try:
            return transcript(reader.trajectory(rollout).steps, max_characters=_MOST_CHARACTERS)
        except AgentlearnError:
            return ""

    return trace_of
