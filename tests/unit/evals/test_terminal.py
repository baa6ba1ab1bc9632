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


def alone(**changes: object) -> Comparison:
    """A comparison of two arms whose only contrast has these fields."""
    found = rich(arms=2)
    contrast = found.contrasts[0].model_copy(update={"caution": "", "worst": None, "withheld": "", **changes})
    return found.model_copy(update={"contrasts": (contrast,), "missing": ()})


def row_of(found: Comparison) -> str:
    return next(line for line in shown(found).splitlines() if line.strip().startswith(f"{found.names[1]} - none"))


def test_bounds_are_unknown_when_something_is_missing_and_scores_have_no_known_range() -> None:
    found = alone()
    lost = (*found.arms[:-1], found.arms[-1].model_copy(update={"undecided": 3}))
    assert "unknown" in row_of(found.model_copy(update={"arms": lost}))
