"""The small form of the simulated thirty days: killed or not, the same ledger, and nothing that must not be in it."""

import argparse
from pathlib import Path

import pytest

from scripts.bench import thirty_days

pytestmark = pytest.mark.slow


def test_thirty_days_of_a_small_company_are_the_same_after_kills(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    thirty_days.options(parser)
    small = ["--first", "1", "--seeds", "1", "--tenants", "2", "--per-day", "5", "--kills", "3", "--twins", "1"]
    found = thirty_days.measure(parser.parse_args([*small, "--folder", str(tmp_path)]))
    assert found.failures == ()
    (row,) = found.rows
    assert (row.figures["conversations"] or 0) > 250
    assert row.figures["harmful_most"] == 0
    assert {file.name for file in tmp_path.iterdir()} == {"seed-01.json", "twin-01.json"}
    again = thirty_days.measure(parser.parse_args([*small, "--folder", str(tmp_path)]))
    assert again.rows == found.rows, "a seed that is done is read, and not run again"
