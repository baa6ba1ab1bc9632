"""What a user can mend is said in one sentence, with status 2, and never with a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentlearn.cli.app import run
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


SENTENCES = {
    "trace ffff": "there is no store at '.agentlearn'; a run makes one",
    "learn maths": "domain 'maths' is not installed (found: 'math', 'miniwob', 'web'); did you mean 'math'?",
    "learn math --data none.jsonl": "none.jsonl",
    "learn math --data rows.jsonl --model sim:novice": "line 2",
    "learn tasks.jsonl": "or name the domain that judges them: agentlearn learn math --data tasks.jsonl",
    "learn none.yaml": "there is no recipe 'none.yaml'",
    "learn math --epochs 0": "epochs is 0, but input should be greater than or equal to 1",
    "learn math --temperature 7": "temperature is 7.0, but input should be less than or equal to 2",
    "learn math --group-size x": 'unable to convert "x" into int',
    "learn math --epoch 3": "Unknown option: --epoch",
    "learn math --from nothing": "nothing",
    "learn math --model sim:genius": "has no model 'genius' (it has 'sim:novice'",
    "learn math --model vllm:Qwen/Qwen3": "pip install 'agentlearn-lib[vllm]'",
    "learn math --model local:weights": "there is no directory 'weights'",
    "learn math --model anthropic:claude-haiku-4-5 --yes": "pip install 'pydantic-ai-slim[anthropic]'",
    "learn math --model http://127.0.0.1:9/v1 --sandbox unsafe-local": "must name a model after",
    "learn math --model http://127.0.0.1:9/v1#m --max-cost-usd 2 --sandbox unsafe-local": (
        "--max-cost-usd 2 cannot be kept: the price of 'http://127.0.0.1:9/v1#m' is not known;"
        " limit the run with --max-tokens or --max-minutes"
    ),
    "learn math --reflector http://127.0.0.1:9/v1#m --max-cost-usd 2 --dry-run": (
        "the price of 'http://127.0.0.1:9/v1#m' is not known"
    ),
    "learn math --model http://127.0.0.1:9/v1#m --sandbox unsafe-local": (
        "the endpoint 'http://127.0.0.1:9/v1' cannot be reached: "
    ),
    "learn math --model openai:gpt-5-mini --yes --sandbox unsafe-local": "OPENAI_API_KEY",
    "solve math 1+1 --model openai:gpt-5-mini --yes": "OPENAI_API_KEY",
    "compare none x=none,temperature=1 --domain math --model openai:gpt-5-mini --yes": "OPENAI_API_KEY",
    "learn math --sandbox moon": "there is no sandbox 'moon'",
    "library show nothing": "nothing",
    "library show ../../etc/passwd": "passwd",
    "sim serve --rate-limited 3": "give a share from 0 to 1",
    "lern": 'Did you mean "learn"?',
}


def test_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    subtests: pytest.Subtests,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of nobody")
    Path("rows.jsonl").write_text(ROWS)
    for command, sentence in SENTENCES.items():
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
