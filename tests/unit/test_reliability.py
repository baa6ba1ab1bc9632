"""Every row of the fault matrix in docs/reliability.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\|(?P<cells>.+)\|$")
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    """The cells of each row of the matrix."""
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    found = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", match["cells"])]
        for line in text.splitlines()
        if (match := ROW.match(line))
    ]
    return [cells for cells in found if cells[0] != "fault" and not set(cells[0]) <= {"-"}]


def test_each_row_names_tests_that_exist() -> None:
    for cells in rows():
        assert [bool(cell) for cell in cells] == [True] * 5, f"a row needs five filled cells: {cells}"
        named = NAMED.findall(cells[4])
        assert named, f"the row {cells[0]!r} names no test"
        for path, name in named:
            file = ROOT / "tests" / path
            assert file.exists(), f"{path} does not exist"
            assert f"def {name}(" in file.read_text(encoding="utf-8"), f"{path} has no {name}"
