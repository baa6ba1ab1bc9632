"""The stage table: every figure in its column, narrow, and an unknown price never shown as nothing."""

import io

import pytest
from rich.console import Console

from agentlearn.learning.report import StageLine
from agentlearn.views.terminal import print_table, stage_lines, stage_rows

LARGEST = StageLine(
    calls=999_999,
    tokens_in=999_900_000,
    tokens_cached=999_900_000,
    tokens_out=999_900_000,
    cost_usd=None,
    seconds=999_999,
    retried=99_999,
    replayed=999_999,
    malformed={"prose": 99_999},
)


def cells(line: str) -> list[str]:
    return line.split()


def test_every_figure_is_under_its_header() -> None:
    one = StageLine(
        calls=1234,
        tokens_in=2_345_678,
        tokens_cached=81_200,
        tokens_out=812,
        cost_usd=0.0123,
        seconds=56.7,
        retried=3,
        replayed=4,
        malformed={"prose": 2, "cut_json": 3},
    )
    header, row, _ = stage_lines({"rollout": one})
    assert dict(zip(cells(header), cells(row), strict=True)) == {
        "stage": "rollout",
        "calls": "1,234",
        "in": "2.3M",
        "cached": "81.2k",
        "out": "812",
        "cost": "$0.0123",
        "seconds": "57",
        "retried": "3",
        "replayed": "4",
        "malformed": "5",
    }
    assert len(header) == len(row)


@pytest.mark.parametrize("indent", [0, 2])
def test_the_table_needs_no_more_than_100_columns(indent: int) -> None:
    out = Console(file=io.StringIO(), record=True, soft_wrap=True, width=100)
    print_table(out, stage_rows({"rollout": LARGEST, "consolidate": LARGEST}), label=11, indent=indent)
    lines = out.export_text().splitlines()
    assert len(lines) == 4
    assert max(len(line) for line in lines) <= 100


def test_malformed_replies_are_named_by_stage() -> None:
    stages = {"summarise": StageLine(calls=3, malformed={"prose": 2, "cut_json": 1}), "compare": StageLine(calls=1)}
    assert [*stage_lines(stages)][-1] == "malformed  summarise: prose 2, cut_json 1"
