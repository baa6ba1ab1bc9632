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
from tests.support.signalled import run_and_signal, says

pytestmark = pytest.mark.slow

LEARN = ("learn", "math", "--model", "sim:novice", "--limit", "6", "--epochs", "1", "--batch-size", "6", "--seed", "3")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LESSON = '{"experiences": {"G0": "When a range has two ends, include both endpoints of the range."}, "next_id": 1}'


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The report of the run that nothing disturbs."""
    return json.loads(agentlearn(*LEARN, "--json", cwd=tmp_path_factory.mktemp("plain")).stdout)


def calls(report: dict[str, object]) -> dict[str, int]:
    stages = report["stages"]
    assert isinstance(stages, dict)
    return {name: stage["calls"] for name, stage in stages.items()}


@pytest.mark.parametrize(("moment", "number"), list(enumerate((*SIGNALS, signal.SIGTERM, signal.SIGINT))))
def test_a_signal_at_any_moment_ends_a_run_that_goes_on_to_the_same_end(
    tmp_path: Path, plain: dict[str, object], number: signal.Signals, moment: int
) -> None:
    done = run_and_signal(*LEARN, cwd=tmp_path, numbers=[number], after=moment * 1.2 + 0.4, group=moment % 2 == 1)
    assert done.noise == []
    assert (done.left, done.files) == ((), ())
    if done.status == 0:
        return  # the run had ended
    assert done.status == 128 + number
    if done.resume is None:
        assert done.lines[-1] in {
            "agentlearn: interrupted",
            "agentlearn: interrupted before the run started; nothing was done",
        }
        return
    with read_store(tmp_path / ".agentlearn") as reader:
        (row,) = reader.runs()
    assert row.state == "interrupted"
    report = json.loads(agentlearn_here(*done.resume, "--json", cwd=tmp_path).stdout)
    assert report["library"] == plain["library"]
    assert calls(report) == calls(plain)


def test_a_second_signal_ends_at_once_and_the_last_line_says_how_to_go_on(tmp_path: Path) -> None:
    number = signal.SIGINT
    (tmp_path / "tasks.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n{"problem": "2+2", "answer": "4"}\n')
    with OpenAIStub(Solver(answers={}, success_rate=0.0), latency_s=600.0) as stub:
        command = ("learn", "tasks.jsonl", "--reward", "number", "--model", f"{stub.base_url}#m", "--test-share", "0")
        done = run_and_signal(
            *command, cwd=tmp_path, numbers=[number, number], after=lambda _: bool(stub.requests), gap_s=2.0
        )
    assert done.status == 128 + number
    assert (done.noise, done.left) == ([], ())
    assert any("waiting for" in line for line in done.lines)
    assert done.resume is not None
    assert done.resume[:2] == ["learn", "--resume"]


def test_a_closed_terminal_ends_a_run_in_good_order(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    child = subprocess.Popen(
        [str(AGENTLEARN), *LEARN],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509  it makes one system call
    )
    os.close(theirs)
    shown = b""
    while b"  run  " not in shown:
        shown += os.read(ours, 65_536)
    os.close(ours)
    assert child.wait(timeout=120) == 128 + signal.SIGHUP
    with read_store(tmp_path / ".agentlearn") as reader:
        (row,) = reader.runs()
    assert row.state == "interrupted"


def test_a_run_under_nohup_ignores_a_closed_terminal(tmp_path: Path) -> None:
    with (tmp_path / "printed").open("wb") as out:
        child = subprocess.Popen(
            ["nohup", str(AGENTLEARN), *LEARN], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        while b"  run  " not in (tmp_path / "printed").read_bytes():
            assert child.poll() is None
        child.send_signal(signal.SIGHUP)
        assert child.wait(timeout=120) == 0


def test_an_interrupted_comparison_names_the_command_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(LESSON)
    command = ("compare", "none", "good.json", "--domain", "math", "--model", "sim:novice", "--limit", "20", "--k", "3")
    done = run_and_signal(*command, "--fresh", cwd=tmp_path, numbers=[signal.SIGTERM], after=says("  run  "))
    assert (done.status, done.noise, done.left, done.files) == (143, [], (), ())
    assert done.resume is not None
    assert done.resume == list(command)
    assert "1 look" not in agentlearn_here(*done.resume, cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("command", "number", "after"),
    [
        (("solve", "math", "How many ordered pairs?", "--model", "sim:novice"), signal.SIGINT, 0.7),
        (("data", "check", "tasks.jsonl"), signal.SIGTERM, 0.7),
        (("doctor",), signal.SIGHUP, 0.7),
        (("store", "import", "logs.jsonl", "--domain", "math"), signal.SIGINT, 0.7),
        (("sim", "serve"), signal.SIGTERM, 0.7),
        (("library", "list"), signal.SIGINT, 0.0),
    ],
    ids=lambda one: "-".join(one[:2]) if isinstance(one, tuple) else str(one),
)
def test_a_signal_ends_every_command_without_noise(
    tmp_path: Path, command: tuple[str, ...], number: signal.Signals, after: float
) -> None:
    tasks = [{"problem": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(500)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tasks))
    messages = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]
    (tmp_path / "logs.jsonl").write_text(2000 * (json.dumps({"messages": messages, "reward": 1.0}) + "\n"))
    done = run_and_signal(*command, cwd=tmp_path, numbers=[number], after=after)
    assert (done.noise, done.left, done.files) == ([], (), ())
    assert done.status == 128 + number or done.status in {0, 1, 2}, done.lines
    if done.status == 128 + number:
        assert done.lines[-1].startswith("agentlearn: interrupted")


def test_output_that_nobody_reads_gives_the_status_of_a_broken_pipe(tmp_path: Path) -> None:
    line = f"{AGENTLEARN} --help | true; echo ${{PIPESTATUS[0]}}; {AGENTLEARN} lern | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["141", "2"]


def test_output_that_nobody_reads_is_no_error_message(tmp_path: Path) -> None:
    line = "A --help | true; A data check nothing.jsonl 2>&1 | true; A doctor | head -1".replace("A ", f"{AGENTLEARN} ")
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert [line for line in done.stderr.splitlines() if "still checking" not in line] == []
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(("closed", "status"), [("> /dev/full", 1), (">&-", 0), (">&- 2>&-", 0), ("<&-", 0)])
def test_a_stream_that_cannot_be_used_gives_one_sentence_at_most(tmp_path: Path, closed: str, status: int) -> None:
    command = ["bash", "-c", f"{AGENTLEARN} library list {closed}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1
