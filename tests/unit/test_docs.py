"""The documentation's promises: links lead somewhere, named files exist, the glossary knows every exported class."""

import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from cyclopts import App
from cyclopts.exceptions import MissingArgumentError

import agentlearn
from agentlearn.cli.app import build
from agentlearn.cli.options import in_store_of_tenant

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
REPOSITORY = "https://github.com/agentlearn/agentlearn-lib"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:agentlearn|domains|evals|tests|docs|scripts)/[\w./*-]+)`")
FENCE = re.compile(r"^ *```[^\n`]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
REST = re.compile(r" #\s|\s{2,}#|&&| \| |;| > | &$|\$\(")
"""Where a line of a shell goes on after the command: a comment, a pipe, another command."""


def commands(text: str) -> Iterator[tuple[list[str], bool]]:
    """The commands that a page names, and whether each stands in a sentence, where it may be the name alone."""
    spans = re.findall(r"`((?:[A-Z_]+=\S+ )*agentlearn [^`\n]+)`", FENCE.sub("", text))
    blocks = "\n".join(FENCE.findall(text)).replace("\\\n", " ")
    lines = re.findall(r"^(?:\$ )?((?:[A-Z_]+=\S+ )*agentlearn .+)$", blocks, re.MULTILINE)
    for line, named in (*((one, True) for one in spans), *((one, False) for one in lines)):
        words = shlex.split(REST.split(line)[0])
        words = words[words.index("agentlearn") + 1 :]
        yield [one for one in words if one not in {"…", "..."}], named


def test_every_command_can_be_typed_as_it_stands(subtests: pytest.Subtests) -> None:
    """Every command in a block or a table has the names and options that the program knows."""
    for page in [page for page in PAGES if page.name != "CHANGELOG.md" and page.parent.name != "decisions"]:
        for words, named in commands(page.read_text(encoding="utf-8")):
            with subtests.test(f"{page.name}: {' '.join(words)}"):
                try:
                    parse(words)
                except MissingArgumentError:
                    assert named


@cache
def application(*words: str) -> App:
    """The application with the command that these words name."""
    return build(words)


def parse(words: list[str]) -> None:
    """Read a command line as the program does, without carrying it out."""
    if "COMMAND" in words:
        return
    if "--tenant" in words:
        words = list(in_store_of_tenant(words))
    words = ["--help" if one == "--help-all" else re.sub(r"^(\S+?)\|\S+$", r"\1", one) for one in words]
    application(*words[:2]).parse_args(words, exit_on_error=False, print_error=False)


def test_links_lead_to_files_that_exist(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(repr(page)):
            for target in LINK.findall(page.read_text(encoding="utf-8")):
                inside = re.fullmatch(rf"{re.escape(REPOSITORY)}/(?:blob|tree)/main/(.+)", target)
                if inside:
                    assert (ROOT / inside[1].partition("#")[0]).exists(), target
                elif not target.startswith(("http://", "https://", "#")):
                    assert (page.parent / target.partition("#")[0]).exists(), target


def test_named_files_exist(subtests: pytest.Subtests) -> None:
    for page in [page for page in PAGES if page.name != "CHANGELOG.md"]:
        with subtests.test(repr(page)):
            for named in PATH.findall(page.read_text(encoding="utf-8")):
                assert any(ROOT.glob(named.rstrip("/"))), f"{page.name} names {named}, which does not exist"


def test_links_of_the_readme_work_outside_of_the_repository() -> None:
    """A package index shows the README without the repository, so the wheel has whole addresses in it."""
    metadata = pytest.importorskip("hatchling.metadata.core")
    plugins = pytest.importorskip("hatchling.plugin.manager")
    pytest.importorskip("hatch_fancy_pypi_readme")
    shown = metadata.ProjectMetadata(str(ROOT), plugins.PluginManager()).core.readme
    targets = re.findall(r"\]\(([^)\s]+)\)", shown)
    assert len(targets) > 30
    assert [target for target in targets if not target.startswith((f"{REPOSITORY}/", "https://raw."))] == []


def test_the_project_urls_are_those_of_the_readme() -> None:
    assert f'Homepage = "{REPOSITORY}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_glossary_knows_every_exported_class_and_nothing_else() -> None:
    glossary = set(re.findall(r"`([A-Z]\w+)`", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")))
    exported = {name for name in agentlearn.__all__ if inspect.isclass(getattr(agentlearn, name))}
    assert exported - glossary == set(), "exported, but not in docs/glossary.md"
    from tests.unit.test_structure import PACKAGES

    sources = [file for name, folder in PACKAGES.items() for file in (folder / name).rglob("*.py")]
    defined = {name for file in sources for name in re.findall(r"^class (\w+)", file.read_text("utf-8"), re.MULTILINE)}
    assert glossary - exported - defined == set(), "in docs/glossary.md, but not in the code"
