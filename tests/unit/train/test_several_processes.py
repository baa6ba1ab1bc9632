"""Two processes compute the gradients and weights of one, with replicas (DDP) and with shards (FSDP2).

Within one way of training, resuming must give equal bits. Between two ways, sums are taken in another order, so only
rounding may differ: see `TOLERANCE`.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from types import SimpleNamespace  # noqa: E402

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train.arguments import gradient_arguments  # noqa: E402
from agentlearn.train.update.microbatch import forward_length, plan_microbatches  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from tests.support.one_of_several import ROWS, trained  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm, worst_difference  # noqa: E402

pytestmark = pytest.mark.slow

FIELDS: dict[str, Any] = {
    "loss": "grpo",
    "learning_rate": 1.0,
    "optimizer": "sgd",
    "tokens_per_microbatch": 50,
    "max_grad_norm": 2.0,
    "iterations": 2,
}
LONGEST = 24
"""Largest number of tokens in a row of `some_rows`."""
TOLERANCE = 4 * ROWS * LONGEST * 2.0**-24
"""Largest difference between two ways of training, relative to the largest element: 4e-5.

A gradient is a sum over at most ROWS x LONGEST tokens. Summing n float32 numbers in another order changes the sum by at
most about n x 2**-24 of the sum of their absolute values. The factor 4 is for the forward pass, the backward pass, the
sum over processes, and the second iteration, which starts from weights that differ by rounding.
"""
TIMED = {"tokens_per_s", "peak_memory_mib"}
ADAPTED = {"adapter", "bf16", "adapter off"}
"""The kinds of models with an adapter."""

OPTIONS: dict[str, Any] = {
    "entropy_coef": 0.3,
    "top_entropy_quantile": 0.4,
    "loss_settings": {"off_policy_mask_threshold": 0.05},
}
"""Options that need sums over the tokens of all processes."""


def together(out: Path, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the results of two processes, with the settings of each case, started as `torchrun` starts them."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = str(listening.getsockname()[1])
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    common |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.support.one_of_several", str(out), json.dumps(cases)]
    root = Path(__file__).parents[3]
    running = [
        subprocess.Popen(
            command,
            cwd=root,
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [one.communicate(timeout=240)[0] for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()
    assert [one.returncode for one in running] == [0, 0], said
    return torch.load(out)


def test_two_processes_equal_one_and_resume_exactly(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases = [FIELDS, FIELDS | OPTIONS]
    parts = plan_microbatches([forward_length(row) for row in some_rows(ROWS)], FIELDS["tokens_per_microbatch"])
    assert len(parts) % 2 == 1, "one process must have fewer micro-batches than the other"
    both = together(tmp_path / "found.pt", cases)
    assert both["count"] == 2
    for fields, found in zip(cases, both["runs"], strict=True):
        alone = trained(fields, None)
        for engine in ("ddp", "fsdp2"):
            with subtests.test(engine, fields=fields):
                assert found[engine]["sharded"] == (engine == "fsdp2")
                check_equal(found[engine], alone)
                resumed = found["resumed"][engine]
                assert worst_difference(resumed["again"], resumed["through"]) == 0
                assert resumed["position"] == 1
                assert resumed["in_file"] == resumed["in_memory"]
    assert both["kinds"].keys() == {"tied", "adapter", "bf16", "packed", "rounded", "adapter off"}
    for name, kind in both["kinds"].items():
        check_sharded(name, kind)


def check_sharded(name: str, kind: dict[str, Any]) -> None:
    """Check a model that only the first of two processes has read."""
    for fact in ("copy", "restored", "end", "start"):
        assert kind[fact][0] == kind[fact][1], (name, fact)
    first, second = kind["plans"]
    assert first == second, name
    assert (first[-1] is None) == (name == "packed")  # the longest row
    assert kind["moved"], name
    assert kind["held"] == pytest.approx(0.5, abs=0.05), name
    assert kind["tied"] == (name == "tied")
    assert ("adapter_model.safetensors" in kind["files"]) == (name in ADAPTED)
    assert ("model.safetensors" in kind["files"]) == (name not in ADAPTED)


def check_equal(found: dict[str, Any], alone: dict[str, Any]) -> None:
    """Compare gradients, changes of the weights, and metrics."""
    assert found["steps"] == alone["steps"] == 2
    assert worst_difference(found["gradients"], alone["gradients"]) < TOLERANCE
    start = {name: one.detach() for name, one in tiny_lm().named_parameters()}
    moves = [{name: one["weights"][name] - start[name] for name in start} for one in (found, alone)]
    assert worst_difference(*moves) < TOLERANCE
    assert found["figures"].keys() == alone["figures"].keys()
    for name in alone["figures"].keys() - TIMED:
        assert found["figures"][name] == pytest.approx(alone["figures"][name], rel=1e-4, abs=1e-6), name


def test_an_accelerator_that_accumulates_too_is_refused() -> None:
    accelerator = SimpleNamespace(gradient_accumulation_steps=4, num_processes=2, process_index=0)
    with pytest.raises(ConfigError) as refused:
        Updater(tiny_lm(), gradient_arguments({}), accelerator=accelerator)
    assert str(refused.value) == (
        "the accelerator accumulates over 4 steps, but micro-batches are already summed here; create it with "
        "gradient_accumulation_steps=1"
    )
