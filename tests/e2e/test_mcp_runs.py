"""A coding agent drives whole runs offline over MCP, with the official client: plan, price, start, status, verdict."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="pip install 'agentlearn-lib[mcp]'")

from mcp import Client, StdioServerParameters

from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from tests.support.command import AGENTLEARN, agentlearn

pytestmark = pytest.mark.slow

QUICK = {"model": "sim:novice", "limit": 6, "group-size": 2, "epochs": 1, "eval-rollouts": 1, "seed": 4}


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool; of a refusal, its sentence under `refused`."""
    answer = await client.call_tool(tool, arguments)
    if answer.is_error:
        return {"refused": str(answer.content[0])}
    assert answer.structured_content is not None
    return answer.structured_content


async def ended(client: Client, run: str) -> dict[str, Any]:
    """The status of a run as soon as it goes on no more."""
    while (status := await called(client, "status", run=run))["state"] in {"starting", "running"}:
        await asyncio.sleep(0.5)
    return status


def server(work: Path, *options: str) -> StdioServerParameters:
    words = ["mcp", "--runs", *options, "--store", str(work / "s")]
    return StdioServerParameters(command=str(AGENTLEARN), args=words, cwd=str(work))


def test_an_agent_learns_and_compares_and_a_person_publishes(tmp_path: Path) -> None:
    async def learn() -> str:
        async with Client(server(tmp_path)) as client:
            planned = await called(client, "plan", command="learn", what=["math"], options=QUICK)
            assert planned["price"]["paid"] == []
            assert planned["details"]["train"] == 6
            again = await called(client, "estimate", plan=planned["plan"])
            assert again == planned["price"]
            started = await called(client, "start", plan=planned["plan"])
            assert started["command"] == planned["command"]
            assert "(already_started)" in (await called(client, "start", plan=planned["plan"]))["refused"]
            return planned["plan"]

    async def follow(plan: str) -> str:  # another session: the run has outlived the first
        async with Client(server(tmp_path)) as client:
            status = await ended(client, plan)
            assert status["state"] == "done", status
            assert sum(status["rollouts"].values()) > 0
            shown = await called(client, "show", run=plan)
            assert shown["run"] == status["run"]
            assert shown["verdict"]
            assert "60 tasks" in shown["lines"][0]
            assert Path(shown["report"]).exists()
            refused = (await called(client, "apply", run=status["run"]))["refused"]
            assert "(needs_a_person)" in refused
            assert f"agentlearn view waiting --store {tmp_path / 's'}" in refused
            with read_store(tmp_path / "s") as reader:
                waiting = reader.library(shown["waits"].partition("@")[2].partition(":")[0])
            assert waiting.experiences
            assert all(one.lesson not in str(shown) + refused for one in waiting.experiences), "no lesson is quoted"
            return refused.partition("library approve ")[2].partition(" ")[0]

    async def compare() -> None:
        async with Client(server(tmp_path)) as client:
            options = {"model": "sim:novice", "domain": "math", "limit": 4, "k": 1}
            planned = await called(client, "plan", command="compare", what=["none", "math"], options=options)
            assert planned["notes"], "4 tasks are too few for a verdict"
            await called(client, "start", plan=planned["plan"])
            assert (await ended(client, planned["plan"]))["state"] == "done"
            assert (await called(client, "show", run=planned["plan"]))["verdict"].startswith("math ")
            assert "(nothing_waits)" in (await called(client, "apply", run=planned["plan"]))["refused"]

    reference = asyncio.run(follow(asyncio.run(learn())))
    assert not LibraryStore(tmp_path / "s/libraries").names(), "the run has published nothing"
    agentlearn("library", "approve", reference, "--store", str(tmp_path / "s"), cwd=tmp_path)
    asyncio.run(compare())


def test_a_run_that_costs_money_needs_a_limit_that_a_person_allowed(tmp_path: Path) -> None:
    options = {"model": "openai:gpt-5-mini", "limit": 4}

    async def work(*words: str) -> list[str]:
        async with Client(server(tmp_path, *words)) as client:
            planned = await called(client, "plan", command="learn", what=["math"], options=options)
            assert planned["price"]["paid"] == ["openai:gpt-5-mini"]
            assert planned["price"]["least_usd"] < planned["price"]["cost_usd"] < planned["price"]["most_usd"]
            limits: list[dict[str, float]] = [{}, {"max_cost_usd": 3}]
            return [(await called(client, "start", plan=planned["plan"], **one))["refused"] for one in limits]

    assert all("(not_allowed_to_spend)" in one for one in asyncio.run(work()))
    unlimited, too_much = asyncio.run(work("--max-cost-usd", "2"))
    assert "(no_limit)" in unlimited
    assert "$3.00 is more than the $2.00" in too_much
    assert not (tmp_path / "s").exists()


def test_a_stopped_run_says_how_it_goes_on(tmp_path: Path) -> None:
    async def work() -> dict[str, Any]:
        async with Client(server(tmp_path)) as client:
            planned = await called(client, "plan", command="learn", what=["math"], options=QUICK)
            await called(client, "start", plan=planned["plan"], max_tokens=20_000)
            status = await ended(client, planned["plan"])
            assert "(no_verdict)" in (await called(client, "show", run=planned["plan"]))["refused"]
            return status

    status = asyncio.run(work())
    assert (status["state"], status["reason"].partition(":")[0]) == ("interrupted", "budget"), status
    assert status["resume"] == f"agentlearn learn --resume {status['run']} --store {tmp_path / 's'}"
