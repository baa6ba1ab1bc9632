"""Train with TRL's GRPOTrainer on the tasks, prompts, rewards and settings of a real run, and print one JSON object.

python -m scripts.bench.real.trl_training words 0 24 5e-4 FOLDER
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback

from agentlearn.answers.reply import final_answer_in
from agentlearn.config.model_folders import model_path
from agentlearn.data import scorer as gym_scorer
from agentlearn.domain.custom import custom_tasks, load_object
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory
from scripts.bench.real.measuring import GROUP, MODEL, RANK, task_named
from scripts.bench.real.rewards import same_record
from scripts.bench.real.tasks import RealTask

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

Score = Callable[[Task, str], float]


def scorer(task: RealTask) -> Score:
    """Return the reward that the run trains with, as a function of the answer's text."""
    if task.gym:
        return lambda one, text: gym_scorer(one.source)(final_answer_in(text))
    reward: Any = load_object(task.train_reward or task.reward, what="reward")

    def score(one: Task, text: str) -> float:
        answer = final_answer_in(text)
        if reward is same_record:
            return same_record(one, answer)
        return float(reward(one, answer, Trajectory.model_construct(steps=(ModelTurn(text=text),))))

    return score


def main(name: str, seed: int, updates: int, learning_rate: float, folder: Path) -> dict[str, Any]:
    """Train, save the adapter in the folder, and return the curve and the times."""
    task = task_named(name)
    learned, _ = task.sources(folder)
    domain = custom_tasks(
        name, task.train_reward or task.reward, instructions=task.instructions, only_instructions=True
    )
    tasks = {one.id: one for one in domain.read(Path(learned))}
    rows = [
        {
            "prompt": [
                {"role": "system", "content": task.instructions},
                {"role": "user", "content": domain.question(one)},
            ],
            "task": one.id,
        }
        for one in tasks.values()
    ]
    score, curve = scorer(task), list[float]()

    def reward(completions: list[list[Mapping[str, str]]], **columns: Any) -> list[float | None]:
        scores = [
            score(tasks[one], said[-1]["content"]) for one, said in zip(columns["task"], completions, strict=True)
        ]
        curve.append(sum(scores) / len(scores))
        return list(scores)

    model = str(model_path(MODEL))
    settings = GRPOConfig(
        output_dir=str(folder / "trl"), use_cpu=True, bf16=False, seed=seed, max_steps=updates,
        per_device_train_batch_size=GROUP, gradient_accumulation_steps=task.tasks_per_update, num_generations=GROUP,
        max_completion_length=task.answer_tokens, temperature=task.temperature, learning_rate=learning_rate,
        lr_scheduler_type="constant", warmup_steps=0, loss_type="dapo", beta=0.0, report_to=[], save_strategy="no",
        gradient_checkpointing=False, disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=reward,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        peft_config=LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.remove_callback(PrinterCallback)
    began_s = time.perf_counter()
    trainer.train()
    trained_s = time.perf_counter() - began_s
    weights = folder / "weights"
    trainer.save_model(str(weights))
    return {"curve": curve, "weights": str(weights), "training_s": trained_s}


if __name__ == "__main__":
    name, seed, updates, rate, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    print(json.dumps(main(name, int(seed), int(updates), float(rate), Path(folder))))
