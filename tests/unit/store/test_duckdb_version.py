"""A DuckDB that cannot write the store is named when the store is opened."""

from pathlib import Path

import pytest

from agentlearn.errors import StoreError
from agentlearn.store import read_store


@pytest.mark.parametrize("found", ["1.5.6", "0.10.0"])
def test_an_old_duckdb_is_refused_with_the_reason(found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdb.__version__", found)
    with pytest.raises(StoreError) as caught, read_store(tmp_path / "store"):
        pass
    assert caught.value.code == "old_duckdb"
    assert str(caught.value) == (
        f"the store needs DuckDB 2 or newer, which appends rows in batches, and found '{found}':"
        " pip install 'duckdb>=2,<3'"
    )
    assert not (tmp_path / "store").exists()
