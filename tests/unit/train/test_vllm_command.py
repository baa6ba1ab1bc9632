"""How `vllm:MODEL` starts the server: its arguments, its environment, the copy that it serves, and sleeping."""

import asyncio
import json
from argparse import ArgumentParser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import httpx2  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from agentlearn.serving.child_process import ServerCommand  # noqa: E402
from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening  # noqa: E402
from agentlearn.train.serving import vllm  # noqa: E402
from agentlearn.train.serving.vllm import EXTENSION, VllmService, files_sha256, vllm_endpoint  # noqa: E402
from agentlearn.train.settings import VllmOptions  # noqa: E402
from tests.support.tiny_model import saved, tiny_network, tiny_tokenizer  # noqa: E402


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("model") / "tiny", tiny_network())


def opened(
    model: str | Path, monkeypatch: pytest.MonkeyPatch, *, gpu: bool = False, **how: Any
) -> tuple[ServerCommand, VllmService, dict[str, Any]]:
    """Open the endpoint without a server. Returns the server's command, the service and the weights in its folder."""
    commands: list[ServerCommand] = []

    @asynccontextmanager
    async def supervised(command: ServerCommand) -> AsyncGenerator[Any]:
        commands.append(command)
        yield SimpleNamespace(log=Path("server.log"), starts=1)

    @asynccontextmanager
    async def fronted(url: str, *_: Any, **__: Any) -> AsyncGenerator[Any]:
        yield url, None

    monkeypatch.setattr(vllm, "supervised_server", supervised)
    monkeypatch.setattr(vllm, "token_service", fronted)
    monkeypatch.setattr(vllm, "without_gpu", lambda: not gpu)

    async def once() -> tuple[VllmService, dict[str, Any]]:
        async with vllm_endpoint(str(model), command=("vllm",), **how) as service:
            return service, {} if service.folder is None else load_file(service.folder / "model.safetensors")

    service, weights = asyncio.run(once())
    return commands[0], service, weights


def test_the_server_reports_what_the_trainer_needs_and_adds_no_sampling_of_its_own(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(vllm.ARGUMENTS, "--max-model-len 300 --name 'two words'")
    command, service, _ = opened(checkpoint, monkeypatch, seed=5, arguments=("--seed", "6"))
    parser = ArgumentParser()
    for name in ("model", "served-model-name", "host", "port", "generation-config", "logprobs-mode", "dtype"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--seed", action="append")
    known, others = parser.parse_known_args(list(command.command))
    assert (known.model, known.served_model_name, known.host) == (str(checkpoint), "tiny", HOST)
    assert command.health == f"http://{HOST}:{known.port}/health"
    assert service.server_url == f"http://{HOST}:{known.port}/v1"
    assert (known.generation_config, known.logprobs_mode, known.dtype) == ("vllm", "processed_logprobs", "float32")
    assert known.seed == ["5", "6"]  # vLLM takes the last one, so what a user gives comes after what we set
    assert others[-4:] == ["--max-model-len", "300", "--name", "two words"]
    assert "--worker-extension-cls" not in others
    assert service.transfer is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_trained_model_is_served_from_a_copy_in_its_own_number_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    checkpoint = saved(tmp_path / "own", tiny_network(tied=True).to(dtype))
    before = files_sha256(checkpoint)
    options = VllmOptions(vllm_dtype="bfloat16", vllm_max_context=77)
    command, service, weights = opened(checkpoint, monkeypatch, trained=True, options=options)
    assert service.folder is not None
    assert service.folder != checkpoint
    assert f"--model {service.folder} " in " ".join(command.command)
    assert {one.dtype for one in weights.values()} == {dtype}
    assert "lm_head.weight" in weights
    assert files_sha256(checkpoint) == before
    at = command.command.index("--worker-extension-cls")
    assert command.command[at + 1] == EXTENSION
    assert service.transfer is not None
    assert (service.transfer.folder, service.transfer.dtype) == (service.folder, torch.bfloat16)


@pytest.mark.parametrize("ends", [5, [5, 9], None])
def test_the_server_gets_every_token_that_ends_an_answer(tmp_path: Path, ends: Any) -> None:
    network = tiny_network()
    network.generation_config.eos_token_id = ends
    folder = saved(tmp_path / "own", network)
    if ends is None:
        (folder / "generation_config.json").unlink()
    asked: list[dict[str, Any]] = []

    async def respond(request: HttpRequest) -> HttpResponse:
        if request.path == "/v1/models":
            return HttpResponse(200, b'{"data": [{"id": "tiny", "max_model_len": 512}]}')
        asked.append(json.loads(request.body))
        choice = {"token_ids": [40], "logprobs": {"token_logprobs": [-1]}, "finish_reason": "stop"}
        return HttpResponse(200, json.dumps({"choices": [choice], "usage": {}}).encode())

    async def once() -> None:
        async with (
            listening(respond) as port,
            vllm.token_service(f"http://{HOST}:{port}/v1", "tiny", folder, 3, cpu=True) as (front, abilities),
            httpx2.AsyncClient(trust_env=False, timeout=60) as http,
        ):
            assert abilities is not None
            body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
            answer = await http.post(f"{front}/chat/completions", json=body)
            assert answer.status_code == 200

    asyncio.run(once())
    own = {tiny_tokenizer().eos_token_id}
    assert set(asked[0]["stop_token_ids"]) == own | set(ends if isinstance(ends, list) else [ends] if ends else [])
