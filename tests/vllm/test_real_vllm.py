"""A real vLLM server: exact tokens through a typed agent, weight transfer, and tied embeddings."""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from pydantic_ai.messages import ModelResponse
from pydantic_ai.settings import ModelSettings
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from agentlearn.config import CallOptions
from agentlearn.errors import ConfigError, WeightsDiffer
from agentlearn.models.endings import SampledTokens, tokens_of
from agentlearn.models.endpoint import TokenRequest, open_endpoint, served_model
from agentlearn.serving.chat_service import ChatService
from agentlearn.serving.child_process import ServerCommand, supervised_server
from agentlearn.train.engine.chat_template import TemplateFormat
from agentlearn.train.serving.vllm import EXTENSION, SERVER, existing_vllm, unused_port, vllm_endpoint
from agentlearn.train.serving.weight_sync import WeightTransfer, save_served
from agentlearn.train.settings import VllmOptions
from agentlearn.train.weights.loading import LoadedModel
from tests.support.adding import Reciting, Total, adder
from tests.support.tiny_model import forward_logprobs, saved, spread, taught, tiny_network, tiny_tokenizer


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLEARN_VLLM_ARGS", "--max-model-len 512")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")


async def loaded(transfer: WeightTransfer) -> None:
    """Have the server load what is in the folder."""
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
        rpc: dict[str, Any] = {"method": "reload_weights"}
        if not transfer.started_from_folder:
            rpc["kwargs"] = {"weights_path": str(transfer.folder)}
        root = transfer.base_url.removesuffix("/v1")
        (await http.post(f"{root}/collective_rpc", json=rpc)).raise_for_status()
        (await http.post(f"{root}/reset_prefix_cache", json={})).raise_for_status()


def tokens(messages: list[Any]) -> list[SampledTokens]:
    found = [tokens_of(one) for one in messages if isinstance(one, ModelResponse)]
    return [one for one in found if one is not None]


def test_a_typed_agent_calls_its_tool_and_every_token_is_known(tmp_path: Path) -> None:
    reciting = Reciting()

    async def record() -> None:
        service = ChatService(reciting, TemplateFormat(tiny_tokenizer()), model="toy")
        async with service.serve() as url, served_model(url, "toy", None, CallOptions()) as model:
            await adder().run("2 + 3?", model=model, model_settings=ModelSettings(seed=1))

    asyncio.run(record())
    torch.manual_seed(0)
    # Taught for a little while only, so that log-probabilities are not all 0.
    network = taught(tiny_network(hidden=64), reciting.seen, steps=25)
    directory = saved(tmp_path / "adding", network)

    async def use() -> None:
        async with open_endpoint(
            f"vllm:{directory}", CallOptions(call_deadline_s=300), tokens=TokenRequest()
        ) as endpoint:
            for temperature in (0.0, 0.1):
                settings = ModelSettings(seed=3, temperature=temperature)
                result = await adder().run("2 + 3?", model=endpoint.model, model_settings=settings)
                assert result.output == Total(total=5)
                first, second = tokens(result.all_messages())
                for turn in (first, second):
                    wanted = forward_logprobs(network, turn.prompt, turn.ids, temperature or 1.0)
                    assert turn.logprobs == pytest.approx(wanted, abs=0.02)
                so_far = (*first.prompt, *first.ids)
                assert second.prompt[: len(so_far)] == so_far

    asyncio.run(use())


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
async def test_each_way_to_miss_weights_is_noticed_at_a_rate_of_a_millionth(
    tmp_path: Path, dtype: Any, tied: bool
) -> None:
    network = tiny_network(tied=tied)
    directory = saved(tmp_path / "tiny", network)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-6, weight_decay=0.0)

    def step() -> None:
        ids = torch.randint(0, 250, (2, 16))
        network(ids, labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()

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


@pytest.mark.slow
@pytest.mark.parametrize("has_extension", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_200_correct_transfers_give_no_alarm(tmp_path: Path, dtype: Any, has_extension: bool) -> None:
    network = tiny_network(tied=True)
    directory = saved(tmp_path / "tiny", network)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-6)
    command = None if has_extension else (sys.executable, "-c", WITHOUT_EXTENSION)
    proofs, means, largest = Counter[str](), list[float](), list[float]()

    async def use() -> None:
        how = VllmOptions(vllm_dtype=dtype)
        async with vllm_endpoint(str(directory), trained=True, options=how, command=command) as service:
            for _ in range(200):
                found = await service.sync(network)
                proofs[found.proof] += 1
                means.append(found.mean_difference)
                largest.append(found.largest_difference)
                ids = torch.randint(0, 250, (2, 16))
                network(ids, labels=ids).loss.backward()
                optimiser.step()
                optimiser.zero_grad()

    asyncio.run(use())
    print(f"{dtype}, extension {has_extension}: {dict(proofs)}, mean {max(means):.2g}, largest {max(largest):.2g} nats")
    assert sum(proofs.values()) == 200
    assert not has_extension or proofs["hashes"] == 200


WITHOUT_EXTENSION = """
import runpy, sys
at = sys.argv.index("--worker-extension-cls")
del sys.argv[at:at + 2]
runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("has_extension", [True, False])
async def test_a_server_that_somebody_else_started_gets_the_weights(tmp_path: Path, has_extension: bool) -> None:
    network = tiny_network()
    directory = saved(tmp_path / "tiny", network)
    loaded = LoadedModel(model=network, tokenizer=tiny_tokenizer(), name="tiny")
    port = unused_port()
    url = f"http://127.0.0.1:{port}/v1"
    words = [
        "--model",
        str(directory),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--enforce-eager",
        "--dtype",
        "float32",
    ]
    words += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--max-model-len", "512"]
    words += ["--worker-extension-cls", EXTENSION] if has_extension else []
    command = ServerCommand(
        name="a server",
        command=(*SERVER, *words),
        health=f"http://127.0.0.1:{port}/health",
        environment={"VLLM_SERVER_DEV_MODE": "1", "HF_HUB_OFFLINE": "1"},
    )

    async with supervised_server(command), existing_vllm(url, str(directory), loaded, seed=0) as service:
        proofs: list[str] = []
        for seed in range(3):
            spread(network, seed=seed)
            proofs.append((await service.sync(network)).proof)
        assert proofs == (["hashes"] * 3 if has_extension else ["rounding", "change", "change"])
        other = tiny_network(hidden=64)
        with pytest.raises(ConfigError, match="serves another model than 'tiny': its hidden_size is 32, not 64"):
            async with existing_vllm(
                url, "x", LoadedModel(model=other, tokenizer=tiny_tokenizer(), name="tiny"), seed=0
            ):
                raise AssertionError
