"""Written observations can be read again unchanged."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn.errors import DataError
from agentlearn.measure.score_table import Observation
from agentlearn.text import storable
from agentlearn_evals.formats import read_logs, write_observations

LIMIT = 2**63 - 1

texts = st.text(st.characters(exclude_categories=()), max_size=12)
"""With commas, quotes, line ends, NUL and lone surrogates."""
names = texts.map(storable).filter(bool)
sizes = st.floats(min_value=0, allow_infinity=False, allow_nan=False)
counts = st.none() | st.integers(0, LIMIT)


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """Any observation at all."""
    status = draw(st.sampled_from(["ok", "failed", "undecided"]))
    score = None if status == "undecided" else draw(st.floats(allow_nan=False, allow_infinity=False))
    return Observation(
        arm=draw(names),
        task=draw(names),
        g=draw(st.integers(0, LIMIT)),
        score=score,
        status=status,
        error=draw(texts),
        cluster=draw(texts),
        domain=draw(texts),
        tags=tuple(draw(st.lists(texts, max_size=3))),
        problem=draw(texts),
        rollout=draw(texts),
        cost_usd=draw(st.none() | sizes),
        tokens_in=draw(counts),
        tokens_library=draw(counts),
        tokens_out=draw(counts),
        tool_calls=draw(counts),
        seconds=draw(st.none() | sizes),
    )


def stored(one: Observation) -> Observation:
    """The observation as it can be kept: lone surrogates written out."""
    actual = one.model_dump()
    changed = {name: storable(value) for name, value in actual.items() if isinstance(value, str)}
    return Observation(**{**actual, **changed, "tags": tuple(map(storable, one.tags))})


def distinct(rows: Sequence[Observation]) -> bool:
    return len({(storable(one.arm), storable(one.task), one.g) for one in rows}) == len(rows)


many = st.lists(observations(), min_size=1, max_size=5).filter(distinct)


def round_trip(rows: Sequence[Observation], name: str) -> tuple[Observation, ...]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        write_observations(rows, file)
        return read_logs([file]).observations


@given(many)
def test_csv_round_trip(rows: list[Observation]) -> None:
    assert round_trip(rows, "runs.csv") == tuple(map(stored, rows))


@pytest.mark.slow
@given(many)
@settings(max_examples=25)  # each opens the database twice
def test_parquet_round_trip(rows: list[Observation]) -> None:
    assert round_trip(rows, "runs.parquet") == tuple(map(stored, rows))


@given(many)
def test_json_lines_round_trip(rows: list[Observation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "runs.jsonl"
        file.write_text("".join(json.dumps(one.model_dump()) + "\n" for one in rows))
        assert read_logs([file]).observations == tuple(map(stored, rows))


@pytest.mark.parametrize("name", ["runs.csv", "runs.parquet"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError):
        write_observations([Observation(arm="a", task="t", score=1.0)], tmp_path / "gone" / name)


def test_a_number_too_large_for_parquet_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        write_observations([Observation(arm="a", task="t", score=1.0, tokens_in=2**70)], tmp_path / "runs.parquet")
    assert refused.value.code == "bad_data"
    assert list(tmp_path.iterdir()) == []
