"""Lessons of a conversation: what was sent stays the start of what is sent next, until a person takes a lesson back."""

import asyncio
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart
from pydantic_ai.messages import CachePoint, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import LibraryStore, Retrieval
from agentlearn.errors import LibraryError
from agentlearn.library.capability import Experiences
from agentlearn.library.lessons import lessons, with_advice
from agentlearn.library.tenants import tenant_store
from agentlearn.types.experience import Library, withhold

WORDS = ("apples", "boats", "cranes", "dishes", "engines", "flags", "gates", "hats")
LESSONS = [f"When {word} come up, count {word} {n} times." for n, word in enumerate(WORDS)]
FEW = Retrieval(max_shown_tokens=1, shown_lessons=2)
QUESTIONS = [f"What about {WORDS[n % len(WORDS)]}, please, in case {n}?" for n in range(30)]
INSTRUCTIONS = "Answer in one word."
BLOCK = Library.of(LESSONS).render().text.splitlines()[0]
"""The first line of the lessons."""
Step = Callable[[int], None]


@pytest.fixture
def store(tmp_path: Path) -> LibraryStore:
    made = LibraryStore(tmp_path / "libraries")
    made.publish("math", Library.of(LESSONS))
    return made


def publishing(store: LibraryStore) -> Step:
    """Publish another version before two of the turns."""

    def step(turn: int) -> None:
        if turn in {10, 20}:
            now = store.load("math")
            store.publish("math", Library(parent=now.version, experiences=now.experiences[1:]))

    return step


def read_by_model(messages: list[ModelMessage], info: AgentInfo) -> str:
    """All that a model reads, in the order in which a service reads it."""
    said = [info.instructions or ""]
    for message in messages:
        for part in message.parts:
            content: Any = getattr(part, "content", "")
            texts = [content] if isinstance(content, str) else [one for one in content if isinstance(one, str)]
            said.append(f"{part.part_kind}: {' '.join(texts)}")
    return "\n".join(said)


def talk(experiences: Callable[[], Experiences], step: Step = lambda _: None, *, as_json: bool = False) -> list[str]:
    """Hold a conversation, with a new agent for each turn, and return all that the model read."""
    requests = list[str]()

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests.append(read_by_model(messages, info))
        return ModelResponse(parts=[TextPart("Fine.")])

    history = list[ModelMessage]()
    for turn, question in enumerate(QUESTIONS):
        step(turn)
        agent = Agent(FunctionModel(model), instructions=INSTRUCTIONS, capabilities=[experiences()])
        history = asyncio.run(agent.run(question, message_history=history)).all_messages()
        if as_json:
            history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
    return requests


def shared(requests: Iterable[str]) -> list[float]:
    """The share of each request that is the start of the next one."""
    listed = list(requests)
    return [
        next((at for at, (one, two) in enumerate(zip(a, b, strict=False)) if one != two), len(a)) / len(a)
        for a, b in pairwise(listed)
    ]


@pytest.mark.parametrize("retrieval", [FEW, None], ids=["retrieval", "all"])
@pytest.mark.parametrize("as_json", [False, True])
def test_the_history_of_an_agent_is_sent_again_as_it_was(
    store: LibraryStore, retrieval: Retrieval | None, *, as_json: bool
) -> None:
    def made() -> Experiences:
        return Experiences("math", store=store.directory.parent, follow=True, retrieval=retrieval)

    requests = talk(made, publishing(store), as_json=as_json)
    assert min(shared(requests)) == 1
    assert LESSONS[0] in requests[-1], "a new version reaches new conversations"
    assert LESSONS[0] not in talk(made)[0]


def test_lessons_for_each_turn_are_an_option(store: LibraryStore) -> None:
    requests = talk(lambda: Experiences("math", store=store.directory.parent, retrieval=FEW, choose="turn"))
    assert all(LESSONS[turn % len(WORDS)] in request for turn, request in enumerate(requests))
    assert min(shared(requests)) < 0.7


def test_lessons_may_stand_before_the_newest_question(store: LibraryStore) -> None:
    requests = talk(
        lambda: Experiences("math", store=store.directory.parent, retrieval=FEW, choose="turn", place="last")
    )
    assert [request.count("<experiences>") for request in requests] == [1] * len(QUESTIONS)
    assert all(request.index(BLOCK) < request.index(asked) for request, asked in zip(requests, QUESTIONS, strict=True))
    assert all(
        said in before
        for said, before in zip(QUESTIONS[:-1], (one.partition(BLOCK)[0] for one in requests[1:]), strict=True)
    )
    assert min(shared(one.partition(BLOCK)[0] for one in requests)) == 1


