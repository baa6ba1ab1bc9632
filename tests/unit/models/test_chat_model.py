"""What a chat model sends: one system message, whatever its parts."""

import asyncio

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from agentlearn import Experiences
from agentlearn.config import CallOptions
from agentlearn.models.call_settings import never_sent
from agentlearn.models.chat_model import ChatModel
from agentlearn.models.endpoint import open_endpoint
from tests.support.openai_stub import OpenAIStub


def chat(name: str) -> Model:
    return ChatModel(name, provider=OpenAIProvider(api_key="none"))


def responses(name: str) -> Model:
    return OpenAIResponsesModel(name, provider=OpenAIProvider(api_key="none"))


LIMITED = (
    # model, the field of the limit; each service knows max_tokens but OpenAI's reasoning models
    ("llama", "max_tokens"),
    ("gpt-4o", "max_tokens"),
    ("gpt-5-mini", "max_completion_tokens"),
    ("o3", "max_completion_tokens"),
)


def test_a_limit_is_sent_under_the_name_that_the_service_knows(subtests: pytest.Subtests) -> None:
    async def ask(url: str) -> None:
        async with open_endpoint(url, CallOptions()) as endpoint:
            await Agent(endpoint.model, model_settings={"max_tokens": 7}).run("2 + 2?")

    for name, field in LIMITED:
        with subtests.test(model=name), OpenAIStub() as stub:
            asyncio.run(ask(f"{stub.base_url}#{name}"))
            (request,) = stub.requests
            assert {one: request[one] for one in request if one.startswith("max_")} == {field: 7}


LEFT_OUT = (
    # model, settings of all requests, which of temperature and seed its client leaves out
    (chat("gpt-4o"), {}, set()),
    (chat("gpt-5-mini"), {}, {"temperature"}),
    (chat("gpt-5.1"), {}, set()),
    (chat("gpt-5.1"), {"thinking": "low"}, {"temperature"}),
    (responses("gpt-4o"), {}, {"seed"}),
    (responses("gpt-5-mini"), {}, {"seed", "temperature"}),
    (TestModel(), {}, set()),
)


def test_what_a_client_never_sends_is_known(subtests: pytest.Subtests) -> None:
    for model, given, left_out in LEFT_OUT:
        with subtests.test(model=model.model_name, kind=type(model).__name__, given=given):
            assert never_sent(model, given) & {"temperature", "seed"} == left_out


def test_instructions_and_lessons_are_one_system_message() -> None:
    """Many chat templates read only the first, so lessons in a second one would be lost without a word."""

    async def ask(base_url: str) -> None:
        async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
            model = ChatModel("any", provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, instructions="Be brief.", capabilities=[Experiences(["Count twice."])])
            await agent.run("2 + 2?")

    with OpenAIStub() as stub:
        asyncio.run(ask(stub.base_url))
    (request,) = stub.requests
    system, user = request["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert system["content"].startswith("Be brief.\n\n")
    assert "Count twice." in system["content"]
