"""Judging answers: integers per second, and ms per formula compared with math-verify. Seconds for hostile answers.

Both judge the same pairs of formulas, after one warm-up repetition each. Our judge sends each formula to a worker
process; math-verify runs in this process.

    just bench verify
"""

import argparse
import asyncio
import logging
import statistics
import time
from collections.abc import Callable

from agentlearn.answers.workers import AlgebraWorkers, open_workers
from agentlearn_math.verify import judge, judge_exactly
from scripts.bench.found import Found, Number, Row

INTEGERS = 200_000
ROUNDS = 5
FORMULAS = (
    (r"2\sqrt{3}", r"\sqrt{12}", True),
    (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}", True),
    (r"\frac{-1+\sqrt{5}}{2}", r"\frac{2}{1+\sqrt{5}}", True),
    (r"\frac{4}{3}\pi", r"\frac{4\pi}{3}", True),
    (r"3+4i", r"4i+3", True),
    (r"\ln 6", r"\ln 2+\ln 3", True),
    (r"x^2+2x+1", r"(x+1)^2", True),
    (r"\frac{x^2-1}{x-1}", r"x+1", True),
    (r"\sin^2 x+\cos^2 x", r"1", True),
    (r"\{\sqrt{8}, 1\}", r"\{1, 2\sqrt{2}\}", True),
    (r"[0,\frac{\pi}{2}]", r"[0,\pi/2]", True),
    (r"(\sqrt{4},\pi)", r"(2,\pi)", True),
    (r"y=2x+3", r"y=3+2x", True),
    (r"\pi", r"3.14159", False),
    (r"4\sqrt(2)", r"4", False),
    (r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{\mathrm{e}}", False),
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}", False),
    (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}", False),
    (r"3*x-1*y+13=0", r"3x+4y+14=0", False),
    (r"1.0000001\pi", r"1.0000002\pi", False),
    (r"3+4i", r"3-4i", False),
    (r"2\sqrt{3}", r"3\sqrt{2}", False),
    (r"(x-1)^2", r"x^2+2x+1", False),
    (r"(1,\sqrt{2})", r"(\sqrt{2},1)", False),
)
HOSTILE = (
    r"9^{9^{9^9}}",
    r"(x+1)^{5000}",
    r"1000000!",
    r"\sum_{k=1}^{1000000} \sqrt{k}",
    r"\int_0^1 \frac{\sin(x^{17}+\ln x)}{x^{19}+\cos x} dx",
    r"\sum_{k=1}^{20000}\sum_{j=1}^{20000}\sin(jk)",
    "(" * 400 + "x" + ")" * 400,
)


def options(parser: argparse.ArgumentParser) -> None:
    """Add no options; this benchmark has none."""


def measure(chosen: argparse.Namespace) -> Found:
    """Measure rates and times, and list the pairs that were judged wrongly."""
    integers = (_integers("204, 204", "204", "204"), _integers("$1,234$, 1234", r"$1,234$", "1234"))
    formulas, notes = asyncio.run(_formulas())
    return Found(rows=(*integers, *formulas), notes=notes)


def _integers(name: str, answer: str, gold: str) -> Row:
    began_s = time.perf_counter()
    for _ in range(INTEGERS):
        judge_exactly(answer, gold)
    return Row(name=name, figures={"verdicts_per_s": INTEGERS / (time.perf_counter() - began_s)})


async def _formulas() -> tuple[list[Row], tuple[str, ...]]:
    async with open_workers() as workers:
        began_s = time.perf_counter()
        await judge(r"\sqrt{8}", r"2\sqrt{2}", workers)
        start = Row(name="start and first formula", figures={"taken_s": time.perf_counter() - began_s})
        (ours, ours_s, ours_wrong), (theirs, theirs_s, theirs_wrong) = await _ours(workers), _theirs()
        ratio = Row(name="ratio", figures={"p50_ratio": statistics.median(ours_s) / statistics.median(theirs_s)})
        hostile = [await _hostile(answer, workers) for answer in HOSTILE]
    return [start, ours, theirs, ratio, *hostile], (*ours_wrong, *theirs_wrong)


async def _hostile(answer: str, workers: AlgebraWorkers) -> Row:
    began_s = time.perf_counter()
    verdict = await judge(answer, "1", workers)
    taken_s = time.perf_counter() - began_s
    return Row(name=answer[:44], figures={"taken_s": taken_s, "undecided": verdict.status == "undecided"})


Judged = tuple[Row, list[float], list[str]]
"""The row, the seconds of each pair, and a note for each pair that was judged wrongly."""


async def _ours(workers: AlgebraWorkers) -> Judged:
    taken_s, wrong = list[float](), set[str]()
    for number in range(ROUNDS + 1):
        for answer, gold, same in FORMULAS:
            began_s = time.perf_counter()
            verdict = await judge(answer, gold, workers)
            if number:
                taken_s.append(time.perf_counter() - began_s)
            if verdict.status != ("correct" if same else "incorrect"):
                wrong.add(f"{answer} compared with {gold}")
    return _judged("agentlearn", taken_s, wrong)


def _theirs() -> Judged:
    compare = _math_verify()
    taken_s, wrong = list[float](), set[str]()
    for number in range(ROUNDS + 1):
        for answer, gold, same in FORMULAS:
            began_s = time.perf_counter()
            is_same = compare(answer, gold)
            if number:
                taken_s.append(time.perf_counter() - began_s)
            if is_same != same:
                wrong.add(f"{answer} compared with {gold}")
    return _judged("math-verify", taken_s, wrong)


def _judged(name: str, taken_s: list[float], wrong: set[str]) -> Judged:
    figures: dict[str, Number] = {
        "p50_ms": 1000 * statistics.median(taken_s),
        "p95_ms": 1000 * statistics.quantiles(taken_s, n=20)[-1],
        "wrong": len(wrong),
        "pairs": len(FORMULAS),
    }
    return Row(name=name, figures=figures), taken_s, [f"{name} was wrong about {pair}" for pair in sorted(wrong)]


def _math_verify() -> Callable[[str, str], bool]:
    """Return math-verify's comparison as in its documentation, with the `\\boxed` that it expects."""
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)
    return lambda answer, gold: bool(verify(parse(f"\\boxed{{{gold}}}"), parse(f"\\boxed{{{answer}}}")))
