"""What a service serves to a run with a limit on tokens, in parts of the limit. The service is simulated.

64 calls are in flight. A conversation has one or four turns, with or without tools. Sizes of replies are nearly equal
(plain), lognormal, or Pareto with the exponent 1.1. Each case runs with several seeds. Reported are the smallest and
the largest part, and how many replies were cut off because the limit allowed no more.

    just bench budget
    just bench budget --limit 200000 --seeds 20
"""

import argparse
import asyncio
import contextlib

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded
from tests.bench.found import Found, Number, Row, Target
from tests.support.served import Served, Sizes, lognormal, pareto

SIZES: dict[str, Sizes] = {"plain": lognormal(0.1), "lognormal": lognormal(1.0), "pareto": pareto(1.1)}


def _case(chosen: argparse.Namespace, name: str, turns: int, *, tools: bool, reported: bool) -> Row:
    """Return the figures of one case over all seeds."""
    parts, cut_off, calls = list[float](), 0, 0
    for seed in range(chosen.seeds):
        limits = BudgetOptions(max_tokens=chosen.limit)
        served = Served(limits, seed=seed, sizes=SIZES[name], tools=tools, reported=reported)
        with contextlib.suppress(BudgetExceeded):
            asyncio.run(served.run(max(300, chosen.limit // 60), turns))
        parts.append(served.tokens / chosen.limit)
        cut_off, calls = cut_off + served.cut_off, calls + len(served.journal.records)
    words = [name, f"{turns} turns", *(["tools"] if tools else []), *([] if reported else ["no usage"])]
    figures: dict[str, Number] = {"least": min(parts), "most": max(parts), "cut_off": cut_off, "calls": calls}
    return Row(name=", ".join(words), figures=figures)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--limit", type=int, default=20_000, help="--max-tokens of the run")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each case")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure all cases."""
    cases = [(turns, tools, reported) for turns in (1, 4) for tools in (False, True) for reported in (True, False)]
    rows = tuple(
        _case(chosen, name, turns, tools=tools, reported=reported) for name in SIZES for turns, tools, reported in cases
    )
    counted, estimated = ([row for row in rows if ("no usage" in row.name) is flag] for flag in (False, True))
    targets = (
        Target(what="the largest part, usage reported", figure=_most(counted), bound="at_most", limit=1.05),
        Target(what="the largest part, no usage", figure=_most(estimated), bound="at_most", limit=1.15),
        Target(
            what="the smallest part",
            figure=min(float(row.figures["least"] or 0) for row in rows),
            bound="at_least",
            limit=0.9,
        ),
    )
    return Found(rows=rows, targets=targets)


def _most(rows: list[Row]) -> float:
    return max(float(row.figures["most"] or 0) for row in rows)
