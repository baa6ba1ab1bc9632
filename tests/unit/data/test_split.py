"""`data split`: which rows stay together, what is written, and what is never replaced."""

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.data.overlap import parse_parts, split_source
from agentlearn.errors import ConfigError, DataError
from tests.support.command import agentlearn_here

THREE = {"train": 0.7, "validation": 0.15, "test": 0.15}


def write(file: Path, rows: list[dict[str, str]]) -> str:
    with file.open("w", newline="") as opened:
        table = csv.DictWriter(opened, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return str(file)


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def numbered(count: int) -> list[dict[str, str]]:
    return [{"problem": f"What is {n} + {n * n}?", "answer": str(n + n * n), "note": f"a,\n{n}"} for n in range(count)]


def test_every_row_is_in_one_part_with_all_its_columns_and_in_order(tmp_path: Path) -> None:
    rows = numbered(40)
    parts = split_source(write(tmp_path / "sums.csv", rows), THREE, seed=0)
    assert [(one.file.name, one.rows) for one in parts] == [
        ("sums.train.csv", 28),
        ("sums.validation.csv", 6),
        ("sums.test.csv", 6),
    ]
    written = [rows_of(one.file) for one in parts]
    assert sorted((row for part in written for row in part), key=rows.index) == rows
    assert all(part == sorted(part, key=rows.index) for part in written)


def test_a_seed_gives_the_same_parts_whatever_the_order_and_another_seed_others(tmp_path: Path) -> None:
    rows, tests = numbered(40), []
    for name, given_rows, seed in (("a", rows, 0), ("b", rows[::-1], 0), ("c", rows, 1)):
        parts = split_source(write(tmp_path / f"{name}.csv", given_rows), THREE, seed=seed)
        tests.append({row["problem"] for row in rows_of(parts[-1].file)})
    assert tests[0] == tests[1] != tests[2]


@given(st.lists(st.integers(0, 5), min_size=12, max_size=40), st.integers(0, 3))
def test_no_family_and_no_question_is_in_two_parts(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[int], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("split")
    rows = [
        {"problem": f"Count the sheep of farm {at // 2}.", "answer": "1", "family": f"f{kind}" if kind else ""}
        for at, kind in enumerate(kinds)
    ]
    try:
        parts = split_source(write(folder / "farms.csv", rows), {"train": 0.5, "test": 0.5}, seed=seed)
    except DataError:  # all of them belong together
        return
    one, other = (rows_of(part.file) for part in parts)
    for column in ("problem", "family"):
        shared = {row[column] for row in one} & {row[column] for row in other}
        assert shared <= {""} or len({row["family"] for row in rows}) == 1


def test_other_formats_become_json_lines_with_the_digits_of_their_numbers(tmp_path: Path) -> None:
    texts = [f'{{"problem": "P{n}?", "answer": {n}.10, "more": [true, null, "ü"]}}' for n in range(4)]
    (tmp_path / "n.json").write_text(f"[{', '.join(texts)}]")
    parts = split_source(str(tmp_path / "n.json"), {"a": 0.5, "b": 0.5}, seed=0)
    lines = [line for one in parts for line in one.file.read_text(encoding="utf-8").splitlines()]
    assert sorted(lines) == texts
    assert [one.file.name for one in parts] == ["n.a.jsonl", "n.b.jsonl"]


def test_no_file_is_replaced_and_then_none_is_written(tmp_path: Path) -> None:
    source = write(tmp_path / "sums.csv", numbered(10))
    (tmp_path / "sums.test.csv").write_text("mine")
    refused = agentlearn_here("data", "split", source, cwd=tmp_path, expect=2).stderr
    assert "is there already and is not replaced" in refused
    assert sorted(one.name for one in tmp_path.iterdir()) == ["sums.csv", "sums.test.csv"]
    (tmp_path / "parts").mkdir()
    said = agentlearn_here("data", "split", source, "--out", "parts", "--json", cwd=tmp_path).stdout
    assert [one["rows"] for one in json.loads(said)["parts"]] == [7, 2, 1]


@pytest.mark.parametrize(
    "into", ["", "train", "train=0.5", "train=0.7,train=0.3", "a=x,b=1", "a=0,b=1", "a=-1,b=2", "../a=1", "a=nan,b=1"]
)
def test_parts_that_make_no_whole_are_refused(into: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_parts(into)
    assert refused.value.code == "bad_config"
    assert repr(into) in refused.value.message
