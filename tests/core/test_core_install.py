"""The command line with the extra `learn` alone: every command, every mistake and every missing extra, in a sentence.

`scripts/wheel` runs this file where only that extra and pytest are installed. It imports no other test code. Where
more is installed, the cases of the installed extras are skipped.
"""

import json
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from cyclopts import App

from agentlearn.cli.app import build, run


def commands(app: App, *path: str) -> Iterator[tuple[str, ...]]:
    """Every command and group of commands, by the words that call it."""
    yield path
    for name in app:
        if name not in {"-h", "--help", "--version"}:
            yield from commands(app[name], *path, name)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sentence(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """The one sentence of a command that ends with status 2."""
    assert run(arguments) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    (line,) = printed.err.splitlines()
    assert line.startswith("agentlearn: ")
    return line


def test_every_command_has_help(capfd: pytest.CaptureFixture[str], subtests: pytest.Subtests) -> None:
    for path in commands(build()):
        with subtests.test(" ".join(path)):
            assert run([*path, "--help"]) == 0
            printed = capfd.readouterr()
            assert printed.out.startswith("Usage: agentlearn")
            assert printed.err == ""


def test_with_json_an_error_is_one_object(capfd: pytest.CaptureFixture[str], subtests: pytest.Subtests) -> None:
    for command, code in {
        "lern": "usage",
        "learn math --epochs 0": "bad_config",
        "learn": "bad_config",
        "runs list": "no_store",
    }.items():
        with subtests.test(command):
            assert run([*command.split(), "--json"]) == 2
            printed = capfd.readouterr()
            error = json.loads(printed.out)["error"]
            assert (list(error), error["code"]) == (["code", "message"], code)
            assert printed.err == f"agentlearn: {error['message']}\n"


MISSING = (
    ("torch", "train math", "train"),
    ("torch", "train math --model vllm:folder", "train"),
    ("torch", "train hf:gsm8k --model folder --reward number", "train"),
    ("torch", "learn math --model local:folder", "train"),
    ("torch", "solve math 1+1 --model local:folder", "train"),
    ("torch", "lab build", "train"),
    ("torch", "lab export there", "train"),
    ("vllm", "learn math --model vllm:folder", "vllm"),
    ("vllm", "compare none hot=none,temperature=1 --domain math --model vllm:folder", "vllm"),
    ("playwright", "learn web", "web"),
    ("playwright", "solve web 1+1", "web"),
    ("playwright", "domain check web", "web"),
    ("reasoning_gym", "learn gym:basic_arithmetic --model sim:novice", "gym"),
    ("reasoning_gym", "data check gym:basic_arithmetic", "gym"),
    ("huggingface_hub", "learn math --data hf:gsm8k", "hub"),
    ("huggingface_hub", "data check hf:gsm8k", "hub"),
    ("opentelemetry.sdk", "learn math --otel", "otel"),
    ("opentelemetry.sdk", "solve math 1+1 --otel", "otel"),
)


def test_a_missing_extra_gets_one_sentence_with_the_pip_line(
    capfd: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    Path("folder").mkdir()
    Path("folder", "config.json").write_text('{"model_type": "qwen2"}')
    for module, command, extra in MISSING:
        if find_spec(module.partition(".")[0]) is None or find_spec(module) is None:
            with subtests.test(command):
                words = sentence(command.split(), capfd)
                assert "pip install" in words
                assert f"agentlearn-lib[{extra}]'" in words
                assert not Path(".agentlearn").exists() or extra == "web", "nothing was started"
                shutil.rmtree(".agentlearn", ignore_errors=True)
