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

from agentlearn.train.arguments import gradient_arguments  # noqa: E402
from agentlearn.train.distributed import torchrun  # noqa: E402
from agentlearn.train.distributed.sharding import ShardingAccelerator  # noqa: E402
from agentlearn.train.distributed.torchrun import FollowerLinks, LeaderLinks, LossNotice  # noqa: E402
from agentlearn.train.settings import train_settings  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.train.weights.checkpoint import CheckpointStore  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm, tiny_tokenizer  # noqa: E402


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
    monkeypatch.setattr(torchrun.CONNECTED, "follower", follower(told))
    torchrun.Follower(updater, checkpoints, paused).follow()
    changes = [("paused",), ("step", ["row"]), ("save", 3), ("paused",), ("restore", Path("folder")), ("publish",)]
    assert done == [*changes, ("release",)]
    assert list(told) == []


def test_the_others_are_told_to_stop_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    (commands, others), (requests, theirs) = Pipe(), Pipe()
    accelerator = SimpleNamespace(device=torch.device("cpu"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torchrun, "connect_processes", lambda: (accelerator, LeaderLinks([commands], [requests])))
    settings = train_settings({"domain": "math", "model": "x"})

    def lead() -> None:
        with torchrun.lead_processes(settings):
            assert torchrun.CONNECTED.accelerator is accelerator
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
    path = CheckpointStore(tmp_path, tmp_path, tiny_tokenizer()).save(through, 1)
    in_file = load_file(path / "model.safetensors")
    plain = Updater(tiny_lm(), arguments)
    plain.step(rows)
    for name, one in plain.model.state_dict().items():
        assert torch.allclose(in_file[name], one, atol=1e-6)
    CheckpointStore.restore(again, path)
    for updater in (through, again, plain):
        updater.step(rows)
    for name, one in again.model.named_parameters():
        whole: Any = one
        assert torch.equal(whole.full_tensor(), dict(through.model.named_parameters())[name].full_tensor())
        assert torch.allclose(whole.full_tensor(), dict(plain.model.named_parameters())[name], atol=1e-6)
