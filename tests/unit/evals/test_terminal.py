"""The terminal shows a table by domain for a comparison over several domains."""

from io import StringIO

from rich.console import Console

from agentlearn_evals.comparison import Comparison
from agentlearn_evals.terminal import print_comparison
from tests.support.comparisons import rich


def shown(found: Comparison) -> str:
    out = StringIO()
    print_comparison(found, Console(file=out, width=200, color_system=None))
    return out.getvalue()


def test_each_arm_has_its_score_and_difference_on_each_domain() -> None:
    found = rich()
    text = shown(found)
    header = next(line for line in text.splitlines() if line.strip().startswith("by domain"))
    assert header.split() == ["by", "domain", "math", "difference", "web", "difference"]
    below = text.splitlines()[text.splitlines().index(header) + 1 :]
    for arm, line in zip(found.names, below, strict=False):
        cells = {one.name: one for one in found.slices if one.by == "domain" and one.arm == arm}
        assert line.split()[0] == arm
        for one in cells.values():
            assert one.score is None or f"{one.score:.3f}" in line
            assert one.mean is None or f"{one.mean:+.3f}" in line
