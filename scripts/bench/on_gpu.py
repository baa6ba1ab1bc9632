"""Training on a GPU: the command `train`, an update beside TRL's, sampling beside `generate`, the memory plan.

The model has random weights and the shape of Qwen3-0.6B; nothing is downloaded. Needs the extra `dev`
and a GPU with 40 GB. Each measurement prints one line of JSON; one that fails prints its error, and the others go on.

    python -m scripts.bench.on_gpu --out found.jsonl
    python -m scripts.bench.on_gpu --only memory
    python -m scripts.bench.on_gpu --small      # tiny models, also on a CPU: whether the program works
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, Qwen3ForCausalLM

from agentlearn.serving.chat_service import Sampling
from agentlearn.store import read_store
from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.engine.torch_engine import TorchEngine
from agentlearn.train.run_training import run_training
from agentlearn.train.settings import train_settings
from agentlearn.train.update.logprob_model import LogprobModel
from agentlearn.train.update.memory_plan import fixed_bytes
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.model import load_for_training
from scripts.bench.update_beside_trl import Workload, beside
from scripts.bench.update_memory import rows
from tests.support.letters_training import WORDS, letters_fields, one_word_tasks
from tests.support.tiny_lm import tiny_config
from tests.support.tiny_model import tiny_tokenizer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KEPT = ("loss", "grad_norm", "tokens", "tokens_per_microbatch", "peak_memory_mib", "sampling/unexplained_difference")
VOCABULARY = {False: 151_936, True: 2000}
Figures = dict[str, Any]


def qwen3(small: bool) -> Any:
    """Return a model of the shape of Qwen3-0.6B, or a tiny one, with random fp32 weights on the device."""
    shape: Figures = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128}
    shape |= {"num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 8192}
    tiny: Figures = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16}
    shape |= {"tie_word_embeddings": True, "initializer_range": 0.04, "bos_token_id": None, "eos_token_id": None}
    torch.manual_seed(0)
    with torch.device(DEVICE):
        return Qwen3ForCausalLM(tiny_config(vocab_size=VOCABULARY[small], **(shape | tiny if small else shape))).eval()


def train(folder: Path, lora_rank: int, small: bool) -> Figures:
    """Train with the product's own sampler: three updates of 8 tasks x 8 rollouts of at most 64 tokens, in bf16."""
    with tempfile.TemporaryDirectory() as place:
        tasks = one_word_tasks(Path(place) / "letters.jsonl", *WORDS)
        size = Figures(batch_size=8, group_size=8, max_output_tokens=8 if small else 64, epochs=3)
        gradient = {"loss": "grpo", "learning_rate": 1e-5, "dtype": "bf16", "lora_rank": lora_rank}
        fields = letters_fields(folder, tasks, Path(place) / "store", gradient=gradient, **size)
        report = asyncio.run(run_training(train_settings(fields)))
        with read_store(Path(place) / "store") as reader:
            kept = reader.metrics(report.run)
    updates = [
        {name: values[name] for name in values if name in KEPT or name.startswith("seconds/")}
        for _, values in sorted(kept.items())
    ]
    changed = report.weights.sha256_before != report.weights.sha256_after
    return {
        "updates": updates,
        "rollouts": report.rollouts,
        "changed": changed,
        "wall_s": report.wall_s,
        "notes": report.notes,
    }


def update(model: Any, kind: str, small: bool) -> Figures:
    """Measure TRL's step and ours in turn on the same rows, five steps of which the first two are a warm-up."""
    size = {"prompt": 16, "longest": 32, "micro": 16} if small else {"prompt": 256, "longest": 512, "micro": 8}
    work = Workload(vocabulary=model.config.vocab_size, device=DEVICE, bf16=True, **size)
    found = beside(model, kind, 5, work)
    pairs = list(zip(found["trl_s"], found["ours_s"], strict=True))[2:]
    tokens = work.rollouts * (work.prompt + work.longest / found["padding"])
    ours_s = statistics.median(ours for _, ours in pairs)
    return {
        "trl_s": statistics.median(theirs for theirs, _ in pairs),
        "ours_s": ours_s,
        "ratios": [theirs / ours for theirs, ours in pairs],
        "our_tokens_per_s": tokens / ours_s,
        "our_norm_trl_norm": found["norms"],
        "trl_extra_mib": max(one for one, _ in found["extra_mib"][1:]),
        "our_extra_mib": max(one for _, one in found["extra_mib"][1:]),
        "padding": found["padding"],
    }


def sampling(model: Any, small: bool) -> Figures:
    """Sample 64 answers of equal length with our engine and with `generate` in turn, three rounds after a short one."""
    prompt, longest = (8, 32) if small else (128, 128)
    engine = TorchEngine.of(model, frozenset())
    rates: list[tuple[float, float]] = []
    with engine.running():
        for number in range(4):
            most = longest if number else 8
            prompts = np.random.default_rng(number).integers(3, model.config.vocab_size, (64, prompt)).tolist()
            ours_s = _timed(lambda p=prompts, n=most: asyncio.run(_answers(engine, p, n)))
            theirs_s = _timed(lambda p=prompts, n=most: _generated(model, p, n))
            rates.append((64 * most / ours_s, 64 * most / theirs_s))
    ours, theirs = zip(*rates[1:], strict=True)
    medians = {"our_tokens_per_s": statistics.median(ours), "generate_tokens_per_s": statistics.median(theirs)}
    return {**medians, "ratios": [one / other for one, other in rates[1:]], "dtype": str(model.dtype)}


