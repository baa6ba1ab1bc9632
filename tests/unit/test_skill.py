"""The skill for coding agents: two readers load it, and the tools, options and codes that it names exist."""

import asyncio
import re
from pathlib import Path

import pytest
from inspect_ai.tool import read_skills

from agentlearn.library.formats import library_format
from agentlearn.library.formats.source_files import SourceFiles

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "skills/agentlearn"
TEXT = (FOLDER / "SKILL.md").read_text(encoding="utf-8")


def test_two_readers_load_it_whole() -> None:
    (skill,) = read_skills([FOLDER])
    assert skill.name == FOLDER.name
    assert 0 < len(skill.description) <= 1024
    assert "agentlearn library approve" in skill.instructions
    source = SourceFiles.read(FOLDER)
    assert library_format("skill").sniff(source)
    sections = [one.text.strip().split("\n")[0] for one in library_format("skill").read(source).lessons]
    assert sections == re.findall("^#+ .*", TEXT, re.MULTILINE)


def test_the_tools_and_codes_that_it_names_exist(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="pip install 'agentlearn-lib[mcp]'")
    from agentlearn.pages.web_app.mcp_runs import RunTools
    from agentlearn.pages.web_app.mcp_server import mcp_server

    server = mcp_server((), tmp_path, runs=RunTools(tmp_path, [tmp_path]))
    tools = {one.name for one in asyncio.run(server.list_tools())}
    assert tools == {"plan", "estimate", "start", "status", "show", "apply"}
    (named,) = re.findall("The MCP tools (.*) come from", TEXT)
    assert set(re.findall("`(.*?)`", named)) == tools
    modules = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "agentlearn").rglob("*.py"))
    stopped = TEXT.partition("## When something stops")[2]
    codes = re.findall("`([a-z]+(?:_[a-z]+)+)`", stopped)
    assert len(codes) == 6
    assert [one for one in codes if f'code="{one}"' not in modules and f'code = "{one}"' not in modules] == []
