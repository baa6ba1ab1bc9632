# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""What processes exchange, checked in one process: sums, norms, commands, and shards of a group of one."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.distributed import torchrun
from agentlearn.train.distributed.links import FollowerLinks, LeaderLinks, LossNotice
from agentlearn.train.distributed.processes import Processes
from agentlearn.train.distributed.sharding import ShardingAccelerator
from agentlearn.train.settings import train_settings
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import restore_checkpoint, save_checkpoint
from tests.support.tiny_lm import some_rows, tiny_lm, tiny_tokenizer


class Norm:
    """A norm of sharded gradients: this process's part is 3, that of all processes 5."""

    def full_tensor(self) -> Any:
        return torch.tensor(5.0)

    def to_local(self) -> Any:
        return torch.tensor(3.0)


class FourProcesses:
    """The part of an accelerator that is used, for four processes. It records what it is asked."""

    gradient_accumulation_steps = 1
    num_processes = 4
    process_index = 2

    def __init__(self) -> None:
        self.asked: list[object] = []

    def backward(self, loss: Any) -> None:
        self.asked.append(float(loss))

    @contextmanager
    def no_sync(self, module: object) -> Generator[None]:
        self.asked.append("no exchange")
        yield

    def clip_grad_norm_(self, parameters: object, bound: float) -> Norm:
        self.asked.append(bound)
        return Norm()


def test_gradients_are_summed_and_exchanged_once() -> None:
    accelerator, module = FourProcesses(), torch.nn.Linear(1, 1)
    processes = Processes(accelerator)
    for last in (False, False, True):
        with processes.accumulating(module, last=last):
            processes.backward(torch.tensor(1.5))
    assert accelerator.asked == ["no exchange", 6.0, "no exchange", 6.0, 6.0]  # accelerate divides by four
    assert (processes.count, processes.rank) == (4, 2)


@pytest.mark.parametrize(("limit", "bound"), [(0.5, 0.5), (None, float("inf"))])
def test_the_norm_is_that_of_all_processes(limit: float | None, bound: float) -> None:
    accelerator = FourProcesses()
    assert Processes(accelerator).clip_gradients([], limit) == 5.0
    assert accelerator.asked == [bound]


def test_values_of_all_processes_are_combined_and_the_own_ones_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    operations: list[Any] = []

    def combine(values: Any, op: Any) -> None:
        operations.append(op)
        values.mul_(4)

    monkeypatch.setattr(torch.distributed, "all_reduce", combine)
    own = torch.tensor([1.0, 2.0])
    for reduction in ("sum", "min", "max"):
        assert Processes(FourProcesses()).all_reduce(own, reduction).tolist() == [4.0, 8.0]
    named = torch.distributed.ReduceOp
    assert operations == [named.SUM, named.MIN, named.MAX]
    assert own.tolist() == [1.0, 2.0]


def test_an_accelerator_that_sums_micro_batches_too_is_refused() -> None:
    accelerator = FourProcesses()
    accelerator.gradient_accumulation_steps = 4
    with pytest.raises(ConfigError, match="the accelerator accumulates over 4 steps"):
        Processes(accelerator)


def follower(commands: Iterator[tuple[str, tuple[object, ...]]]) -> Any:
    """The links of a process that does not lead and gets these commands."""
    return SimpleNamespace(next_command=lambda: next(commands), loss=LossNotice(), over=Event())


def test_a_follower_does_what_it_is_told_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([("step", (["row"],)), ("save", (3,)), ("restore", ("folder",)), ("publish", ()), ("stop", ())])
    done: list[tuple[object, ...]] = []

    @contextmanager
    def paused() -> Generator[None]:
        done.append(("paused",))
        yield

    updater: Any = SimpleNamespace(
        step=lambda rows: done.append(("step", rows)), release=lambda: done.append(("release",))
    )
    checkpoints: Any = SimpleNamespace(
        save=lambda _updater, batches: done.append(("save", batches)),
        restore=lambda _updater, path: done.append(("restore", path)),
        publish=lambda _updater: done.append(("publish",)),
    )
    monkeypatch.setattr(torchrun, "follower_links", lambda: follower(told))
    torchrun.Follower(updater, checkpoints, paused).follow()
    changes = [("paused",), ("step", ["row"]), ("save", 3), ("paused",), ("restore", Path("folder")), ("publish",)]
    assert done == [*changes, ("release",)]
    assert list(told) == []


def test_the_others_are_told_to_stop_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    (commands, others), (requests, theirs) = Pipe(), Pipe()
    accelerator = SimpleNamespace(device=torch.device("cpu"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torchrun, "_connect", lambda: (accelerator, LeaderLinks([commands], [requests])))
    settings = train_settings({"domain": "math", "model": "x"})

    def lead() -> None:
        with torchrun.lead_processes(settings):
            assert torchrun.connected_accelerator() is accelerator
            with torchrun.all_processes("save", 2):
                raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        lead()
    received = FollowerLinks(others, theirs)
    assert [received.next_command() for _ in range(3)] == [("settings", (settings,)), ("save", (2,)), ("stop", ())]
    for one in (commands, requests, others, theirs):
        one.close()
    received.loss.cancel()


@pytest.fixture
def _group_of_one() -> Generator[None]:
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("_group_of_one")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_a_sharded_checkpoint_is_whole_and_restores_the_optimiser(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    rows, arguments = some_rows(4, model=tiny_lm()), gradient_arguments({"learning_rate": 0.01})

    def sharding() -> ShardingAccelerator:
        return ShardingAccelerator(torch.device("cpu"))

    through, again = (Updater(tiny_lm(seed=seed), arguments, accelerator=sharding()) for seed in (0, 5))
    through.step(rows)
    path = save_checkpoint(tmp_path, through, tiny_tokenizer(), position={"batch": 1})
    in_file = load_file(path / "model.safetensors")
    plain = Updater(tiny_lm(), arguments)
    plain.step(rows)
    for name, one in plain.model.state_dict().items():
        assert torch.allclose(in_file[name], one, atol=1e-6)
    restore_checkpoint(path, again)
    for updater in (through, again, plain):
        updater.step(rows)
    for name, one in again.model.named_parameters():
        whole: Any = one
        assert torch.equal(whole.full_tensor(), dict(through.model.named_parameters())[name].full_tensor())
        assert torch.allclose(whole.full_tensor(), dict(plain.model.named_parameters())[name], atol=1e-6)