async def _answers(engine: TorchEngine, prompts: list[list[int]], length: int) -> None:
    asked = [engine.sample(one, Sampling(seed=at, max_tokens=length)) for at, one in enumerate(prompts)]
    assert {len(one.ids) for one in await asyncio.gather(*asked)} == {length}


def _generated(model: Any, prompts: list[list[int]], length: int) -> None:
    ids = torch.tensor(prompts, device=DEVICE)
    how = GenerationConfig(do_sample=True, top_k=0, max_new_tokens=length, pad_token_id=0)
    made = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=how)
    assert made.shape[1] == ids.shape[1] + length


def memory(folder: Path, fields: Figures, row: int, small: bool) -> Figures:
    """Compare what the memory plan says with what two updates allocate at most. row: tokens of each row."""
    arguments = gradient_arguments({"dtype": "bf16", "importance_sampling": "none", **fields})
    loaded = load_for_training(str(folder), arguments, device=DEVICE)
    _forget()
    weights = torch.cuda.memory_allocated() / 2**20 if DEVICE == "cuda" else 0.0
    updater = Updater(loaded.model, arguments)
    plan = updater.memory
    trained = [one for one in loaded.model.parameters() if one.requires_grad]
    fixed, stepping = fixed_bytes(trained, updater.optimizer, LogprobModel(loaded.model), arguments)
    assert plan.rows is not None
    said = max(plan.rows.constant + plan.rows.of_tokens(plan.tokens // (row - 1) * (row - 1)), stepping)
    given = rows(2 * plan.tokens // (row - 1), row // 2, row - row // 2, VOCABULARY[small])
    peaks: list[float] = []

    def note_peak(*_: Any) -> None:
        peaks.append(torch.cuda.max_memory_allocated() / 2**20 if DEVICE == "cuda" else 0.0)
        if DEVICE == "cuda":
            torch.cuda.reset_peak_memory_stats()

    note_peak()
    updater.optimizer.register_step_pre_hook(note_peak)
    seconds: list[float] = []
    for _ in range(2):
        seconds.append(updater.step(given).seconds)
        note_peak()
    return {
        "tokens_per_microbatch": plan.tokens,
        "chosen_by": plan.chosen_by,
        "kib_per_token": plan.rows.per_token / 1024,
        "weights_mib": weights,
        "said_apart_mib": (fixed / 2**20, said / 2**20),
        "said_mib": weights + (fixed + said) / 2**20,
        "peaks_mib": {"rows": peaks[1::2], "optimizer": peaks[2::2]},
        "said_over_peak": (weights + (fixed + said) / 2**20) / max(1.0, *peaks[1:]),
        "seconds": seconds[-1],
    }


def _timed(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began_s


def _forget() -> None:
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def measurements(folder: Path, small: bool) -> Iterator[tuple[str, Callable[[], Figures]]]:
    """Yield the name of each measurement and what makes it, the most valuable first."""
    row, tokens = (16, 64) if small else (1024, 8192)
    given, adapter = Figures(tokens_per_microbatch=tokens), Figures(lora_rank=16)

    def planned(*several: Figures) -> Iterator[tuple[str, Callable[[], Figures]]]:
        for fields in several:
            name = ", ".join(f"{name}={value}" for name, value in fields.items()) or "defaults"
            yield f"memory, {name}", lambda fields=fields: memory(folder, fields, row, small)

    yield "train, all weights", lambda: train(folder, 0, small)
    yield from planned({}, given, adapter)
    for number, kind in itertools.product(range(1, 4), ("uniform", "spread")):
        yield f"update, {kind}, round {number}", lambda kind=kind: update(qwen3(small), kind, small)
    yield "sampling, bf16", lambda: sampling(qwen3(small).bfloat16(), small)
    yield "train, adapter of rank 16", lambda: train(folder, 16, small)
    yield from planned(adapter | given, {"gradient_checkpointing": True}, {"master_weights": False})
    yield from planned(*(given | {"logits_mib": mib} for mib in (600, 1200, 2400)))
    yield "sampling, fp32", lambda: sampling(qwen3(small), small)


def main() -> int:
    """Make all measurements, or those whose names begin with a word; the status is 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="how the names of the measurements wanted begin, such as memory")
    parser.add_argument("--small", action="store_true", help="tiny models")
    parser.add_argument("--out", type=Path, default=Path(os.devnull), help="a file for the lines of JSON")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = False
    with tempfile.TemporaryDirectory() as place, chosen.out.open("w") as out:

        def said(line: Figures) -> None:
            print(json.dumps(line), flush=True)
            print(json.dumps(line), file=out, flush=True)

        card = torch.cuda.get_device_name() if DEVICE == "cuda" else DEVICE
        packages = {name: version(name) for name in ("torch", "transformers", "trl", "peft", "accelerate")}
        said({"card": card, "python": sys.version.split()[0], **packages, "torch": torch.__version__})
        folder = Path(place) / "model"
        qwen3(chosen.small).bfloat16().save_pretrained(folder)
        words = VOCABULARY[chosen.small] - len(tiny_tokenizer())
        tiny_tokenizer(words=words).save_pretrained(folder)
        for name, make in measurements(folder, chosen.small):
            if not name.startswith(chosen.only):
                continue
            _forget()
            began_s = time.perf_counter()
            try:
                found: Figures = make()
            except Exception as error:
                traceback.print_exc()
                failed, found = True, {"error": f"{type(error).__name__}: {error}"[:500]}
            said({"name": name, **found, "took_s": round(time.perf_counter() - began_s, 1)})
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
