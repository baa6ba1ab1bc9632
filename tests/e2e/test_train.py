"""Training weights as a whole: rollouts of a typed agent, rows, updates, checkpoints, resume, report, page."""

import asyncio
import io
import re
from pathlib import Path

import pytest
import torch
from rich.console import Console

from agentlearn.cli.app import run
from agentlearn.cli.train_progress import TrainProgress
from agentlearn.store import read_store
from agentlearn.train.report import TrainReport
from agentlearn.train.run_training import run_training
from agentlearn.train.settings import TrainSettings, resumed_train_settings, train_settings
from agentlearn.types.trajectory import ModelTurn
from tests.support.letters_training import WORDS, Stopping, letters_fields, one_word_tasks, stopped, trained
from tests.support.tiny_model import saved, tiny_network

Whole = tuple[TrainReport, TrainSettings]
MEASURED = {"epochs": 4, "max_output_tokens": 12, "evaluate": True, "test_share": 0.5, "eval_rollouts": 4}
LONG = MEASURED | {"eval_every": 4, "save_every": 3, "report_to": "tensorboard"}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=1024))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *WORDS)


@pytest.fixture(scope="module")
def whole(weights: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    fields = letters_fields(weights, tasks, tmp_path_factory.mktemp("whole") / "store", **LONG)
    return trained(fields), train_settings(fields)


@pytest.mark.slow
def test_the_reward_rises_and_the_curve_shows_it(whole: Whole) -> None:
    report, _ = whole
    assert report.delta is not None
    assert report.delta.mean is not None
    assert report.delta.mean > 0.15
    assert [point.updates for point in report.curve] == [0, 4, 8]
    assert [line.update for line in report.updates] == list(range(1, 9))
    assert report.weights.sha256_before != report.weights.sha256_after
    assert sum(report.groups.values()) == 16
    assert report.groups["mixed"] > 8  # rounding on another CPU can change sampled tokens
    assert report.rollouts == {"ok": 8 * 2 * 4 + 3 * 4 * 4, "failed": 0, "undecided": 0}
    assert report.skipped == report.stale == 0


@pytest.mark.slow
def test_every_number_of_every_update_is_in_the_store(whole: Whole) -> None:
    report, settings = whole
    with read_store(settings.store) as reader:
        kept = reader.metrics(report.run)
        rows = reader.trajectories(report.run)
        one = reader.trajectory(next(row.id for row in rows if row.phase == "epoch-1"))
        messages = reader.messages(one.id)
    assert sorted(kept) == list(range(1, 9))
    assert {"loss", "entropy", "grad_norm", "mismatch/kl", "seconds/updating", "tokens"} <= set(kept[1])
    # Sampler and trainer agree on every probability.
    assert all(values["sampling/sampling_logp_difference/max"] < 1e-3 for values in kept.values())
    turn = one.steps[0]
    assert isinstance(turn, ModelTurn)
    assert turn.tokens is not None
    assert len(turn.tokens.ids) == len(turn.tokens.logprobs) > 0
    assert b"token_ids" not in messages  # the steps hold them already
    assert one.treatment.weights_step == 0
    assert tensorboard_steps(settings.store, report) == list(range(1, 9))


@pytest.mark.slow
def test_the_result_is_a_model_that_can_be_used_and_trained_on(whole: Whole) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from agentlearn.train.weights.model import weights_hash

    report, _ = whole
    assert weights_hash(AutoModelForCausalLM.from_pretrained(report.weights.path)) == report.weights.sha256_after
    assert AutoTokenizer.from_pretrained(report.weights.path).chat_template


def tensorboard_steps(store: Path, report: TrainReport) -> list[int]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(store / "tensorboard" / report.run))
    events.Reload()
    return [one.step for one in events.Scalars("loss")]


@pytest.mark.slow
def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(
    whole: Whole, weights: Path, tasks: Path, tmp_path: Path
) -> None:
    """After 4 updates a measurement is due, and the run is stopped in its midst, where it leaves a checkpoint."""
    undisturbed, _ = whole
    store = tmp_path / "store"
    begun = stopped(letters_fields(weights, tasks, store, **LONG), Stopping(4))
    torch.manual_seed(99)  # whatever chance was used in between
    resumed, again = resumed_train_settings(begun[:12], store, {})
    out = io.StringIO()
    report = asyncio.run(run_training(again, TrainProgress(again, Console(file=out, width=200)), resume=resumed))
    assert report.run == begun
    assert re.findall(r"update (\d+)/8", out.getvalue()) == ["5", "6", "7", "8"]
    assert "resumed       after 4 update" in out.getvalue()
    assert tensorboard_steps(store, report) == list(range(1, 9))
    assert report.weights == undisturbed.weights.model_copy(update={"path": report.weights.path})
    assert report.curve == undisturbed.curve
    assert [line.loss for line in report.updates] == [line.loss for line in undisturbed.updates]
    assert report.rollouts == undisturbed.rollouts
    assert report.groups == undisturbed.groups


def test_an_adapter_is_trained_and_kept_alone(weights: Path, tasks: Path, tmp_path: Path) -> None:
    gradient = {"lora_rank": 4, "kl": "k3", "kl_beta": 0.01, "reference": "adapter_off"}
    report = trained(letters_fields(weights, tasks, tmp_path / "store", gradient=gradient, limit=2))
    folder = Path(report.weights.path)
    assert report.weights.adapter
    assert (folder / "adapter_model.safetensors").is_file()
    assert not (folder / "model.safetensors").exists()
    assert (report.before, report.after, report.delta, report.curve) == (None, None, None, ())


def test_the_command_prints_a_line_per_update_and_leaves_a_page(
    weights: Path, tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, store = tmp_path / "train.yaml", ("--store", str(tmp_path / "store"))
    recipe.write_text(
        f"domain: letters\nreward: tests.support.letters:share_of_early_letters\ndata: {tasks}\nmodel: {weights}\n"
        "test_share: 0.5\nepochs: 1\nbatch_size: 2\ngroup_size: 2\nmax_output_tokens: 8\neval_rollouts: 1\n"
        "report_to: none\ngradient:\n  learning_rate: 0.01\n"
    )
    options = ["--set", "kl=k3", "--set", "kl_beta=0.01", "--set", "reference=copy"]
    assert run(["train", str(recipe), *options, *store, "--json"]) == 0
    said = capsys.readouterr()
    report = TrainReport.model_validate_json(said.out)
    assert re.findall(r"update (\d/\d)", said.err) == ["1/2", "2/2"]
    assert "KL k3" in said.err
    (page,) = (tmp_path / "store" / "reports").iterdir()
    assert page.stem == report.run
    assert "Mean reward by update" in page.read_text()
    assert run(["runs", "show", report.run, *store]) == 0
    assert run(["train", "--resume", report.run, *store]) == 2
    assert "is done" in capsys.readouterr().err


def test_what_cannot_be_done_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    def said(command: str) -> str:
        assert run([*command.split(), "--store", str(tmp_path / "store")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("agentlearn: ")
        return line

    sentences = {
        "train": "say what to train on",
        "train other": "training needs a model; give --model",
        "train math --model nowhere/at-all --set kl": "--set 'kl' is not KEY=VALUE",
        "train math --model x --set kl=k9": "kl is 'k9'",
        "train math --resume abc": "leave out everything else",
    }
    for command, sentence in sentences.items():
        with subtests.test(command):
            assert sentence in said(command)
    monkeypatch.setattr("agentlearn.train.serving.local.find_spec", lambda name: None)
    assert "training weights needs torch" in (line := said("train math --model x"))
    assert "pip install 'agentlearn-lib[train]'" in line
