"""Parquet files without a store: rows out, columns in, names taken at their word."""

from pathlib import Path

import pytest

from agentlearn.errors import DataError
from agentlearn.store.parquet import parquet_rows, write_parquet


@pytest.mark.parametrize("name", ["a.parquet", "a[1].parquet", "*.parquet", "a?.parquet", "it's.parquet", "ü.parquet"])
def test_a_name_means_itself(tmp_path: Path, name: str) -> None:
    write_parquet(tmp_path / "a1.parquet", {"x": ("BIGINT", [0])})
    write_parquet(tmp_path / name, {"x": ("BIGINT", [1, 2]), "words": ("VARCHAR[]", [["a"], []])})
    assert list(parquet_rows(tmp_path / name)) == [{"x": 1, "words": ["a"]}, {"x": 2, "words": []}]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["a1.parquet", name])


def test_more_rows_than_one_batch_come_in_order(tmp_path: Path) -> None:
    file = tmp_path / "many.parquet"
    write_parquet(file, {"x": ("BIGINT", range(5000))})
    assert [row["x"] for row in parquet_rows(file)] == list(range(5000))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    write_parquet(file, {"x": ("BIGINT", range(100))})
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"^a\.parquet cannot be read as Parquet \(.+\); write it again$") as refused:
        list(parquet_rows(file))
    assert refused.value.code == "bad_parquet"
