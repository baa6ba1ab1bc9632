"""A model whose checkpoint is in bf16 is sampled with the weights that the trainer computes with."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentlearn.store import read_store
from tests.support import tiny_model
from tests.support.letters_training import WORDS, letters_fields, one_word_tasks, trained


@pytest.mark.slow
@pytest.mark.parametrize("lora_rank", [0, 4])
def test_the_sampler_rounds_changed_weights_as_the_trainer_does(lora_rank: int, tmp_path: Path) -> None:
    """The checkpoint is in bf16, and an update changes each weight by less than half the distance to the next number of
    bf16. A sampler that computes with the fp32 weights sees the change, and the trainer does not: 0.24 nats apart."""
    folder = tiny_model.saved(tmp_path / "model", tiny_model.tiny_network(hidden=256).bfloat16())
    tasks, store = one_word_tasks(tmp_path / "tasks.jsonl", *WORDS[:2]), tmp_path / "store"
    gradient = {"loss": "grpo", "dtype": "bf16", "learning_rate": 3e-4, "lora_rank": lora_rank}
    report = trained(letters_fields(folder, tasks, store, epochs=2, gradient=gradient | {"largest_difference": 9.0}))
    with read_store(store) as reader:
        found = [one["sampling/unexplained_difference"] for one in reader.metrics(report.run).values()]
    assert len(found) == 2
    assert max(found) < 0.008
