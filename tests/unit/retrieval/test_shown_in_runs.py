"""Agents, programs and rollouts get the lessons that were chosen for their task, and the record says which."""

import asyncio
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, AgentRunResult, Embedder
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import SolveSettings
from agentlearn.learning.solve import SolveGiven, run_solving
from agentlearn.library.capability import Experiences
from agentlearn.library.lessons import lessons
from agentlearn.library.retrieval import Retrieval, Retriever
from agentlearn.library.shown import shown_in
from agentlearn.live.captured import captured, given_of, shown_of
from agentlearn.store import open_store
from agentlearn.types.experience import Library
from tests.unit.retrieval.test_retriever import ByMeaning
from tests.unit.retrieval.test_shown_lessons import in_order_of_ids

TOPICS = ("fractions", "triangles", "primes", "angles", "boxes")
MANY = in_order_of_ids([f"When a problem is about {TOPICS[n % 5]}, try approach number {n}." for n in range(40)])
TWO = Retrieval(max_shown_tokens=30, shown_lessons=2)


def seen(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer with the instructions."""
    return ModelResponse(parts=[TextPart(info.instructions or "none")])


def ask(agent: Agent, *prompt: Any, **more: Any) -> AgentRunResult[str]:
    """Run an agent once, in an event loop of its own."""
    return asyncio.run(agent.run(*prompt, **more))


def test_each_run_of_an_agent_gets_the_lessons_for_its_prompt() -> None:
    agent = Agent(FunctionModel(seen), capabilities=[Experiences(MANY, retrieval=TWO)])
    for topic, labels in (("triangles", ("[G2]", "[G7]")), ("primes", ("[G3]", "[G8]"))):
        result = ask(agent, ["Read this:", f"a task on {topic}"])
        assert [line.split(" ")[0] for line in result.output.splitlines() if line.startswith("[")] == [*labels]
        shown = shown_in(result)
        assert shown is not None
        assert shown.lessons == shown.offered == tuple(MANY.render().labels[one.strip("[]")] for one in labels)
        more = ask(agent, message_history=result.new_messages()[:1])
        assert labels[1] in more.output


def test_a_run_that_answers_the_last_message_of_its_history_says_what_was_shown() -> None:
    """Each run of AG-UI is one: the user's message comes in the history."""
    experiences = Experiences(MANY, retrieval=TWO, choose="turn")
    agent = Agent(FunctionModel(seen), capabilities=[experiences])
    earlier = ask(agent, "a task on angles").all_messages()
    result = ask(agent, message_history=[*earlier, ModelRequest.user_text_prompt("a task on primes")])
    shown = shown_in(result)
    assert shown is not None
    assert shown.lessons == tuple(MANY.render().labels[one] for one in ("G3", "G8"))
    assert captured(given_of(result)).asked == "a task on primes"
    plain = ask(Agent(FunctionModel(seen)), message_history=[ModelRequest.user_text_prompt("a task on primes")])
    assert shown_in(plain) is None


def test_a_run_without_retrieval_says_that_all_lessons_were_offered() -> None:
    shown = shown_in(ask(Agent(FunctionModel(seen), capabilities=[Experiences(MANY)]), "primes"))
    assert shown is not None
    assert shown.offered is None
    assert "offered" not in shown.model_dump()


def test_masked_lessons_stay_offered() -> None:
    second = MANY.render().labels["G2"]
    experiences = Experiences(MANY, retrieval=TWO, masked=[second])
    result = ask(Agent(FunctionModel(seen), capabilities=[experiences]), "triangles")
    shown = shown_in(result)
    assert shown is not None
    assert (second in (shown.offered or ()), second in shown.lessons, len(shown.lessons)) == (True, False, 1)
    recorded = shown_of(experiences, result)
    assert (recorded.masked, recorded.offered) == ((second,), shown.offered)
    bound = asyncio.run(experiences.for_query("triangles"))
    assert shown_of(bound).masked == (second,)
    assert shown_of(bound).offered == shown.offered


def test_programs_without_an_agent_ask_for_the_lessons_of_a_task() -> None:
    chooser = lessons(MANY, retrieval=TWO)
    assert len(chooser.advice.lessons) == 40
    advice = chooser.for_query("triangles")
    assert advice.shown.offered == advice.lessons == tuple(MANY.render().labels[one] for one in ("G2", "G7"))
    assert asyncio.run(chooser.for_query_async("triangles")).lessons == advice.lessons


def test_a_rollout_records_what_was_chosen_for_its_problem(tmp_path: Path) -> None:
    async def solve() -> Any:
        settings = SolveSettings(
            domain="math",
            problem="How many triangles have integer sides and an even perimeter?",
            store=tmp_path,
            max_shown_tokens=30,
            shown_lessons=2,
        )
        async with open_store(tmp_path) as store:
            solved = await run_solving(settings, SolveGiven(library=MANY, store=store))
            return solved, store.trajectory(solved.id), store.seen_by(MANY.render().labels["G3"])

    solved, stored, seen_by = asyncio.run(solve())
    assert solved.offered == stored.offered == tuple(MANY.render().labels[one] for one in ("G2", "G7"))
    assert seen_by == []


def test_embeddings_choose_for_the_prompt_of_a_run() -> None:
    library = Library.of([*(f"General remark {n}." for n in range(30)), "Feed the hound."])
    retriever = Retriever(Retrieval(max_shown_tokens=20, shown_lessons=2), embedder=Embedder(ByMeaning()))
    agent = Agent(FunctionModel(seen), capabilities=[Experiences(library, retrieval=retriever)])
    assert "[G31]" in ask(agent, "My dog is hungry").output
