"""The examples in docs/examples that run offline, as a reader would run them, and the notebook."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "docs/examples"
ELSEWHERE = {"gateway_node.mjs", "ipfs_node.mjs", "litellm_hook.py", "returns.py", "support_service.py"}
"""Tested by the tests of what they show."""
PRINTS = {
    "own_reward.py": "ranges is better than none:",
    "any_agent.py": "0.38 → 1.00",
    "live_loop.py": "after: shipping",
    "first_steps.ipynb": "ranges",
}


def test_each_example_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {*ELSEWHERE, *PRINTS}


@pytest.mark.parametrize("name", PRINTS)
def test_example(name: str, tmp_path: Path) -> None:
    program = Path(shutil.copy(EXAMPLES / name, tmp_path))  # alone, without the examples beside it
    command = [sys.executable, str(program)]
    if program.suffix == ".ipynb":
        cells = json.loads(program.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        (tmp_path / "cells.py").write_text(code + "\nprint(report, found.contrasts[0].sentence)", encoding="utf-8")
        flag = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        start = f"import asyncio; asyncio.run(eval(compile(open('cells.py').read(), 'cells.py', 'exec', flags={flag})))"
        command = [sys.executable, "-c", start]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert PRINTS[name] in ran.stdout
