"""Sampled tokens per second on this machine: our engine compared with batched `transformers.generate`.

Both use the same model and prompts. The model is a Qwen3 with 0.8 million random weights. The prompts share most of
their tokens, like the prompts of one group with one library. The two are measured alternately. `generate` gets all
prompts in one batch and all answers have the same length, which is the best case for it. The service row measures the
same amount of work through HTTP, with the chat template and JSON that contains tokens and log-probabilities.

    just bench sampler --requests 32 --rounds 5
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.bench.found import Found, Row, Target

VOCABULARY = 1_200


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--requests", type=int, default=32, help="requests per repetition")
    parser.add_argument(
        "--shared", type=int, default=260, help="tokens at the start of each prompt that all prompts share"
    )
    parser.add_argument("--own", type=int, default=40, help="tokens of each prompt that differ between prompts")
    parser.add_argument("--answer", type=int, default=60, help="tokens sampled per request")
    parser.add_argument("--rounds", type=int, default=5, help="number of repetitions; medians are printed")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure sampled tokens per second of wall time."""
    network = _network()
    chance = np.random.default_rng(0)
    shared = chance.integers(10, VOCABULARY, chosen.shared).tolist()
    prompts = [shared + chance.integers(10, VOCABULARY, chosen.own).tolist() for _ in range(chosen.requests)]
    names = ("engine, first time", "engine, shared tokens known", "generate", "generate, one thread")
    taken: dict[str, list[float]] = {name: [] for name in names}
    for at in range(-1, chosen.rounds):
        first, again = _engine_s(network, prompts, chosen.answer)
        theirs = _generate_s(network, prompts, chosen.answer)
        with _one_thread():
            alone = _generate_s(network, prompts, chosen.answer)
        if at >= 0:  # the first repetition is a warm-up
            for name, one in zip(names, (first, again, theirs, alone), strict=True):
                taken[name].append(one)
    tokens = chosen.requests * chosen.answer
    rows = [_row(name, tokens, seconds) for name, seconds in taken.items()]
    rows.append(_row("service, over HTTP", tokens, [_service_s(network, chosen) for _ in range(chosen.rounds)]))
    ratio = statistics.median(
        min(both) / ours
        for ours, *both in zip(taken[names[0]], taken["generate"], taken["generate, one thread"], strict=True)
    )
    target = Target(
        what="engine over the better generate, tokens per second", figure=ratio, bound="at_least", limit=1.0
    )
    return Found(rows=tuple(rows), targets=(target,), notes=("The weights are random: only the speed is meaningful.",))


def _row(name: str, tokens: int, seconds: Sequence[float]) -> Row:
    median = statistics.median(seconds)
    return Row(
        name=name,
        figures={"tokens_per_s": tokens / median, "wall_s": median, "least_s": min(seconds), "rounds": len(seconds)},
    )


def _network() -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        max_position_embeddings=2_048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config).eval()


@contextmanager
def _one_thread() -> Generator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _engine_s(network: Any, prompts: Sequence[Sequence[int]], answer: int) -> tuple[float, float]:
    """Return the seconds for all requests, and for the same requests again with other seeds."""
    from agentlearn.serving.engine import Sampling
    from agentlearn.train.engine.torch_engine import TorchEngine

    engine = TorchEngine(network, stop_ids=frozenset(), context=2_048)

    async def all_of_them(seed: int) -> float:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for at, prompt in enumerate(prompts):
                tasks.create_task(engine.sample(prompt, Sampling(seed=seed + at, max_tokens=answer)))
        return time.perf_counter() - began

    with engine.running():
        return asyncio.run(all_of_them(0)), asyncio.run(all_of_them(1_000))


def _generate_s(network: Any, prompts: Sequence[Sequence[int]], answer: int) -> float:
    import torch

    ids = torch.tensor(prompts)
    how: dict[str, Any] = {"do_sample": True, "top_k": 0, "min_new_tokens": answer, "max_new_tokens": answer}
    began = time.perf_counter()
    with torch.inference_mode():
        network.generate(ids, attention_mask=torch.ones_like(ids), **how)
    return time.perf_counter() - began


def _service_s(network: Any, chosen: argparse.Namespace) -> float:
    """Return the seconds for all requests through the HTTP service of the local endpoint."""
    import httpx2

    from agentlearn.train.serving.local import serve_model
    from agentlearn.train.weights.loading import LoadedModel
    from tests.support.tiny_model import tiny_tokenizer

    words = "Count what can be counted, and write the answer in a box. " * (chosen.shared // 40)

    async def ask(http: httpx2.AsyncClient, url: str, at: int) -> None:
        messages = [{"role": "system", "content": words}, {"role": "user", "content": f"Problem {at}?"}]
        asked = {"model": "bench", "messages": messages, "seed": at, "max_tokens": chosen.answer}
        sent = {**asked, "logprobs": True, "return_token_ids": True}
        (await http.post(f"{url}/chat/completions", json=sent)).raise_for_status()

    async def all_of_them() -> float:
        limits = httpx2.Limits(max_connections=None)
        async with (
            serve_model(LoadedModel(network, tiny_tokenizer(), "bench")) as service,
            httpx2.AsyncClient(timeout=600, trust_env=False, limits=limits) as http,
        ):
            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for at in range(chosen.requests):
                    tasks.create_task(ask(http, service.base_url, at))
            return time.perf_counter() - began

    return asyncio.run(all_of_them())
