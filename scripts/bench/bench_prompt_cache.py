"""What a service has to read again in a conversation with lessons: chosen for each turn, for the conversation, or last.

One conversation of 30 turns, a library with retrieval, and a new version published before two of the turns. The share
of each request that is the start of the next one is what a prompt cache can keep. With a model of `just proof`, the
same conversation is held with it on llama.cpp's server, which says how many tokens it had cached, and whose CPU time is
counted. Then the held-out tasks of `just proof` are asked with the right lesson, in the instructions and before the
question.

    just bench prompt_cache
    just bench prompt_cache --server 0.5b --turns 10
"""

import argparse
import asyncio
import random
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from agentlearn import Experiences, Library, LibraryStore, Retrieval
from agentlearn.measure.difference import estimate_difference
from scripts.bench.found import Found, Row
from scripts.bench.proof.kinds import KINDS, Drawn, drawn
from scripts.bench.proof.measuring import says
from scripts.bench.proof.models import MODELS
from scripts.bench.proof.server import Server

TURNS, WRITTEN = 30, 8
WAYS: dict[str, dict[str, Any]] = {
    "instructions, for each turn": {"choose": "turn"},
    "instructions, for the conversation": {"choose": "conversation"},
    "last, for each turn": {"choose": "turn", "place": "last"},
}
_RNG = random.Random(5)
TOWNS = [
    f"{first}{last}" for first in ("Mar", "Tol", "Quin", "Har", "Sel", "Nor") for last in ("low", "by", "den", "ton")
]
DESKS = {town: _RNG.randint(10, 99) for town in TOWNS}
LESSONS = [f"In {town}, parcels go to desk {DESKS[town]}." for town in TOWNS]
FEW = Retrieval(max_shown_tokens=1, shown_lessons=4)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--turns", type=int, default=TURNS, help="of each conversation with the server")
    parser.add_argument("--server", choices=MODELS, help="model to ask on llama.cpp's server, which is started")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0], help="of the rules that are asked about")
    parser.add_argument("--threads", type=int, default=2, help="of the server")


def measure(chosen: argparse.Namespace) -> Found:
    """Hold the conversations, with a server also with a real model, and ask that about made-up rules."""
    rows = [_held(words, ways, None, TURNS) for words, ways in WAYS.items()]
    if chosen.server:
        log = Path(tempfile.gettempdir()) / "bench-prompt-cache.log"
        with Server(chosen.server, threads=chosen.threads, say=print, log=log) as server:
            rows += [_held(f"{words}, {server.label}", ways, server, chosen.turns) for words, ways in WAYS.items()]
            rows += _places(server, [drawn(kind, seed) for kind in KINDS for seed in chosen.seeds])
    return Found(rows=tuple(rows))


def _model(server: Server) -> Model:
    address, _, name = server.address.partition("#")
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=address, api_key="none"))


def _held(words: str, ways: dict[str, Any], server: Server | None, turns: int) -> Row:
    sent, cached, read = list[str](), 0, 0

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [str(getattr(part, "content", "")) for message in messages for part in message.parts]
        sent.append("\n".join([info.instructions or "", *parts]))
        return ModelResponse(parts=[TextPart("Fine.")])

    with tempfile.TemporaryDirectory() as folder:
        libraries = LibraryStore(Path(folder) / "libraries")
        libraries.publish("towns", Library.of(LESSONS))
        history, begun_s = list[ModelMessage](), 0.0
        if server is not None:
            server.forget()
            begun_s = server.cpu_s
        for turn in range(turns):
            if turn in {turns // 3, 2 * turns // 3}:
                now = libraries.load("towns")
                libraries.publish("towns", Library(parent=now.version, experiences=now.experiences[1:]))
            shown = Experiences("towns", store=folder, follow=True, retrieval=FEW, **ways)
            model = FunctionModel(answer) if server is None else _model(server)
            agent = Agent(model, instructions="Answer with one word.", capabilities=[shown])
            settings = ModelSettings(temperature=0, max_tokens=WRITTEN)
            question = f"Which desk is it in {TOWNS[turn % len(TOWNS)]}, for parcel {turn}?"
            done = asyncio.run(agent.run(question, message_history=history, model_settings=settings))
            history = done.all_messages()
            cached, read = cached + done.usage.cache_read_tokens, read + done.usage.input_tokens
    if server is not None:
        tokens = {"tokens_read": read, "cached": cached, "computed": read - cached}
        return Row(name=words, figures=tokens | {"cpu_s_per_turn": (server.cpu_s - begun_s) / turns})
    shares = [_shared(one, two) for one, two in pairwise(sent)]
    return Row(name=words, figures={"least_shared": min(shares), "mean_shared": fmean(shares)})


def _shared(one: str, two: str) -> float:
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), len(one)) / len(one)


def _places(server: Server, asked: list[Drawn]) -> list[Row]:
    """The share of right answers with the right lesson in the instructions and last, by kind, and the difference."""
    rows, differences, kinds = list[Row](), list[float](), list[str]()
    for mine in asked:
        server.forget()
        right = {place: _right(server, mine, place) for place in ("instructions", "last")}
        differences += [last - first for first, last in zip(right["instructions"], right["last"], strict=True)]
        kinds += [mine.kind.name] * len(mine.held_out)
        rows.append(
            Row(name=f"{mine.kind.name}, seed {mine.seed}", figures={of: fmean(one) for of, one in right.items()})
        )
    found = estimate_difference(differences, clusters=kinds)
    figures = {"difference": found.mean, "low": found.low, "high": found.high}
    return [
        *rows,
        Row(name=f"last - instructions, {len(differences)} tasks of {found.clusters} kinds", figures=figures),
    ]


def _right(server: Server, mine: Drawn, place: Any) -> list[float]:
    """Whether each held-out task of a kind is answered rightly."""
    shown = Experiences(Library.of(mine.right), place=place)
    agent = Agent(_model(server), instructions=mine.kind.instructions, capabilities=[shown])
    settings = ModelSettings(temperature=0, max_tokens=mine.kind.answer_tokens)

    async def ask() -> list[float]:
        replies = [(await agent.run(one.problem, model_settings=settings)).output for one in mine.held_out]
        return [float(says(mine.kind, said, one.answer)) for said, one in zip(replies, mine.held_out, strict=True)]

    return asyncio.run(ask())
