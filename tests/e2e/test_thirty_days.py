"""The small form of the simulated thirty days: killed or not, the same ledger, and nothing that must not be in it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

SMALL = "--first 1 --seeds 1 --tenants 2 --per-day 5 --kills 3 --twins 1"


def days(folder: Path) -> Any:
    """What the benchmark found, as a program of its own: its children begin as copies of it."""
    out = folder.with_suffix(".found.json")
    command = (sys.executable, "-m", "scripts.bench", "--out", out, "thirty_days", *SMALL.split(), "--folder", folder)
    asked = [*map(str, command)]
    ran = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-4000:]
    return json.loads(out.read_text())["benches"][0]["found"]


def test_thirty_days_of_a_small_company_are_the_same_after_kills(tmp_path: Path) -> None:
    found = days(tmp_path / "days")
    assert found["failures"] == []
    (row,) = found["rows"]
    assert row["figures"]["conversations"] > 250
    assert row["figures"]["harmful_most"] == 0
    assert {file.name for file in (tmp_path / "days").iterdir()} == {"seed-01.json", "twin-01.json"}
    assert days(tmp_path / "days")["rows"] == found["rows"], "a seed that is done is read, and not run again"
