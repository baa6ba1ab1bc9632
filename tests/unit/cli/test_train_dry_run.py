"""`train --dry-run`: the same tasks as `learn`, what would run, every refusal, and nothing heavy is loaded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from agentlearn.cli.app import run
from agentlearn.train.memory import stored_size
from agentlearn.train.settings import train_settings
from agentlearn.train.training_plan import plan_training
from tests.support.cases import cases

PAIRS = [(f"What is {n} + 1?", str(n + 1)) for n in range(10)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTLEARN_STORE", str(tmp_path / "store"))
    for name, sep in (("rows.csv", ","), ("rows.tsv", "\t")):
        lines = [sep.join(pair) for pair in [("problem", "answer"), *PAIRS]]
        (tmp_path / name).write_text("\n".join(lines))
    rows = [json.dumps({"problem": problem, "answer": answer}) for problem, answer in PAIRS]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    (tmp_path / "recipe.yaml").write_text("data: rows.csv\nreward: exact\nmodel: lab:novice\n")
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, Any]:
    assert run([*words, "--dry-run", "--json"]) == status
    return json.loads(capsys.readouterr().out)


OWN = "tests.unit.cli.test_train_dry_run:right"


@pytest.mark.parametrize(
    "words",
    [
        ("rows.csv", "--reward", "exact"),
        ("rows.tsv", "--reward", "number", "--tools", "python"),
        ("rows.jsonl", "--reward", OWN, "--tools", "none", "--test-share", "0.5"),
        ("rows.jsonl", "--reward", "number", "--test-data", "rows.csv", "--limit", "4"),
        ("hf:openai/gsm8k", "--reward", "number"),
        ("gym:basic_arithmetic", "--tools", "none"),
        ("recipe.yaml",),
        ("nowhere.csv", "--reward", "exact"),
        ("rows.csv",),
        ("rows.jsonl", "--reward", "choice"),
    ],
)
def test_train_takes_what_learn_takes_and_holds_out_the_same_tasks(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """What learn refuses, train refuses with the same words."""
    found: list[Any] = []
    for command in ("learn", "train"):
        model = () if words == ("recipe.yaml",) else ("--model", "lab:novice")
        status = run([command, *words, *model, "--epochs", "2", "--dry-run", "--json"])
        said = capsys.readouterr()
        if status:
            found.append((status, said.err.replace(f"agentlearn {command} ", "agentlearn X ")))
        else:
            plan = json.loads(said.out)
            counts = plan["tasks"] if command == "train" else plan
            found.append((plan["domain"], plan["data"], counts["train"], counts["test"], plan["epochs"]))
    assert found[0] == found[1]


def test_the_plan_has_every_number_of_the_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "rows.csv", "--reward", "exact", "--model", "lab:novice", "--batch-size", "3")
    found = planned(capsys, *words, "--group-size", "4", "--set", "minibatches=2", "--eval-every", "2")
    assert (found["tasks"]["train"], found["tasks"]["test"], found["updates"]) == (7, 3, 9)
    assert (found["optimiser_steps"], found["measurements"]) == (18, 2 + 4)
    assert found["rollouts"] == 7 * 3 * 4 + 3 * 4 * 6
    assert [one["stage"] for one in found["stages"]] == ["rollout", "held out"]
    assert found["stages"][0]["tokens_out"] > 0
    assert found["seconds"] is None  # nothing was measured, so no time is made up
    assert (found["settings"]["group_size"], found["settings"]["gradient"]["minibatches"]) == (4, 2)
    assert found["refusals"] == []
    assert run([*words, "--lora-rank", "4", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "local:lab:novice, training an adapter of rank 4" in text
    assert "learning_rate=" in text
    assert not (folder / "store").exists()


def test_every_refusal_is_listed_and_the_status_is_two(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    words = ("train", "rows.csv", "--reward", "exact", "--model", "empty", "--library", "nowhere", "--dry-run")
    assert run([*words]) == 2
    said = capsys.readouterr()
    assert said.out.count("refused  ") == 2
    assert "library 'nowhere' is not in the library store" in said.out
    assert "the directory 'empty' holds no model" in said.out
    assert "would stop before it samples anything, for 2 reasons" in said.err
    assert len(planned(capsys, *words[:-1], status=2)["refusals"]) == 2


def test_the_size_of_stored_weights_is_read_from_their_headers(tmp_path: Path) -> None:
    tensors = {"a": {"shape": [3, 4], "dtype": "F32"}, "b": {"shape": [5], "dtype": "F32"}, "__metadata__": {"x": "y"}}
    header = json.dumps(tensors).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(68))
    (tmp_path / "config.json").write_text("{}")
    assert stored_size(tmp_path) == (8 + len(header) + 68, 17)
    plan = plan_training(train_settings({"domain": "math", "model": str(tmp_path), "store": tmp_path / "store"}))
    assert plan.parameters == 17
    assert "0.0 MB for weights, gradients and optimiser" in plan.memory
    for broken in (b"", b"\xff" * 20, (5).to_bytes(8, "little") + b"[1,2]"):
        (tmp_path / "model.safetensors").write_bytes(broken)
        assert stored_size(tmp_path)[1] is None


@pytest.mark.slow
def test_no_torch_is_imported(folder: Path) -> None:
    words = ["train", "rows.csv", "--reward", "exact", "--model", "lab:novice", "--dry-run"]
    end = "sys.exit(status or 7 * ('torch' in sys.modules))"
    code = f"import sys; from agentlearn.cli.app import run; status = run({words!r}); {end}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def checkpoint(folder: Path, **config: Any) -> Path:
    """Write a folder that has the files of a checkpoint."""
    folder.mkdir()
    save_file({"a": np.zeros(2, np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("config", "words", "said"),
    cases(__file__, "what_the_files_and_the_settings_say_against_a_run_is_listed"),
)
def test_what_the_files_and_the_settings_say_against_a_run_is_listed(
    folder: Path, capsys: pytest.CaptureFixture[str], config: dict[str, Any], words: tuple[str, ...], said: str
) -> None:
    model = checkpoint(folder / "model", **config)
    reward = () if "--reward" in words else ("--reward", "exact")
    found = planned(capsys, "train", "rows.csv", "--model", str(model), *reward, *words, status=2)["refusals"]
    assert len(found) == 1
    assert said in found[0]


def test_a_folder_without_tokenizer_is_refused_and_a_usual_one_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = checkpoint(folder / "model")
    words = ("train", "rows.csv", "--reward", "exact", "--model", str(model))
    assert planned(capsys, *words)["refusals"] == []
    assert run([*words, "--dry-run"]) == 0
    assert "the run loads the model and checks its memory" in " ".join(capsys.readouterr().out.split())
    (model / "tokenizer.json").unlink()
    assert "has no tokenizer that can be loaded" in planned(capsys, *words, status=2)["refusals"][0]


def test_a_further_reward_that_names_nothing_is_a_refusal(folder: Path) -> None:
    fields = {"data": "rows.csv", "reward": "exact", "domain": "rows", "model": "lab:novice"}
    found = plan_training(train_settings({**fields, "gradient": {"rewards": {"no such module:f": 1.0}}})).refusals
    assert len(found) == 1
    assert "the reward 'no such module:f' does not name an object" in found[0]


def test_a_warm_up_without_an_end_is_a_refusal_and_answers_beyond_the_context_are_noted(folder: Path) -> None:
    checkpoint = folder / "small"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": 512}))
    fields = {"data": "rows.csv", "reward": "exact", "model": "small", "domain": "rows", "store": folder / "store"}
    plan = plan_training(train_settings({**fields, "gradient": {"warmup_steps": 500}}))
    assert any("warmup_steps is 500, but the run makes at most" in one for one in plan.refusals)
    (note,) = plan.notes
    assert note.startswith("max_output_tokens is 1,024, but the context of 'small' is 512 tokens")
    plan = plan_training(train_settings({**fields, "max_output_tokens": 500, "gradient": {"warmup_steps": 2}}))
    assert plan.notes == ()
    assert not any("warmup_steps" in one for one in plan.refusals)


def test_the_model_in_training_does_not_judge_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "rows.csv", "--reward", "judge", "--model", "lab:novice"]) == 2
    assert "would learn to please itself" in " ".join(capsys.readouterr().err.split())
    assert not (folder / "store").exists()
