"""Options of the vLLM server that training starts, sleep during updates, and a server that somebody else started."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from agentlearn.errors import ConfigError
from agentlearn.serving.http11 import HOST, listening
from agentlearn.train.serving.vllm import EXTENSION, VllmService, existing_vllm
from agentlearn.train.serving.weight_sync import WeightTransfer, save_served
from agentlearn.train.serving.worker_extension import EXTENSION as REAL_EXTENSION
from agentlearn.train.settings import TrainSettings, VllmOptions, train_settings
from agentlearn.train.trainable import ServedWeights
from agentlearn.train.weights.loading import LoadedModel
from tests.support.cases import cases
from tests.support.tiny_model import saved, spread, tiny_network, tiny_tokenizer
from tests.support.vllm_stand_in import Faults, StandIn


def given(**fields: Any) -> TrainSettings:
    return train_settings({"domain": "math", "model": "weights/small", **fields})


def test_options_become_arguments_of_the_server() -> None:
    assert VllmOptions().server_arguments(cpu=True) == ("--dtype", "float32")
    assert VllmOptions().server_arguments(cpu=False) == ()
    options = VllmOptions(
        vllm_tensor_parallel=2,
        vllm_data_parallel=3,
        vllm_gpu_memory=0.4,
        vllm_max_context=4096,
        vllm_dtype="bfloat16",
        vllm_sleep=True,
    )
    assert " ".join(options.server_arguments(cpu=True)) == (
        "--dtype bfloat16 --tensor-parallel-size 2 --data-parallel-size 3 --gpu-memory-utilization 0.4"
        " --max-model-len 4096 --enable-sleep-mode"
    )
    assert EXTENSION == REAL_EXTENSION


@pytest.mark.parametrize(
    ("device", "outside", "visible"),
    cases(__file__, "a_device_is_counted_among_the_visible_ones"),
)
def test_a_device_is_counted_among_the_visible_ones(
    device: str | None, outside: str, visible: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", outside)
    found = VllmOptions(vllm_device=device).server_environment()
    assert found.get("CUDA_VISIBLE_DEVICES") == visible


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    cases(__file__, "contradictory_options_are_refused"),
)
def test_contradictory_options_are_refused(fields: dict[str, Any], code: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        given(**fields)
    assert refused.value.code == code
    assert sentence in refused.value.message


@asynccontextmanager
async def served(folder: Path, **faults: Any) -> AsyncGenerator[tuple[StandIn, str]]:
    saved(folder, tiny_network())
    stand_in = StandIn(folder, "tiny", faults=Faults(**faults))
    async with listening(stand_in.respond) as port:
        yield stand_in, f"http://{HOST}:{port}/v1"


def test_a_server_on_the_same_gpu_sleeps_during_the_update(tmp_path: Path) -> None:
    network = tiny_network()
    order: list[str] = []

    async def use() -> None:
        async with served(tmp_path) as (stand_in, url):
            save_served(network, tmp_path)
            service = VllmService(url, "tiny", None, url, tmp_path, WeightTransfer(url, "tiny", tmp_path))
            sampler = ServedWeights(service, sleeps=True)
            await sampler.synchronise(network)
            stand_in.calls = order
            async with sampler.paused():
                order.append("update")
                spread(network, seed=5)
            await sampler.synchronise(network)
            async with ServedWeights(service).paused():
                assert order[-1] == "/v1/completions"

    asyncio.run(use())
    assert order == [
        "/sleep",
        "update",
        "/wake_up",
        "/reset_prefix_cache",
        "/collective_rpc",  # reload
        "/reset_prefix_cache",
        "/collective_rpc",  # hashes
        "/v1/completions",
    ]


def loaded(network: Any, name: str = "tiny") -> LoadedModel:
    return LoadedModel(model=network, tokenizer=tiny_tokenizer(), name=name)


@pytest.mark.parametrize("has_extension", [True, False])
async def test_a_server_that_somebody_else_started_gets_the_weights_by_path(
    tmp_path: Path, has_extension: bool
) -> None:
    network = tiny_network()

    async with (
        served(tmp_path / "theirs", has_extension=has_extension) as (stand_in, url),
        existing_vllm(url, "theirs", loaded(network), seed=0) as service,
    ):
        for seed in (3, 4):
            spread(network, seed=seed)
            found = await service.sync(network)
            assert stand_in.folder == service.folder
            assert found.largest_difference < 1e-4
        assert found.proof == ("hashes" if has_extension else "change")
        assert service.server is None
    assert service.folder is not None
    assert not service.folder.exists()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    cases(__file__, "a_server_with_other_settings_is_refused"),
)
async def test_a_server_with_other_settings_is_refused(tmp_path: Path, wrong: dict[str, str], sentence: str) -> None:
    async with served(tmp_path) as (stand_in, url):
        stand_in.settings |= wrong
        with pytest.raises(ConfigError) as refused:
            async with existing_vllm(url, "my model", loaded(tiny_network()), seed=0):
                raise AssertionError
    assert sentence in refused.value.message
    assert refused.value.message.endswith(
        "start it with: VLLM_SERVER_DEV_MODE=1 vllm serve 'my model' --logprobs-mode processed_logprobs"
        f" --generation-config vllm --worker-extension-cls {EXTENSION}"
    )


def test_a_server_of_another_model_or_vocabulary_is_refused(tmp_path: Path) -> None:
    other_words = tiny_tokenizer()
    other_words.add_tokens(["Zebra"])

    async def refused(network: Any, tokenizer: Any, sentence: str) -> None:
        async with served(tmp_path) as (stand_in, url):
            with pytest.raises(ConfigError, match=sentence):
                async with existing_vllm(url, "x", LoadedModel(network, tokenizer, "mine"), seed=0):
                    raise AssertionError
            assert "/collective_rpc" not in stand_in.calls

    size = "serves another model than 'mine': its num_hidden_layers is 2, not 3"
    asyncio.run(refused(tiny_network(layers=3), tiny_tokenizer(), size))
    asyncio.run(refused(tiny_network(), other_words, "has another vocabulary than 'mine'"))
