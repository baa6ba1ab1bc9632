"""What a chat model sends: one system message, whatever its parts."""

import asyncio

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.providers.openai import OpenAIProvider

from agentlearn import Experiences
from agentlearn.models.chat_model import ChatModel
from tests.support.openai_stub import OpenAIStub


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
