"""Training weights as a whole: rollouts of a typed agent, rows, updates, checkpoints, resume, report, page."""

import asyncio
import io
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

torch = pytest.importorskip("torch")

from agentlearn.cli.app import run  # noqa: E402
from agentlearn.cli.train_progress import TrainProgress  # noqa: E402
from agentlearn.errors import Interrupted  # noqa: E402
from agentlearn.store import read_store  # noqa: E402
from agentlearn.train.report import TrainReport  # noqa: E402
from agentlearn.train.run_training import run_training, run_training_sync  # noqa: E402
from agentlearn.train.settings import (  # noqa: E402
    TrainSettings,
    resumed_train_settings,
    train_settings,
)
from agentlearn.train.training_plan import plan_training  # noqa: E402
from agentlearn.types.trajectory import ModelTurn  # noqa: E402
from tests.support.letters_training import Stopping, one_word_tasks  # noqa: E402
from tests.support.tiny_model import saved, tiny_network  # noqa: E402

REWARD = "tests.support.letters:share_of_early_letters"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=1024))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = ("plum", "fig", "date", "pear", "lime", "kiwi", "melon", "quince")
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *words)


def fields(weights: Path, tasks: Path, store: Path, **changes: Any) -> dict[str, Any]:
    return {
        "domain": "letters",
        "reward": REWARD,
        "data": str(tasks),
        "test_share": 0.5,
        "model": str(weights),
        "epochs": 4,
        "batch_size": 2,
        "group_size": 4,
        "max_output_tokens": 12,
        "eval_rollouts": 4,
        "eval_every": 4,
        "save_every": 3,
        "store": store,
        "gradient": {"learning_rate": 1e-2, "loss": "grpo"},
    } | changes


@pytest.fixture(scope="module")
def whole(weights: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainReport, TrainSettings]:
    store = tmp_path_factory.mktemp("whole") / "store"
    settings = train_settings(fields(weights, tasks, store))
    return run_training_sync(settings), settings


def test_the_reward_rises_and_the_curve_shows_it(whole: tuple[TrainReport, TrainSettings]) -> None:
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


def test_the_plan_told_what_the_run_did_and_learns_its_pace(whole: tuple[TrainReport, TrainSettings]) -> None:
    report, settings = whole
    plan = plan_training(settings.model_copy(update={"epochs": 8}))
    assert (plan.updates, len(report.updates)) == (16, 8)
    assert plan.rollouts == 2 * (8 * 2 * 4) + 5 * 4 * 4  # measured before, after 4, 8 and 12 updates, and after
    again = plan_training(settings)
    assert again.rollouts == sum(report.rollouts.values())
    assert "as run" in again.basis
    assert again.seconds is not None
    assert plan.seconds is not None
    assert again.seconds < plan.seconds


def test_every_number_of_every_update_is_in_the_store(whole: tuple[TrainReport, TrainSettings]) -> None:
    report, settings = whole
    with read_store(settings.store) as reader:
        kept = reader.metrics(report.run)
        rows = reader.trajectories(report.run)
        one = reader.trajectory(next(row.id for row in rows if row.phase == "epoch-1"))
        messages = reader.messages(one.id)
    assert sorted(kept) == list(range(1, 9))
    assert {"loss", "entropy", "grad_norm", "mismatch/kl", "seconds/updating", "tokens"} <= set(kept[1])
    turn = one.steps[0]
    assert isinstance(turn, ModelTurn)
    assert turn.tokens is not None
    assert len(turn.tokens.ids) == len(turn.tokens.logprobs) > 0
    assert b"token_ids" not in messages  # the steps hold them already
    assert one.treatment.weights_step == 0


def test_sampler_and_trainer_agree_on_every_probability(whole: tuple[TrainReport, TrainSettings]) -> None:
    report, settings = whole
    with read_store(settings.store) as reader:
        kept = reader.metrics(report.run)
    assert all(values["sampling/sampling_logp_difference/max"] < 1e-3 for values in kept.values())


def test_the_result_is_a_model_that_can_be_used_and_trained_on(whole: tuple[TrainReport, TrainSettings]) -> None:
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


def test_tensorboard_reads_the_numbers(whole: tuple[TrainReport, TrainSettings]) -> None:
    report, settings = whole
    assert tensorboard_steps(settings.store, report) == list(range(1, 9))


# After 4 updates a measurement is due, and the run is stopped in its midst.
@pytest.mark.parametrize("after", [pytest.param(1, marks=pytest.mark.slow), 4, pytest.param(7, marks=pytest.mark.slow)])
def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(
    whole: tuple[TrainReport, TrainSettings], weights: Path, tasks: Path, tmp_path: Path, after: int
) -> None:
    undisturbed, _ = whole
    store = tmp_path / "store"
    settings = train_settings(fields(weights, tasks, store))
    with pytest.raises(Interrupted):
        asyncio.run(run_training(settings, Stopping(after)))
    with read_store(store) as reader:
        (begun,) = reader.runs()
    assert begun.state == "interrupted"
    torch.manual_seed(99)  # whatever chance was used in between
    resumed, again = resumed_train_settings(begun.run[:12], store, {})
    out = io.StringIO()
    report = asyncio.run(run_training(again, TrainProgress(again, Console(file=out, width=200)), resume=resumed))
    assert report.run == begun.run
    done = after  # a run that ends early leaves a checkpoint
    assert re.findall(r"update (\d+)/8", out.getvalue()) == [str(one) for one in range(done + 1, 9)]
    assert f"resumed       after {done} update" in out.getvalue()
    assert tensorboard_steps(store, report) == list(range(1, 9))
    assert report.weights == undisturbed.weights.model_copy(update={"path": report.weights.path})
    assert report.curve == undisturbed.curve
    assert [line.loss for line in report.updates] == [line.loss for line in undisturbed.updates]
    assert report.rollouts == undisturbed.rollouts
    assert report.groups == undisturbed.groups


