"""Run one measurement of `bench_update` in a separate process, and print one JSON object.

python -m scripts.bench.update_beside_trl pair uniform 12 1
python -m scripts.bench.update_beside_trl alone ours uniform 4
python -m scripts.bench.update_beside_trl head
"""

import copy
import json
import resource
import sys
import tempfile
import time
import warnings
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import Qwen3ForCausalLM, TrainerCallback

from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.update.logprob_model import token_logprobs
from agentlearn.train.update.sequences import TrainingRow
from agentlearn.train.update.updater import Updater
from agentlearn.types.ids import RolloutId
from tests.support.tiny_lm import tiny_config, tiny_tokenizer
from tests.support.trl_oracle import GRPOTrainer
from tests.support.trl_run import GRPOConfig, training_rows

PROMPTS, G, PROMPT, LONGEST, VOCABULARY, MICRO = 8, 8, 32, 128, 512, 16
RATE = 1e-4


def language_model() -> Qwen3ForCausalLM:
    """Return a model with 1.1 million weights."""
    torch.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 384}
    heads = {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    return Qwen3ForCausalLM(tiny_config(**shape, **heads, max_position_embeddings=256, initializer_range=0.02))


def lengths(kind: str, seed: int) -> list[int]:
    """Return the completion tokens of the 64 rollouts: all longest, or varied so that padding is threefold."""
    if kind == "uniform":
        return [LONGEST] * (PROMPTS * G)
    drawn = np.random.default_rng(seed).lognormal(3.5, 0.75, PROMPTS * G).clip(4, LONGEST).astype(int).tolist()
    return [*drawn[:-1], LONGEST]


def scripted(kind: str, seed: int) -> dict[str, list[list[Any]]]:
    """Return rollouts of random tokens."""
    chance = np.random.default_rng(seed)
    answers = [chance.integers(3, VOCABULARY, length).tolist() for length in lengths(kind, seed)]
    return {
        "prompt_ids": [chance.integers(3, VOCABULARY, PROMPT).tolist() for _ in answers],
        "completion_ids": answers,
        "logprobs": [[-6.0] * len(one) for one in answers],
        "env_mask": [[1] * len(one) for one in answers],
    }


class Timed(GRPOTrainer):
    """A trainer that measures the time to generate and score its rollouts, and keeps their rows."""

    scoring_s = 0.0
    rows: list[TrainingRow]

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        began_s = time.perf_counter()
        made = super()._generate_and_score_completions(inputs)
        self.rows = training_rows(made, 0)
        self.scoring_s += time.perf_counter() - began_s
        return made


class Watch(TrainerCallback):
    """Measures each step of TRL, then runs and measures our step on the same rows."""

    def __init__(self, ours: Updater | None) -> None:
        self.ours = ours
        self.trainer: Any = None
        self.trl_s: list[float] = []
        self.ours_s: list[float] = []
        self.norms: list[tuple[float, float]] = []
        self.tokens: list[int] = []
        self._began_s = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.trainer.scoring_s = 0.0
        self._began_s = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.trl_s.append(time.perf_counter() - self._began_s - self.trainer.scoring_s)
        if self.ours is not None:
            made = self.ours.step(self.trainer.rows)
            self.ours_s.append(made.seconds)
            self.norms.append((made.figures["grad_norm"], 0.0))
        self.tokens.append(sum(row.trained for row in self.trainer.rows))

    def on_log(self, *_: Any, logs: dict[str, float] | None = None, **__: Any) -> None:
        if logs and "grad_norm" in logs and self.norms:
            self.norms[-1] = (self.norms[-1][0], float(logs["grad_norm"]))


def updater(model: Any) -> Updater:
    """Return our updater, with the same settings as for TRL below."""
    fields = {"optimizer": "adamw", "learning_rate": RATE, "max_grad_norm": 1.0, "importance_sampling": "none"}
    room = {"tokens_per_microbatch": MICRO * (PROMPT + LONGEST), "eps_high": 0.2}
    return Updater(model, gradient_arguments(fields | room))


def _different_rewards(completions: list[str], **_: Any) -> list[float | None]:
    return [float(len(one) % 5) + n % 3 for n, one in enumerate(completions)]


def trl(model: Any, watch: Watch, kind: str, steps: int) -> None:
    """Run TRL's trainer on scripted rollouts, without gradient checkpointing."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=MICRO,
            num_generations=G,
            gradient_accumulation_steps=PROMPTS * G // MICRO,
            max_steps=steps,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
            max_completion_length=LONGEST,
            optim="adamw_torch",
        )
        trainer = Timed(
            model=model,
            reward_funcs=_different_rewards,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [f"w{3 + n}" for n in range(PROMPTS)]}),
            processing_class=tiny_tokenizer(),
            rollout_func=lambda asked, trainer: scripted(kind, trainer.state.global_step),
            callbacks=[watch],
        )
        watch.trainer = trainer
        trainer.train()


def pair(kind: str, steps: int, threads: int) -> dict[str, Any]:
    """Return the seconds of each step of TRL and of ours, on the same rows."""
    torch.set_num_threads(threads)
    model = language_model()
    watch = Watch(updater(copy.deepcopy(model)))
    trl(model, watch, kind, steps)
    first = watch.norms[0]
    padded = PROMPTS * G * LONGEST * len(watch.tokens) / sum(watch.tokens)
    gap = abs(first[0] - first[1]) / first[1]
    return {"trl_s": watch.trl_s, "ours_s": watch.ours_s, "padding": padded, "tokens": watch.tokens[0], "gap": gap}


def alone(which: str, kind: str, steps: int) -> dict[str, Any]:
    """Return the increase in peak memory in MiB over some steps of TRL or of ours."""
    torch.set_num_threads(1)
    model = language_model()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if which == "trl":
        trl(model, Watch(None), kind, steps)
    else:
        learning = updater(model)
        for step in range(steps):
            learning.step(rows(kind, step))
    return {
        "extra_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "before_mib": before / 1024,
    }


def rows(kind: str, seed: int) -> list[TrainingRow]:
    """Return the scripted rollouts as rows, with arbitrary advantages."""
    made = scripted(kind, seed)
    return [
        TrainingRow(
            rollout=RolloutId(f"{n:03}"),
            ids_T=np.array([*prompt, *answer], dtype=np.int64),
            mask_T=np.array([False] * len(prompt) + [True] * len(answer)),
            logprobs_T=np.full(len(prompt) + len(answer), -6.0, dtype=np.float32),
            advantage=float(n % 5 - 2),
            reward=0.0,
        )
        for n, (prompt, answer) in enumerate(zip(made["prompt_ids"], made["completion_ids"], strict=True))
    ]


def head(tokens: int = 2048, hidden: int = 256, vocabulary: int = 151_936) -> dict[str, Any]:
    """Return the peak memory in MiB of the head's forward and backward pass in fp32, without its inputs."""
    torch.set_num_threads(1)
    states, weight = (
        torch.randn(tokens, hidden, requires_grad=True),
        torch.randn(vocabulary, hidden, requires_grad=True),
    )
    targets = torch.randint(0, vocabulary, (tokens,))
    small = torch.randn(9, hidden, requires_grad=True)  # a first call, so that code loaded at first use is not counted
    token_logprobs(small, small, None, targets[:9] * 0)[0].sum().backward()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began_s = time.perf_counter()
    logprobs, entropy = token_logprobs(states, weight, None, targets)
    logprobs.sum().backward()
    assert entropy.isfinite().all()
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"extra_mib": extra, "seconds": time.perf_counter() - began_s}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pair", kind, steps, threads]:
            found = pair(kind, int(steps), int(threads))
        case ["alone", which, kind, steps]:
            found = alone(which, kind, int(steps))
        case ["head"]:
            found = head()
        case other:
            raise SystemExit(f"unknown measurement {other}")
    print(json.dumps(found))
