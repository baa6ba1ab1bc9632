# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""The copy of the weights that a server gets: whole, alone in its folder, and refused when the server has others."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from agentlearn.errors import WeightsDiffer
from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening
from agentlearn.train.arguments import GRPOArguments
from agentlearn.train.serving import weight_sync
from agentlearn.train.serving.weight_sync import WeightTransfer, save_served
from agentlearn.train.weights.adapter import with_adapter
from tests.support.tiny_model import spread, tiny_network, tiny_tokenizer
from tests.support.vllm_stand_in import StandIn

SKIPPED = "model.layers.1.mlp.up_proj.weight"


class Forgetful(StandIn):
    """A server that says that it has loaded the weights, and keeps its old ones."""

    def load(self, *, first: bool = False) -> None:
        if first:
            super().load(first=True)


class Skipping(StandIn):
    """A server that loads all tensors but one."""

    def load(self, *, first: bool = False) -> None:
        kept = dict(self.network.named_parameters())[SKIPPED].detach().clone()
        super().load(first=first)
        if not first:
            with torch.no_grad():
                self.network.get_parameter(SKIPPED).copy_(kept)


class Unsound(StandIn):
    """A server that loads the weights and computes NaN with them."""

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = super().completion(asked)
        shown = found["choices"][0].get("prompt_logprobs") or []
        for one in filter(None, shown):
            one.update({name: {"logprob": float("nan")} for name in one})
        return found


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


@pytest.mark.parametrize("tied", [False, True])
def test_a_server_that_loads_the_weights_is_believed(tmp_path: Path, tied: bool) -> None:
    network = changed(tied=tied)
    served = synchronised(StandIn, tmp_path, network, tiny_network(tied=tied))
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.allclose(served.network(ids).logits, network(ids).logits, atol=1e-4)
    assert {"/collective_rpc", "/reset_prefix_cache"} <= set(served.calls)


@pytest.mark.parametrize("server", [Forgetful, Skipping, Unsound])
def test_a_server_with_other_weights_ends_the_run(tmp_path: Path, server: type[StandIn]) -> None:
    with pytest.raises(WeightsDiffer):
        synchronised(server, tmp_path, changed(), tiny_network())


@pytest.mark.parametrize("server", [Misusing, Unnamed])
def test_a_server_that_has_the_weights_and_uses_them_wrongly_ends_the_run(
    tmp_path: Path, server: type[StandIn]
) -> None:
    with pytest.raises(WeightsDiffer, match=r"a probe prompt differ by 0\.5 nats on average \(up to .* is rounding\)"):
        synchronised(server, tmp_path, changed(), tiny_network())


def test_weights_are_compared_without_dropout_and_training_goes_on(tmp_path: Path) -> None:
    network = changed()
    for layer in network.model.layers:
        layer.self_attn.attention_dropout = 0.5
    network.train()
    synchronised(StandIn, tmp_path, network, tiny_network())
    assert network.training
    network.eval()
    synchronised(StandIn, tmp_path / "again", network, tiny_network())
    assert not network.training


def test_shards_of_an_earlier_copy_are_not_left_beside_it(tmp_path: Path) -> None:
    tiny_network().save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    network = changed()
    save_served(network, tmp_path)
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["model.safetensors"]
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert all(torch.equal(one, again.state_dict()[name]) for name, one in network.state_dict().items())


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
RENAMED = {"GPTNeoX": "embed_out.weight", "Qwen3Moe": "model.layers.1.mlp.experts.3.up_proj.weight"}


def network_of(kind: str, seed: int = 0) -> Any:
    config = getattr(transformers, f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config")(**KINDS[kind])
    network = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    spread(network, seed)
    return network


def logits(network: Any) -> Any:
    with torch.no_grad():
        return network(torch.arange(20)[None]).logits


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_copy_has_the_names_of_a_checkpoint(tmp_path: Path, kind: str, adapted: bool) -> None:
    network = network_of(kind)
    if adapted:
        pytest.importorskip("peft")
        targets = ("query_key_value",) if kind == "GPTNeoX" else ("q_proj", "v_proj")
        network = with_adapter(network, GRPOArguments(lora_rank=4, lora_targets=targets)).eval()
        spread(network, 5)
    save_served(network, tmp_path)
    load: Any = AutoModelForCausalLM.from_pretrained
    read, found = load(tmp_path, output_loading_info=True)
    assert not any(found[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.allclose(torch.log_softmax(logits(read), -1), torch.log_softmax(logits(network), -1), atol=1e-4)
    assert load_file(tmp_path / "model.safetensors").keys() >= {RENAMED.get(kind, "lm_head.weight")}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_with_other_names_in_a_checkpoint_are_proven_by_hashes(tmp_path: Path, kind: str) -> None:
    network = network_of(kind)
    save_served(network, tmp_path)
    server = StandIn(tmp_path, "tiny")

    async def twice() -> None:
        async with listening(server.respond) as port:
            transfer = WeightTransfer(f"http://{HOST}:{port}/v1", "tiny", tmp_path)
            for seed in (0, 1):
                spread(network, seed)
                assert (await transfer.send(network)).proof == "hashes"
            server.faults.ignores_reloads = True
            spread(network, 2)
            with pytest.raises(WeightsDiffer, match="other values are in"):
                await transfer.send(network)

    asyncio.run(twice())


def test_an_index_of_earlier_shards_does_not_stay(tmp_path: Path) -> None:
    tiny_network().save_pretrained(tmp_path, max_shard_size="40KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    save_served(tiny_network(), tmp_path)
    assert not (tmp_path / "model.safetensors.index.json").exists()


def test_the_copy_has_every_tensor_the_tokenizer_and_the_stop_tokens(tmp_path: Path) -> None:
    network = tiny_network(tied=True)
    network.generation_config.eos_token_id = [5, 9]
    save_served(network, tmp_path, tokenizer=tiny_tokenizer())
    assert load_file(tmp_path / "model.safetensors").keys() == network.state_dict().keys() | {"lm_head.weight"}
    assert json.loads((tmp_path / "config.json").read_text())["tie_word_embeddings"] is False
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == tiny_tokenizer().chat_template
    assert GenerationConfig.from_pretrained(tmp_path).eos_token_id == [5, 9]


def test_a_write_that_is_cut_leaves_the_earlier_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_served(tiny_network(), tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def cut(_state: object, file: Path, **_: object) -> None:
        Path(file).write_bytes(b"half")
        raise OSError("no room left")

    monkeypatch.setattr(weight_sync, "save_file", cut)
    with pytest.raises(OSError, match="no room left"):
        save_served(changed(), tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
