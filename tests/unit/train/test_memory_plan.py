"""The memory of an update: what is at hand, what a row needs, how many tokens are computed at once, and errors."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dataclasses  # noqa: E402
import gc  # noqa: E402
import weakref  # noqa: E402
from contextlib import nullcontext  # noqa: E402
from pathlib import Path  # noqa: E402

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train import memory  # noqa: E402
from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.memory import GIB, main_memory_at_hand  # noqa: E402
from agentlearn.train.update import updater as updater_module  # noqa: E402
from agentlearn.train.update.logprob_model import LogprobModel  # noqa: E402
from agentlearn.train.update.memory_plan import MemoryPlan, RowMemory  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.train.weights.model import weights_hash  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm  # noqa: E402

MIB = 2**20


def told(**fields: Any) -> GradientArguments:
    return gradient_arguments({"learning_rate": 0.05, "optimizer": "sgd"} | fields)


def measured(model: Any) -> RowMemory:
    found = RowMemory.measured(LogprobModel(model), nullcontext, packed=False)
    assert found is not None
    return found


@given(
    needs=st.floats(1e3, 1e8),
    squared=st.floats(0, 1e5),
    at_hand=st.integers(GIB // 4, 512 * GIB),
    fixed=st.floats(0, 1e8),
    gpu=st.booleans(),
)
def test_a_plan_is_a_power_of_two_that_fits_or_a_refusal(
    needs: float, squared: float, at_hand: int, fixed: float, gpu: bool
) -> None:
    rows = RowMemory(constant=1e6, per_token=needs, per_token_squared=squared)
    if fixed + rows.of_row(16) > at_hand:
        with pytest.raises(ConfigError) as refused:
            MemoryPlan.of(rows, told(), at_hand=at_hand, fixed=fixed, gpu=gpu)
        assert refused.value.code == "bad_config"
        return
    plan = MemoryPlan.of(rows, told(), at_hand=at_hand, fixed=fixed, gpu=gpu)
    assert plan.tokens.bit_count() == 1
    assert 16 <= plan.tokens <= (65_536 if gpu else 8192)
    room = (at_hand - fixed - rows.constant) * (0.6 if gpu else 0.4)
    if plan.tokens > 16:
        assert rows.of_tokens(plan.tokens) <= (room if gpu else min(room, 2 * GIB))
    if plan.tokens < (65_536 if gpu else 8192):
        assert rows.of_tokens(2 * plan.tokens) > (room if gpu else min(room, 2 * GIB))


def test_measuring_gives_the_same_each_time_and_changes_nothing() -> None:
    model = tiny_lm()
    model.eval()
    model.model.layers[0].train()
    torch.manual_seed(3)
    before, chance = weights_hash(model), torch.get_rng_state()
    assert measured(model) == measured(model)
    assert weights_hash(model) == before
    assert torch.equal(torch.get_rng_state(), chance)
    assert (model.training, model.model.layers[0].training) == (False, True)
    assert all(one.grad is None for one in model.parameters())


@pytest.mark.slow
def test_measuring_keeps_nothing() -> None:
    """Saved tensors that lead to their graph, which holds them, would keep the model for ever."""
    model = tiny_lm()
    weight = weakref.ref(model.model.layers[0].mlp.up_proj.weight)
    measured(model)
    del model
    gc.collect()
    assert weight() is None


def test_rows_and_the_copies_of_an_optimizer_step_are_not_needed_together() -> None:
    rows = RowMemory(constant=0.0, per_token=MIB, per_token_squared=0.0)
    for stepping, fits in ((0, True), (16 * MIB, True), (25 * MIB, False)):
        if fits:
            rows.refuse_too_little(told(), tokens=16, at_hand=116 * MIB, fixed=100 * MIB, stepping=stepping)
            continue
        with pytest.raises(ConfigError, match=r"needs 125\.0 MiB of memory \(109\.0 MiB for gradients .*, 16\.0 MiB"):
            rows.refuse_too_little(told(), tokens=16, at_hand=116 * MIB, fixed=100 * MIB, stepping=stepping)


def test_the_least_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's free memory, and the limits of the process's control group and of those that it is in."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    monkeypatch.setattr(memory, "PROC", proc)
    monkeypatch.setattr(memory, "CGROUPS", groups)
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable:    4194304 kB\n")
    assert main_memory_at_hand() == 4 * GIB
    (proc / "self" / "cgroup").write_text("0::/outer/inner\n")
    for name, bound, used in (("outer", str(3 * GIB), 2 * GIB), ("outer/inner", "max", GIB)):
        (groups / name).mkdir(parents=True)
        (groups / name / "memory.max").write_text(f"{bound}\n")
        (groups / name / "memory.current").write_text(f"{used}\n")
        (groups / name / "memory.stat").write_text(f"anon 5\ninactive_file {GIB // 2}\n")
    assert main_memory_at_hand() == 1.5 * GIB
    (proc / "self" / "cgroup").write_text("4:cpu,memory:/docker\n0::/other\n")
    old = groups / "memory" / "docker"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text(f"{2 * GIB}\n")
    (old / "memory.usage_in_bytes").write_text(f"{GIB}\n")
    (old / "memory.stat").write_text("total_inactive_file 0\n")
    assert main_memory_at_hand() == GIB


def test_too_little_memory_is_said_before_anything_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updater_module, "memory_at_hand", lambda _: 100 * MIB)
    with pytest.raises(ConfigError) as refused:
        Updater(tiny_lm(), told())
    needs = str(refused.value)
    assert refused.value.code == "bad_config"
    assert needs.startswith("an update needs 15")
    assert needs.endswith(
        "but 100.0 MiB are at hand; set gradient_checkpointing=true, lora_rank=16, dtype=bf16 or fewer tokens in "
        "prompts and answers (max_output_tokens)"
    )
    assert "\n" not in needs


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 5 bytes."),
        MemoryError(),
    ],
)
def test_memory_that_runs_out_is_one_sentence(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    updater = Updater(tiny_lm(), told(tokens_per_microbatch=64))

    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(updater._processes, "backward", full)
    with pytest.raises(ConfigError) as refused:
        updater.step(some_rows(4))
    assert refused.value.code == "out_of_memory"
    assert str(refused.value) == (
        "memory ran out in an update that computes up to 64 tokens at once; resume the run on a machine with more free "
        "memory, or set gradient_checkpointing=true, lora_rank=16, dtype=bf16 or fewer tokens in prompts and answers "
        "(max_output_tokens)"
    )


def test_a_resumed_run_keeps_the_number_of_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Updater(tiny_lm(), told())
    started.memory = dataclasses.replace(started.memory, tokens=64)
    resumed = Updater(tiny_lm(), told())
    assert resumed.memory.tokens == 8192
    resumed.load_state_dict(started.state_dict())
    assert (resumed.memory.tokens, resumed.memory.chosen_by) == (64, "start")
    assert resumed.memory.sentence == "an update computes up to 64 tokens at once, as at the start of the run"
    assert resumed.step(some_rows(4)).figures["tokens_per_microbatch"] == 64
    parts = resumed._batches(some_rows(8), 1, repeated=False)
    assert max(one.batch.ids_BT.numel() for one in parts) <= 64 < 8 * 20
    own = Updater(tiny_lm(), told(tokens_per_microbatch=99))
    own.load_state_dict(started.state_dict())
    assert own.memory.tokens == 99
