"""A real vLLM server: exact tokens through a typed agent, weight transfer, and tied embeddings."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from agentlearn.errors import WeightsDiffer
from agentlearn.train.serving.vllm import vllm_endpoint
from agentlearn.train.serving.weight_sync import WeightTransfer, save_served
from agentlearn.train.settings import VllmOptions
from tests.support.tiny_model import forward_logprobs, saved, spread, tiny_network


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLEARN_VLLM_ARGS", "--max-model-len 512")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")


async def loaded(transfer: WeightTransfer) -> None:
    """Have the server load what is in the folder."""
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
        await transfer._reload(http)


def test_weights_reach_the_server_and_the_tied_trap_is_noticed(tmp_path: Path) -> None:
    network = tiny_network(tied=True)
    directory = saved(tmp_path / "tied", network)

    async def use() -> None:
        async with vllm_endpoint(str(directory), trained=True) as service:
            assert service.transfer is not None
            assert (await service.transfer.check(network)).proof == "hashes"
            async with httpx2.AsyncClient(timeout=60) as http:
                asked = {"model": service.model, "max_tokens": 20, "temperature": 0.7, "seed": 1, "logprobs": True}
                asked |= {"messages": [{"role": "user", "content": "hi"}], "return_token_ids": True}
                answer = (await http.post(f"{service.base_url}/chat/completions", json=asked)).json()
                again = (await http.post(f"{service.base_url}/chat/completions", json=asked)).json()
            choice = answer["choices"][0]
            assert choice["token_ids"] == again["choices"][0]["token_ids"]
            wanted = forward_logprobs(network, answer["prompt_token_ids"], choice["token_ids"], 0.7)
            assert [one["logprob"] for one in choice["logprobs"]["content"]] == pytest.approx(wanted, abs=0.02)
            spread(network, seed=3)
            with pytest.raises(WeightsDiffer):
                await service.transfer.check(network)
            found = await service.sync(network)
            assert (found.proof, found.mean_difference < 0.005) == ("hashes", True)

    asyncio.run(use())

    async def trapped() -> None:
        """The checkpoint itself is served, and overwritten as `save_pretrained` writes it: tied."""
        async with vllm_endpoint(str(directory)) as service:
            other = AutoModelForCausalLM.from_pretrained(directory).eval()
            spread(other, seed=4)
            other.save_pretrained(directory)
            root = service.server_url.removesuffix("/v1")
            async with httpx2.AsyncClient(timeout=60) as http:
                reloaded = await http.post(f"{root}/collective_rpc", json={"method": "reload_weights"})
                assert reloaded.status_code == 200
                await http.post(f"{root}/reset_prefix_cache")
            with pytest.raises(WeightsDiffer):
                await WeightTransfer(service.server_url, service.model, directory).check(other)

    asyncio.run(trapped())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("tied", [False, True])
def test_each_way_to_miss_weights_is_noticed_at_a_rate_of_a_millionth(tmp_path: Path, dtype: Any, tied: bool) -> None:
    network = tiny_network(tied=tied)
    directory = saved(tmp_path / "tiny", network)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-6, weight_decay=0.0)

    def step() -> None:
        ids = torch.randint(0, 250, (2, 16))
        network(ids, labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    async def use() -> None:
        async with vllm_endpoint(str(directory), trained=True, options=VllmOptions(vllm_dtype=dtype)) as service:
            transfer = service.transfer
            assert transfer is not None
            for _ in range(3):
                found = await service.sync(network)
                assert (found.proof, found.tensors) == ("hashes", 20)
                step()
            with pytest.raises(WeightsDiffer, match="of its 20 tensors, other values are in"):  # it never reloads
                await transfer.check(network)
            await service.sync(network)
            for name in ("model.layers.1.self_attn.q_proj.weight", "model.norm.weight", "lm_head.weight"):
                old = load_file(transfer.folder / "model.safetensors")[name]
                for _ in range(20):  # in bf16 many weights do not change in one step
                    step()
                save_served(network, transfer.folder)
                weights = load_file(transfer.folder / "model.safetensors")
                with torch.no_grad():
                    weights[name].view(-1)[0] += 1.0
                changed = weights[name].clone()
                save_file({**weights, name: old}, transfer.folder / "model.safetensors", metadata={"format": "pt"})
                await loaded(transfer)
                network.get_parameter(name).data.copy_(changed)
                with pytest.raises(WeightsDiffer, match="other values are in"):
                    await transfer.check(network)
            await service.sync(network)
            save_served(network, transfer.folder)
            weights = load_file(transfer.folder / "model.safetensors")
            weights["model.layers.0.mlp.up_proj.weight"].view(-1)[5] = float("nan")
            save_file(weights, transfer.folder / "model.safetensors", metadata={"format": "pt"})
            await loaded(transfer)
            with pytest.raises(WeightsDiffer, match=r"not finite, in model\.layers\.0\.mlp\.gate_up_proj\.weight"):
                await transfer.check(network)

    asyncio.run(use())
