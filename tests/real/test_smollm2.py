"""A real model, where it was fetched before: its chat template, sums, `learn`, `solve` and one update.

It needs `agentlearn models fetch smollm2-135m`, in the usual cache folder; `AGENTLEARN_MODELS` is not read in tests.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from agentlearn import learn, solve
from agentlearn.config.model_folders import KNOWN_MODELS, FetchedState, model_path
from agentlearn.train.run_training import run_training
from agentlearn.train.serving.local import load_for_serving
from agentlearn.train.settings import train_settings
from tests.support.last_number import last_number

NAME = "smollm2-135m"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        KNOWN_MODELS[NAME].state() is not FetchedState.FETCHED,
        reason=f"the model is not there; fetch it with: agentlearn models fetch {NAME}",
    ),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]
SUMS = [(a, b) for a in range(1, 10, 2) for b in range(1, 10, 2)]


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    file = tmp_path / "sums.jsonl"
    rows = [{"problem": f"What is {a} + {b}?", "answer": str(a + b)} for a, b in SUMS[:8]]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_its_chats_and_digits_become_the_tokens_that_it_was_trained_on() -> None:
    tokenizer: Any = load_for_serving(NAME).tokenizer
    shown = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert shown == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode(shown))[-8:] == [
        "Ċ", "Hi", "<|im_end|>", "Ċ", "<|im_start|>", "ass", "istant", "Ċ",
    ]  # fmt: skip
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("  12")) == ["ĠĠ", "1", "2"]


def test_it_solves_and_learns(sums: Path, tmp_path: Path) -> None:
    agent = Agent(instructions="Answer with a number.")

    async def used() -> tuple[Any, Any]:
        model, store = f"local:{NAME}", tmp_path / "store"
        solved = await solve(agent, "What is 3 + 4?", model=model, store=store, max_output_tokens=32)
        options: dict[str, Any] = {"epochs": 1, "group_size": 3, "max_output_tokens": 32, "evaluate": False}
        report = await learn(
            agent, str(sums), reward=last_number, model=model, store=store, reflector="sim:reflector", **options
        )
        return solved, report

    solved, report = asyncio.run(used())
    assert solved.output
    assert report.notes is not None


def test_one_update_changes_its_weights(sums: Path, tmp_path: Path) -> None:
    fields = {
        "domain": "sums",
        "data": str(sums),
        "reward": "tests.support.last_number:last_number",
        "model": NAME,
        "test_share": 0.0,
        "limit": 4,
        "epochs": 1,
        "batch_size": 4,
        "group_size": 6,
        "max_output_tokens": 24,
        "evaluate": False,
        "report_to": "none",
        "store": tmp_path / "store",
        "gradient": {"learning_rate": 3e-4, "lora_rank": 8, "tokens_per_microbatch": 1024},
    }
    report = asyncio.run(run_training(train_settings(fields)))
    assert report.weights.sha256_before != report.weights.sha256_after
    assert model_path(NAME).is_dir()
