"""No byte that is stored, printed, exported or logged holds a credential, whatever way it was given."""

import asyncio
import base64
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import pytest

from agentlearn.live.inbox import Inbox
from tests.support.command import AGENTLEARN, agentlearn, agentlearn_here
from tests.support.openai_script import Reply, Request, Script, Solver, error
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

PROBLEMS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(11, 19)}
USER, PASSWORD, QUERY, KEY = "canary-user", "canary/pass#word", "canary query value", "sk-canary-0123456789"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
FORMS = [form for one in (PASSWORD, QUERY, KEY, BASIC) for form in (one, quote(one, safe=""), one.replace(" ", "+"))]
QUICK = ("--reward", "number", "--epochs", "1", "--batch-size", "4", "--eval-rollouts", "1", "--tools", "none")
SOLVER = Solver(answers=PROBLEMS, success_rate=0.5, final="Answer: {0}".format)


class Gate:
    """Lets requests with the right credentials pass. Refusals, and now and then a failure, repeat what was sent."""

    def __init__(self, *, wanted: str) -> None:
        self.wanted, self.refused, self.asked = wanted, 0, itertools.count(1)

    def __call__(self, path: str, sent: str) -> Reply | None:
        echo = f"Incorrect API key provided: {sent.split()[-1] if sent else 'none'} at {path}"
        if sent != self.wanted or (QUERY.replace(" ", "+") not in path and self.wanted.startswith("Basic")):
            self.refused += 1
            return error(401, {"error": {"message": echo}})
        if next(self.asked) % 5 == 0:
            return error(500, {"error": {"message": f"{echo} {PASSWORD}"}})
        return None


def repeating(*secrets: str) -> Script:
    """A model whose answers hold these secrets."""

    def script(request: Request) -> Reply:
        reply = SOLVER(request)
        message = dict(reply.message or {})
        if message.get("content"):
            message["content"] = " ".join([*secrets, message["content"]])
        return replace(reply, message=message)

    return script


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in PROBLEMS.items()))
    return str(path)


def leaks(folder: Path) -> list[str]:
    """Where a form of a credential is found in any file."""
    return [
        f"{form!r} in {path}"
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
        for form in FORMS
        if form.encode() in path.read_bytes()
    ]


def test_credentials_of_an_address_are_nowhere_but_in_memory(tasks: str, tmp_path: Path) -> None:
    gate = Gate(wanted=f"Basic {BASIC}")
    with OpenAIStub(repeating(KEY, PASSWORD, BASIC), gate=gate) as stub:
        host = stub.base_url.removeprefix("http://").removesuffix("/v1")
        model = f"http://{USER}:{quote(PASSWORD, safe='')}@{host}/v1?key={quote(QUERY)}#any"
        said = everything_said(tasks, tmp_path, gate, model, f"http://{host}/v1#any")
    assert [form for form in FORMS for text in said if form in text] == []
    assert leaks(tmp_path) == []


def everything_said(tasks: str, tmp_path: Path, gate: Gate, model: str, shown: str) -> list[str]:
    """What many commands print that are given the address of the model."""
    environment = {"AGENTLEARN_API_KEY": KEY, "HF_TOKEN": KEY, "OPENAI_API_KEY": KEY}
    said = list[str]()

    def run(*words: str, expect: int = 0, **more: str) -> str:
        done = agentlearn(*words, cwd=tmp_path, expect=expect, env={**environment, **more})
        said.append(done.stdout + done.stderr)
        return said[-1]

    def read(*words: str) -> str:
        """The same in this process, which was never given a credential that it could leave out."""
        done = agentlearn_here(*words, cwd=tmp_path)
        said.append(done.stdout + done.stderr)
        return said[-1]

    run("learn", tasks, *QUICK, "--model", model, "--max-tokens", "1500", "--log", "debug", expect=3)
    (run_id,) = (one["run"] for one in json.loads(read("runs", "list", "--json"))["runs"])
    assert "credentials are never stored" in run("learn", "--resume", run_id, expect=2)
    assert gate.refused == 0
    more = ("--max-tokens", "9000000")
    assert "keeps its settings" in run("learn", "--resume", run_id, "--model", "sim:novice", *more, expect=2)
    wrong = model.replace("canary-user", "another-user")
    run("learn", "--resume", run_id, *more, expect=1, AGENTLEARN_MODEL=wrong)
    assert gate.refused > 0
    run("learn", "--resume", run_id, *more, AGENTLEARN_MODEL=model)
    assert shown in read("runs", "show", run_id) + read("runs", "list")
    arms = (f"none,model={model}", f"warm=none,model={model},temperature=0.9")
    words = ("--domain", tasks, "--reward", "number", "--k", "1", "--sandbox", "unsafe-local", "--yes")
    out = (word for file in ("out.csv", "out.json", "out.html") for word in ("--out", file))
    run("compare", *arms, *words, *out)
    for form in ("openai-jsonl", "trl-jsonl", "parquet"):
        read("store", "export", "--format", form, "--out", f"exported.{form}")
    read("store", "snapshot")
    run("doctor", "--model", model, "--yes")
    return said


