"""No byte that is stored, printed, exported or logged holds a credential, whatever way it was given."""

import base64
import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.command import agentlearn
from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub

PROBLEMS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(11, 19)}
USER, PASSWORD, QUERY, KEY = "canary-user", "canary/pass#word", "canary query value", "sk-canary-0123456789"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
FORMS = [form for one in (PASSWORD, QUERY, KEY, BASIC) for form in (one, quote(one, safe=""), one.replace(" ", "+"))]
QUICK = (
    "--reward",
    "number",
    "--sandbox",
    "unsafe-local",
    "--epochs",
    "1",
    "--batch-size",
    "4",
    "--eval-rollouts",
    "1",
)


class Gate:
    """A service behind credentials that repeats what it was sent in its refusals, and now and then in an answer."""

    def __init__(self, stub: OpenAIStub, *, wanted: str) -> None:
        self.asked, self.refused, self.lock = 0, 0, threading.Lock()
        gate = self

        class Connection(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.pass_on(None)

            def do_POST(self) -> None:
                self.pass_on(self.rfile.read(int(self.headers["Content-Length"])))

            def pass_on(self, body: bytes | None) -> None:
                sent = self.headers.get("Authorization", "")
                echo = f"Incorrect API key provided: {sent.split()[-1] if sent else 'none'} at {self.path}"
                with gate.lock:
                    gate.asked += 1
                    every_fifth = gate.asked % 5 == 0
                if sent != wanted or (QUERY.replace(" ", "+") not in self.path and wanted.startswith("Basic")):
                    gate.refused += 1
                    self.reply(401, json.dumps({"error": {"message": echo}}).encode())
                elif every_fifth and body is not None:
                    self.reply(500, json.dumps({"error": {"message": f"{echo} {PASSWORD}"}}).encode())
                else:
                    address = stub.base_url + self.path.partition("?")[0].removeprefix("/v1")
                    asked = urllib.request.Request(address, body, {"Content-Type": "application/json"})
                    with urllib.request.urlopen(asked) as found:
                        answer = found.read()
                    self.reply(200, answer.replace(b'"content": "', f'"content": "{echo} '.encode()))

            def reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  named by the base class
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Connection)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def stub() -> Iterator[OpenAIStub]:
    with OpenAIStub(Solver(answers=PROBLEMS, success_rate=0.5)) as stub:
        yield stub


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


@pytest.mark.slow
def test_credentials_of_an_address_are_nowhere_but_in_memory(stub: OpenAIStub, tasks: str, tmp_path: Path) -> None:
    gate = Gate(stub, wanted=f"Basic {BASIC}")
    host = f"127.0.0.1:{gate.port}"
    model = f"http://{USER}:{quote(PASSWORD, safe='')}@{host}/v1?key={quote(QUERY)}#any"
    environment = {"AGENTLEARN_API_KEY": KEY, "HF_TOKEN": KEY, "OPENAI_API_KEY": KEY}
    said = list[str]()

    def run(*words: str, expect: int = 0, **more: str) -> str:
        done = agentlearn(*words, cwd=tmp_path, expect=expect, env={**environment, **more})
        said.append(done.stdout + done.stderr)
        return said[-1]

    run("learn", tasks, *QUICK, "--model", model, "--max-tokens", "1500", "--log", "debug", expect=3)
    (run_id,) = (one["run"] for one in json.loads(run("runs", "list", "--json"))["runs"])
    assert "credentials are never stored" in run("learn", "--resume", run_id, expect=2)
    assert gate.refused == 0
    more = ("--max-tokens", "9000000")
    assert "keeps its settings" in run("learn", "--resume", run_id, "--model", "sim:novice", *more, expect=2)
    wrong = model.replace("canary-user", "another-user")
    run("learn", "--resume", run_id, *more, expect=1, AGENTLEARN_MODEL=wrong)
    assert gate.refused > 0
    run("learn", "--resume", run_id, *more, AGENTLEARN_MODEL=model)
    out = run("runs", "show", run_id) + run("runs", "list")
    assert f"http://{host}/v1#any" in out
    arms = (f"none,model={model}", f"warm=none,model={model},temperature=0.9")
    for file in ("out.csv", "out.json", "out.html"):
        words = ("--domain", tasks, "--reward", "number", "--k", "1", "--sandbox", "unsafe-local", "--yes")
        run("compare", *arms, *words, "--out", str(tmp_path / file))
    for form in ("openai-jsonl", "trl-jsonl", "parquet"):
        run("store", "export", "--format", form, "--out", str(tmp_path / f"exported.{form}"))
    run("store", "snapshot")
    run("doctor", "--model", model, "--yes")
    assert [form for form in FORMS for text in said if form in text] == []
    assert leaks(tmp_path) == []


@pytest.mark.slow
def test_an_api_key_that_a_service_repeats_is_nowhere(stub: OpenAIStub, tasks: str, tmp_path: Path) -> None:
    gate = Gate(stub, wanted=f"Bearer {KEY}")
    said = list[str]()
    for key, status in ((KEY, 0), (f"{KEY}-wrong", 1)):
        words = ("learn", tasks, *QUICK, "--model", f"http://127.0.0.1:{gate.port}/v1#any", "--log", "debug")
        done = agentlearn(*words, cwd=tmp_path, expect=status, env={"AGENTLEARN_API_KEY": key})
        said.append(done.stdout + done.stderr)
    assert "[secret]" in said[1]
    assert KEY not in "".join(said)
    assert leaks(tmp_path) == []
