"""Ctrl-C, SIGTERM and SIGHUP end every command in good order, at any moment, and the last line says how to go on."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from agentlearn.store import read_store
from tests.support.command import AGENTLEARN, agentlearn, agentlearn_here
from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub
from tests.support.signalled import Signalled, run_and_signal, says

pytestmark = pytest.mark.slow

LEARN = ("learn", "math", "--model", "sim:novice", "--limit", "6", "--epochs", "1", "--no-eval", "--seed", "3")
LEARN += ("--validation-rollouts", "0")
LESSON = '{"experiences": {"G0": "When a range has two ends, include both endpoints of the range."}, "next_id": 1}'
HOSTILE = "x\x1b[2J\u202e"


def state_of(folder: Path) -> str:
    with read_store(folder / ".agentlearn") as reader:
        (row,) = reader.runs()
    return row.state


def resume_of(done: Signalled, number: signal.Signals) -> list[str] | None:
    """The command that goes on; None if the run had ended before the signal."""
    assert (done.noise, done.left, done.files) == ([], (), ())
    if done.status == 0:
        return None
    assert done.status == 128 + number
    assert done.resume is not None, done.lines
    return done.resume


def test_a_run_that_is_stopped_while_it_publishes_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """`test_resume.py` stops one between its calls."""
    plain, stopped = tmp_path / "plain", tmp_path / "stopped"
    plain.mkdir()
    stopped.mkdir()

    def publishing(_: Path) -> bool:
        return any((stopped / ".agentlearn").rglob("HEAD"))

    done = run_and_signal(*LEARN, cwd=stopped, numbers=[signal.SIGTERM], after=publishing)
    resume = resume_of(done, signal.SIGTERM)
    if resume and resume[:2] == ["learn", "--resume"]:
        assert state_of(stopped) == "interrupted"
        whole = json.loads(agentlearn_here(*LEARN, "--json", cwd=plain).stdout)
        report = json.loads(agentlearn_here(*resume, "--json", cwd=stopped).stdout)
        assert report["library"] == whole["library"]
        calls = [{name: one["calls"] for name, one in found["stages"].items()} for found in (report, whole)]
        assert calls[0] == calls[1]
    elif resume:
        assert resume[:2] == ["runs", "show"]
        agentlearn_here(*resume, cwd=stopped)


def test_a_second_signal_ends_at_once_and_the_last_line_is_harmless_and_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n{"problem": "2+2", "answer": "4"}\n')
    with OpenAIStub(Solver(answers={}, success_rate=0.0), latency_s=600.0) as stub:
        command = ("learn", "tasks.jsonl", "--reward", "number", "--model", f"{stub.base_url}#m", "--test-share", "0")
        done = run_and_signal(
            *command,
            *("--store", HOSTILE),
            cwd=tmp_path,
            numbers=2 * [signal.SIGINT],
            after=lambda _: bool(stub.requests),
            gap_s=2.0,
        )
    assert done.status == 128 + signal.SIGINT
    assert (done.noise, done.left) == ([], ())
    assert any("waiting for" in line for line in done.lines)
    assert "agentlearn learn --resume" in done.lines[-1]
    assert not {"\x1b[2J", "\u202e"} & {text for text in ("\x1b[2J", "\u202e") if text in "\n".join(done.lines)}


def test_a_closed_terminal_ends_a_run_in_good_order(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [str(AGENTLEARN), *LEARN],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  it makes one system call
    )
    os.close(theirs)
    shown = b""
    while b"  run  " not in shown:
        shown += os.read(ours, 65_536)
    os.close(ours)
    assert child.wait(timeout=120) == 128 + signal.SIGHUP
    assert state_of(tmp_path) == "interrupted"


def test_a_run_under_nohup_ignores_a_closed_terminal(tmp_path: Path) -> None:
    with (tmp_path / "printed").open("wb") as out:
        child = subprocess.Popen(
            ["nohup", str(AGENTLEARN), *LEARN], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        while b"  run  " not in (tmp_path / "printed").read_bytes():
            assert child.poll() is None
        child.send_signal(signal.SIGHUP)
        assert child.wait(timeout=120) == 0


def test_an_interrupted_comparison_goes_on_to_the_same_verdict(tmp_path: Path) -> None:
    command = ("compare", "none", "good.json", "--domain", "math", "--model", "sim:novice", "--limit", "6", "--k", "2")
    arms = []
    for folder in (tmp_path / "whole", tmp_path / "stopped"):
        folder.mkdir()
        (folder / "good.json").write_text(LESSON)
        resume = [*command]
        if folder.name == "stopped":
            done = run_and_signal(*command, "--fresh", cwd=folder, numbers=[signal.SIGTERM], after=says("  run  "))
            resume = resume_of(done, signal.SIGTERM) or resume
            assert resume == [*command]
        report = json.loads(agentlearn_here(*resume, "--json", cwd=folder).stdout)
        arms.append([(one["arm"], one["score"], one["low"], one["high"]) for one in report["arms"]])
    assert arms[0] == arms[1]


def test_a_stopped_training_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from tests.support.letters_training import one_word_tasks
    from tests.support.tiny_model import saved, tiny_network

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    weights = saved(tmp_path / "tiny", tiny_network(context=1024))
    tasks = one_word_tasks(tmp_path / "letters.jsonl", "plum", "fig", "date", "pear")
    (tmp_path / "train.yaml").write_text(
        f"domain: letters\nreward: tests.support.letters:share_of_early_letters\ndata: {tasks}\nmodel: {weights}\n"
        "test_share: 0\nevaluate: false\nepochs: 3\nbatch_size: 2\ngroup_size: 2\nmax_output_tokens: 8\n"
        "save_every: 3\nreport_to: none\ngradient:\n  learning_rate: 0.01\n  loss: grpo\n"
    )
    command, hashes = ["train", str(tmp_path / "train.yaml")], []
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
        if name == "stopped":
            done = run_and_signal(*command, cwd=tmp_path / name, numbers=[signal.SIGTERM], after=says("update 2/6"))
            command = resume_of(done, signal.SIGTERM) or command
            assert command[:2] == ["train", "--resume"]
            assert state_of(tmp_path / name) == "interrupted"
        # both in processes of their own: the number of threads changes the last digits on some machines
        report = json.loads(agentlearn(*command, "--json", cwd=tmp_path / name).stdout)
        hashes.append(report["weights"]["sha256_after"])
    assert hashes[0] == hashes[1]


def test_streams_that_nobody_reads_or_that_cannot_be_used_give_one_sentence_at_most(tmp_path: Path) -> None:
    plain = {**os.environ}  # without COLUMNS, which `readline` sets behind it when pytest imports it
    for line, status, sentences in (
        ("A --help | true; echo ${PIPESTATUS[0]}", "141", 0),
        ("A library list >&- 2>&-; echo $?", "0", 0),
        ("A library list > /dev/full; echo $?", "1", 1),
    ):
        command = ["bash", "-c", line.replace("A ", f"{AGENTLEARN} ")]
        done = subprocess.run(
            command, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False, timeout=120
        )
        assert (done.stdout.strip(), len(done.stderr.splitlines())) == (status, sentences), done.stderr
        assert done.stderr.startswith("agentlearn: " * sentences)