def test_a_cache_point_ends_what_stands_before_lessons_at_the_end(store: LibraryStore) -> None:
    seen = list[ModelMessage]()

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        seen[:] = messages
        return ModelResponse(parts=[TextPart("Fine.")])

    shown = Experiences("math", store=store.directory.parent, place="last")
    agent = Agent(FunctionModel(model), capabilities=[shown])
    done = asyncio.run(agent.run("Apples?"))
    done = asyncio.run(agent.run("Boats?", message_history=done.all_messages()))
    parts = [one for message in seen if isinstance(message, ModelRequest) for one in message.parts]
    before, newest = (one.content for one in parts if isinstance(one, UserPromptPart))
    assert [type(one) for one in before] == [str, CachePoint]
    assert [str(one).startswith("Boats?") for one in newest] == [False, True]
    assert "<experiences>" not in str(done.all_messages()), "the history is as it would be without them"


@pytest.mark.parametrize("taken", ["rollback", "remove", "park"])
def test_what_a_person_takes_back_is_gone_at_once(store: LibraryStore, taken: str) -> None:
    first = store.load("math")
    worse = "When in doubt, guess."
    second = Library(parent=first.version, experiences=(*first.experiences, *Library.of([worse]).experiences))
    store.publish("math", second)
    history, lesson = store.history("math"), second.experiences[-1].id

    def step(turn: int) -> None:
        if turn != 5:
            return
        if taken == "rollback":
            history.rollback(first.version)
        elif taken == "remove":
            history.update(lambda now: Library(parent=now.version, experiences=now.experiences[:-1]), kind="remove")
        else:
            history.update(lambda now: withhold(now, {lesson: "harmful"}), kind="park")

    requests = talk(lambda: Experiences("math", store=store.directory.parent, follow=True), step)
    assert [worse in request for request in requests] == [turn < 5 for turn in range(30)]
    assert min(shared(requests)[6:]) == 1


def test_a_tenants_conversation_keeps_both_versions_also_after_a_restart(store: LibraryStore) -> None:
    folder = store.directory.parent
    own = LibraryStore(tenant_store(folder, "acme") / "libraries")
    own.publish("math", Library.of(["When Acme asks, answer in French."]))

    def step(turn: int) -> None:
        publishing(store)(turn)
        if turn == 15:
            now = own.load("math")
            own.publish(
                "math", Library(parent=now.version, experiences=Library.of(["When Acme asks, ask back."]).experiences)
            )
        if turn == 25:
            own.history("math").update(lambda now: withhold(now, {now.experiences[0].id: "harmful"}), kind="park")

    requests = talk(lambda: Experiences("math", store=folder, tenant="acme", follow=True), step)
    assert min(shared(requests)) == 1
    assert "French" in requests[-1]
    assert "ask back" not in requests[-1]


BODIES: dict[str, Callable[[list[dict[str, Any]]], dict[str, Any]]] = {
    "/v1/chat/completions": lambda said: {"messages": [{"role": "system", "content": INSTRUCTIONS}, *said]},
    "/v1/responses": lambda said: {"instructions": INSTRUCTIONS, "input": said},
    "/v1/messages": lambda said: {
        "system": [{"type": "text", "text": INSTRUCTIONS, "cache_control": {"type": "ephemeral"}}],
        "messages": said,
    },
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("place", ["instructions", "last"])
def test_the_calls_of_other_clients_share_their_start(store: LibraryStore, path: str, place: Any) -> None:
    shown = lessons("math", store=store.directory.parent, retrieval=FEW, choose="conversation", place=place)
    requests, said = list[str](), list[dict[str, Any]]()
    for question in QUESTIONS:
        said.append({"role": "user", "content": question})
        body = with_advice(path, BODIES[path](said), shown.for_conversation, choose="conversation", place=place)
        assert str(body).count("<experiences>") == 1
        instructions = json.dumps([body.get("instructions"), body.get("system")])
        sent = json.dumps(body.get("input", body.get("messages")))
        stable = sent.partition(BLOCK)[0] if place == "last" else sent
        requests.append(instructions + stable.rstrip('"}]'))
        said.append({"role": "assistant", "content": "Fine."})
    assert min(shared(requests)) > 0.99


def test_lessons_with_every_question_are_not_loaded_on_request(store: LibraryStore) -> None:
    with pytest.raises(LibraryError, match="place='last'"):
        Experiences("math", store=store.directory.parent, place="last", defer_loading=True)


def test_lessons_stand_behind_the_results_of_tools(store: LibraryStore) -> None:
    """Anthropic takes results of tools at the start of a message only."""
    result, text = {"type": "tool_result", "tool_use_id": "a", "content": "4"}, {"type": "text", "text": "And boats?"}
    shown = lessons("math", store=store.directory.parent, retrieval=FEW, place="last")
    sent = {"messages": [{"role": "user", "content": [result, text]}]}
    (message,) = with_advice("/v1/messages", sent, shown.for_query, place="last")["messages"]
    assert [message["content"][0], message["content"][2]] == [result, text]
    assert BLOCK in message["content"][1]["text"]
