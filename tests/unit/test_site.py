"""The site: every page is in the navigation, every command, option, setting, code, table and name has its place."""

import ast
import importlib
import os
import re
import subprocess
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import agentlearn
from agentlearn.config import LearnSettings
from agentlearn.plugins import COMMANDS, GROUPS
from scripts import docs
from tests.unit.test_readme import FENCE, calls_in

PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted((docs.ROOT / "docs").glob("*.md"))}
INSIDE = """
from pathlib import Path
from pydantic_ai import Agent
from agentlearn import *
from agentlearn import LibraryStore
agent = Agent("test", name="support", instructions="Answer.")
tasks, score, model = [("2 + 2?", "4")] * 3, "exact", "sim:novice"
question, conversation, user = "When does my parcel come?", "chat-1", "ana"
LibraryStore(".agentlearn/libraries").publish("support", library_of(["Name the day.", "Name the form."]))
recorder = Recorder("support")
"""
"""What the fragments of these pages stand in: an application with an agent, a recorder and a library."""
TESTED_ELSEWHERE = {"embedding.md", "learn.md", "own_agent.md"}
ELSEWHERE = {"agent", "api_key", "domain", "given", "private_addresses", "served_at"}
"""Settings that are no options: arguments, secrets, and what a run notes for itself."""
FRAGMENTS = {"evidence.md", "live.md", "production.md", "python.md"}
WITH_RUN = """
learn_sync(lambda task, lessons: "5", tasks, reward="exact", model=model, epochs=1, evaluate=False, progress=False)
"""


def snippets(language: str) -> list[tuple[str, int, bool, str]]:
    """The fenced blocks of all pages in one language: page, line, whether it is to be run, and code."""
    return [
        (name, text.count("\n", 0, match.start()) + 1, "no-run" not in match[1], match[2])
        for name, text in PAGES.items()
        for match in FENCE.finditer(text)
        if match[1].split()[:1] == [language]
    ]


@cache
def commands() -> str:
    """The page of commands."""
    return docs.commands()


def section(path: str) -> str:
    """What the page of commands says of one command."""
    return commands().partition(f"# agentlearn {path}\n")[2].partition("\n## ")[0].partition("\n### ")[0]


def test_the_navigation_names_every_page_once() -> None:
    named = [page for _, _, page in docs.navigation()]
    assert sorted(named) == sorted({*PAGES, "decisions/README.md", *docs.ALSO.values()})


@pytest.mark.slow  # imports every command
def test_every_command_and_setting_is_on_the_page_of_commands() -> None:
    for name in [*COMMANDS, *(f"{group} {one}" for group, members in GROUPS.items() for one in members.commands)]:
        assert section(name), f"{name} has no section"
    learn = section("learn")
    other = {"library": "from", "evaluate": "eval"} | dict.fromkeys(ELSEWHERE, "")
    for field in LearnSettings.model_fields:
        option = other.get(field, field).replace("_", "-")
        assert not option or f"`--{option}" in learn or f"--no-{option}`" in learn, f"no option for {field}"


@pytest.mark.slow
def test_usage_lines_show_what_a_user_types(monkeypatch: pytest.MonkeyPatch) -> None:
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", ModuleSpec("scripts.docs", None, origin="scripts/docs.py"))
    monkeypatch.setattr(sys, "argv", ["scripts/docs.py"])
    text = docs.commands()
    assert text.count("```console\nagentlearn ") > 50
    assert "scripts.docs" not in text
    code = [block for block in re.split(r"(```.*?```|`[^`\n]+`)", text, flags=re.DOTALL)[1::2] if "\\[" in block]
    assert code == []


