"""Connections between training processes: commands, notice of a lost process, and models without weights."""

import pickle
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Event

import pytest

torch = pytest.importorskip("torch")

from agentlearn.errors import ProcessLost  # noqa: E402
from agentlearn.train.distributed.sharding import layout_of, move_to_meta  # noqa: E402
from agentlearn.train.distributed.torchrun import FollowerLinks, LeaderLinks  # noqa: E402
from tests.support.lost_process import end_of_process  # noqa: E402
from tests.support.tiny_lm import tiny_lm  # noqa: E402

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
