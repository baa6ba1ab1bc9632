"""No text that we write into a CSV file is a formula for a spreadsheet program, and our reader gets it back."""

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.measure.score_table import Observation
from agentlearn_evals.formats import read_logs, write_observations
from agentlearn_evals.formats.log_file import original_cell, spreadsheet_cell
from tests.support.cases import cases

PAYLOADS = cases(__file__, "payloads")


def starts_a_formula(text: str) -> bool:
    """Whether a spreadsheet program may take a cell for a formula; written without the code under test."""
    return bool(re.match("[\t\r\n]|[\\s\u00ad\u200b-\u200f\u2060\ufeff]*[=+@\u2212\uff1d\uff0b\uff0d\uff20-]", text))


@given(st.text() | st.sampled_from(PAYLOADS))
def test_every_text_comes_back_and_none_starts_a_formula(text: str) -> None:
    cell = str(spreadsheet_cell(text))
    assert original_cell(cell) == text
    assert not starts_a_formula(cell)


def test_numbers_and_ordinary_text_stay_as_they_are(subtests: pytest.Subtests) -> None:
    for value in [-1.5, -3, 0, 2.5e-7, None, "plain", "'quoted'", "a=b", "1-2", "[1]", ""]:
        with subtests.test(repr(value)):
            assert spreadsheet_cell(value) == value


def test_a_written_file_holds_no_formula_and_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    rows = [
        Observation(arm=f"={arm}", task=f"task {at}", g=0, score=-0.5, problem=text.replace("\r", " "))
        for arm in "ab"
        for at, text in enumerate(PAYLOADS)
    ]
    write_observations(rows, file)
    with file.open(newline="", encoding="utf-8") as text:
        cells = list(csv.DictReader(text))
    assert {one["score"] for one in cells} == {"-0.5"}
    assert not [cell for one in cells for name, cell in one.items() if name != "score" and starts_a_formula(cell)]
    assert read_logs([file]).observations == tuple(rows)
