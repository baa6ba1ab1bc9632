"""A service that fails for a while, sends nonsense, changes its model, or is limited by a budget, in whole runs."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support import openai_stub
from tests.support.command import agentlearn, agentlearn_here
from tests.support.openai_script import Reply, Request, Solver, error
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

PROBLEMS = {f"What is {n} plus {n + 3}?": str(2 * n + 3) for n in range(20)}
QUICK = ("--epochs", "1", "--batch-size", "14", "--eval-rollouts", "2", "--sandbox", "unsafe-local")
ADDING = ("--reward", "number")


def written(folder: Path) -> str:
    rows = [json.dumps({"problem": problem, "answer": answer}) for problem, answer in PROBLEMS.items()]
    (folder / "sums.jsonl").write_text("\n".join(rows))
    return "sums.jsonl"


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    return written(tmp_path)


class Failing:
    """A service that answers `first` requests, then fails for `seconds` in one way, then answers again."""

    def __init__(self, first: int, seconds: float, reply: Reply) -> None:
        self.inner = Solver(answers=PROBLEMS, success_rate=0.5)
        self.left, self.seconds, self.reply = first, seconds, reply
        self.began: float | None = None
        self.failed: list[float] = []
        """Seconds from the begin of the outage to each request that failed."""
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            self.left -= 1
            if self.left < 0 and self.began is None:
                self.began = time.monotonic()
            since = None if self.began is None else time.monotonic() - self.began
            failing = since is not None and since < self.seconds
            if failing and since is not None:
                self.failed.append(since)
        return self.reply if failing else self.inner(request)


def report_of(done: Any) -> dict[str, Any]:
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def the_sentence(stderr: str) -> str:
    assert "Traceback" not in stderr
    (line,) = [one for one in stderr.splitlines() if one.startswith("agentlearn: ")]
    return line


STATUSES = (429, 503)
Ended = tuple[Failing, "subprocess.CompletedProcess[str]"]


def through_an_outage(status: int, folder: Path) -> Ended:
    script = Failing(30, 12.0, error(status))
    with OpenAIStub(script) as stub:
        model = ("--model", f"{stub.base_url}#any", *QUICK, "--concurrency", "16", "--json")
        return script, agentlearn("learn", written(folder), *ADDING, *model, cwd=folder)


@pytest.fixture(scope="module")
def outages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Ended]:
    """A run through an outage of each status, at the same time, because they mostly wait."""
    folders = [tmp_path_factory.mktemp(f"outage-{status}") for status in STATUSES]
    with ThreadPoolExecutor(len(STATUSES)) as pool:
        return dict(zip(STATUSES, pool.map(through_an_outage, STATUSES, folders), strict=True))


@pytest.mark.parametrize("status", STATUSES)
def test_a_short_outage_costs_no_rollout_and_is_asked_once_at_a_time(status: int, outages: dict[int, Ended]) -> None:
    script, done = outages[status]
    report = report_of(done)
    assert report["rollouts"]["undecided"] == 0
    assert len(script.failed) <= 2 * 24 + 12, "one request at a time asks again"
    assert sum(one > 5 for one in script.failed) <= 3
    assert f"(HTTP {status}); asking again until" in done.stderr
    assert f"--resume {report['run']}" in done.stderr
    assert "answers again after" in done.stderr
    (service,) = report["services"]
    assert service["outages"] == 1
    assert 9 < service["outage_s"] < 60
    assert any("did not answer for" in note and "the run waited" in note for note in report["notes"])


def test_a_service_that_is_restarted_costs_no_rollout(tasks: str, tmp_path: Path) -> None:
    """Its port refuses connections for a while."""
    solver, ended = Solver(answers=PROBLEMS, success_rate=0.5), list[Any]()

    def run(url: str) -> None:
        model = ("--model", f"{url}#any", *QUICK, "--concurrency", "16", "--json")
        ended.append(agentlearn("learn", tasks, *ADDING, *model, cwd=tmp_path))

    with OpenAIStub(solver, latency_s=0.05) as stub:
        port = int(stub.base_url.rpartition(":")[2].removesuffix("/v1"))
        running = threading.Thread(target=run, args=(stub.base_url,))
        running.start()
        while len(stub.requests) < 30:
            time.sleep(0.01)
    time.sleep(8)
    with OpenAIStub(solver, port=port):
        running.join()
    report = report_of(ended[0])
    assert report["rollouts"]["undecided"] == 0
    assert report["services"][0]["outages"] == 1
    assert "(no connection); asking again until" in ended[0].stderr


def test_a_long_outage_stops_the_run_which_can_be_resumed(tasks: str, tmp_path: Path) -> None:
    script = Failing(30, 3600.0, error(503))
    with OpenAIStub(script) as stub:
        model = (*ADDING, "--model", f"{stub.base_url}#any", *QUICK)
        done = agentlearn("learn", tasks, *model, "--max-outage-minutes", "0.1", cwd=tmp_path, expect=1)
        assert "(HTTP 503), longer than --max-outage-minutes 0.1 allows" in the_sentence(done.stderr)
        (run,) = json.loads(agentlearn_here("runs", "list", "--json", cwd=tmp_path).stdout)["runs"]
        assert run["state"] == "interrupted"
        assert f"--resume {run['run']}" in done.stdout
        script.seconds = 0.0
        report = report_of(agentlearn("learn", "--resume", run["run"], "--json", cwd=tmp_path))
    assert report["rollouts"]["undecided"] == 0


def test_without_waiting_the_run_stops_at_once(tasks: str, tmp_path: Path) -> None:
    with OpenAIStub(Failing(30, 3600.0, error(503))) as stub:
        model = (*ADDING, "--model", f"{stub.base_url}#any", *QUICK, "--concurrency", "2", "--max-attempts", "2")
        done = agentlearn("learn", tasks, *model, "--max-outage-minutes", "0", cwd=tmp_path, expect=1)
    assert "none of the last 3 calls has been answered" in the_sentence(done.stderr)
    assert "(asked 2 times)" in done.stderr


@pytest.mark.usefixtures("tasks")
def test_the_time_of_an_outage_is_not_the_time_of_a_rollout(tmp_path: Path) -> None:
    recipe = "domain: sums\ndata: sums.jsonl\nreward: number\nrollout_deadline_s: 4.0\nmax_attempts: 4\n"
    (tmp_path / "short.yaml").write_text(recipe)
    with OpenAIStub(Failing(30, 9.0, error(503))) as stub:
        model = ("--model", f"{stub.base_url}#any", *QUICK, "--json")
        report = report_of(agentlearn("learn", "short.yaml", *model, cwd=tmp_path))
    assert report["rollouts"]["undecided"] == 0
    assert report["services"][0]["outages"] == 1


def test_a_silent_service_is_not_waited_for_beyond_the_minutes_of_the_run(tasks: str, tmp_path: Path) -> None:
    with OpenAIStub(Failing(30, 3600.0, error(503))) as stub:
        model = (*ADDING, "--model", f"{stub.base_url}#any", *QUICK, "--max-minutes", "0.15")
        done = agentlearn("learn", tasks, *model, cwd=tmp_path, expect=3)
    assert "--max-minutes 0.15" in the_sentence(done.stderr)


@pytest.mark.parametrize("body", ["<html>It works!</html>", '{"choices": []}'])
def test_garbled_replies_are_undecided_and_never_end_the_run(body: str, tasks: str, tmp_path: Path) -> None:
    inner = Solver(answers=PROBLEMS, success_rate=0.5)

    def script(request: Request) -> Reply:
        lost = "What is 7 plus" in str(request["messages"]) or "What is 11 plus" in str(request["messages"])
        return Reply(status=200, body=body) if lost else inner(request)

    with OpenAIStub(script) as stub:
        model = (
            *ADDING,
            "--model",
            f"{stub.base_url}#any",
            *QUICK,
            "--select",
            "last",
            "--max-attempts",
            "2",
            "--json",
        )
        report = report_of(agentlearn("learn", tasks, *model, cwd=tmp_path))
    assert report["rollouts"]["failed"] == 0
    assert report["rollouts"]["undecided"] >= 8
    assert any("endpoint_garbled" in note for note in report["notes"])


@pytest.mark.parametrize("command", ["learn", "compare", "solve"])
def test_cut_off_replies_and_a_changed_model_are_noted(
    command: str, tasks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, seen = openai_stub._completion, list[str]()  # pyright: ignore[reportPrivateUsage]

    def completion(request: Request, reply: Reply) -> dict[str, Any]:
        whole = plain(request, reply)
        seen.append("")
        whole["model"] = "small-1" if len(seen) <= 10 else "small-2"
        finish = "length" if command == "solve" else {0: "length", 1: "content_filter"}.get(len(seen) % 5, "stop")
        whole["choices"][0]["finish_reason"] = finish
        return whole

    monkeypatch.setattr(openai_stub, "_completion", completion)
    with OpenAIStub(Solver(answers=PROBLEMS, success_rate=0.5)) as stub:
        model = ("--model", f"{stub.base_url}#any", "--json", "--max-output-tokens", "2")
        match command:
            case "learn":
                arguments = ("learn", tasks, *ADDING, *model, *QUICK)
            case "compare":
                arguments = ("compare", "a=none", "b=none,temperature=0.9", "--domain", tasks, *ADDING, *model)
            case _:
                arguments = ("solve", "math", "What is 1 + 1?", *model, "--sandbox", "unsafe-local")
        report = report_of(agentlearn(*arguments, cwd=tmp_path))
    (service,) = report["services"]
    notes = " ".join([*report.get("warnings", ()), *report["notes"]])
    assert sum(service["cut_off"].values()) > 0
    assert "replies were cut off at the output limit; raise --max-output-tokens" in notes
    if command != "solve":
        assert service["models"]["small-1"] == 10
        assert "answered as 'small-1' 10 times and then as 'small-2'" in notes
        assert sum(service["faults"]["filtered"].values()) > 0
        assert "withheld its reply ('content_filter'); reword the problems" in notes


def tokens_in(text: str) -> int:
    """Number of words, of up to three digits together, and of marks, as tokenizers split a text."""
    return len(re.findall(r"[A-Za-z]+|\d{1,3}|[^\sA-Za-z\d]+", text))


class Billing:
    """A service that counts what it serves. The sizes of its replies have a heavy tail."""

    def __init__(self, usage: str) -> None:
        self.inner = Solver(answers=PROBLEMS, success_rate=0.5)
        self.usage, self.tokens, self._lock = usage, 0, threading.Lock()

    def __call__(self, request: Request) -> Reply:
        reply, random = self.inner(request), Random(f"{request['messages']}{request.get('seed')}")
        time.sleep(random.uniform(0.02, 0.2))
        words = int(min(30_000, 80 * random.paretovariate(1.2)))
        message = dict(reply.message or {})
        message["content"] = " ".join(["word"] * words) + "\n" + str(message.get("content") or "")
        limit = request.get("max_completion_tokens") or request.get("max_tokens")
        if limit is not None and tokens_in(json.dumps(message)) > limit:
            message = {"role": "assistant", "content": " ".join(["word"] * max(0, limit - 15)), "cut_off": True}
        return Reply(message=message)

    def completion(self, request: Request, reply: Reply) -> dict[str, Any]:
        message = dict(reply.message or {})
        cut_off = message.pop("cut_off", False)
        asked = json.dumps([request["messages"], request.get("tools")])
        counts = (tokens_in(asked), tokens_in(json.dumps(message)))
        if cut_off:
            counts = (counts[0], request.get("max_completion_tokens") or request["max_tokens"])
        with self._lock:
            self.tokens += sum(counts)
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        usage: Mapping[str, Any] = dict(zip(names, (*counts, sum(counts)), strict=True))
        if self.usage == "garbled":
            usage = dict.fromkeys(names, -1e30)
        choice = {"index": 0, "message": message, "finish_reason": "length" if cut_off else "stop"}
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
        return {**whole, "usage": usage}


@pytest.mark.parametrize(("usage", "over"), [("reported", 0.05), ("garbled", 0.15)])
def test_a_budget_of_tokens_holds_with_64_calls_in_flight(
    usage: str, over: float, tasks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    billing = Billing(usage)
    monkeypatch.setattr(openai_stub, "_completion", billing.completion)
    with OpenAIStub(billing) as stub:
        model = (*ADDING, "--model", f"{stub.base_url}#any", "--concurrency", "64", "--max-tokens", "20000")
        done = agentlearn("learn", tasks, *model, cwd=tmp_path, expect=3)
    assert 0.75 * 20_000 < billing.tokens <= (1 + over) * 20_000
    sentence = the_sentence(done.stderr)
    assert "of --max-tokens 20,000" in sentence
    if usage == "reported":
        assert f"has used {billing.tokens:,} tokens" in sentence, "what was served and not what was allowed"
    else:
        assert "has used about" in sentence
