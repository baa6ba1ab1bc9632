"""Live traffic from many processes, some of which are killed: nothing is refused, lost or doubled."""

import json
from pathlib import Path

import pytest

from agentlearn import Recorder, read_store
from agentlearn.cli.app import run as command_line


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
