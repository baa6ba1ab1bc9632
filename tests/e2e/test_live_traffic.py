"""Live traffic from many processes, some of which are killed: nothing is refused, lost or doubled."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentlearn import Recorder, read_store
from agentlearn.cli.app import run as command_line
from agentlearn.errors import StoreLocked
from agentlearn.store import Selection, check_store, open_store

ROOT = Path(__file__).parents[2]
RECORDING = """
import asyncio, os, sys
from agentlearn import Recorder

async def main(store, log, number, count):
    recorder, out = Recorder("support", store), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def one(n):
        chat = [{"role": "user", "content": f"question {n % 50}"}, {"role": "assistant", "content": f"{number} {n}"}]
        identity = await recorder.record(chat, episode=f"{number}/{n}")
        os.write(out, f"record {identity}\\n".encode())
        os.fsync(out)
        await recorder.feedback(identity, reward=(n % 2, f"because {n}"))
        os.write(out, f"feedback {identity}\\n".encode())
        os.fsync(out)

    for start in range(0, count, 10):
        await asyncio.gather(*(one(n) for n in range(start, min(start + 10, count))))
    recorder.close()
    print("all")

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""


def start(store: Path, log: Path, number: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RECORDING, str(store), str(log), str(number), str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_six_processes_record_while_some_are_killed_and_a_learner_opens_the_store(tmp_path: Path) -> None:
    store, count, chance = tmp_path / "store", 400, random.Random(5)
    running = {number: start(store, tmp_path / f"log-{number}", number, count) for number in range(6)}
    victims = {number: chance.randint(40, 400) for number in (2, 5)}
    began, opened = time.monotonic(), 0

    def kill(number: int, after: int) -> None:
        log = tmp_path / f"log-{number}"
        while not log.exists() or log.read_bytes().count(b"\n") < after:
            time.sleep(0.01)
        running[number].send_signal(signal.SIGKILL)

    async def learner() -> None:
        async with open_store(store) as whole:
            whole.selected(Selection(domain="support"))
            await asyncio.sleep(0.2)

    killers = [threading.Thread(target=kill, args=victim, daemon=True) for victim in victims.items()]
    for killer in killers:
        killer.start()
    while any(process.poll() is None for process in running.values()):
        assert time.monotonic() - began < 500
        try:
            asyncio.run(learner())
            opened += 1
        except StoreLocked:  # only while the store is being made
            assert opened == 0
        time.sleep(chance.uniform(0.05, 0.3))
    for number, process in running.items():
        out, complaints = process.communicate(timeout=60)
        assert complaints == ""
        assert (out == "all\n") == (number not in victims)
    lines = [line.split() for number in range(6) for line in (tmp_path / f"log-{number}").read_text().splitlines()]
    records = [identity for what, identity in (one for one in lines if len(one) == 2) if what == "record"]
    judged = {identity for what, identity in (one for one in lines if len(one) == 2) if what == "feedback"}
    assert opened > 2
    assert len(records) >= 4 * count
    with read_store(store) as reader:
        rows: dict[str, float | None] = {row.id: row.reward for row in reader.selected(Selection(domain="support"))}
        assert len(rows) == len(reader.selected(Selection(domain="support")))
        assert set(records) <= rows.keys()
        assert len(rows) <= 6 * count
        assert all(rows[identity] is not None for identity in judged)
        answers = [
            one.trajectory.answer
            for one in reader.whole([row.id for row in reader.selected(Selection(domain="support"))[:1500]])
        ]
        assert len(set(answers)) == len(answers)
    assert check_store(store).sound


def test_the_command_line_learns_from_live_traffic_and_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    with Recorder("support", store) as recorder:
        chat = [{"role": "user", "content": "How do I pay?"}, {"role": "assistant", "content": "No idea."}]
        identity = recorder.record_sync(chat, episode="talk-1")
        recorder.feedback_sync(identity, reward=(0, "it must help"), demonstration="By card.", by="ana")
        recorder.feedback_sync("0" * 32, reward=1)
    place = ("--store", str(store))
    assert command_line(["runs", "list", *place]) == 0
    assert "live    done" in capsys.readouterr().out
    assert command_line(["trace", identity, *place]) == 0
    shown = capsys.readouterr().out
    assert "it must help; right answer: By card." in shown
    assert "talk-1" in shown
    with read_store(store) as reader:
        run = reader.runs()[0].run
    assert command_line(["runs", "show", run, *place]) == 0
    assert "1 more to 'support', about rollouts that the store does not hold" in capsys.readouterr().out
    assert (
        command_line(["store", "export", "--format", "openai-jsonl", "--out", str(tmp_path / "out.jsonl"), *place]) == 0
    )
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(line["reward"] for line in lines) == [0.0, 1.0]
