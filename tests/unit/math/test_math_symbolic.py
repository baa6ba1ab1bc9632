"""Answers that are no plain numbers: equal ones, different ones, and those that nobody should be asked about."""

import logging
import threading
import time

import pytest

from agentlearn.trajectory import Verdict
from agentlearn_math import symbolic
from agentlearn_math.verify import judge


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"2\sqrt{3}", r"\sqrt{12}"),
        (r"\frac{-1+\sqrt{5}}{2}", r"\frac{2}{1+\sqrt{5}}"),
        (r"1 - \frac{1}{\mathrm{e}}", r"\frac{e-1}{e}"),
        ("10^9+7", "1000000007"),
        (r"2\frac{1}{2}", "2.5"),
        (r"\binom{10}{3}", "120"),
        ("5!", "120"),
        (r"\log_2 8", "3"),
        (r"\gcd(12,18)", "6"),
        (r"e^{i\pi}", "-1"),
        ("3+4i", "4i+3"),
        ("x^2+2x+1", "(x+1)^2"),
        (r"\frac{x^2-1}{x-1}", "x+1"),
        (r"\sin^2 x+\cos^2 x", "1"),
        ("(x+y+z+1)^{10}", "(1+x+y+z)^{10}"),
        ("x=5", "5"),
        ("3x+4y+14=0", "6x+8y+28=0"),
        (r"\{1,2,3\}", r"\{3,1,2\}"),
        (r"(\frac12, 3)", "(0.5,3)"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        (r"\infty", r"+\infty"),
    ],
)
def test_equal_expressions(answer: str, gold: str) -> None:
    verdict = judge(answer, gold)
    assert (verdict.status, verdict.reward) == ("correct", 1.0), verdict.reason


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"\pi", "3.14159"),
        (r"4\sqrt{2}", "4"),
        (r"1-\frac{1}{e}", r"1+\frac{1}{e}"),
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"),
        (r"1.0000001\pi", r"1.0000002\pi"),
        ("x^2+2x+1", "(x-1)^2"),
        (r"\sqrt{x^2}", "x"),
        ("x", "5"),
        ("(1,2)", "(2,1)"),
        ("[1,2]", "(1,2)"),
        ("3x-1y+13=0", "3x+4y+14=0"),
        (r"\infty", r"-\infty"),
        ("3+4i", "3-4i"),
    ],
)
def test_different_expressions_even_where_math_verify_accepts_them(answer: str, gold: str) -> None:
    verdict = judge(answer, gold)
    assert (verdict.status, verdict.reward) == ("incorrect", 0.0), verdict.reason


@pytest.mark.parametrize(
    ("answer", "gold", "reason"),
    [
        (r"4\sqrt(2)", "4", "the answer could not be read as one whole expression"),
        (r"\frac{a}{b}c", r"\frac{a}{b}", "the answer could not be read as one whole expression"),
        ("{5", "5", "the answer could not be read as one whole expression"),
        ("18 dollars", "18", "the answer holds words"),
        ("5 million", "5", "the answer holds words"),
        ("12 13", "25", "the answer holds two numbers side by side"),
        ("12_5", "12", "the answer holds a number base, prime, degree or modulus"),
        (r"\cos 30^\circ", r"\frac{\sqrt3}{2}", "the answer holds a number base, prime, degree or modulus"),
        (r"1,2,\ldots,n", r"1,3,\ldots,2n-1", "the answer holds an ellipsis"),
        ("9^{9^{9^9}}", "1", "the answer holds a power of a power"),
        ("9^9^9^9", "1", "the answer holds a power of a power"),
        ("(x+1)^{5000}", "1", "the answer holds large powers"),
        ("(((2^{9999})^9)^9)^9", "1", "the answer holds large powers"),
        ("1000000!", "1", "the answer holds a factorial of more than a small number"),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}", "the answer holds a factorial of more than a small number"),
        ("(99*99*99)!", "1", "the answer holds a factorial of more than a small number"),
        (r"\binom{10^9}{5}", "1", "the answer holds a binomial of more than small numbers"),
        (r"\sum_{k=1}^{9} k", "45", "the answer holds a sum, product, integral or limit"),
        ("(" * 9 + "1+x" + ")" * 9, "1", "the answer nests more than 8 brackets"),
        ("x+" * 100 + "x", "1", "the answer is longer than 200 characters"),
        ("1", "18 dollars", "the expected answer holds words"),
        (r"2^{200}\pi", r"2^{200}\pi+1", "the values are too large to tell apart"),
    ],
)
def test_what_cannot_be_told_is_undecided_and_says_why(answer: str, gold: str, reason: str) -> None:
    assert judge(answer, gold) == Verdict(status="undecided", reward=None, reason=reason)


def test_a_comparison_that_takes_too_long_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, "LIMIT_S", 0.3)
    endless = r"\sqrt{(99-(y+y)-(x+(2)^{5})\cdot (2\cdot x-0+\sqrt{\arcsin(x)}))^{10}}"
    started = time.thread_time()
    verdict = judge(r"\ln(\sqrt{x})", endless)
    assert verdict == Verdict(status="undecided", reward=None, reason="the comparison took more than 0.3 s")
    assert time.thread_time() - started < 10


def test_it_works_in_any_thread() -> None:
    verdicts: list[Verdict] = []
    thread = threading.Thread(target=lambda: verdicts.append(judge(r"\sqrt{8}", r"2\sqrt{2}")))
    thread.start()
    thread.join()
    assert [verdict.status for verdict in verdicts] == ["correct"]


def test_it_warns_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        judge(r"\{\sqrt{8}\}", r"\{2\sqrt{2}\}")
    assert caplog.records == []
