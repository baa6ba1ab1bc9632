"""Builds the site of the documentation: `just docs`.

The pages of docs/ are copied to build/docs. There, links that leave docs/ are turned into addresses of the repository,
and each line `<!-- generated: NAME -->` is replaced by what the code says: commands, error codes, tables, settings.
zensical makes the site from that, by mkdocs.yml, and refuses a link that leads nowhere. At last each page gets its
Markdown beside it (PAGE.md), and llms.txt lists them.

    python -m scripts.docs                 the site, in build/site
    python -m scripts.docs --write         what docs/how_it_learns.md and docs/pictures show, from a new run
"""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml
from pydantic import BaseModel

from agentlearn import errors
from agentlearn.errors import AgentlearnError

ROOT = Path(__file__).parents[1]
STAGED, SITE = ROOT / "build/docs", ROOT / "build/site"
REPOSITORY = "https://github.com/agentlearn/agentlearn-lib"
ALSO = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "scripts/bench/RESULTS.md": "bench_results.md",
}
"""Pages from outside docs/, with their names on the site."""
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def commands() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    from agentlearn.cli.app import build

    text = build().generate_docs(output_format="markdown", recursive=True)
    text = text.partition("\n## agentlearn learn\n")[2]
    text = re.sub(r"\*\[([^\]]*)\]\*", r"*(\1)*", "## agentlearn learn\n" + text)
    text = re.sub(
        r"^(#+ (agentlearn .+)\n\n```console\n\2) -m \S+", r"\1", text, flags=re.MULTILINE
    )  # how we were started
    words = re.split(r"(```.*?```|`[^`\n]+`)", text, flags=re.DOTALL)
    words[::2] = [one.replace("\\[", "[").replace("[", "\\[").replace("<", "&lt;") for one in words[::2]]
    return "".join(words)


def _classes(kind: type[AgentlearnError], depth: int = 0) -> Iterator[tuple[type[AgentlearnError], int]]:
    yield kind, depth
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _classes(child, depth + 1)


def error_classes() -> str:
    """A row for each class of errors."""
    rows = ["| class | code | exit status | resumable | raised when |", "|---|---|---|---|---|"]
    for kind, depth in _classes(AgentlearnError):
        words = re.sub(r"^Raised (in|when) ", "", inspect.getdoc(kind) or "").partition("\n")[0]
        indent = "&nbsp;" * 4 * depth
        go_on = "yes" if kind.resumable else ""
        rows.append(f"| {indent}`{kind.__name__}` | `{kind.code}` | {kind.exit_status} | {go_on} | {words} |")
    return "\n".join(rows)


