"""Writes a comparison: always its page, and the files given with --out."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.config.defaults import command_words
from agentlearn.config.outputs import Outputs
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.pages.terminal import table_rows
from agentlearn.text import visible_line
from agentlearn.text.files import own_folder, write_whole
from agentlearn.types.ids import content_hash

if TYPE_CHECKING:
    from agentlearn.store import StoreReader
    from agentlearn_evals.comparing import Compared
    from agentlearn_evals.comparison import Comparison

_SUFFIXES = (".html", ".json", ".csv", ".parquet", ".md", ".tex")
_MOST_CHARACTERS = 20_000
"""Largest size of a transcript on the page, in characters."""


def refuse_unknown(out: Sequence[Path], store: Path) -> None:
    """Raise ConfigError for an --out file that could not be written, before anything is spent.

    A file that is there is replaced only if a command of this store wrote it and nobody changed it since.
    """
    for path in out:
        if path.suffix not in _SUFFIXES:
            kinds = ", ".join(_SUFFIXES)
            raise ConfigError(f"--out {str(path)!r} has an unknown suffix; use one of {kinds}", code="not_written")
        if path.is_dir():
            raise ConfigError(f"--out {str(path)!r} is a directory; name a file in it", code="not_written")
        if not path.parent.is_dir():
            raise ConfigError(
                f"--out {str(path)!r}: the directory {str(path.parent)!r} does not exist; create it", code="not_written"
            )
        Outputs(store).refuse_others(path)


def write_all(
    done: "Compared", *, store: Path, out: Sequence[Path] = (), reader: "StoreReader | None" = None
) -> Path | None:
    """Write the page to the store's `reports` directory, and the `out` files. Return the page's path.

    reader: the open store, for transcripts; None: it is opened here.

    There is no page, and the path is None, when logs were compared and the store cannot be used; the result says so.
    Raises AgentlearnError when a file cannot be written; the rollouts and the result are in the store all the same.
    """
    from agentlearn_evals.formats import write_observations
    from agentlearn_evals.page import comparison_page

    found, outputs = done.comparison, Outputs(store)
    of_logs = bool(found.reproducibility.sources)
    try:
        html = comparison_page(found) if of_logs or not found.run else _with_transcripts(found, store, reader)
        for path in out:
            if path.suffix not in {".csv", ".parquet"}:
                text = html if path.suffix == ".html" else found.model_dump_json(indent=1)
                text = tables_text(found, path.suffix) if path.suffix in {".md", ".tex"} else text
                path.write_text(text, encoding="utf-8", errors="backslashreplace")
            else:
                write_observations(done.observations, path)
            outputs.remember(path, runs=(found.run,) if found.run else ())
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
    except OSError as error:
        run = found.run
        kept = f"; the comparison is stored: {command_words('runs', 'show', run, store=store)}" if run else ""
        raise AgentlearnError(f"the result could not be written: {error}{kept}", code="not_written") from error
    return page


_TEX = str.maketrans({
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "→": r"$\to$", "≤": r"$\le$",
})  # fmt: skip
_MARKDOWN = str.maketrans({"|": r"\|", "<": "&lt;", "`": r"\`", "\\": r"\\"})


def tables_text(found: "Comparison", suffix: str) -> str:
    """Return the verdicts and the tables of the terminal for a paper. suffix: `.md` for Markdown, `.tex` for LaTeX."""
    from agentlearn_evals.page.number_sections import NumberSections

    shown, parts = NumberSections(found), list[str]()
    verdicts = [visible_line(one.text) for one in shown.verdicts()]
    tables = [(one.caption, [list(map(visible_line, row)) for row in table_rows(one)]) for one in shown.tables()]
    if suffix == ".md":
        for caption, (header, *rows) in tables:
            ruled = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
            lines = (f"| {' | '.join(cell.translate(_MARKDOWN) for cell in row)} |" for row in ruled)
            parts.append("\n".join((f"**{caption}**", "", *lines)))
        return "\n\n".join((*verdicts, *parts)) + "\n"
    for caption, (header, *rows) in tables:
        lines = [" & ".join(cell.translate(_TEX) for cell in row) + r" \\" for row in (header, *rows)]
        parts += [
            rf"\begin{{table}}\caption{{{caption.translate(_TEX)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        ]
        parts += [r"\hline", lines[0], r"\hline", *lines[1:], r"\hline", r"\end{tabular}\end{table}", ""]
    return "\n".join((*(f"% {one}" for one in verdicts), "", *parts))


def _with_transcripts(found: "Comparison", store: Path, reader: "StoreReader | None") -> str:
    """Return the page with transcripts of rollouts, where the store holds them."""
    from agentlearn.rollout.transcript import transcript
    from agentlearn.store import read_store
    from agentlearn_evals.page import comparison_page

    with nullcontext(reader) if reader is not None else read_store(store) as opened:

        def trace_of(rollout: str) -> str:
            try:
                return transcript(opened.trajectory(rollout).steps, max_characters=_MOST_CHARACTERS)
            except AgentlearnError:
                return ""

        return comparison_page(found, trace_of=trace_of)
