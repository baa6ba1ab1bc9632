"""What a chat model sends: one system message, whatever its parts."""

import asyncio

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.providers.openai import OpenAIProvider

from agentlearn import Experiences
from agentlearn.config import CallOptions
from agentlearn.models.chat_model import ChatModel
from agentlearn.models.endpoint import open_endpoint
from tests.support.openai_stub import OpenAIStub

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
