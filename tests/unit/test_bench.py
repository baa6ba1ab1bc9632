"""`just bench`: the JSON holds every figure as a number, its targets, and what the figures depend on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.bench import __main__ as bench
from scripts.bench.found import Bench, Found, Row, Target, as_text

TINY = ("million", "--trajectories", "800", "--rounds", "1")


def told(out: Path) -> dict[str, Any]:
    return json.loads(out.read_text(encoding="utf-8"))


def test_one_benchmark_leaves_its_figures_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "bench.json"
    assert bench.main([*TINY, "--out", str(out)]) == 0
    report = told(out)
    assert report["command"][:3] == ["just", "bench", "million"]
    assert report["machine"]["cores"] >= 1
    assert set(report["machine"]["versions"]) >= {"agentlearn-lib", "pydantic-ai-slim", "duckdb"}
    (one,) = report["benches"]
    assert one["options"] == {"trajectories": 800, "rounds": 1}
    assert one["about"].startswith("Questions over a million trajectories")
    assert one["error"] == ""
    assert [row["name"] for row in one["found"]["rows"]][:3] == ["group std", "pass@4", "cost by model"]
    figures: list[Mapping[str, object]] = [row["figures"] for row in one["found"]["rows"]]
    assert all(isinstance(figure, int | float) for row in figures for figure in row.values())
    assert [target["limit"] for target in one["found"]["targets"]] == [100.0] * 3
    assert all(target["met"] == (target["figure"] <= 100.0) for target in one["found"]["targets"])
    shown = capsys.readouterr().out
    assert "group std: 100 groups" in shown
    assert f"all of it as JSON: {out}" in shown


def test_a_target_says_whether_it_was_met_and_the_table_shows_it() -> None:
    one = Row(name="one", figures={"per_s": 1234.5, "calls": 7, "kept": True})
    slow = Target(what="rate", figure=1234.5, bound="at_least", limit=1500)
    none = Target(what="lost", figure=0, bound="at_most", limit=0)
    found = Found(rows=(one, Row(name="two", figures={"x_ms": None})), targets=(slow, none), notes=("so",))
    text = as_text(Bench(bench="b", about="", options={}, load_1min=0.5, took_s=3, found=found))
    assert text.splitlines() == [
        "== b (3 s, load 0.5 before)",
        "     per_s  calls  kept",
        "one  1,234      7   yes",
        "",
        "     x_ms",
        "two     -",
        "",
        "MISSED rate: 1,234, at least 1500",
        "met    lost: 0, at most 0",
        "so",
    ]
