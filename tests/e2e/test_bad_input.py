"""What a user can mend is said in one sentence, with status 2, and never with a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from tests.support.cases import cases
from tests.support.command import agentlearn_here

ROWS = '{"problem": "What is 1 + 1?", "answer": "2"}\n{"problem": "What is 2 + 2?"}\n'


def complaint(cwd: Path, *arguments: str) -> str:
    """The one line on stderr."""
    done = agentlearn_here(*arguments, cwd=cwd, expect=2)
    return the_sentence(done.stdout, done.stderr)


def the_sentence(stdout: str, stderr: str) -> str:
    """What is said when that is all that is said."""
    assert stdout == ""
    assert "Traceback" not in stderr
    lines = [line for line in stderr.splitlines() if line.startswith("agentlearn: ")]
    assert len(lines) == 1, stderr
    return lines[0].removeprefix("agentlearn: ")


def test_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of nobody")
    Path("rows.jsonl").write_text(ROWS)
    for command, sentence in cases(__file__, "sentences").items():
        with subtests.test(command):
            assert run(command.split()) == 2
            said = capfd.readouterr()
            assert sentence in the_sentence(said.out, said.err)


def test_nothing_is_spent_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    arguments = ["learn", "math", "--model", "openai:gpt-5-mini", "--sandbox", "unsafe-local"]
    done = agentlearn_here(*arguments, cwd=tmp_path, expect=2)
    assert "openai:gpt-5-mini: about 1," in done.stderr
    assert "add --yes or --max-cost-usd to allow it" in done.stderr
    assert not (tmp_path / ".agentlearn").exists()


@pytest.mark.slow
def test_a_store_held_by_another_process_names_its_pid_and_an_unknown_run_is_named(tmp_path: Path) -> None:
    hold = (
        "import asyncio, pathlib, sys\n"
        "from agentlearn.store import open_store\n"
        "async def main():\n"
        "    async with open_store(pathlib.Path('.agentlearn')):\n"
        "        print('held', flush=True)\n"
        "        sys.stdin.read()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert f"process {holder.pid}" in complaint(tmp_path, "learn", "math", "--limit", "1")
        holder.communicate("")
    assert "'zz'" in complaint(tmp_path, "runs", "show", "zz")
    assert "'ffff'" in complaint(tmp_path, "trace", "ffff")