def test_the_simulated_model_knows_the_problems_that_are_listed() -> None:
    from agentlearn_demo.math.families import FAMILIES

    asked = [
        line
        for block in re.findall(r"```text\n(.*?)```", docs.simulated_problems(), re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(asked) > len(FAMILIES)
    assert [line for line in asked if not any(family.recognise(line) for family in FAMILIES)] == []


@pytest.mark.slow
def test_the_commands_of_all_pages_exist_with_their_options(subtests: pytest.Subtests) -> None:
    lines = [
        (name, line)
        for language in ("sh", "bash", "console")
        for name, _, _, code in snippets(language)
        for line in code.replace("\\\n", " ").splitlines()
        if re.match(r"(\$ )?(just \w+ |[\w./]*agentlearn )", line.strip()) and "just" not in line
    ]
    assert len(lines) > 200
    for name, line in lines:
        for call in calls_in(line):
            with subtests.test(f"{name}: {line}"):
                if not call or Path(call[0]).name != "agentlearn" or len(call) == 1:
                    continue
                path = " ".join(call[1:3]) if call[1] in GROUPS or call[1] in {"lab", "sim"} else call[1]
                said = section(path.removesuffix(" list") if path == "models" else path)
                assert said, f"there is no command {path!r}"
                for option in [word.partition("=")[0] for word in call if word.startswith("--") and word != "--"]:
                    known = {"--tenant", "--json", "--help"} | set(re.findall(r"--[a-z-]+", said))
                    assert option in known, f"{path} has no {option}"


@pytest.mark.slow
def test_python_snippets_run(tmp_path: Path, subtests: pytest.Subtests) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    for name, line, runs, code in [one for one in snippets("python") if one[0] not in TESTED_ELSEWHERE]:
        folder = tmp_path / f"{name}-{line}"
        folder.mkdir()
        before = INSIDE if name in FRAGMENTS and runs else ""
        before += WITH_RUN if "read_store(" in code else ""
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        with subtests.test(f"{name}:{line}"):
            compile(code, name, "exec", flags=flags)
            if runs:
                program = folder / "program.py"
                program.write_text(before + code, encoding="utf-8")
                start = (
                    "import asyncio, inspect, sys\n"
                    f"made = compile(open('program.py').read(), 'program.py', 'exec', flags={flags})\n"
                    "sys.argv = ['program.py']\n"
                    "found = eval(made, globals())\n"
                    "asyncio.run(found) if inspect.iscoroutine(found) else None\n"
                )
                command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", start]
                ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
                assert ran.returncode == 0, ran.stderr[-2000:]
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("agentlearn"):
                    module = importlib.import_module(str(node.module))
                    assert [one.name for one in node.names if not hasattr(module, one.name)] == []


def test_every_public_name_has_its_place_in_the_reference() -> None:
    named = re.findall(r"^::: agentlearn\.(\w+)$", PAGES["api.md"], re.MULTILINE)
    assert sorted(named) == sorted(agentlearn.__all__)


def test_every_code_of_an_error_is_listed_with_a_sentence() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| \d[^|]* \| (.*) \|$", docs.error_codes(), re.MULTILINE))
    assert {"bad_config", "not_written", "missing_extra", "endpoint_gone", "store_locked"} <= set(rows)
    sources = [path.read_text(encoding="utf-8") for path in (docs.ROOT / "agentlearn").rglob("*.py")]
    given = {code for text in sources for code in re.findall(r'[(\s]code="(\w+)"', text)}
    assert given - set(rows) == set()


def test_every_table_and_refusal_is_listed() -> None:
    schema = (docs.ROOT / "agentlearn/store/schema.sql").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", docs.tables(), re.MULTILINE) == re.findall(
        r"^CREATE TABLE (\w+)", schema, re.MULTILINE
    )
    from agentlearn.library.curate.codes import RejectionCode

    assert re.findall(r"^\| `(\w+)`", docs.refusals(), re.MULTILINE) == [one.value for one in RejectionCode]


@pytest.mark.slow
def test_how_it_learns_shows_what_its_run_gives(tmp_path: Path) -> None:
    from scripts.docs_run import COMMAND, PAGE, agentlearn, written

    agentlearn(COMMAND, tmp_path)
    assert written(tmp_path) == PAGE.read_text(encoding="utf-8"), "run `python -m scripts.docs --write`"


def test_the_picture_of_the_loop_has_the_figures_of_the_pages() -> None:
    picture = (docs.ROOT / "docs/pictures/loop.svg").read_text(encoding="utf-8")
    held_out = re.search(r"held out.*: (\S+ → \S+)\s+(\S+) (\[.*?\])", (docs.ROOT / "README.md").read_text("utf-8"))
    assert held_out, "README.md shows no result"
    answers = re.findall(r"^\| \d \| (\d+) \| [01] \|$", PAGES["how_it_learns.md"], re.MULTILINE)
    assert [one for one in (*held_out.groups(), *answers) if one not in picture] == []
    assert re.findall(r">(\d+)</text><text [^>]*>(?:right|wrong)<", picture) == answers


@pytest.mark.slow  # `just docs` stages them too
def test_the_pages_of_the_site_are_staged_without_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "STAGED", tmp_path / "docs")
    monkeypatch.setitem(docs.GENERATED, "commands", lambda: "made")
    docs.stage()
    staged = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "docs").glob("*.md")}
    assert [name for name, text in staged.items() if "<!-- generated" in text or "](../" in text] == []
    assert "(examples/own_reward.py)" in staged["learn.md"]
    assert (tmp_path / "docs/examples/own_reward.py").is_file()
