"""Training in two processes: the losses of one, exact resume, and an end within a minute when a process is lost."""

import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from agentlearn.types.experience import library_of
from tests.support.letters_training import WORDS, one_word_tasks, run_in
from tests.support.tiny_model import saved, tiny_network

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
END_S = 60
"""A run ends within this time after a process was lost."""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=512, tied=True))


@pytest.fixture(scope="module")
def recipe(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    tasks = one_word_tasks(folder / "tasks.jsonl", *WORDS[:6])
    file = folder / "train.yaml"
    file.write_text(
        f"domain: letters\nreward: tests.support.letters:share_of_early_letters\ndata: {tasks}\n"
        f"model: {weights}\nevaluate: false\nepochs: 1\nbatch_size: 2\ngroup_size: 4\nmax_output_tokens: 6\n"
        "save_every: 1\nreport_to: none\n"
        "gradient:\n  learning_rate: 1.0e-2\n  tokens_per_microbatch: 256\n  iterations: 2\n"
    )
    return file


@dataclass
class Ended:
    """How the processes of a run ended."""

    statuses: list[int]
    said: list[str]
    """What each process wrote."""


def ranks(arguments: Sequence[str], folder: Path, *, count: int = 2, die: str = "") -> Ended:
    """Run the command in several processes, started with the variables that `torchrun` sets."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    folder.mkdir(parents=True, exist_ok=True)
    common = environment(folder, die)
    if count > 1:
        common |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1"}
    running: list[subprocess.Popen[str]] = []
    for rank in range(count):
        with (folder / f"said-{rank}").open("w") as said:
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.support.train_process", *arguments],
                    cwd=ROOT,
                    env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": port},
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
    began, first = time.monotonic(), 0.0
    try:
        while any(one.poll() is None for one in running):
            if not first and any(one.poll() is not None for one in running):
                first = time.monotonic()
            assert time.monotonic() - (first or began) < (END_S if first else 240), "the run does not end"
            time.sleep(0.05)
    finally:
        for one in running:
            one.kill()
            one.wait()
    said = [(folder / f"said-{rank}").read_text() for rank in range(count)]
    return Ended([one.returncode for one in running], said)


def environment(folder: Path, die: str = "") -> dict[str, str]:
    given = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return {**os.environ, **given, "AGENTLEARN_TEST_PIDS": str(folder), "AGENTLEARN_TEST_DIE": die}


def trained(recipe: Path, store: Path, *options: str, count: int = 2) -> dict[int, Mapping[str, float]]:
    """Run to the end, and return the metrics of each update."""
    ended = ranks(["train", str(recipe), "--store", str(store), *options], store.parent / "ranks", count=count)
    assert ended.statuses == [0] * count, ended.said
    return metrics(store)


def metrics(store: Path) -> dict[int, Mapping[str, float]]:
    with read_store(store) as reader:
        (run,) = reader.runs()
        return dict(reader.metrics(run.run))


def sha256(store: Path) -> str:
    return hashlib.sha256((store / "weights" / "letters" / "model.safetensors").read_bytes()).hexdigest()


def check_ends_and_resumes(recipe: Path, folder: Path, die: str, whole: Path, *options: str) -> None:
    """Lose a process, see the others end, resume, and compare with the run that was not interrupted."""
    store = folder / "store"
    ended = ranks(["train", str(recipe), "--store", str(store), *options], folder / "killed", die=die)
    lost = int(die.split()[0])
    assert ended.statuses[lost] == -9, ended.said
    assert ended.statuses[1 - lost] == 3, ended.said
    assert "Traceback" not in ended.said[1 - lost]
    which = "the first process" if lost == 0 else "process 1"
    assert f"agentlearn: {which} of this training ended before the run was over" in ended.said[1 - lost]
    assert "train --resume" in ended.said[1 - lost]
    resumed = ranks(["train", "--resume", run_in(store), "--store", str(store)], folder / "resumed")
    assert resumed.statuses == [0, 0], resumed.said
    wanted, found = metrics(whole), metrics(store)
    assert [found[at]["loss"] for at in sorted(found)] == [wanted[at]["loss"] for at in sorted(wanted)]
    assert sha256(store) == sha256(whole)


def assert_alike(two: Mapping[int, Mapping[str, float]], one: Mapping[int, Mapping[str, float]], *names: str) -> None:
    assert sorted(two) == sorted(one)
    for at, values in one.items():
        for name in ("loss", "grad_norm", *names):
            assert two[at][name] == pytest.approx(values[name], abs=1e-5, rel=1e-4), (at, name)
    assert max(abs(values["loss"]) for values in one.values()) > 1e-3


@pytest.fixture(scope="module")
def local(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a whole run of two processes, each of which samples its share."""
    store = tmp_path_factory.mktemp("local") / "store"
    trained(recipe, store)
    return store


def test_two_processes_that_sample_their_share_have_the_losses_of_one(
    recipe: Path, local: Path, tmp_path: Path
) -> None:
    assert_alike(metrics(local), trained(recipe, tmp_path / "one", count=1), "reward", "entropy")


def test_a_lost_process_ends_the_run_which_resumes_exactly(recipe: Path, local: Path, tmp_path: Path) -> None:
    check_ends_and_resumes(recipe, tmp_path, "0 step 3", local)


def test_a_run_that_torchrun_stops_is_interrupted_and_says_how_to_go_on(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTLEARN_TEST_SIGTERM", "1")
    store = tmp_path / "store"
    ended = ranks(["train", str(recipe), "--store", str(store)], tmp_path / "stopped", die="0 step 3")
    assert ended.statuses == [143, 0], ended.said
    assert "Traceback" not in "".join(ended.said)
    assert f"train --resume {run_in(store)[:8]}" in ended.said[0]


def test_with_a_server_two_processes_distil_lessons_as_one_does(recipe: Path, tmp_path: Path) -> None:
    common = (
        *("--sampler", "vllm", "--distill", "lessons", "--set", "distillation.guided_share=0.25"),
        *("--set", "distillation.teacher=ema", "--set", "distillation.teacher_update_rate=0.5"),
    )
    options = (*common, "--processes", "shard")
    stores = {name: tmp_path / name / "store" for name in ("one", "two")}
    for store in stores.values():
        LibraryStore(store / "libraries").publish("lessons", library_of(["Prefer early letters."], kind="add"))
    one = trained(recipe, stores["one"], *common, count=1)
    two = trained(recipe, stores["two"], *options)
    assert_alike(two, one, "distill/divergence", "answer_tokens")
    assert min(values["distill/divergence"] for values in two.values()) > 1e-3