def _sources() -> Iterator[ast.Module]:
    for root in ("agentlearn", "domains", "evals"):
        for path in sorted((ROOT / root).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


def _words(node: ast.expr | None) -> str:
    """A message as the source has it, with an ellipsis for each value that the program puts in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_words(part) if isinstance(part, ast.Constant) else "…" for part in parts)
        case ast.BinOp(left=left, right=right):
            return _words(left) + _words(right)
        case _:
            return ""


def error_codes() -> str:
    """A row for each code that the source gives to an error, with a sentence that it comes with."""
    known = {kind.__name__: kind for kind, _ in _classes(AgentlearnError)}
    found = defaultdict[str, list[tuple[str, str]]](list)
    for tree in _sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                given = [part for one in node.keywords if one.arg == "code" for part in ast.walk(one.value)]
                for code in [part.value for part in given if isinstance(part, ast.Constant) and part.value]:
                    found[str(code)].append((name, " ".join(_words(node.args[0]).split()) if node.args else ""))
    for kind in known.values():
        found.setdefault(kind.code, [(kind.__name__, "")])
    rows = ["| code | exit status | a sentence that it comes with |", "|---|---|---|"]
    for code, uses in sorted(found.items()):
        statuses = sorted({str(known[name].exit_status) for name, _ in uses if name in known})
        sentence = max((words for _, words in uses), key=lambda words: (words.count(";") > 0, len(words)))
        rows.append(f"| `{code}` | {', '.join(statuses) or '2'} | {_cell(sentence)} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return re.sub(r"([<>{}|*_`\[\]])", r"\\\1", text)


def refusals() -> str:
    """A row for each reason for which a proposed lesson is refused or held."""
    from agentlearn.library.curate.codes import RejectionCode

    tree = ast.parse(inspect.getsource(RejectionCode)).body[0]
    assert isinstance(tree, ast.ClassDef)
    rows, code = ["| code | the proposal |", "|---|---|"], ""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            code = _words(node.value)
        elif code and isinstance(node, ast.Expr):
            rows.append(f"| `{code}` | {_cell(' '.join(_words(node.value).split()))} |")
    return "\n".join(rows)


def tables() -> str:
    """Every table of the store, with its columns and what the schema says of it."""
    schema = (ROOT / "agentlearn/store/schema.sql").read_text(encoding="utf-8")
    parts, comment = list[str](), list[str]()
    for block in re.split(r"\n\n+", schema):
        comment = [line[3:] for line in block.splitlines() if line.startswith("-- ")]
        for name, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\n?\);", block, re.DOTALL):
            clean = re.sub(r"--[^\n]*|USING COMPRESSION \w+", "", body)
            columns = [one.split() for one in re.split(r",\s*(?![^()]*\))", clean.strip()) if one.strip()]
            shown = [f"`{words[0]}` {' '.join(words[1:]).lower()}".strip() for words in columns if words]
            parts.append(f"## {name}\n\n{' '.join(comment)}\n\n{', '.join(shown)}.")
    return "\n\n".join(parts)


def update_settings() -> str:
    """A row for each setting of the weight update."""
    from agentlearn.config.options import help_text
    from agentlearn.train.arguments import LOSS_SETTINGS, Distillation, GradientArguments

    found = defaultdict[tuple[str, str, str], list[str]](list)

    def add(prefix: str, settings: type[BaseModel], loss: str = "") -> None:
        for name, field in settings.model_fields.items():
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            if not isinstance(default, BaseModel):
                shown = "" if default in (None, ()) else f"`{default}`"
                found[f"{prefix}{name}", shown, help_text(settings, name)].append(loss)

    add("", GradientArguments)
    for loss, settings in LOSS_SETTINGS.items():
        add("loss_settings.", settings, loss)
    add("distillation.", Distillation)
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for (name, default, meaning), losses in found.items():
        of = "" if len(losses) == len(LOSS_SETTINGS) or not any(losses) else f"{', '.join(losses)}: "
        rows.append(f"| `{name}` | {default} | {_cell(of + meaning)} |")
    return "\n".join(rows)


def simulated_problems() -> str:
    """The wordings of problems that the simulated model and the lab model know, one example of each."""
    from agentlearn_demo.demos import templates
    from agentlearn_demo.math.families import FAMILIES

    parts = list[str]()
    for family in FAMILIES:
        problem = family.generate(Random(0))
        assert problem is not None
        asked = [one.format_map(vars(problem)) for one in templates(family.wordings)]
        parts.append(
            "\n".join([f"{family.name.replace('_', ' ')}, answer {problem.gold()}:\n", "```text", *asked, "```"])
        )
    return "\n\n".join(parts)


GENERATED: dict[str, Callable[[], str]] = {
    one.__name__: one
    for one in (commands, error_classes, error_codes, refusals, simulated_problems, tables, update_settings)
}
"""What `<!-- generated: NAME -->` stands for."""


def stage() -> None:
    """Write to build/docs what zensical reads. Raises FileNotFoundError for a link to a file that is missing."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGED)
    names = {ROOT / path: STAGED / name for path, name in ALSO.items()}
    names |= {page: STAGED / page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    for source, target in names.items():
        text = source.read_text(encoding="utf-8")

        def moved(link: re.Match[str], source: Path = source, target: Path = target) -> str:
            address, _, place = link[2].partition("#")
            if not address or "://" in address or address.startswith("mailto:"):
                return link[0]
            named = (source.parent / address).resolve()
            if not named.exists():
                raise FileNotFoundError(f"{source.relative_to(ROOT)} has a link to {address!r}, which does not exist")
            inside = names.get(named) or (STAGED / named.relative_to(ROOT / "docs") if _is_shown(named) else None)
            to = (
                os.path.relpath(inside, target.parent)
                if inside
                else f"{REPOSITORY}/blob/main/{named.relative_to(ROOT)}"
            )
            return f"{link[1]}{to}{'#' * bool(place)}{place}{link[3]}"

        text = _LINK.sub(moved, text).replace("```python no-run", "```python")
        target.write_text(_MARK.sub(lambda mark: GENERATED[mark[1]](), text), encoding="utf-8")


def _is_shown(path: Path) -> bool:
    """Whether the site has the file itself: pictures and examples."""
    inside = path.suffix in {".png", ".svg"} or path.is_relative_to(ROOT / "docs/examples")
    return inside and path.is_file() and path.is_relative_to(ROOT / "docs")


def _chapters(nav: list[Any], chapter: str = "") -> Iterator[tuple[str, str, str]]:
    """Chapter, title and file of each page of the navigation."""
    for entry in nav:
        for title, inside in entry.items():
            if isinstance(inside, str):
                yield chapter, title, inside
            else:
                yield from _chapters(inside, title)


def navigation() -> list[tuple[str, str, str]]:
    """Chapter, title and file of each page, in the order of mkdocs.yml."""
    return list(_chapters(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))


def add_texts() -> None:
    """Put each page's Markdown beside it, and write llms.txt, which lists the pages with their first sentences."""
    lines, chapter = (
        ["# agentlearn", "", "> An agent gets better from its own rollouts, with statistics on it.", ""],
        "",
    )
    for found, title, page in navigation():
        text = (STAGED / page).read_text(encoding="utf-8")
        shutil.copy(STAGED / page, SITE / page)
        if found != chapter:
            lines += ["", f"## {found}", ""]
            chapter = found
        first = next((one for one in text.split("\n\n")[1:] if one[:1].isalpha()), "")
        sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).partition(". ")[0].rstrip(".:")
        lines.append(f"- [{title}]({page}): {sentence}")
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def build() -> None:
    """Build the site in build/site."""
    stage()
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=True)
    add_texts()
    size = sum(one.stat().st_size for one in SITE.rglob("*") if one.is_file())
    print(f"build/site: {len(navigation())} pages of Markdown, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--write"]:
            from scripts.docs_run import write

            write()
        case _:
            build()
