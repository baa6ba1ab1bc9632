"""A strict type checker accepts a program that uses the library rightly, and finds the mistakes in another."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def errors_in(file: Path, folder: Path) -> set[int]:
    """Return the lines of a file in which basedpyright finds an error in its strict mode, from 1."""
    settings = {
        "include": [str(file)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT), str(ROOT / "domains"), str(ROOT / "evals")],
    }
    project = folder / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "-p", str(project), "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1, done.stdout + done.stderr
    return {
        one["range"]["start"]["line"] + 1
        for one in found["generalDiagnostics"]
        if one["severity"] in {"error", "warning"}
    }


def test_a_program_that_uses_everything_has_no_type_error(tmp_path: Path) -> None:
    assert errors_in(HERE / "user_program.py", tmp_path) == set()


def test_each_mistake_is_a_type_error(tmp_path: Path) -> None:
    file = HERE / "wrong_program.py"
    wrong = {n for n, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert len(wrong) > 15
    assert errors_in(file, tmp_path) == wrong