def test_an_adapter_is_trained_and_kept_alone(weights: Path, tasks: Path, tmp_path: Path) -> None:
    gradient = {"learning_rate": 1e-2, "lora_rank": 4, "kl": "k3", "kl_beta": 0.01, "reference": "adapter_off"}
    changes = {"epochs": 1, "gradient": gradient, "evaluate": False, "test_share": 0.0}
    report = run_training_sync(train_settings(fields(weights, tasks, tmp_path / "store", **changes)))
    folder = Path(report.weights.path)
    assert report.weights.adapter
    assert (folder / "adapter_model.safetensors").is_file()
    assert not (folder / "model.safetensors").exists()
    assert (report.before, report.after, report.delta, report.curve) == (None, None, None, ())


@pytest.fixture
def page_of(tmp_path: Path) -> Path:
    return tmp_path / "store" / "reports"


def test_the_command_prints_a_line_per_update_and_leaves_a_page(
    weights: Path, tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "train.yaml"
    recipe.write_text(
        f"domain: letters\nreward: {REWARD}\ndata: {tasks}\nmodel: {weights}\ntest_share: 0.5\nepochs: 1\n"
        "batch_size: 2\ngroup_size: 2\nmax_output_tokens: 8\neval_rollouts: 1\ngradient:\n  learning_rate: 0.01\n"
    )
    options = ["--set", "kl=k3", "--set", "kl_beta=0.01", "--set", "reference=copy_int8"]
    assert run(["train", str(recipe), *options, "--store", str(tmp_path / "store"), "--json"]) == 0
    said = capsys.readouterr()
    report = TrainReport.model_validate_json(said.out)
    assert "update 1/2" in said.err
    assert "update 2/2" in said.err
    assert "KL k3" in said.err
    (page,) = (tmp_path / "store" / "reports").iterdir()
    html = page.read_text()
    assert page.stem == report.run
    assert "Mean reward by update" in html
    assert run(["runs", "show", report.run, "--store", str(tmp_path / "store")]) == 0
    assert run(["train", "--resume", report.run, "--store", str(tmp_path / "store")]) == 2
    assert "is done" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train"], "say what to train on"),
        (["train", "other"], "training needs a model; give --model"),
        (["train", "math", "--model", "nowhere/at-all", "--set", "kl"], "--set 'kl' is not KEY=VALUE"),
        (["train", "math", "--model", "x", "--set", "kl=k9"], "kl is 'k9'"),
        (["train", "math", "--resume", "abc"], "leave out everything else"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--store", str(tmp_path / "store")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("agentlearn: ")
    assert sentence in line


@pytest.mark.slow
def test_two_processes_of_torchrun_come_to_the_weights_of_one(weights: Path, tasks: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    recipe = tmp_path / "train.yaml"
    recipe.write_text(
        f"domain: letters\nreward: {REWARD}\ndata: {tasks}\nmodel: {weights}\nevaluate: false\nepochs: 1\nlimit: 4\n"
        "batch_size: 2\ngroup_size: 4\nmax_output_tokens: 8\nsave_every: 1\n"
        "gradient:\n  learning_rate: 1.0\n  optimizer: sgd\n  tokens_per_microbatch: 512\n"
    )
    assert run(["train", str(recipe), "--store", str(tmp_path / "one")]) == 0
    root = str(Path(__file__).parents[2])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    # No name of this machine is looked up: where none is known, that takes its time.
    here = ["--nnodes", "1", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", port]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *here, "-m"]
    done = subprocess.run(
        [*launcher, "agentlearn", "train", str(recipe), "--store", str(tmp_path / "two")],
        cwd=root,
        env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("update 2/2") == 1  # one of them speaks
    first, one, two = (
        load_file(folder / "model.safetensors")
        for folder in (weights, *(tmp_path / name / "weights" / "letters" for name in ("one", "two")))
    )
    moved = max(float((one[name] - first[name]).abs().max()) for name in one)
    apart = max(float((one[name] - two[name]).abs().max()) for name in one)
    assert moved > 1e-3
    assert apart < 1e-4 * moved


def test_without_torch_the_line_that_installs_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agentlearn.train.serving.local.find_spec", lambda name: None)
    assert run(["train", "math", "--model", "x", "--store", str(tmp_path / "store")]) == 2
    assert "training weights needs torch" in (said := capsys.readouterr().err)
    assert "pip install 'agentlearn-lib[train]'" in said
