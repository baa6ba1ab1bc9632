"""Writes the page of a run: at the end of the run, and again from the store."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.config.command_words import command_words
from agentlearn.config.outputs import Outputs
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.files import own, own_folder, write_whole
from agentlearn.types.ids import RunId

if TYPE_CHECKING:
    from agentlearn.store import RunRow, StoreReader

REPORTS = "reports"
"""The folder of the store that holds the pages."""


def write_learn_page(store: "Path | str | StoreReader", run: str, out: Path | None = None) -> Path:
    """Write the page of a learn run, and return its path.

    store: the directory of the store, or an open one. run: the id of the run, or its start. out: the file to write;
    None: `reports/RUN.html` in the store. A page that is there is replaced, and any other file is left alone.

    Raises ConfigError for a run that is unknown, is no learn run or has no report; StoreError, OSError.
    """
    from agentlearn.store import read_store

    opened = read_store(Path(store)) if isinstance(store, Path | str) else nullcontext(store)
    with opened as reader:
        row = reader.run(run)
        html = _html(reader, row)
        page, outputs = out or reader.directory / REPORTS / f"{row.run}.html", Outputs(reader.directory)
    if out is not None:
        outputs.refuse_others(out)
    if out is None:
        own(own_folder(page.parent, reader.directory) / page.name, reader.directory)
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, html.encode(), private=out is None)
    if out is not None:
        outputs.remember(out)
    return page


def page_at_the_end(store: Path, run: RunId) -> tuple[Path | None, str]:
    """Write the page of a run that has just ended. Return its path, or None and the reason why there is none.

    The run is stored, so nothing that happens here makes it fail.
    """
    try:
        return write_learn_page(store, run), ""
    except Exception as error:  # noqa: BLE001  a page that cannot be written must not cost the result of a run
        reason = str(error) if isinstance(error, AgentlearnError | OSError) else f"{type(error).__name__}: {error}"
        again = command_words("runs", "page", run, store=store)
        return None, f"the report page was not written: {reason}; the run is stored, {again} writes it"


def _html(reader: "StoreReader", row: "RunRow") -> str:
    from agentlearn.cli.pages.learn_page import learn_page
    from agentlearn.cli.pages.learn_record import LearnRecord

    if row.kind != "learn":
        raise ConfigError(
            f"run {row.run!r} is of the kind {row.kind!r}, and only learn runs have a page that can be written again;"
            f" {command_words('runs', 'show', row.run, store=reader.directory)} shows it",
            code="no_page",
        )
    if not row.report:
        raise ConfigError(
            f"run {row.run!r} has no report, because it is {row.state!r};"
            f" {command_words('runs', 'show', row.run, store=reader.directory)} says how to go on",
            code="no_page",
        )
    return learn_page(LearnRecord.read(reader, row))
