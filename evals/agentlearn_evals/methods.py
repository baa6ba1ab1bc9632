"""Compares ways of learning. Each is represented by several libraries that it learned with different seeds."""

from collections.abc import Mapping, Sequence

from agentlearn.errors import ConfigError
from agentlearn.measure.score_table import ScoreTable
from agentlearn.stats import two_way_mean
from agentlearn_evals.comparison import MethodLine


def parse_methods(texts: Sequence[str], arms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse `NAME=ARM+ARM+…` into arms by method name.

    arms: all arms, the baseline first. Raises ConfigError for an unknown arm, the baseline, or fewer than two arms.
    """
    methods: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, members = text.partition("=")
        named = tuple(filter(None, members.split("+")))
        unknown = [one for one in named if one not in arms[1:]]
        if not equals or not name or len(set(named)) < 2 or unknown:
            known = ", ".join(arms[1:])
            raise ConfigError(
                f"the method {text!r} must name two or more different arms, as in NAME=A+B (not the baseline; arms:"
                f" {known})",
                code="bad_method",
            )
        if name in methods:
            raise ConfigError(
                f"two methods are named {name!r}; rename one of them, or join their arms by +", code="bad_method"
            )
        methods[name] = named
    return methods


def method_lines(table: ScoreTable, methods: Mapping[str, Sequence[str]], level: float) -> tuple[MethodLine, ...]:
    """Return the difference of each method from the baseline.

    The interval allows for chance in the choice of tasks and in the seeds of learning.
    """
    return tuple(_method_line(table, name, arms, level) for name, arms in methods.items())


def _method_line(table: ScoreTable, name: str, arms: Sequence[str], level: float) -> MethodLine:
    differences = [value for arm in arms for value in table.differences(arm, table.arms[0])]
    tasks = [cluster for _ in arms for cluster in table.clusters()]
    seeds = [arm for arm in arms for _ in table.tasks]
    estimate = two_way_mean(differences, tasks, seeds, level=level)
    return MethodLine(
        method=name,
        arms=tuple(arms),
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        standard_error=estimate.standard_error,
        degrees=estimate.degrees,
        tasks=len(table.tasks),
        note=estimate.unsafe or f"{len(arms)} learning seeds: the interval covers other seeds and other tasks",
    )
