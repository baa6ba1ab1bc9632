"""A service whose agent gets better from its own traffic, without a restart.

It records every answer, takes feedback on it, learns in the background, and uses the new lessons from then on.

    pip install 'agentlearn-lib[learn]' fastapi uvicorn
    export OPENAI_API_KEY=...            # and OPENAI_BASE_URL for a service of your own
    uvicorn support_service:app
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models import infer_model

from agentlearn import AgentlearnError, Experiences, Recorder, learn_sync, shown_in

MODEL = os.environ.get("SUPPORT_MODEL", "openai-chat:gpt-5-mini")
LEARN_AFTER = int(os.environ.get("SUPPORT_LEARN_AFTER", "20"))
"""Pieces of feedback after which it learns."""

lessons = Experiences("support", follow=True, missing="empty")
model = infer_model(MODEL)  # made once: with its name alone, each run would make a client of its own
agent = Agent(model, instructions="Answer in one sentence.", capabilities=[lessons])
recorder = Recorder("support")
given = asyncio.Semaphore(0)
log = logging.getLogger("support")


class Question(BaseModel):
    text: str


class Reply(BaseModel):
    rollout: str
    """Id of the record, for feedback."""
    text: str
    library: str
    """Version of the lessons that the agent read; empty when there are none."""


class Feedback(BaseModel):
    rollout: str
    reward: float | None = None
    comment: str = ""
    right_answer: str = ""


async def keep_learning() -> None:
    """Learn each time enough feedback has come in, in a thread of its own, so that no request waits.

    A service that is busy all the time leaves such a thread little to do. There, let another process learn:
    `agentlearn live support --every 1h --model ...`.
    """
    while True:
        for _ in range(LEARN_AFTER):
            await given.acquire()
        try:
            groups = await asyncio.to_thread(recorder.groups)
            # trust: only colleagues write here. Leave it out where strangers do, and approve what waits:
            # `agentlearn library pending`.
            report = await asyncio.to_thread(
                learn_sync, groups, model=MODEL, library="support", evaluate=False, trust="traffic"
            )
            log.info("learned %d lessons from %s", report.library.lessons, groups.summary)
        except AgentlearnError as error:  # such as: another worker of this service is learning
            log.warning("not learned: %s", error)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    learning = asyncio.create_task(keep_learning())
    async with model:  # closes its connections at the end
        yield
    learning.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/ask")
async def ask(question: Question) -> Reply:
    result = await agent.run(question.text)
    rollout = await recorder.record(result, task=question.text)
    shown = shown_in(result)
    return Reply(rollout=rollout, text=result.output, library=shown.version if shown else "")


@app.post("/feedback")
async def feedback(said: Feedback) -> None:
    await recorder.feedback(said.rollout, reward=said.reward, comment=said.comment, demonstration=said.right_answer)
    given.release()
