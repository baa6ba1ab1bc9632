"""Two training processes under `torchrun` with a real vLLM on a CPU as sampler, replicated and sharded."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agentlearn.store import read_store
from tests.support.tiny_model import saved, tiny_network

ROOT = Path(__file__).parents[2]
TORCHRUN = """
import socket
socket.getfqdn = lambda *_: "localhost"  # torchrun asks for the name of this machine, which tests may not do
from torch.distributed.run import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["replicate", "shard"])
def test_two_processes_train_with_a_real_server(processes: str, tmp_path: Path) -> None:
    weights = saved(tmp_path / "tiny", tiny_network(context=512, tied=True))
    tasks = [json.dumps({"problem": f"Say {one}.", "answer": one}) + "\n" for one in ("plum", "fig", "date", "pear")]
    (tmp_path / "tasks.jsonl").write_text("".join(tasks))
    recipe = tmp_path / "train.yaml"
    recipe.write_text(
        f"domain: letters\nreward: tests.support.letters:share_of_early_letters\ndata: {tmp_path / 'tasks.jsonl'}\n"
        f"model: {weights}\nsampler: vllm\nprocesses: {processes}\nevaluate: false\nepochs: 1\nbatch_size: 2\n"
        "group_size: 4\nmax_output_tokens: 6\ntensorboard: false\nconcurrency: 4\n"
        "gradient:\n  learning_rate: 1.0e-2\n  iterations: 2\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    path = os.pathsep.join([str(ROOT), str(ROOT / "domains"), os.environ.get("PYTHONPATH", "")])
    torchrun = [sys.executable, "-c", TORCHRUN, "--nproc-per-node", "2", "--master-port", port]
    running = subprocess.Popen(
        [*torchrun, "-m", "agentlearn", "train", str(recipe), "--store", str(tmp_path / "store")],
        cwd=ROOT,
        env=os.environ | common | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = running.communicate(timeout=900)[0]
    finally:
        running.terminate()  # torchrun then ends the processes that it started
        running.wait(timeout=120)
    assert running.returncode == 0, said
    with read_store(tmp_path / "store") as reader:
        (run,) = reader.runs()
        found = reader.metrics(run.run)
    assert sorted(found) == [1, 2]
    # An update in which all rewards of each group are equal trains no token, so it has no such figure.
    name = "sampling/sampling_logp_difference/max"
    differences = [one[name] for one in found.values() if name in one]
    assert differences
    assert max(differences) < 1e-3
