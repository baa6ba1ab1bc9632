"""The tables of a comparison: those of several domains in the terminal, and all of them as Markdown and LaTeX."""

from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from rich.console import Console

from agentlearn.pages.terminal import print_parts
from agentlearn.store import RunRow
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.page import stored_content
from agentlearn_evals.terminal import comparison_end
from agentlearn_evals.write_results import tables_text
from tests.support.comparisons import rich


def shown(found: Comparison) -> str:
    out = StringIO()
    print_parts(Console(file=out, width=200, color_system=None), comparison_end(found))
    return out.getvalue()


def test_each_arm_has_its_score_and_difference_on_each_domain() -> None:
    found = rich()
    text = shown(found)
    header = next(line for line in text.splitlines() if line.split() == ["arm", "math", "web"])
    below = text.splitlines()[text.splitlines().index(header) + 1 :]
    for arm, line in zip(found.names, below, strict=False):
        cells = {one.name: one for one in found.slices if one.by == "domain" and one.arm == arm}
        assert line.split()[0] == arm
        for one in cells.values():
            assert one.score is None or f"{one.score:.3f}" in line
            assert one.mean is None or f"{one.mean:+.3f}" in line


def test_a_stored_comparison_ends_as_it_was_printed() -> None:
    row, store = cast("RunRow", SimpleNamespace(report=rich().model_dump_json())), Path("there")
    assert list(stored_content.end(row, store)) == list(comparison_end(rich(), store))


def test_the_tables_of_a_paper_have_the_numbers_of_the_terminal_and_no_markup_of_names() -> None:
    found = rich()
    odd = found.arms[0].model_copy(update={"arm": r"a|b_c & 5 % <b> \x"})
    found = found.model_copy(update={"arms": (odd, *found.arms[1:])})
    markdown, latex = tables_text(found, ".md"), tables_text(found, ".tex")
    assert r"| a\|b_c & 5 % &lt;b> \\x |" in markdown
    assert r"a|b\_c \& 5 \% <b> \textbackslash{}x & " in latex
    for arm in found.arms:
        assert f"{arm.score:.3f}" in markdown
        assert f"{arm.score:.3f}" in latex
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert len(rows) == sum(line.startswith("|") and not line.startswith("| ---") for line in markdown.splitlines())
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == markdown.count("\n| --- |")
