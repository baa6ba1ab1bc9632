"""Live traffic from many processes, some of which are killed: nothing is refused, lost or doubled."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentlearn import Recorder, read_store
from agentlearn.cli.app import run as command_line
from agentlearn.errors import StoreLocked
from agentlearn.store import Selection, check_store, open_store

RECORDING = """
import asyncio, os, signal, sys
from agentlearn import Recorder

async def main(store, log, number, count, dies):
    recorder, out = Recorder("support", store), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def one(n):
        chat = [{"role": "user", "content": f"question {n % 50}"}, {"role": "assistant", "content": f"{number} {n}"}]
        identity = await recorder.record(chat, episode=f"{number}/{n}")
        os.write(out, f"record {identity}\\n".encode())
        await recorder.feedback(identity, reward=(n % 2, f"because {n}"))
        os.write(out, f"feedback {identity}\\n".encode())
        if n == dies:
            os.kill(os.getpid(), signal.SIGKILL)

    for start in range(0, count, 10):
        await asyncio.gather(*(one(n) for n in range(start, start + 10)))
    recorder.close()

asyncio.run(main(*sys.argv[1:3], *map(int, sys.argv[3:])))
"""


@pytest.mark.slow
def test_three_processes_record_while_one_is_killed_and_a_learner_opens_the_store(tmp_path: Path) -> None:
    store, count, opened = tmp_path / "store", 200, 0
    logs = [tmp_path / f"log-{number}" for number in range(3)]
    running = [
        subprocess.Popen([sys.executable, "-c", RECORDING, store, log, str(number), str(count), str(dies)])
        for number, (log, dies) in enumerate(zip(logs, (-1, -1, 60), strict=True))
    ]

    async def learner() -> None:
        async with open_store(store) as whole:
            whole.selected(Selection(domain="support"))
            await asyncio.sleep(0.2)

    while any(process.poll() is None for process in running):
        try:
            asyncio.run(learner())
            opened += 1
        except StoreLocked:  # only while the store is being made
            assert opened == 0
        time.sleep(0.1)
    assert [process.wait() for process in running] == [0, 0, -signal.SIGKILL]
    assert opened > 1
    said = {words for log in logs for line in log.read_text().splitlines() if len(words := tuple(line.split())) == 2}
    with read_store(store) as reader:
        rows = reader.selected(Selection(domain="support"))
        answers = {one.trajectory.answer for one in reader.whole([row.id for row in rows])}
    assert {identity for what, identity in said if what == "record"} <= {row.id for row in rows}
    assert {identity for what, identity in said if what == "feedback"} <= {
        row.id for row in rows if row.reward is not None
    }
    assert 2 * count < len(rows) == len(answers) <= 3 * count
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
    assert "live     done" in capsys.readouterr().out
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
