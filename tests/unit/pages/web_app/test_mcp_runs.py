"""What a coding agent may not give to a run over MCP: all of it is refused before a process is started."""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("mcp", reason="pip install 'agentlearn-lib[mcp]'")

from mcp import Client

from agentlearn.pages.web_app.mcp_runs import RunTools
from agentlearn.pages.web_app.mcp_server import mcp_server
from tests.support.command import agentlearn_here


class Given(NamedTuple):
    """Arguments of `plan`, and the code of the refusal."""

    code: str
    what: list[str]
    options: dict[str, Any] = {}  # noqa: RUF012


GIVEN = (
    Given("bad_argument", ["--trust=tools"]),
    Given("bad_argument", ["math"], {"--model": "sim:novice"}),
    Given("bad_argument", ["math"], {"model=x --trust": "tools"}),
    Given("bad_argument", ["math"], {"model": "a\0b"}),
    Given("bad_argument", ["math"], {"max_cost_usd": 5}),
    Given("bad_argument", ["math"], {"limit": {"a": 1}}),
    Given("for_a_person", ["math"], {"trust": "tools"}),
    Given("for_a_person", ["math"], {"no-publish": False}),
    Given("for_a_person", ["math"], {"publish": True}),
    Given("for_a_person", ["math"], {"sandbox": "none"}),
    Given("for_a_person", ["math"], {"notify": "touch x"}),
    Given("for_a_person", ["math"], {"store": "elsewhere"}),
    Given("for_a_person", ["math"], {"api-key": "k"}),
    Given("for_a_person", ["math"], {"on": "SKILL.md"}),
    Given("for_a_person", ["trusts.yaml"]),
    Given("outside_folder", ["/etc/passwd"]),
    Given("outside_folder", ["../tasks.csv"]),
    Given("outside_folder", ["~/tasks.csv"]),
    Given("outside_folder", ["link.csv"]),
    Given("outside_folder", ["reads.yaml"]),
    Given("outside_folder", ["none", "b=none,instructions=/etc/passwd"]),
    Given("outside_folder", ["math"], {"reward": "/tmp/reward.py"}),
    Given("outside_folder", ["math"], {"model": "local:/models/other"}),
    Given("outside_folder", ["math"], {"test-data": ["tasks.csv", "../x.csv"]}),
)


def test_what_only_a_person_may_give_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret.csv").write_text("problem,answer\n", encoding="utf-8")
    (work / "link.csv").symlink_to(tmp_path / "secret.csv")
    (work / "trusts.yaml").write_text("domain: math\ntrust: [tools]\n", encoding="utf-8")
    (work / "reads.yaml").write_text("domain: math\ndata: ../secret.csv\n", encoding="utf-8")

    async def work_through() -> None:
        async with Client(mcp_server((), tmp_path / "s", runs=RunTools(tmp_path / "s", [work]))) as client:
            for one in GIVEN:
                arguments = {"command": "learn", "what": one.what, "options": one.options}
                with subtests.test(f"{one.what} {one.options}"):
                    answer = await client.call_tool("plan", arguments)
                    assert answer.is_error
                    assert f"({one.code})" in str(answer.content[0])
            unknown = await client.call_tool("start", {"plan": "0" * 26, "max_cost_usd": 1})
            assert "(unknown_plan)" in str(unknown.content[0])

    asyncio.run(work_through())
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(("words", "said"), [("", "--runs"), ("math --max-cost-usd 5", "are for --runs")])
def test_runs_are_offered_only_where_a_person_asked_for_them(tmp_path: Path, words: str, said: str) -> None:
    assert said in agentlearn_here("mcp", *words.split(), "--store", str(tmp_path), cwd=tmp_path, expect=2).stderr
