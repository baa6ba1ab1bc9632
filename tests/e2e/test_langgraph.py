"""Programs that know nothing of this library learn: a LangGraph graph, and a plain `openai` client."""

from pathlib import Path
from typing import Any, TypedDict

import pytest
from openai import AsyncOpenAI

from agentlearn import Task, compare_sync
from agentlearn.learning.lessons.run_learning import learn_sync
from tests.support.desk import LESSON, TICKETS, desk_model, right_text
from tests.support.openai_script import Reply, Request, digest, text
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {"group_size": 3, "epochs": 1, "batch_size": 8, "seed": 2}


def service(request: Request) -> Reply:
    """Plan, then answer: with the lesson rightly, without it half of the time."""
    said = str(request["messages"])
    if "Plan the answer" in said:
        return text("Look at what the ticket is about, then name the team.")
    return text("billing" if LESSON in said or digest(said, request.get("seed")) % 2 else "it")


def client_of(stub: OpenAIStub) -> AsyncOpenAI:
    """Return a plain client of the service."""
    return AsyncOpenAI(base_url=stub.base_url, api_key="none", max_retries=0)


async def ask(client: AsyncOpenAI, system: str, problem: str) -> str:
    """Ask the service once."""
    asked = await client.chat.completions.create(
        model="stub",
        messages=[{"role": "system", "content": system}, {"role": "user", "content": problem}],
        seed=next(SEEDS),
    )
    return asked.choices[0].message.content or ""


SEEDS = iter(range(100_000))


def learned_and_used(program: Any, store: Path) -> None:
    """Learn from the program, and check that the lessons help it."""
    report = learn_sync(
        program, TICKETS, reward=right_text, reflector=desk_model(), store=store, library="desk", **SMALL
    )
    assert [one.lesson for one in report.learned.experiences] == [LESSON]
    assert sum(report.rollouts.values()) == report.rollouts["ok"]
    arms = {"none": None, "desk": report.learned}
    # Another store does not know that the lessons were learned from these tasks.
    found = compare_sync(program, TICKETS, arms=arms, reward=right_text, k=3, store=store / "other")
    assert found.arms[1].score == 1.0
    assert (found.arms[0].score or 0) < 0.9


class State(TypedDict, total=False):
    """What the nodes of the graph share."""

    problem: str
    lessons: str
    plan: str
    answer: str


def test_a_langgraph_graph_learns(tmp_path: Path) -> None:
    graphs = pytest.importorskip("langgraph.graph")
    with OpenAIStub(service) as stub:

        async def plan(state: State) -> State:
            async with client_of(stub) as client:
                return {"plan": await ask(client, f"Plan the answer.\n{state['lessons']}", state["problem"])}

        async def answer(state: State) -> State:
            async with client_of(stub) as client:
                system = f"Name the team.\n{state['plan']}\n{state['lessons']}"
                return {"answer": await ask(client, system, state["problem"])}

        builder = graphs.StateGraph(State)
        builder.add_node("plan", plan)
        builder.add_node("answer", answer)
        builder.add_edge(graphs.START, "plan")
        builder.add_edge("plan", "answer")
        builder.add_edge("answer", graphs.END)
        graph = builder.compile()

        async def program(task: Task, lessons: str) -> str:
            found = await graph.ainvoke({"problem": task.problem, "lessons": lessons})
            return str(found["answer"])

        learned_and_used(program, tmp_path)
        plans = [one for one in stub.requests if "Plan the answer" in str(one["messages"])]
        assert len(plans) * 2 == len(stub.requests)
