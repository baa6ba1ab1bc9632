"""`scripts/test --all` measures the slow tests only for packages of which the quick tests run too few lines."""

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/test"
PYTHON = """#!/bin/sh
echo "$@" >>asked
case "$*" in *report*{low}*) exit 2 ;; esac
"""


def asked(folder: Path, low: str) -> tuple[int, list[str]]:
    """The exit status of the script and what it asks of Python, where the coverage of the package `low` is too low."""
    python, script = folder / ".venv/bin/python", folder / "scripts/test"
    for path in (python, script):
        path.parent.mkdir(parents=True)
    python.write_text(PYTHON.format(low=low))
    python.chmod(0o700)
    shutil.copy(SCRIPT, script)
    done = subprocess.run(["sh", str(script), "--all"], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, (folder / "asked").read_text().splitlines()


def runs(lines: list[str]) -> list[str]:
    return [line.partition("reorder ")[2] for line in lines if line.startswith("-m pytest")]


def test_slow_tests_run_unmeasured_where_the_quick_ones_run_enough(tmp_path: Path) -> None:
    status, lines = asked(tmp_path, low="no_package")
    assert status == 0
    assert runs(lines) == ["--cov --cov-report= -m not slow", "-m slow"]
    assert sum("--fail-under=90" in line for line in lines) == 2 * 4


def test_a_package_of_which_too_little_runs_is_measured_again_and_fails(tmp_path: Path) -> None:
    status, lines = asked(tmp_path, low="domains/agentlearn_web")
    assert status != 0
    assert runs(lines) == [
        "--cov --cov-report= -m not slow",
        "--cov=agentlearn_web --cov-append --cov-report= -m slow",
    ]
