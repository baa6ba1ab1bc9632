"""Connections between training processes: commands, notice of a lost process, and models without weights."""

# ruff: noqa: E402  what needs torch is imported after it is known to be there
import pickle
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Event

import pytest

torch = pytest.importorskip("torch")

from agentlearn.errors import ConfigError, ProcessLost
from agentlearn.train.distributed.links import FollowerLinks, LeaderLinks
from agentlearn.train.distributed.sharding import layout_of, move_to_meta
from agentlearn.train.distributed.torchrun import lead_processes
from agentlearn.train.settings import TrainSettings, train_settings
from tests.support.lost_process import end_of_process
from tests.support.tiny_lm import tiny_lm

Ends = tuple[LeaderLinks, FollowerLinks, list[Connection]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Both ends, and their connections: those of the leader, then those of the other process."""
    (commands, others), (requests, theirs) = Pipe(), Pipe()
    leader, follower = LeaderLinks([commands], [requests]), FollowerLinks(others, theirs)
    yield leader, follower, [commands, requests, others, theirs]
    leader.loss.cancel()
    follower.loss.cancel()
    for one in (commands, requests, others, theirs):
        one.close()


def test_commands_arrive_in_order_and_the_end_is_no_loss(ends: Ends) -> None:
    leader, follower, _ = ends
    leader.send("step", (1, 2))
    leader.send("save", 3)
    leader.close()
    assert [follower.next_command() for _ in range(3)] == [("step", ((1, 2),)), ("save", (3,)), ("stop", ())]
    assert follower.over.wait(10)
    assert follower.loss.error() is None


def test_the_leader_learns_at_once_that_a_process_has_ended(ends: Ends) -> None:
    leader, _, connections = ends
    told, noticed = [], Event()
    leader.loss.tell(lambda lost: (told.append(lost), noticed.set()))
    end_of_process(connections[2])
    assert noticed.wait(10)
    leader.loss.cancel()
    assert str(told[0]) == (
        "process 1 of this training ended before the run was over; the messages of that process say why"
    )
    with pytest.raises(ProcessLost):
        leader.send("step")


def test_another_process_learns_at_once_that_the_first_has_ended(ends: Ends) -> None:
    leader, follower, connections = ends
    leader.send("begin", "01m80")
    end_of_process(connections[0])
    with pytest.raises(ProcessLost) as lost:
        follower.next_command()
    follower.loss.cancel()
    assert str(lost.value) == (
        "the first process of this training ended before the run was over; the messages of that process say why;"
        " continue it with agentlearn train --resume 01m80"
    )
    assert lost.value.exit_status == 3
    assert lost.value.resumable


def test_a_loss_before_anyone_listens_is_told_later(ends: Ends) -> None:
    leader, _, connections = ends
    end_of_process(connections[2])
    assert leader.loss.error_soon() is not None
    leader.loss.cancel()
    told: list[ProcessLost] = []
    leader.loss.tell(told.append)
    assert len(told) == 1


@pytest.mark.parametrize("tied", [False, True])
def test_a_layout_takes_no_memory_and_builds_the_same_model(tied: bool) -> None:
    model = tiny_lm(tie_word_embeddings=tied)
    layout = pickle.loads(pickle.dumps(layout_of(model)))
    assert {one.device.type for one in layout.parameters()} == {"meta"}
    assert len(pickle.dumps(layout)) < len(pickle.dumps(model)) - sum(one.nbytes for one in model.parameters()) / 2
    assert [(name, one.shape) for name, one in layout.named_parameters()] == [
        (name, one.shape) for name, one in model.named_parameters()
    ]
    assert {name for name, _ in layout.named_buffers()} == {name for name, _ in model.named_buffers()}
    for (_, found), (_, wanted) in zip(layout.named_buffers(), model.named_buffers(), strict=True):
        assert torch.equal(found, wanted)
    assert (layout.lm_head.weight is layout.model.embed_tokens.weight) == tied
    move_to_meta(model)
    assert {one.device.type for one in model.parameters()} == {"meta"}
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied


def settings(**changes: object) -> TrainSettings:
    return train_settings({"domain": "math", "model": "somewhere", **changes})


def test_shards_need_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ConfigError) as refused, lead_processes(settings(sampler="vllm", processes="shard")):
        pass
    assert str(refused.value) == (
        "processes is 'shard', but there is one process; start it with torchrun --nproc-per-node 2 -m agentlearn train"
        " …, or leave out --processes"
    )


def test_shards_cannot_be_sampled_from_by_one_process() -> None:
    with pytest.raises(ConfigError) as refused:
        settings(sampler="local", processes="shard")
    assert refused.value.code == "sharded_weights"


def test_the_sharding_of_accelerate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ConfigError, match="unset it, and give --processes shard"), lead_processes(settings()):
        pass