def test_an_api_key_that_a_service_repeats_is_nowhere(tasks: str, tmp_path: Path) -> None:
    gate, said = Gate(wanted=f"Bearer {KEY}"), list[str]()
    for key, status in ((KEY, 0), (f"{KEY}-wrong", 1)):
        with OpenAIStub(repeating(KEY), gate=gate) as stub:
            words = ("learn", tasks, *QUICK, "--model", f"{stub.base_url}#any", "--log", "debug")
            done = agentlearn(*words, cwd=tmp_path, expect=status, env={"AGENTLEARN_API_KEY": key})
            said.append(done.stdout + done.stderr)
    assert "[secret]" in said[1]
    assert KEY not in "".join(said)
    assert leaks(tmp_path) == []


JSON = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BROKEN = [
    f"HTTP/1.1 401 No\r\ncontent-length: 64\r\n\r\n{json.dumps({'error': {'message': f'Bad key {KEY}'}}):64}",
    f"HTTP/1.1 403 No\r\nwww-authenticate: Bearer error={KEY}\r\ncontent-length: 0\r\n\r\n",
    f"HTTP/1.1 400 No\r\ncontent-length: {len(KEY)}\r\n\r\n{KEY}",
    f"HTTP/1.1 404 {KEY}\r\ncontent-length: 0\r\n\r\n",
    f"HTTP/1.1 429 No\r\nretry-after: 0\r\ncontent-length: {len(KEY)}\r\n\r\n{KEY}",
    f"HTTP/1.1 500 No\r\ncontent-type: text/html\r\ncontent-length: {len(KEY) + 6}\r\n\r\n<html>{KEY}",
    f"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:9/{KEY}?key={KEY}\r\ncontent-length: 0\r\n\r\n",
    f"HTTP/1.1 {KEY} what\r\n\r\n",
    f"{KEY} is what you sent\r\n\r\n",
    f"{JSON}content-length: {len(KEY)}\r\n\r\n{KEY}",
    f"{JSON}content-length: 999\r\n\r\n{KEY}",
    f"{JSON}content-length: 5\r\ncontent-length: 6\r\n\r\n{KEY}",
    f"{JSON}content-length: {KEY}\r\n\r\n{KEY}",
    f"{JSON}transfer-encoding: chunked\r\n\r\n{KEY}\r\n{KEY}",
    f"{JSON}transfer-encoding: {KEY}\r\n\r\n{KEY}",
    f"{JSON}content-encoding: gzip\r\ncontent-length: {len(KEY)}\r\n\r\n{KEY}",
    f"{JSON}{KEY} without a colon\r\ncontent-length: 0\r\n\r\n",
    f"{JSON}x-key: {KEY * 9_000}\r\ncontent-length: 0\r\n\r\n",
    f"{JSON}set-cookie: {KEY}={KEY}\r\n\r\n" + json.dumps([KEY]),
    f"{JSON}\r\n" + json.dumps({"error": {"message": KEY, "code": KEY}}),
    f"{JSON}\r\n" + json.dumps({"id": KEY, "model": KEY, "choices": [], "usage": {KEY: KEY}}),
    f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {KEY}\n\ndata: {{{KEY}",
]
"""What a service says that repeats the key in a reply that nobody can use."""
ASKED = {"model": "any", "messages": [{"role": "user", "content": next(iter(PROBLEMS))}]}
DOCTOR = (
    "import sys\nfrom agentlearn.cli.app import run\nfor one in sys.argv[1:]: run(['doctor', '--yes', '--model', one])"
)


@contextmanager
def answering() -> Generator[str]:
    """A service that answers a request for the model NUMBER with the broken reply of that number."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                with client, suppress(OSError):
                    client.settimeout(5)
                    sent = b""
                    while b"\r\n\r\n" not in sent:
                        sent += client.recv(65_536)
                    size = int((re.search(rb"content-length: (\d+)", sent.lower()) or [b"", b"0"])[1])
                    while len(sent.partition(b"\r\n\r\n")[2]) < size:
                        sent += client.recv(65_536)
                    client.sendall(BROKEN[int((re.search(rb'"model": ?"(\d+)"', sent) or [b"", b"0"])[1])].encode())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def gateway(folder: Path, upstream: str) -> Generator[str]:
    """`agentlearn serve` with the key. What it prints goes to a file of the folder."""
    (folder / "tokens").write_text("token-of-a-client\n")
    words = ("serve", "--upstream", upstream, "--port", "0", "--json", "--key", "MARKED", "--tokens", "tokens")
    given = {**os.environ, "MARKED": KEY, "AGENTLEARN_LOG": "debug"}
    with (folder / "gateway.log").open("ab") as log:
        running = subprocess.Popen([AGENTLEARN, *words], cwd=folder, env=given, stdout=subprocess.PIPE, stderr=log)
    with running:
        try:
            assert running.stdout is not None
            yield json.loads(running.stdout.readline())["base_url"]
        finally:
            running.terminate()


def asked(address: str, path: str, body: object) -> tuple[str, str]:
    """What a client of the gateway gets: the headers of the reply, and its body."""
    headers = {"Authorization": "Bearer token-of-a-client", "Content-Type": "application/json"}
    try:
        with urlopen(UrlRequest(address + path, json.dumps(body).encode(), headers)) as reply:
            return str(reply.headers), reply.read().decode("utf-8", "replace")
    except HTTPError as error:
        return f"{error} {error.headers}", error.read().decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        return repr(error), ""


def test_a_key_in_a_reply_that_nobody_can_use_is_nowhere(tmp_path: Path) -> None:
    given = {**os.environ, "AGENTLEARN_API_KEY": KEY, "AGENTLEARN_LOG": "debug"}
    with answering() as address:
        with gateway(tmp_path, address) as ours:
            for number in range(len(BROKEN)):
                said = asked(ours, "/chat/completions", {**ASKED, "model": str(number)})
                assert [one for one in said if KEY in one] == [], BROKEN[number][:80]
        models = [f"{address}#{number}" for number in range(len(BROKEN))]
        with (tmp_path / "doctor.log").open("wb") as log:
            command = [sys.executable, "-c", DOCTOR, *models]
            done = subprocess.run(command, cwd=tmp_path, env=given, stdout=log, stderr=log, check=False)
    assert done.returncode == 0
    assert (tmp_path / "doctor.log").read_text().count("BROKEN") >= len(BROKEN)
    assert "gateway.unreached" in (tmp_path / "gateway.log").read_text()
    assert leaks(tmp_path) == []


def test_a_key_is_nowhere_from_live_traffic_to_pages(tmp_path: Path) -> None:
    given, said = {"AGENTLEARN_API_KEY": KEY, "MARKED": KEY, "AGENTLEARN_LOG": "debug"}, list[str]()
    rollout = ""

    def run(*words: str, expect: int = 0) -> str:
        done = agentlearn(*words, cwd=tmp_path, expect=expect, env=given)
        said.append(done.stdout + done.stderr)
        return done.stdout

    with OpenAIStub(repeating(KEY)) as stub:
        with gateway(tmp_path, stub.base_url) as ours:
            for number, problem in enumerate([*PROBLEMS] * 2):
                body = {"model": "any", "messages": [{"role": "user", "content": f"{problem} (I sent {KEY}.)"}]}
                headers, reply = asked(ours, "/chat/completions", body)
                found = re.search(r"x-agentlearn-rollout: (\w+)", headers)
                assert found, headers
                rollout = found[1]
                told = {"metric_name": "reward", "value": bool(number % 3), "inference_id": rollout}
                comment = {**told, "metric_name": "comment", "value": f"It said {KEY}."}
                said += [headers, reply, *asked(ours, "/feedback", told), *asked(ours, "/feedback", comment)]
        model = ("--model", f"{stub.base_url}#any")
        run("live", "gateway", "--once", *model, "--yes", "--log", "debug")
    store = tmp_path / ".agentlearn"
    inbox = Inbox(store / "libraries", store)
    assert [inbox.approve(one).verdict for one in inbox.items()] == ["approved"]
    for one in json.loads(run("runs", "list", "--json"))["runs"]:
        run("runs", "show", one["run"])
        run("view", one["run"], "--bundle", f"pages-{one['run']}")
    assert "[secret]" in run("trace", rollout)
    for command in ("show", "log", "card", "audit"):
        run("library", command, "gateway")
    run("view", "gateway", "--bundle", "pages")
    run("store", "export", "--format", "openai-jsonl", "--out", "exported.jsonl")
    run("store", "snapshot")
    said.append(asyncio.run(over_mcp(tmp_path, given, rollout)))
    assert [one[:200] for one in said if KEY in one] == []
    assert leaks(tmp_path) == []


async def over_mcp(folder: Path, given: dict[str, str], rollout: str) -> str:
    """What an agent gets that speaks MCP, and sends the key."""
    mcp = pytest.importorskip("mcp", reason="pip install 'agentlearn-lib[mcp]'")
    command = mcp.StdioServerParameters(command=str(AGENTLEARN), args=["mcp", "gateway"], env=given, cwd=folder)
    async with mcp.Client(command) as client:
        answers = [
            await client.call_tool("search_lessons", {"query": f"dots {KEY}"}),
            await client.call_tool("propose_lesson", {"lesson": f"Say {KEY} first.", "reason": f"{KEY} works."}),
            await client.call_tool(
                "record_feedback", {"rollout": rollout, "reward": 1.0, "comment": f"{KEY} was right"}
            ),
            await client.call_tool("get_lesson", {"lesson": KEY}),
        ]
    return str(answers)
