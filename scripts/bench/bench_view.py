"""First content of two pages in Chromium: a run of 1,000 attempts, and one attempt of 5,000 messages with 60 MB.

`--inspect PYTHON` names the Python of an environment with inspect-ai, whose viewer then shows equal logs of its own.
Each page is opened in a new browser, `--rounds` times, in turns.

    just bench view --inspect /tmp/inspect/bin/python
"""

import argparse
import asyncio
import json
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import sync_playwright

from agentlearn.pages.web_app.server import Site, app_of, free_port
from agentlearn.store import open_store
from agentlearn.types.ids import LibraryVersion, RunId, rollout_id
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory, Treatment, UserTurn, Verdict
from scripts.bench.found import Found, Row, Target

MANY, LONG = RunId("01jd" + "0" * 22), RunId("01je" + "0" * 22)
SHAPES = {MANY: (1_000, 4, 60), LONG: (1, 5_000, 1_250)}
"""Attempts of each run, their messages, and the words of a message."""
PORT = 7_799
_WATCH = """window.longest = 0; new PerformanceObserver((list) => { for (const one of list.getEntries())
  window.longest = Math.max(window.longest, one.duration) }).observe({ type: "longtask", buffered: true })"""
_WRITE = """
import sys, json
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalPlan, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
from inspect_ai.scorer import Score
for line in sys.stdin:
    name, samples = json.loads(line)
    made = [EvalSample(id=n + 1, epoch=1, input=said[0], target="4", scores={"match": Score(value="I", answer="5")},
                       messages=[(ChatMessageAssistant if k % 2 else ChatMessageUser)(content=text)
                                 for k, text in enumerate(said)]) for n, said in enumerate(samples)]
    spec = EvalSpec(created="2026-11-01T00:00:00+00:00", task=name, model="mock/model", config=EvalConfig(),
                    dataset=EvalDataset(name="d", samples=len(made)))
    write_eval_log(EvalLog(status="success", eval=spec, plan=EvalPlan(), samples=made), f"{sys.argv[1]}/{name}.eval")
"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--inspect", type=Path, help="Python of an environment with inspect-ai")
    parser.add_argument("--rounds", type=int, default=3)


def _conversations(run: RunId) -> Iterator[list[str]]:
    rng = random.Random(run)
    words = [f"word{rng.randrange(10**6)}" for _ in range(5_000)]
    attempts, messages, length = SHAPES[run]
    for n in range(attempts):
        yield [f"{n}.{k} {' '.join(rng.choices(words, k=length))}" for k in range(messages)]


async def _fill(store: Path) -> str:
    """Fill a store, and return the id of the long attempt."""
    made, at = "", datetime.now(UTC)
    async with open_store(store) as opened:
        for run in SHAPES:
            event = RunEvent(run=run, domain="d", kind="eval", state="running", model="mock", simulated=False, seed=0,
                             settings="{}", package_version="0", at=at)  # fmt: skip
            await opened.save_run(event)
            for said in _conversations(run):
                task = Task.of("d", said[0], "4")
                made = rollout_id(run, "before", task.id, 0, 0)
                steps = tuple(ModelTurn(text=text) if k % 2 else UserTurn(text=text) for k, text in enumerate(said))
                await opened.save_tasks([task])
                await opened.save_trajectory(
                    Trajectory(id=made, run=run, phase="before", task=task.id, g=0, seed=0, steps=steps, answer="5",
                               treatment=Treatment(model="mock", library=LibraryVersion("0" * 32)), started_at=at,
                               verdict=Verdict(status="incorrect", reward=0.0)), b"[]")  # fmt: skip
            await opened.save_run(event.model_copy(update={"state": "done"}))
    return made


@contextmanager
def _inspect_view(python: Path, logs: Path) -> Generator[str]:
    """The address of inspect's viewer, over logs with the same conversations."""
    logs.mkdir()
    lines = "".join(json.dumps([f"log-{run}", [*_conversations(run)]]) + "\n" for run in SHAPES)
    subprocess.run([python, "-c", _WRITE, logs], input=lines, text=True, check=True)
    command = [python.with_name("inspect"), "view", "start", "--log-dir", logs, "--port", str(PORT)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as viewer:
        time.sleep(10)
        yield f"http://127.0.0.1:{PORT}/#/logs"
        viewer.terminate()


def _opened(address: str, begin: str, shows: str) -> tuple[float, float]:
    """Seconds until a page shows something, and its longest task in milliseconds, in a new browser."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=program, chromium_sandbox=False)
        context = browser.new_context(bypass_csp=True)
        context.add_init_script(_WATCH)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.goto(begin)
        page.goto("about:blank")
        began = time.perf_counter()
        page.goto(address, wait_until="commit")
        page.wait_for_function(shows, polling=20)
        took = time.perf_counter() - began
        page.wait_for_timeout(1_000)
        longest: Any = page.evaluate("window.longest")
        browser.close()
    return took, longest


def measure(chosen: argparse.Namespace) -> Found:
    """Measure both pages, and those of inspect's viewer where it is named."""
    with tempfile.TemporaryDirectory() as folder:
        rollout = asyncio.run(_fill(Path(folder, "store")))
        listener = free_port("127.0.0.1", 0)
        site = Site(Path(folder, "store"), listener.getsockname()[1])
        server = uvicorn.Server(uvicorn.Config(app_of(site), log_level="error", lifespan="off", ws="none"))
        threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True).start()
        base, link = f"http://127.0.0.1:{site.port}{site.base}", site.link("/runs")
        pages = {
            "agentlearn, 1,000 attempts": (f"{base}/run/{MANY}/grid", link, "document.querySelector('a.cell')"),
            "agentlearn, 5,000 messages": (f"{base}/rollout/{rollout}", link, "document.querySelector('.step')"),
        }
        if chosen.inspect is None:
            found = _measured(pages, chosen.rounds)
        else:
            with _inspect_view(chosen.inspect, Path(folder, "logs")) as viewer:
                shows = "document.body && document.body.innerText.includes('0.{} word')"
                pages["inspect, 1,000 attempts"] = (f"{viewer}/log-{MANY}.eval", "about:blank", shows.format(0))
                long = f"{viewer}/log-{LONG}.eval/samples/sample/1/1/messages"
                pages["inspect, 5,000 messages"] = (long, "about:blank", shows.format(1))  # the head has the first one
                found = _measured(pages, chosen.rounds)
        server.should_exit = True
    rows = tuple(Row(name=name, figures=figures) for name, figures in found.items())
    limits = (("1,000 attempts", "first_content_s", 2.0), ("5,000 messages", "first_content_s", 1.0),
              ("5,000 messages", "longest_task_ms", 200.0))  # fmt: skip
    targets = [Target(what=f"{what}, {name}", figure=found[f"agentlearn, {what}"][name], bound="at_most", limit=limit)
               for what, name, limit in limits]  # fmt: skip
    return Found(rows=rows, targets=tuple(targets), notes=("median of the rounds; longest task: of the worst round",))


def _measured(pages: dict[str, tuple[str, str, str]], rounds: int) -> dict[str, dict[str, float]]:
    took = {name: [_opened(*page)] for name, page in pages.items()}
    for _ in range(rounds - 1):
        for name, page in pages.items():
            took[name].append(_opened(*page))
    return {
        name: {"first_content_s": statistics.median(one[0] for one in all_), "longest_task_ms": max(x[1] for x in all_)}
        for name, all_ in took.items()
    }
