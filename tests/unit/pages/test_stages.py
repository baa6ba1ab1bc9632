"""The stage table: every figure in its column, narrow, and an unknown price never shown as nothing."""

import io

from rich.console import Console

from agentlearn.learning.report import StageLine
from agentlearn.pages.figure import money
from agentlearn.pages.terminal import part_lines, print_parts, stage_table

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


def stage_lines(stages: dict[str, StageLine]) -> list[str]:
    table = stage_table(stages)
    assert table is not None
    return [line for line, _ in part_lines([table], indent=0)]


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
    header, row = stage_lines({"rollout": one})
    assert dict(zip(cells(header), cells(row), strict=True)) == {
        "stage": "rollout",
        "calls": "1,234",
        "in": "2.3M",
        "cached": "81.2k",
        "out": "812",
        "cost": "$0.012",
        "time": "00:57",
        "retried": "3",
        "replayed": "4",
        "malformed": "5",
    }
    assert len(header) == len(row)


def test_several_stages_are_summed_and_one_unknown_price_makes_the_sum_unknown() -> None:
    priced, unknown = StageLine(calls=2, tokens_in=10, cost_usd=1.5), StageLine(calls=3, tokens_in=5, cost_usd=None)
    _, first, second, total = stage_lines({"compare": unknown, "rollout": priced})
    assert (cells(first)[0], cells(second)[0]) == ("rollout", "compare"), "as a run goes through them"
    assert cells(total)[:3] == ["all", "5", "15"]
    assert "unknown" in total
    _, _, _, total = stage_lines({"rollout": priced, "compare": priced})
    assert "$3.00" in total


def test_a_simulated_stage_costs_nothing_and_a_stage_without_calls_is_left_out() -> None:
    _, row = stage_lines({"rollout": StageLine(calls=1), "compare": StageLine()})
    assert "nothing" in row
    assert [money(None), money(0.0), money(12.5)] == ["unknown", "nothing", "$12.50"]


def test_the_table_needs_no_more_than_100_columns() -> None:
    out = Console(file=io.StringIO(), record=True, soft_wrap=True, width=100)
    table = stage_table({"rollout": LARGEST, "consolidate": LARGEST})
    assert table is not None
    print_parts(out, [table])
    lines = out.export_text().splitlines()
    assert len(lines) == 4
    assert max(len(line) for line in lines) <= 100
