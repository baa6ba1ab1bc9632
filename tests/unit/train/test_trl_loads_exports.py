"""TRL's own trainers take what is exported: prompts for GRPO, completions for SFT, preferences for DPO."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

from datasets import Dataset, load_dataset
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from agentlearn.formats import LineFormat, export_lines
from agentlearn.store import Selection, open_store, read_store
from agentlearn.types.trajectory import Verdict
from tests.support.tiny_model import tiny_network, tiny_tokenizer
from tests.unit.store import nouns

# The warnings are those of other packages in their own trainers.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def said(answer: str) -> bytes:
    call = ToolCallPart("python", {"code": "2+2"}, "call_1")
    return ModelMessagesTypeAdapter.dump_json(
        [
            ModelRequest([UserPromptPart("What is 2 + 2?")], instructions="Solve it."),
            ModelResponse([call]),
            ModelRequest([ToolReturnPart("python", "4", "call_1")], instructions="Solve it."),
            ModelResponse([TextPart(answer)]),
        ]
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four rollouts of one task, two right and two wrong."""
    directory = tmp_path_factory.mktemp("exported") / "store"

    async def fill() -> None:
        async with open_store(directory) as opened:
            await opened.save_run(nouns.run_event(state="done"))
            await opened.save_tasks([nouns.TASK])
            for g in range(4):
                right = g % 2 == 0
                verdict = Verdict(status="correct" if right else "incorrect", reward=float(right))
                await opened.save_trajectory(nouns.trajectory(g, verdict=verdict), said("4" if right else "5"))

    asyncio.run(fill())
    return directory


def exported(store: Path, out: Path, form: LineFormat, **selection: Any) -> Dataset:
    with read_store(store) as reader:
        export_lines(reader, Selection(**selection), out, form)
    loaded = load_dataset("json", data_files=str(out), split="train", cache_dir=str(out.parent / "cache"))
    assert isinstance(loaded, Dataset)
    return loaded


def configured(kind: Any, out: Path, **more: Any) -> Any:
    return kind(
        output_dir=str(out),
        max_steps=1,
        report_to="none",
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        disable_tqdm=True,
        **more,
    )


def test_sft(store: Path, tmp_path: Path) -> None:
    dataset = exported(store, tmp_path / "sft.jsonl", "trl-sft", min_reward=1.0)
    config = configured(SFTConfig, tmp_path, per_device_train_batch_size=2)
    trainer = SFTTrainer(tiny_network(), args=config, train_dataset=dataset, processing_class=tiny_tokenizer())
    assert len(dataset) == 2
    assert trainer.train().training_loss > 0


def test_dpo(store: Path, tmp_path: Path) -> None:
    dataset = exported(store, tmp_path / "dpo.jsonl", "trl-dpo")
    config = configured(DPOConfig, tmp_path, per_device_train_batch_size=2)
    trainer = DPOTrainer(
        tiny_network(), tiny_network(), args=config, train_dataset=dataset, processing_class=tiny_tokenizer()
    )
    assert len(dataset) == 2
    assert trainer.train().training_loss > 0


def test_grpo(store: Path, tmp_path: Path) -> None:
    dataset = exported(store, tmp_path / "grpo.jsonl", "trl-grpo")
    seen: list[str] = []

    def reward(completions: list[Any], answer: list[str], **more: Any) -> list[float]:
        seen.extend(answer)
        return [float(len(str(one))) for one in completions]

    config = configured(GRPOConfig, tmp_path, per_device_train_batch_size=2, num_generations=2, max_completion_length=4)
    trainer = GRPOTrainer(
        tiny_network(), reward_funcs=reward, args=config, train_dataset=dataset, processing_class=tiny_tokenizer()
    )
    trainer.train()
    assert set(seen) == {nouns.TASK.answer}
