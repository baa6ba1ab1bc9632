"""Giving weights to a server: any server that does not use them is noticed at a learning rate of 1e-6."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentlearn.errors import WeightsDiffer  # noqa: E402
from agentlearn.serving.http11 import HOST, listening  # noqa: E402
from agentlearn.train.serving import weight_sync  # noqa: E402
from agentlearn.train.serving.weight_sync import WeightTransfer, save_served, served_state  # noqa: E402
from tests.support.tiny_model import saved, tiny_network  # noqa: E402
from tests.support.vllm_stand_in import Faults, StandIn  # noqa: E402

RATE = 1e-6
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Training:
    """A tiny network, and a server of it in this process."""

    def __init__(self, folder: Path, dtype: str = "float32", **faults: Any) -> None:
        self.network = tiny_network(tied=True)
        saved(folder, self.network)
        save_served(self.network, folder)
        self.faults = Faults(**faults)
        self.server = StandIn(folder, "tiny", DTYPES[dtype], self.faults)
        self.folder = folder
        self.dtype = DTYPES[dtype]
        self.optimiser = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=0.0)
        self.chance = torch.Generator().manual_seed(0)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[WeightTransfer]:
        async with listening(self.server.respond) as port:
            yield WeightTransfer(f"http://{HOST}:{port}/v1", "tiny", self.folder, dtype=self.dtype)

    def step(self) -> None:
        ids = torch.randint(0, 250, (2, 16), generator=self.chance)
        self.network(ids, labels=ids).loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()


def run(training: Training, use: Callable[[WeightTransfer], Awaitable[None]]) -> None:
    async def once() -> None:
        async with training.served() as transfer:
            await use(transfer)

    asyncio.run(once())


def first_step(training: Training) -> None:
    """Send the weights at the start, make one step, and send again."""

    async def use(transfer: WeightTransfer) -> None:
        await transfer.send(training.network)
        training.step()
        await transfer.send(training.network)

    run(training, use)


@pytest.mark.parametrize("dtype", DTYPES)
def test_correct_transfers_are_proven_by_hashes(tmp_path: Path, dtype: str) -> None:
    training = Training(tmp_path, dtype)

    async def use(transfer: WeightTransfer) -> None:
        for _ in range(5):
            found = await transfer.send(training.network)
            assert (found.proof, found.tensors) == ("hashes", len(served_state(training.network)))
            training.step()

    run(training, use)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_server_that_never_reloads_is_noticed_at_the_first_step(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(WeightsDiffer, match=r"of its 25 tensors, other values are in .* more; restart the server"):
        first_step(Training(tmp_path, dtype, ignores_reloads=True))


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_a_server_that_misses_one_tensor_is_noticed_whichever_it_is(tmp_path: Path, every: int) -> None:
    training = Training(tmp_path)
    names = tuple(served_state(training.network))
    assert len(names) == 25

    async def use(transfer: WeightTransfer) -> None:
        await transfer.send(training.network)
        for name in names[::every]:
            training.step()
            training.faults.keeps = name
            with pytest.raises(WeightsDiffer, match=rf"of its 25 tensors, other values are in {name}; restart"):
                await transfer.send(training.network)
            training.faults.keeps = None
            await transfer.send(training.network)

    run(training, use)


@pytest.mark.parametrize("has_extension", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_server_with_a_nan_is_noticed_at_the_first_step(tmp_path: Path, dtype: str, has_extension: bool) -> None:
    training = Training(tmp_path, dtype, has_extension=has_extension)

    async def use(transfer: WeightTransfer) -> None:
        await transfer.send(training.network)
        training.faults.broken = "model.layers.1.mlp.down_proj.weight"
        words = r"not finite, in model\.layers\.1\.mlp\.down_proj\.weight" if has_extension else "that are not finite"
        with pytest.raises(WeightsDiffer, match=words):
            await transfer.send(training.network)

    run(training, use)


def test_trained_weights_with_a_nan_are_not_sent(tmp_path: Path) -> None:
    training = Training(tmp_path)

    async def use(transfer: WeightTransfer) -> None:
        with torch.no_grad():
            training.network.model.norm.weight[3] = float("inf")
        with pytest.raises(WeightsDiffer, match=r"the trained weights .* in model\.norm\.weight; continue from"):
            await transfer.send(training.network)
        assert training.server.calls == []

    run(training, use)


def test_without_hashes_the_change_of_logprobs_proves_the_weights(tmp_path: Path) -> None:
    training = Training(tmp_path, has_extension=False)

    async def use(transfer: WeightTransfer) -> None:
        proofs: list[str] = []
        for _ in range(3):
            proofs.append((await transfer.send(training.network)).proof)
            training.step()
        assert proofs == ["rounding", "change", "change"]
        training.faults.ignores_reloads = True
        with pytest.raises(WeightsDiffer, match="did not change as the trainer's did; restart"):
            await transfer.send(training.network)

    run(training, use)


def test_transfers_that_can_never_be_judged_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_sync, "UNPROVEN_LIMIT", 3)
    training = Training(tmp_path, "bfloat16", has_extension=False)

    async def use(transfer: WeightTransfer) -> None:
        assert (await transfer.send(training.network)).proof == "rounding"
        assert (await transfer.send(training.network)).proof == "none yet"  # nothing changed, so it is not counted
        for _ in range(3):
            training.step()
            assert (await transfer.send(training.network)).proof == "none yet"
        training.step()
        with pytest.raises(WeightsDiffer, match=r"3 transfers changed .* start the server with --worker-ext") as found:
            await transfer.send(training.network)
        assert found.value.code == "weights_differ"

    run(training, use)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_50_correct_transfers_without_hashes_give_no_alarm(tmp_path: Path, dtype: str) -> None:
    training = Training(tmp_path, dtype, has_extension=False)
    proofs: list[str] = []

    async def use(transfer: WeightTransfer) -> None:
        for _ in range(50):
            proofs.append((await transfer.send(training.network)).proof)
            training.step()

    run(training, use)
    assert proofs[0] == "rounding"
    assert "change" in proofs or dtype == "bfloat16"
