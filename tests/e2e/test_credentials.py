"""No byte that is stored, printed, exported or logged holds a credential, whatever way it was given."""

import base64
import itertools
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.command import agentlearn, agentlearn_here
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
