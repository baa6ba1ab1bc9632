"""A lab model as an HTTP service."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agentlearn.serving.chat_service import ChatService
from agentlearn_demo.lab.checkpoint import read_checkpoint
from agentlearn_demo.lab.contract import announced_lab
from agentlearn_demo.lab.engine import open_lab_engine
from agentlearn_demo.lab.lab_format import LabFormat


@asynccontextmanager
async def serve_lab_model(name: str, *, seed: int = 0, port: int = 0) -> AsyncGenerator[str]:
    """Serve a lab model on loopback while the block runs; yields the base URL.

    seed: for requests without a seed. Raises ConfigError for an unknown name, missing or damaged weights.
    """
    model, tokenizer = read_checkpoint(announced_lab(name).folder, name)
    chat = LabFormat(tokenizer)
    (end,) = chat.stop_ids
    async with open_lab_engine(model, end) as engine:
        service = ChatService(engine, chat, model=name, seed=seed, served_by="lab")
        async with service.serve(port) as url:
            yield url
