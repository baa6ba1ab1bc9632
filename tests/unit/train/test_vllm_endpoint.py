"""`vllm:MODEL` with a scripted stand-in: running the server, exact tokens, and weight transfer."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import httpx2  # noqa: E402
from pydantic_ai.messages import ModelRequest  # noqa: E402
from pydantic_ai.models import ModelRequestParameters  # noqa: E402
from pydantic_ai.settings import ModelSettings  # noqa: E402

from agentlearn.config import BudgetOptions  # noqa: E402
from agentlearn.config.options import ModelOptions  # noqa: E402
from agentlearn.errors import EndpointError  # noqa: E402
from agentlearn.models.budget import Budget  # noqa: E402
from agentlearn.models.call_context import CallContext, WorkUnit  # noqa: E402
from agentlearn.models.endpoint import open_endpoint  # noqa: E402
from agentlearn.models.service_record import service_records  # noqa: E402
from agentlearn.serving import child_process as supervision  # noqa: E402
from agentlearn.serving.child_process import ServerCommand, supervised_server  # noqa: E402
from agentlearn.train.serving import vllm  # noqa: E402
from agentlearn.train.serving import weight_sync as sync  # noqa: E402
from tests.support.stages import RUN, ListJournal  # noqa: E402
from tests.support.tiny_model import saved, tiny_network, tiny_tokenizer  # noqa: E402


@pytest.fixture(autouse=True)
def _found_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = str(Path(__file__).parents[3])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))


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
    port = vllm.unused_port()
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


async def test_a_server_that_dies_is_started_again_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "SERVER_RESTARTS", 1)
    monkeypatch.setattr(supervision, "CHECK_S", 0.02)
    how, url = plan()

    async def die(http: httpx2.AsyncClient) -> None:
        with pytest.raises(httpx2.HTTPError):
            await http.get(f"{url}/die")

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
        "from agentlearn.serving.child_process import ServerCommand, supervised_server\n"
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


def test_vllm_servers_divide_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert [vllm.share_of_gpus(one, 2)[0]["CUDA_VISIBLE_DEVICES"] for one in range(2)] == ["4,5", "6,7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    both = ({"CUDA_VISIBLE_DEVICES": "3"}, ("--gpu-memory-utilization", "0.45"))
    assert [vllm.share_of_gpus(one, 2) for one in range(2)] == [both, both]
    assert vllm.share_of_gpus(0, 1) == ({}, ())


@pytest.mark.slow
def test_a_model_may_have_several_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "SERVER", (sys.executable, "-m", "tests.support.vllm_stand_in"))
    monkeypatch.setattr(vllm, "require_vllm", str)
    folder = saved(tmp_path / "tiny", tiny_network(context=512))

    async def main() -> None:
        options = ModelOptions(model=f"vllm:{folder}?replicas=2")
        async with open_endpoint(options.model, options) as endpoint:
            context = CallContext(RUN, ListJournal(), Budget(BudgetOptions()))
            for name in ("first", "second"):
                client = endpoint.client(WorkUnit(context, "rollout", name, 1))
                settings = ModelSettings(max_tokens=4)
                await client.request([ModelRequest.user_text_prompt(name)], settings, ModelRequestParameters())
            (record,) = service_records([endpoint.endpoint_state])
        assert endpoint.name == f"vllm:{folder}"
        assert [one.answers for one in record.endpoints] == [1, 1]
        assert len({one.url for one in record.endpoints}) == 2

    asyncio.run(main())
