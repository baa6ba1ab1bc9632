"""Lab model: tokens per second of the numpy runtime, compared with `transformers.generate` on the same weights.

Both get prompts of the lab model's evaluation tasks. Most of each prompt is a library of lessons that all prompts
share. Each request samples until its message ends. Both use one thread, unless the environment variables
OMP_NUM_THREADS and OPENBLAS_NUM_THREADS set another number.

    just bench lab --streams 32 --rounds 3
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from agentlearn.lab.checkpoint import read_checkpoint
from agentlearn.lab.contract import announced_lab
from agentlearn.lab.engine import LabEngine, open_lab_engine
from agentlearn.lab.lab_format import LabFormat
from agentlearn.serving.chatml import conversation_text
from agentlearn.serving.engine import Sampling
from tests.bench.found import Found, Row, Target

NAME = "novice"
MAX_TOKENS = 160
TEMPERATURE = 0.7
LIMIT_TOKENS_S = 2_500.0


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--streams", type=int, default=32, help="requests in flight")
    parser.add_argument("--rounds", type=int, default=3, help="number of repetitions; medians are printed")
    parser.add_argument("--requests", type=int, default=256, help="requests per repetition")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure sampled tokens per second: numpy with many streams and with one, and transformers."""
    ours = [asyncio.run(_ours(chosen.requests, chosen.streams)) for _ in range(chosen.rounds)]
    alone = asyncio.run(_ours(min(chosen.requests, 32), 1))
    rows = [_row(f"numpy, {chosen.streams} streams", ours), _row("numpy, 1 stream", [alone])]
    notes: tuple[str, ...] = ()
    try:
        theirs = _transformers(chosen.streams, chosen.rounds)
        rows.append(_row(f"transformers.generate, a batch of {chosen.streams}", theirs))
    except ImportError as error:
        notes = (f"transformers was not measured: {error}",)
    figure = statistics.median(tokens / took_s for tokens, took_s in ours)
    target = Target(
        what=f"tokens per second, {chosen.streams} streams", figure=figure, bound="at_least", limit=LIMIT_TOKENS_S
    )
    return Found(rows=tuple(rows), targets=(target,), notes=notes)


def _row(name: str, runs: list[tuple[int, float]]) -> Row:
    speeds = [tokens / took_s for tokens, took_s in runs]
    figures = {"drawn_tokens_per_s": statistics.median(speeds), "drawn_tokens": runs[0][0], "rounds": len(runs)}
    return Row(name=name, figures=figures)


def _prompts(number: int) -> list[str]:
    """Return prompts that end where the assistant's message begins. All contain the lessons of the first task."""
    from agentlearn.serving.chat_request import Message

    tasks = announced_lab(NAME).evaluation_tasks("full", number, 0)
    system = tasks[0].system
    return [conversation_text([Message("system", system), Message("user", one.question)], one.tools) for one in tasks]


async def _ours(requests: int, streams: int) -> tuple[int, float]:
    model, tokenizer = read_checkpoint(announced_lab(NAME).folder, NAME)
    chat = LabFormat(tokenizer)
    (end,) = chat.stop_ids
    prompts = [chat.encode(text) for text in _prompts(requests)]
    async with open_lab_engine(model, end, max_batch=streams) as engine:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for at, prompt in enumerate(prompts):
                group.create_task(_drawn(engine, prompt, at))
        return engine.sampled_tokens, time.perf_counter() - began


async def _drawn(engine: LabEngine, prompt: list[int], seed: int) -> None:
    await engine.sample(prompt, Sampling(seed=seed, max_tokens=MAX_TOKENS, temperature=TEMPERATURE))


def _transformers(streams: int, rounds: int) -> list[tuple[int, float]]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from agentlearn.train.lab.build import export_lab_model

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        export_lab_model(announced_lab(NAME), Path(folder))
        model = AutoModelForCausalLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    batch = tokenizer(_prompts(streams), return_tensors="pt", padding=True, add_special_tokens=False)
    width = batch["input_ids"].shape[1]
    runs: list[tuple[int, float]] = []
    for _ in range(rounds):
        began = time.perf_counter()
        with torch.no_grad():
            sampled = model.generate(
                **batch, do_sample=True, temperature=TEMPERATURE, top_k=0, max_new_tokens=MAX_TOKENS
            )
        took_s = time.perf_counter() - began
        runs.append((int((sampled[:, width:] != tokenizer.pad_token_id).sum()), took_s))
    return runs
