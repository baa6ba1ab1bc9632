"""The promise on a few simulated libraries: harmful lessons are found, and hardly a label is wrong."""

import argparse

from tests.bench.bench_evidence import measure


def test_a_lesson_of_minus_10_points_is_found_and_hardly_a_label_is_wrong() -> None:
    found = measure(argparse.Namespace(libraries=10, seed=500, only="±10 points, h = 2, where retrieved"))
    ours = next(row.figures for row in found.rows if row.name.endswith("retrieved: guarantee"))
    assert float(ours["harmful_3000"] or 0) >= 0.9
    assert float(ours["proven_3000"] or 0) >= 0.9
    drift = next(row.figures for row in found.rows if row.name.endswith("drift: guarantee"))
    assert float(drift["harmful_5000"] or 0) >= 0.8
    wrong = [float(row.figures[key] or 0) for row in found.rows for key in ("wrong_harmful", "wrong_proven")]
    assert max(wrong[:2]) <= 0.1
    uncorrected = next(row.figures for row in found.rows if row.name.endswith("retrieved: uncorrected"))
    assert float(uncorrected["wrong_harmful"] or 0) > 0.2, "the simulation can tell a rule without a guarantee"
