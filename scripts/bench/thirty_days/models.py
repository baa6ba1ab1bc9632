"""The simulated models: a service on this machine that answers, and one that writes lessons from complaints."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from scripts.bench.thirty_days.company import OTHER_MODEL, REFUND, SAID, Company, Talk, Tenant


class Service:
    """Answers each conversation as its tenant's chance says, and looks for words of other tenants in what it reads."""

    def __init__(self, company: Company) -> None:
        self.tenants = {one.name: one for one in company.tenants}
        self.crossed = Counter[str]()
        """Prompts of a tenant in which another tenant's word stood, by tenant."""

    def talk(self, named: str) -> Talk:
        """The conversation that a request names: `tenant/day/number`."""
        tenant, day, number = named.split("/")
        return Talk(self.tenants[tenant], int(day), int(number))

    def answer(self, body: dict[str, Any]) -> str:
        """The answer to a request."""
        talk = self.talk(body["user"])
        text = "\n".join(str(one["content"]) for one in body["messages"])
        self.look(talk.tenant, text)
        return answer(talk, talk.tenant.kinds(text))

    def look(self, tenant: Tenant, text: str) -> None:
        """Count a text that a model reads for one tenant, if another tenant's word is in it."""
        self.crossed[tenant.name] += any(one.word in text for one in self.tenants.values() if one != tenant)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Serve chat completions on a free port; gives the base URL."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
                size = next(int(line.partition(b":")[2]) for line in head if line.startswith(b"content-length:"))
                body = json.loads(await reader.readexactly(size))
                message = {"role": "assistant", "content": self.answer(body)}
                reply = {
                    "id": "simulated", "object": "chat.completion", "created": 1, "model": body["model"],
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55},
                }  # fmt: skip
                content = json.dumps(reply).encode()
                head_of = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                writer.write(head_of % len(content) + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def writes_lessons(self, tenant: Tenant) -> FunctionModel:
        """The model that writes lessons for a tenant: one at a time, after the complaint that it reads most often."""

        def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            text = "".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
            self.look(tenant, text)
            if "<trajectory" in text:
                found = next((words for words in SAID if words in text), "it answered")
                return _said({"steps": [{"text": found, "used": []}]})
            if "<proposals" in text:
                offered = Counter(lesson for lesson in map(tenant.lesson, SAID) if lesson in text)
                counts = Counter({lesson: text.count(lesson) for lesson in offered})
                chosen = [lesson for lesson, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:1]]
                return _said({"proposals": [{"op": "add", "lesson": one, "rests_on": ["P1"]} for one in chosen]})
            counts = Counter({words: text.count(words) for words in SAID})
            known = [words for words, times in counts.most_common() if times and tenant.lesson(words) not in text]
            return _said({"proposals": [{"op": "add", "lesson": tenant.lesson(words)} for words in known[:1]]})

        return FunctionModel(reply, model_name="simulated")


def answer(talk: Talk, kinds: frozenset[str]) -> str:
    """What the model answers with these lessons."""
    return f"{'good' if talk.good(kinds) else 'bad'}{', with a refund' if REFUND in kinds else ''}"


def model_of(day: int) -> str:
    """The model of a day."""
    return "model-1" if day < OTHER_MODEL else "model-2"


def _said(reply: dict[str, Any]) -> ModelResponse:
    return ModelResponse(parts=[TextPart(json.dumps(reply))])
