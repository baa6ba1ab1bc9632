"""A lab model as a service: its weights, its chat format and the common chat service around them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agentlearn.lab.checkpoint import read_checkpoint
from agentlearn.lab.contract import announced_lab
from agentlearn.lab.engine import open_engine
from agentlearn.lab.lab_format import LabFormat
from agentlearn.serving.chat_service import ChatService


@asynccontextmanager
async def serving(name: str, *, seed: int = 0, port: int = 0) -> AsyncGenerator[str]:
    """The lab model of that name on loopback while the block runs; yields the base URL.

    seed: of requests that send none. Raises ConfigError for an unknown name, missing or damaged weights.
    """
    model, tokenizer = read_checkpoint(announced_lab(name).folder, name)
    chat = LabFormat(tokenizer)
    (end,) = chat.stop_ids
    async with open_engine(model, end) as engine:
        service = ChatService(engine, chat, model=name, seed=seed, served_by="lab")
        async with service.serve(port) as url:
            yield url
