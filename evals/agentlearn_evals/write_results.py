"""Writes a comparison: always its page, and the files given with --out."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from glob import escape as glob_escape
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.config.command_words import command_words
from agentlearn.config.outputs import Outputs
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.files import own_folder, write_whole
from agentlearn.types.ids import content_hash

if TYPE_CHECKING:
    from agentlearn.store import StoreReader
    from agentlearn_evals.comparing import Compared

_SUFFIXES = (".html", ".json", ".csv", ".parquet")
PYDANTIC_EVALS = ".pydantic-evals.json"
_MOST_CHARACTERS = 20_000
"""Largest size of a transcript on the page, in characters."""


def refuse_unknown(out: Sequence[Path], store: Path) -> None:
    """Raise ConfigError for an --out file that could not be written, before anything is spent.

    A file that is there is replaced only if a command of this store wrote it and nobody changed it since.
    """
    for path in out:
        if path.suffix not in _SUFFIXES:
            kinds = ", ".join((*_SUFFIXES, PYDANTIC_EVALS))
            raise ConfigError(f"--out {str(path)!r} has an unknown suffix; use one of {kinds}", code="bad_out")
        if path.is_dir():
            raise ConfigError(f"--out {str(path)!r} is a directory; name a file in it", code="bad_out")
        if not path.parent.is_dir():
            raise ConfigError(
                f"--out {str(path)!r}: the directory {str(path.parent)!r} does not exist; create it", code="bad_out"
            )
        stem = path.name.removesuffix(PYDANTIC_EVALS)
        named = [path] if stem == path.name else sorted(path.parent.glob(f"{glob_escape(stem)}.*{PYDANTIC_EVALS}"))
        Outputs(store).refuse_others(*named)


def write_all(
    done: "Compared", *, store: Path, out: Sequence[Path] = (), reader: "StoreReader | None" = None
) -> Path | None:
    """Write the page to the store's `reports` directory, and the `out` files. Return the page's path.

    reader: the open store, for transcripts; None: it is opened here.

    There is no page, and the path is None, when logs were compared and the store cannot be used; the result says so.
    Raises AgentlearnError when a file cannot be written; the rollouts and the result are in the store all the same.
    """
    try:
        return _write_all(done, store, out, reader)
    except OSError as error:
        run = done.comparison.run
        kept = f"; the comparison is stored: {command_words('runs', 'show', run, store=store)}" if run else ""
        raise AgentlearnError(f"the result could not be written: {error}{kept}", code="not_written") from error


def _write_all(done: "Compared", store: Path, out: Sequence[Path], reader: "StoreReader | None") -> Path | None:
    from agentlearn.store import read_store
    from agentlearn_evals.page import comparison_page

    found = done.comparison
    of_logs = bool(found.reproducibility.sources)
    if found.run and not of_logs:
        with nullcontext(reader) if reader is not None else read_store(store) as reader:
            html = comparison_page(found, trace_of=_traces(reader))
    else:
        html = comparison_page(found)
    outputs = Outputs(store)
    for path in out:
        outputs.remember(*_write_one(done, path, html))
    # The page of logs has the same name for the same logs and arms.
    name = f"logs-{content_hash('logs', found.names, found.reproducibility.sources)[:12]}" if of_logs else found.run
    page = store / "reports" / f"{name}.html"
    try:
        own_folder(page.parent, store)
        write_whole(page, html.encode(), private=True)
    except OSError:
        if of_logs and not found.run:
            return None
        raise
    return page


def _write_one(done: "Compared", path: Path, html: str) -> list[Path]:
    """Write one --out file, and return the files that came of it."""
    from agentlearn_evals.formats import to_pydantic_evals, write_observations

    found = done.comparison
    if path.name.endswith(PYDANTIC_EVALS):
        stem = path.name.removesuffix(PYDANTIC_EVALS)
        files = [path.with_name(f"{stem}.{name}{PYDANTIC_EVALS}") for name in _file_names(found.names)]
        for arm, file in zip(found.names, files, strict=True):
            _write(file, json.dumps(to_pydantic_evals(found, done.observations, arm), indent=1))
        return files
    match path.suffix:
        case ".html":
            _write(path, html)
        case ".json":
            _write(path, found.model_dump_json(indent=1))
        case _:
            write_observations(done.observations, path)
    return [path]


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _file_names(arms: Sequence[str]) -> list[str]:
    """Return a distinct file name stem for each arm, also for file systems that ignore case."""
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
    """Return a function that gives the transcript of a rollout; empty when the store does not hold it."""
    from agentlearn.rollout.transcript import transcript

    def trace_of(rollout: str) -> str:
        try:
            return transcript(reader.trajectory(rollout).steps, max_characters=_MOST_CHARACTERS)
        except AgentlearnError:
            return ""

    return trace_of
