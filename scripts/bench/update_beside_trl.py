"""Run one measurement of `bench_update` in a separate process, and print one JSON object.

python -m scripts.bench.update_beside_trl pair uniform 12 1
python -m scripts.bench.update_beside_trl pair shared 12 1      # each prompt of 200 tokens is that of its whole group
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
from dataclasses import dataclass
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

RATE = 1e-4


@dataclass(frozen=True, slots=True)
class Workload:
    """The rollouts of one step, and where and how they are computed."""

    prompts: int = 8
    group: int = 8
    """Rollouts of each prompt."""
    prompt: int = 32
    """Tokens of each prompt."""
    longest: int = 128
    """Most tokens of a completion."""
    vocabulary: int = 512
    micro: int = 16
    """Rows of a micro-batch."""
    device: str = "cpu"
    bf16: bool = False
    """Whether forward passes are computed in bf16, with weights in fp32."""

    @property
    def rollouts(self) -> int:
        """Rollouts of one step."""
        return self.prompts * self.group

    def now_s(self) -> float:
        """The time in seconds when everything that the device was given is done."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


ON_CPU = Workload()
SHARED = Workload(prompt=200, longest=32)
"""Long prompts and short completions, so that much is saved where the rows of a group share their prompt."""


def language_model() -> Qwen3ForCausalLM:
    """Return a model with 1.1 million weights."""
    torch.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": ON_CPU.vocabulary, "hidden_size": 128, "intermediate_size": 384}
    heads = {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    return Qwen3ForCausalLM(tiny_config(**shape, **heads, max_position_embeddings=256, initializer_range=0.02))


def lengths(kind: str, seed: int, work: Workload) -> list[int]:
    """Return the completion tokens of the rollouts: all longest, or varied so that padding is threefold."""
    if kind in ("uniform", "shared"):
        return [work.longest] * work.rollouts
    drawn = np.random.default_rng(seed).lognormal(np.log(work.longest) - 1.352, 0.75, work.rollouts)
    return [*drawn.clip(4, work.longest).astype(int).tolist()[:-1], work.longest]


def scripted(kind: str, seed: int, work: Workload = ON_CPU) -> dict[str, list[list[Any]]]:
    """Return rollouts of random tokens."""
    chance = np.random.default_rng(seed)
    answers = [chance.integers(3, work.vocabulary, length).tolist() for length in lengths(kind, seed, work)]
    prompts = [chance.integers(3, work.vocabulary, work.prompt).tolist() for _ in answers]
    if kind == "shared":
        prompts = [prompts[place - place % work.group] for place in range(len(answers))]
    return {
        "prompt_ids": prompts,
        "completion_ids": answers,
        "logprobs": [[-6.0] * len(one) for one in answers],
        "env_mask": [[1] * len(one) for one in answers],
    }


class Timed(GRPOTrainer):
    """A trainer that measures the time to generate and score its rollouts, and keeps their rows."""

    scoring_s = 0.0
    rows: list[TrainingRow]
    work: Workload

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        began_s = self.work.now_s()
        made = super()._generate_and_score_completions(inputs)
        self.rows = training_rows(made, 0)
        self.scoring_s += self.work.now_s() - began_s
        return made


class Watch(TrainerCallback):
    """Measures each step of TRL, then runs and measures our step on the same rows."""

    def __init__(self, ours: Updater | None, work: Workload = ON_CPU) -> None:
        self.ours = ours
        self.work = work
        self.trainer: Any = None
        self.trl_s: list[float] = []
        self.ours_s: list[float] = []
        self.norms: list[tuple[float, float]] = []
        """Norm of the gradient of each step: ours, and TRL's."""
        self.tokens: list[int] = []
        self.extra_mib: list[tuple[float, float]] = []
        """Memory of a GPU that each step of TRL and of ours allocated beyond what it found."""
        self._began_s = 0.0
        self._found_mib = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.trainer.scoring_s = 0.0
        self._began_s = self._begin()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.trl_s.append(self.work.now_s() - self._began_s - self.trainer.scoring_s)
        theirs_mib = self._extra_mib()
        if self.ours is not None:
            began_s = self._begin()
            made = self.ours.step(self.trainer.rows)
            self.ours_s.append(self.work.now_s() - began_s)
            self.extra_mib.append((theirs_mib, self._extra_mib()))
            self.norms.append((made.figures["grad_norm"], 0.0))
        self.tokens.append(sum(row.trained for row in self.trainer.rows))

    def on_log(self, *_: Any, logs: dict[str, float] | None = None, **__: Any) -> None:
        if logs and "grad_norm" in logs and self.norms:
            self.norms[-1] = (self.norms[-1][0], float(logs["grad_norm"]))

    def _begin(self) -> float:
        if self.work.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self._found_mib = torch.cuda.memory_allocated() / 2**20
        return self.work.now_s()

    def _extra_mib(self) -> float:
        return torch.cuda.max_memory_allocated() / 2**20 - self._found_mib if self.work.device == "cuda" else 0.0


def updater(model: Any, work: Workload = ON_CPU) -> Updater:
    """Return our updater, with the same settings as for TRL below, and with `share_prompts` for long prompts."""
    fields = {
        "share_prompts": work == SHARED,
        "optimizer": "adamw",
        "learning_rate": RATE,
        "max_grad_norm": 1.0,
        "importance_sampling": "none",
    }
    room = {"tokens_per_microbatch": work.micro * (work.prompt + work.longest), "loss_settings": {"eps_high": 0.2}}
    return Updater(model, gradient_arguments(fields | room | {"dtype": "bf16" if work.bf16 else "fp32"}))


def _different_rewards(completions: list[str], **_: Any) -> list[float | None]:
    return [float(len(one) % 5) + n % 3 for n, one in enumerate(completions)]


def trl(model: Any, watch: Watch, kind: str, steps: int, work: Workload = ON_CPU) -> None:
    """Run TRL's trainer on scripted rollouts, without gradient checkpointing."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=work.micro,
            num_generations=work.group,
            gradient_accumulation_steps=work.rollouts // work.micro,
            max_steps=steps,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=work.device == "cpu",
            bf16=work.bf16,
            gradient_checkpointing=False,
            disable_tqdm=True,
            max_completion_length=work.longest,
            optim="adamw_torch" if work.device == "cpu" else "adamw_torch_fused",
        )
        trainer = Timed(
            model=model,
            reward_funcs=_different_rewards,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [f"w{3 + n}" for n in range(work.prompts)]}),
            processing_class=tiny_tokenizer(),
            rollout_func=lambda asked, trainer: scripted(kind, trainer.state.global_step, work),
            callbacks=[watch],
        )
        trainer.work, watch.trainer = work, trainer
        trainer.train()


def pair(kind: str, steps: int, threads: int) -> dict[str, Any]:
    """Return the seconds of each step of TRL and of ours, on the same rows."""
    torch.set_num_threads(threads)
    return beside(language_model(), kind, steps, SHARED if kind == "shared" else ON_CPU)


def beside(model: Any, kind: str, steps: int, work: Workload) -> dict[str, Any]:
    """Return the seconds of each step of TRL, which trains the model, and of ours, which trains a copy."""
    watch = Watch(updater(copy.deepcopy(model).to(work.device), work), work)
    trl(model, watch, kind, steps, work)
    first = watch.norms[0]
    padded = work.rollouts * work.longest * len(watch.tokens) / sum(watch.tokens)
    return {
        "trl_s": watch.trl_s,
        "ours_s": watch.ours_s,
        "padding": padded,
        "tokens": watch.tokens[0],
        "gap": abs(first[0] - first[1]) / first[1],
        "norms": watch.norms,
        "extra_mib": watch.extra_mib,
    }


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
