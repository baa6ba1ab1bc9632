"""`scripts/test-vllm`: which tests it runs, with a stand-in for the environment that it makes."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test-vllm"
PYTHON = '#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n'


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ([], ["tests/vllm"]),
        (["-s", "-k", "200_correct"], ["-s", "-k", "200_correct", "tests/vllm"]),
        (["tests/vllm/one.py::test_it"], ["tests/vllm/one.py::test_it"]),
        (["-k", "a b", "tests/vllm"], ["-k", "a b", "tests/vllm"]),
    ],
)
def test_the_tests_with_a_real_server_are_run_unless_others_are_named(
    tmp_path: Path, given: list[str], run: list[str]
) -> None:
    script = tmp_path / "scripts" / "test-vllm"
    environment = tmp_path / ".venv-vllm"
    for folder in (script.parent, environment / "bin", tmp_path / "tests" / "vllm"):
        folder.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    (environment / "ready").touch()
    (tmp_path / "tests" / "vllm" / "one.py").touch()
    (environment / "bin" / "python").write_text(PYTHON)
    (environment / "bin" / "python").chmod(0o755)
    said = subprocess.run(["sh", str(script), *given], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-m", "pytest", "-p", "no:xdist", *run]
