"""Stored rollouts of a model in a folder are reused only while its files are the same."""

import json
import shutil
from pathlib import Path

import pytest

from agentlearn.config.model_folders import contents_sha256
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.plan import plan_comparison


def model(folder: Path, weights: bytes = b"one", **settings: str) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text("{}")
    if settings:
        (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("prefix", ["local", "vllm"])
def test_the_hash_follows_the_contents_and_not_the_place(tmp_path: Path, prefix: str) -> None:
    first = model(tmp_path / "first")
    before = contents_sha256(f"{prefix}:{first}")
    assert before
    copy = shutil.copytree(first, tmp_path / "copy")
    assert contents_sha256(f"{prefix}:{copy}") == before
    (first / "README.md").write_text("about it")
    assert contents_sha256(f"{prefix}:{first}") == before
    (first / "model.safetensors").write_bytes(b"two")
    assert contents_sha256(f"{prefix}:{first}") != before


def test_an_adapter_is_another_model_on_another_base(tmp_path: Path) -> None:
    base = model(tmp_path / "base")
    adapter = model(tmp_path / "adapter", base_model_name_or_path=str(base))
    before = contents_sha256(f"local:{adapter}")
    (base / "model.safetensors").write_bytes(b"other")
    assert contents_sha256(f"local:{adapter}") != before
    (adapter / "adapter_config.json").write_text("[")
    assert contents_sha256(f"local:{adapter}")


@pytest.mark.parametrize(
    "name", ["sim:novice", "local:no/such/folder", "local:~no-such-user/x", "openai:gpt-5-mini", "http://x/v1#m", ""]
)
def test_what_is_no_folder_here_has_no_hash(name: str) -> None:
    assert contents_sha256(name) == ""


def test_rollouts_of_weights_that_were_trained_again_are_not_reused(tmp_path: Path) -> None:
    folder = model(tmp_path / "weights")
    settings = CompareSettings(
        domains=("math",),
        arms=("none", f"other=none,model=local:{folder}"),
        models=("sim:novice",),
        store=tmp_path / "store",
    )

    def phases() -> list[str]:
        plan = plan_comparison(settings)
        return [plan.conditions(arm, plan.task_sets[0]).phase for arm in plan.arms]

    before = phases()
    assert phases() == before
    (folder / "model.safetensors").write_bytes(b"trained again")
    after = phases()
    assert after[0] == before[0]
    assert after[1] != before[1]
