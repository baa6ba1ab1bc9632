"""Written observations and pydantic-evals reports can be read again unchanged."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_evals.reporting import EvaluationReportAdapter

from agentlearn.errors import ConfigError, DataError
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.observation import Observation
from agentlearn.text import storable
from agentlearn_evals.comparison import ArmLine, Comparison, Reproducibility
from agentlearn_evals.formats import read_logs, to_pydantic_evals, write_observations

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
    assert refused.value.code == "bad_parquet"
    assert list(tmp_path.iterdir()) == []


def compared(*arms: str) -> Comparison:
    contrasts = tuple(
        Contrast(arm=arm, baseline=arms[0], mean=0.25, verdict="better", sentence=f"{arm} is better.")
        for arm in arms[1:]
    )
    lines = tuple(ArmLine(arm=arm, label=arm, tasks=2, rollouts=4, counted=4, score=0.5) for arm in arms)
    about = Reproducibility(models={"with": "m1"}, libraries={"with": "7f3c"})
    return Comparison(
        title="math: none, with", k=2, baseline=arms[0], arms=lines, contrasts=contrasts, reproducibility=about
    )


ROLLOUTS = [
    Observation(arm="none", task="t1", score=0.0),
    Observation(
        arm="with",
        task="t1",
        g=0,
        score=0.75,
        cluster="c",
        domain="math",
        tags=("x",),
        problem="1 + 1?",
        rollout="r1",
        cost_usd=0.5,
        tokens_in=10,
        tokens_out=2,
        tool_calls=1,
        seconds=1.5,
    ),
    Observation(arm="with", task="t1", g=1, score=0.0, status="failed", error="endpoint"),
    Observation(arm="with", task="t2", g=0, score=0.0, status="failed", error="too_many_turns"),
    Observation(arm="with", task="t2", g=1, score=None, status="undecided", error="verifier"),
]


def test_pydantic_evals_takes_our_report() -> None:
    report = EvaluationReportAdapter.validate_python(to_pydantic_evals(compared("none", "with"), ROLLOUTS, "with"))
    assert (report.name, report.dataset_name) == ("with", "math: none, with")
    assert [(case.name, case.source_case_name) for case in report.cases] == [
        ("t1 [1/2]", "t1"),
        ("t1 [2/2]", "t1"),
        ("t2 [1/2]", "t2"),
        ("t2 [2/2]", "t2"),
    ]
    first = report.cases[0]
    assert first.scores["score"].value == 0.75
    assert first.metrics == {"cost": 0.5, "input_tokens": 10, "output_tokens": 2, "tool_calls": 1}
    assert first.task_duration == 1.5
    assert report.cases[3].evaluator_failures[0].error_message == "verifier"
    metadata = report.experiment_metadata
    assert metadata is not None
    assert (metadata["model"], metadata["library"]) == ("m1", "7f3c")
    assert metadata["contrast"]["verdict"] == "better"
    [difference] = report.analyses
    assert (difference.title, getattr(difference, "value", None)) == ("Difference to none", 0.25)
    groups = report.case_groups()
    assert groups is not None
    assert {group.name: (len(group.runs), len(group.failures)) for group in groups} == {"t1": (2, 0), "t2": (2, 0)}
    assert "t1" in report.render(width=100)


def test_our_report_is_read_again(tmp_path: Path) -> None:
    written = to_pydantic_evals(compared("none", "with"), ROLLOUTS, "with")
    file = tmp_path / "report.json"
    file.write_bytes(EvaluationReportAdapter.dump_json(EvaluationReportAdapter.validate_python(written)))
    read = {(one.task, one.g): one for one in read_logs([file]).observations}
    assert {key: (one.score, one.status) for key, one in read.items()} == {
        (one.task, one.g): (one.score, one.status) for one in ROLLOUTS[1:]
    }
    assert read["t1", 0] == ROLLOUTS[1]


def test_an_arm_that_was_not_compared_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        to_pydantic_evals(compared("none", "with"), ROLLOUTS, "other")
    assert str(refused.value) == "the comparison has no arm 'other'; name one of 'none', 'with'"
    assert refused.value.code == "unknown_arm"
