"""Student's t against scipy, and where scipy itself is not exact, against closed forms."""

import math
import threading

import mpmath
import pytest
from scipy import stats

from agentlearn.measure.clustered import cdf, quantile

DEGREES = (0.3, 1, 1.5, 2, 3, 5.7, 10, 29, 99, 1_000, 1e5)


def test_cdf_agrees_with_scipy(subtests: pytest.Subtests):
    for degrees in DEGREES:
        with subtests.test(repr(degrees)):
            for t in (-30.0, -3.5, -2.0, -1.0, -0.3, -0.01, 0.0, 0.01, 0.5, 1.0, 1.7, 2.0, 3.0, 10.0, 40.0):
                assert cdf(t, degrees) == pytest.approx(stats.t.cdf(t, degrees), rel=1e-10, abs=1e-13)


def test_quantile_agrees_with_scipy(subtests: pytest.Subtests):
    for degrees in DEGREES:
        with subtests.test(repr(degrees)):
            for p in (1e-6, 0.005, 0.025, 0.1, 0.3, 0.499, 0.501, 0.8, 0.95, 0.975, 0.9995):
                assert quantile(p, degrees) == pytest.approx(stats.t.ppf(p, degrees), rel=1e-10)


def test_the_ends_and_the_middle():
    assert cdf(-math.inf, 3) == 0
    assert cdf(math.inf, 3) == 1
    assert cdf(0, 3) == 0.5
    assert quantile(0.5, 3) == 0


def test_infinite_degrees_are_the_normal_distribution():
    for t in (-9.0, -1.3, 0.0, 0.4, 3.0):
        assert cdf(t, math.inf) == pytest.approx(float(stats.norm.cdf(t)), rel=1e-13)
    assert quantile(0.975, math.inf) == pytest.approx(float(stats.norm.ppf(0.975)), rel=1e-13)
    assert quantile(0.5, math.inf) == 0


def test_far_tails_keep_their_relative_precision():
    assert quantile(1e-12, 4) == pytest.approx(-quantile(1 - 1e-12, 4), rel=1e-3)
    assert cdf(quantile(1e-12, 4), 4) == pytest.approx(1e-12, rel=1e-12)


def test_nobodys_precision_is_read_or_changed():
    before = cdf(1.3, 7)
    with mpmath.workdps(5):
        assert cdf(1.3, 7) == before
        assert mpmath.mp.dps == 5


def test_threads_do_not_disturb_one_another():
    expected = [cdf(t / 10, 5.5) for t in range(20)]
    found: list[list[float]] = []
    threads = [threading.Thread(target=lambda: found.append([cdf(t / 10, 5.5) for t in range(20)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4
