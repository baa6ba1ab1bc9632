"""Training in two processes: the losses of one, exact resume, and an end within a minute when a process is lost."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from agentlearn.types.experience import library_of
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
    words = ("plum", "fig", "date", "pear", "lime", "kiwi")
    (folder / "tasks.jsonl").write_text(
        "".join(json.dumps({"problem": f"Say {w}.", "answer": w}) + "\n" for w in words)
    )
    file = folder / "train.yaml"
    file.write_text(
        f"domain: letters\nreward: tests.support.letters:share_of_early_letters\ndata: {folder / 'tasks.jsonl'}\n"
        f"model: {weights}\nevaluate: false\nepochs: 1\nbatch_size: 2\ngroup_size: 4\nmax_output_tokens: 6\n"
        "save_every: 1\ntensorboard: false\n"
        "gradient:\n  learning_rate: 1.0e-2\n  tokens_per_microbatch: 256\n  iterations: 2\n"
    )
    return file


@dataclass
class Ended:
    """How the processes of a run ended."""

    statuses: list[int]
    said: list[str]
    """What each process wrote."""
    seconds: float
    """From the first end of a process to the last."""


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
    return Ended([one.returncode for one in running], said, time.monotonic() - first)


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
    import hashlib

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
    resume_equals(store, folder / "resumed", whole)


def resume_equals(store: Path, folder: Path, whole: Path) -> None:
    """Resume an interrupted run, and compare with the run that was not interrupted."""
    with read_store(store) as reader:
        (run,) = reader.runs()
    resumed = ranks(["train", "--resume", run.run, "--store", str(store)], folder)
    assert resumed.statuses == [0, 0], resumed.said
    wanted, found = metrics(whole), metrics(store)
    assert [found[at]["loss"] for at in sorted(found)] == [wanted[at]["loss"] for at in sorted(wanted)]
    assert sha256(store) == sha256(whole)


def losses(found: Mapping[int, Mapping[str, float]], name: str = "loss") -> list[float]:
    return [found[at][name] for at in sorted(found)]


@pytest.fixture(scope="module")
def local(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a whole run of two processes, each of which samples its share."""
    store = tmp_path_factory.mktemp("local") / "store"
    trained(recipe, store)
    return store


def test_two_processes_that_sample_their_share_have_the_losses_of_one(
    recipe: Path, local: Path, tmp_path: Path
) -> None:
    one, two = trained(recipe, tmp_path / "one", count=1), metrics(local)
    assert len(one) == len(two) == 3
    for name in ("loss", "reward", "entropy", "grad_norm"):
        assert losses(two, name) == pytest.approx(losses(one, name), abs=1e-5, rel=1e-4), name
    trained(recipe, tmp_path / "again" / "store")
    assert sha256(tmp_path / "again" / "store") == sha256(local)
    assert max(map(abs, losses(one))) > 1e-3


@pytest.mark.parametrize("die", ["1 sample 2", "0 step 3"])
def test_a_lost_process_ends_the_run_which_resumes_exactly(die: str, recipe: Path, local: Path, tmp_path: Path) -> None:
    check_ends_and_resumes(recipe, tmp_path, die, local)


@pytest.mark.parametrize("moment", ["0 step 3"])
def test_a_run_that_torchrun_stops_is_interrupted_and_resumes_exactly(
    moment: str, recipe: Path, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTLEARN_TEST_SIGTERM", "1")
    store = tmp_path / "store"
    ended = ranks(["train", str(recipe), "--store", str(store)], tmp_path / "stopped", die=moment)
    assert ended.statuses == [143, 0], ended.said
    assert "Traceback" not in "".join(ended.said)
    assert "train --resume" in ended.said[0]
    resume_equals(store, tmp_path / "resumed", local)


@pytest.fixture(scope="module")
def served_by_one(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Mapping[str, float]]:
    return trained(recipe, tmp_path_factory.mktemp("one") / "store", "--sampler", "vllm", count=1)


@pytest.mark.parametrize("processes", ["shard"])
def test_with_a_server_two_processes_have_the_losses_of_one_and_resume_exactly(
    processes: str, recipe: Path, served_by_one: dict[int, Any], tmp_path: Path
) -> None:
    options = ("--sampler", "vllm", "--processes", processes)
    two = trained(recipe, tmp_path / "whole" / "store", *options)
    for name in ("loss", "reward", "entropy", "grad_norm"):
        assert losses(two, name) == pytest.approx(losses(served_by_one, name), abs=1e-5, rel=1e-4), name
    assert max(map(abs, losses(two))) > 1e-3
    check_ends_and_resumes(recipe, tmp_path / "in-update", "1 step 3", tmp_path / "whole" / "store", *options)


DISTILL = (
    *("--distill", "lessons", "--set", "guided_share=0.25"),
    *("--set", "teacher=ema", "--set", "teacher_update_rate=0.5"),
)


def with_lessons(store: Path) -> Path:
    """The store, with a library to distil."""
    LibraryStore(store / "libraries").publish("lessons", library_of(["Prefer early letters."], kind="add"))
    return store


@pytest.fixture(scope="module")
def distilled_by_one(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Mapping[str, float]]:
    store = with_lessons(tmp_path_factory.mktemp("distilled") / "store")
    return trained(recipe, store, "--sampler", "vllm", *DISTILL, count=1)


@pytest.mark.parametrize("processes", ["replicate"])
def test_lessons_are_distilled_alike_in_two_processes_and_in_one_and_a_run_resumes_exactly(
    processes: str, recipe: Path, distilled_by_one: dict[int, Any], tmp_path: Path
) -> None:
    options = ("--sampler", "vllm", "--processes", processes, *DISTILL)
    two = trained(recipe, with_lessons(tmp_path / "whole" / "store"), *options)
    for name in ("loss", "distill/divergence", "answer_tokens", "grad_norm"):
        assert losses(two, name) == pytest.approx(losses(distilled_by_one, name), abs=1e-5, rel=1e-4), name
    assert min(losses(two, "distill/divergence")) > 1e-3
    with_lessons(tmp_path / "in-update" / "store")
    check_ends_and_resumes(recipe, tmp_path / "in-update", "1 step 3", tmp_path / "whole" / "store", *options)


@pytest.mark.parametrize("rank", [1])
def test_a_process_lost_while_a_server_samples_ends_the_run(rank: int, recipe: Path, tmp_path: Path) -> None:
    options = ("--sampler", "vllm", "--processes", "shard")
    store = tmp_path / "store"
    died = f"{rank} served 12"
    ended = ranks(["train", str(recipe), "--store", str(store), *options], tmp_path / "ranks", die=died)
    assert ended.statuses[rank] == -9, ended.said
    assert ended.statuses[1 - rank] == 3, ended.said
    assert "Traceback" not in ended.said[1 - rank]
