"""What a service has to read again in a conversation with lessons: chosen for each turn, for the conversation, or last.

One conversation of 30 turns, a library with retrieval, and a new version published before two of the turns. The share
of each request that is the start of the next one is what a prompt cache can keep. With the address of a server of
llama.cpp, the same conversation is held with a real model, and the server says how many tokens it had cached; then
towns with made-up rules are asked with the lessons in the instructions, and behind the question.

    just bench prompt_cache
    just bench prompt_cache --server http://127.0.0.1:8080/v1#MODEL
"""

import argparse
import asyncio
import random
import tempfile
import time
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
    parser.add_argument("--server", help="address of a server of llama.cpp, as agentlearn's --model takes it")


def measure(chosen: argparse.Namespace) -> Found:
    """Hold the conversations, and ask about the towns where there is a server."""
    rows = [_held(words, ways, None, TURNS) for words, ways in WAYS.items()]
    if chosen.server:
        address, _, name = chosen.server.partition("#")
        model = OpenAIChatModel(name, provider=OpenAIProvider(base_url=address, api_key="none"))
        rows += [_held(f"{words}, {name}", ways, model, chosen.turns) for words, ways in WAYS.items()]
        rows.append(_towns(name, model))
    return Found(rows=tuple(rows))


def _held(words: str, ways: dict[str, Any], model: Model | None, turns: int) -> Row:
    sent, cached, read = list[str](), 0, 0

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [str(getattr(part, "content", "")) for message in messages for part in message.parts]
        sent.append("\n".join([info.instructions or "", *parts]))
        return ModelResponse(parts=[TextPart("Fine.")])

    with tempfile.TemporaryDirectory() as folder:
        libraries = LibraryStore(Path(folder) / "libraries")
        libraries.publish("towns", Library.of(LESSONS))
        history, begun = list[ModelMessage](), time.perf_counter()
        for turn in range(turns):
            if turn in {turns // 3, 2 * turns // 3}:
                now = libraries.load("towns")
                libraries.publish("towns", Library(parent=now.version, experiences=now.experiences[1:]))
            shown = Experiences("towns", store=folder, follow=True, retrieval=FEW, **ways)
            agent = Agent(model or FunctionModel(answer), instructions="Answer with one word.", capabilities=[shown])
            settings = ModelSettings(temperature=0, max_tokens=WRITTEN)
            question = f"Which desk is it in {TOWNS[turn % len(TOWNS)]}, for parcel {turn}?"
            done = asyncio.run(agent.run(question, message_history=history, model_settings=settings))
            history = done.all_messages()
            cached, read = cached + done.usage.cache_read_tokens, read + done.usage.input_tokens
        seconds = time.perf_counter() - begun
    if model is not None:
        return Row(
            name=words, figures={"tokens_read": read, "cached": cached, "computed": read - cached, "wall_s": seconds}
        )
    shares = [_shared(one, two) for one, two in pairwise(sent)]
    return Row(name=words, figures={"least_shared": min(shares), "mean_shared": fmean(shares)})


def _shared(one: str, two: str) -> float:
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), len(one)) / len(one)


def _towns(name: str, model: Model) -> Row:
    """The share of towns with the right desk, by place of the lessons, and the difference."""
    right = {place: [_asked(model, town, place) for town in TOWNS] for place in ("instructions", "last")}
    differences = [last - first for first, last in zip(right["instructions"], right["last"], strict=True)]
    found = estimate_difference(differences, clusters=TOWNS)
    scores = {place: fmean(values) for place, values in right.items()}
    return Row(
        name=f"right desks, {name}", figures={**scores, "difference": found.mean, "low": found.low, "high": found.high}
    )


def _asked(model: Model, town: str, place: Any) -> float:
    shown = Experiences(Library.of(LESSONS), retrieval=FEW, place=place)
    agent = Agent(model, instructions="Answer with the number of the desk.", capabilities=[shown])
    settings = ModelSettings(temperature=0, max_tokens=WRITTEN * 2)
    done = asyncio.run(agent.run(f"To which desk do parcels go in {town}?", model_settings=settings))
    return float(str(DESKS[town]) in done.output)
