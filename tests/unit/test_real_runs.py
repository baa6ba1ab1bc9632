"""The tasks, rewards and table of `just real`: what they hold out, pay for, and print."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.real.tasks import HELD_OUT, LEARNED, TASKS


@pytest.mark.parametrize("one", [one for one in TASKS if not one.gym], ids=lambda one: one.name)
def test_no_held_out_problem_is_learned_from_and_each_call_makes_the_same(one: Any, tmp_path: Path) -> None:
    learned, held_out = (
        [json.loads(line)["problem"] for line in Path(file).read_text().splitlines()] for file in one.sources(tmp_path)
    )
    assert (len(learned), len(held_out)) == (LEARNED, HELD_OUT)
    assert len({*learned, *held_out}) == LEARNED + HELD_OUT
    assert one.rows() == one.rows()
    _, more = one.sources(tmp_path, held_out=2 * HELD_OUT)
    many = [json.loads(line)["problem"] for line in Path(more).read_text().splitlines()]
    assert (many[:HELD_OUT], len(many)) == (held_out, 2 * HELD_OUT)
