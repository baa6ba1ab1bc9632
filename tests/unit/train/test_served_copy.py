"""The copy of the weights that a server gets: whole, alone in its folder, and refused when the server has others."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import transformers

from agentlearn.errors import WeightsDiffer
from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening
from agentlearn.train.serving.weight_sync import WeightTransfer, save_served
from tests.support.tiny_model import spread, tiny_network
from tests.support.vllm_stand_in import StandIn


class Misusing(StandIn):
    """A server that holds the weights and computes with them in another way."""

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = super().completion(asked)
        shown = found["choices"][0].get("prompt_logprobs") or []
        for one in filter(None, shown):
            one.update({name: {"logprob": told["logprob"] - 0.5} for name, told in one.items()})
        return found


class Unnamed(Misusing):
    """The same where its worker cannot describe the weights."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.faults.has_extension = False


def synchronised(server: type[StandIn], folder: Path, network: Any, start: Any) -> StandIn:
    """Serve one network, then give the server the weights of another; returns the server."""
    save_served(start, folder)
    stand_in = server(folder, "tiny")

    async def respond(request: HttpRequest) -> HttpResponse:
        return await stand_in.respond(request)

    async def once() -> None:
        async with listening(respond) as port:
            await WeightTransfer(f"http://{HOST}:{port}/v1", "tiny", folder).send(network)

    asyncio.run(once())
    return stand_in


def changed(**fields: Any) -> Any:
    network = tiny_network(**fields)
    spread(network, seed=3)
    return network


@pytest.mark.parametrize("server", [Misusing, Unnamed])
def test_a_server_that_has_the_weights_and_uses_them_wrongly_ends_the_run(
    tmp_path: Path, server: type[StandIn]
) -> None:
    with pytest.raises(WeightsDiffer, match=r"a probe prompt differ by 0\.5 nats on average \(up to .* is rounding\)"):
        synchronised(server, tmp_path, changed(), tiny_network())


SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
KINDS: dict[str, dict[str, Any]] = {
    "Llama": SHAPE | {"tie_word_embeddings": True},
    "GPTNeoX": SHAPE,
    "Qwen3Moe": SHAPE | EXPERTS | {"head_dim": 16, "num_key_value_heads": 2},
    "Gemma3": SHAPE | {"head_dim": 16, "num_key_value_heads": 1, "sliding_window": 8},
}


def network_of(kind: str, seed: int = 0) -> Any:
    config = getattr(transformers, f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config")(**KINDS[kind])
    network = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    spread(network, seed)
    return network


@pytest.mark.parametrize("kind", KINDS)
async def test_weights_with_other_names_in_a_checkpoint_are_proven_by_hashes(tmp_path: Path, kind: str) -> None:
    network = network_of(kind)
    save_served(network, tmp_path)
    server = StandIn(tmp_path, "tiny")

    async with listening(server.respond) as port:
        transfer = WeightTransfer(f"http://{HOST}:{port}/v1", "tiny", tmp_path)
        for seed in (0, 1):
            spread(network, seed)
            assert (await transfer.send(network)).proof == "hashes"
        server.faults.ignores_reloads = True
        spread(network, 2)
        with pytest.raises(WeightsDiffer, match="other values are in"):
            await transfer.send(network)
