"""The process of one command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, gc, sys
from agentlearn.cli.stop_signals import run_command
atexit.register(lambda: print(gc.get_threshold()[0], sorted({"aiohttp", "openai", "uvloop"} & sys.modules.keys())))
run_command(["--help"])
"""


def test_help_imports_no_network_client_and_a_command_collects_garbage_less_often() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "10000 []"


LIGHT = """
import sys
from agentlearn.cli.app import run
try:
    run(sys.argv[1:])
finally:
    print(sorted({"pydantic_ai", "duckdb", "numpy", "torch"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    "words", ["learn --help", "compare --help", "lern math", "library shw x", "library show nothing"]
)
def test_help_and_refused_names_load_neither_the_store_nor_a_model_client(words: str) -> None:
    program = [sys.executable, "-c", LIGHT, *words.split()]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


NOISY = """
import os, subprocess, sys
from agentlearn.cli.stop_signals import run_command

class Noise:
    def find_spec(self, name, path, target=None):
        if name in ("agentlearn.cli.setup", "agentlearn.cli.runs"):
            print("noise of a library")
            os.write(1, b"noise of a library in C\\n")
            subprocess.run(["echo", "noise of a child"])

sys.meta_path.insert(0, Noise())
run_command([*sys.argv[1:], "--json"])
"""


@pytest.mark.parametrize(("words", "status"), [("models list", 0), ("runs list", 2)])
def test_stdout_is_one_json_object_whatever_else_writes_to_it(words: str, status: int, tmp_path: Path) -> None:
    program = [sys.executable, "-c", NOISY, *words.split()]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, isinstance(json.loads(done.stdout), dict)) == (status, True), done.stderr
    assert done.stderr.count("noise of a") == 3
