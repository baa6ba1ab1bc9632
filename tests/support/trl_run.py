"""Runs a real `GRPOTrainer` on scripted rollouts of several turns, and returns them as our rows. Needs trl."""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback

from agentlearn.train.update.sequences import TrainingRow
from agentlearn.types.ids import RolloutId
from tests.support.tiny_lm import VOCABULARY, tiny_tokenizer
from tests.support.trl_oracle import GRPOTrainer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from trl import GRPOConfig

PROMPTS, G = 3, 4


@dataclass
class Run:
    """Results of a run of TRL's trainer."""

    batches: list[list[TrainingRow]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    clipped: list[float] = field(default_factory=list)
    gradients: list[dict[str, torch.Tensor]] = field(default_factory=list)
    """Gradients of each optimiser step."""


def scripted(prompts: list[str], trainer: Any, *, seed: int) -> dict[str, list[list[Any]]]:
    """Return random answers of different lengths: two turns with a tool result between them."""
    chance = np.random.default_rng(seed)
    found: dict[str, list[list[Any]]] = {"prompt_ids": [], "completion_ids": [], "logprobs": [], "env_mask": []}
    for prompt in prompts:
        turns = [int(chance.integers(2, 6)), int(chance.integers(1, 4)), int(chance.integers(2, 8))]
        ids = [*chance.integers(3, VOCABULARY, sum(turns)).tolist(), 2]
        found["prompt_ids"].append(trainer.processing_class.encode(prompt))
        found["completion_ids"].append(ids)
        found["logprobs"].append([-1.0] * len(ids))
        found["env_mask"].append([1] * turns[0] + [0] * turns[1] + [1] * (turns[2] + 1))
    return found


def reward(completions: list[str], **_: Any) -> list[float]:
    """Return rewards that differ within a group."""
    return [float(sum(map(ord, one)) % 7) for one in completions]


class _Watching(GRPOTrainer):
    """A trainer that keeps the rows of its rollouts, with its advantages."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        made = super()._generate_and_score_completions(inputs)
        self.seen.batches.append(training_rows(made, len(self.seen.batches)))
        return made


class _Keeping(TrainerCallback):
    def __init__(self, seen: Run) -> None:
        self.seen = seen

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.seen.gradients.append(
            {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
        )

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in logs:
            self.seen.losses.append(logs["loss"])
            region = logs.get("clip_ratio/region_mean", logs.get("cispo_clip_ratio"))
            self.seen.clipped.append(float(region or 0))  # sapo and vespo do not clip


def training_rows(made: Any, batch: int) -> list[TrainingRow]:
    """Convert TRL's padded tensors to rows."""
    rows: list[TrainingRow] = []
    for b, advantage in enumerate(made["advantages"].tolist()):
        prompt = made["prompt_ids"][b][made["prompt_mask"][b].bool()].cpu().numpy()
        kept = made["completion_mask"][b].bool()
        completion = made["completion_ids"][b][kept].cpu().numpy()
        drawn = made["tool_mask"][b][kept].cpu().numpy().astype(bool)
        ids_T = np.concatenate([prompt, completion])
        rows.append(
            TrainingRow(
                rollout=RolloutId(f"{batch}-{b:02}"),
                ids_T=ids_T.astype(np.int64),
                mask_T=np.concatenate([np.zeros(len(prompt), dtype=bool), drawn]),
                logprobs_T=np.full(len(ids_T), -1.0, dtype=np.float32),
                advantage=advantage,
                reward=0.0,
            )
        )
    return rows


def train(model: Any, folder: Path, *, steps: int, **settings: Any) -> Run:
    """Run `steps` optimiser steps of TRL on the model, which is changed in place."""
    seen = Run()
    prompts = ["w5 w6 w7", "w8", "w9 w10 w11 w12 w13"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=PROMPTS * G,
            num_generations=G,
            gradient_accumulation_steps=1,
            steps_per_generation=1,
            max_steps=steps,
            optim="sgd",
            lr_scheduler_type="constant",
            warmup_steps=0,
            max_grad_norm=1e9,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
            temperature=1.0,
            **settings,
        )
        trainer = _Watching(
            model=model,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tiny_tokenizer(),
            rollout_func=lambda asked, trainer: scripted(asked, trainer, seed=len(seen.batches)),
            callbacks=[_Keeping(seen)],
        )
        trainer.seen = seen
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return seen
