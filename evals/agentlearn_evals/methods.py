"""Ways of learning, compared by the libraries that each learned with different seeds: two kinds of chance, not one."""

from collections.abc import Mapping, Sequence

from agentlearn.errors import ConfigError
from agentlearn.stats import two_way_mean
from agentlearn_evals.comparison import MethodLine
from agentlearn_evals.score_table import ScoreTable


def parse_methods(texts: Sequence[str], arms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """`NAME=ARM+ARM+…` as a mapping. Raises ConfigError for unknown arms, the baseline, or fewer than two."""
    methods: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, members = text.partition("=")
        named = tuple(filter(None, members.split("+")))
        unknown = [one for one in named if one not in arms[1:]]
        if not equals or not name or len(set(named)) < 2 or unknown:
            known = ", ".join(arms[1:])
            raise ConfigError(
                f"the method {text!r} must name two or more different arms, as in NAME=A+B (the baseline is none of"
                f" them; arms: {known})",
                code="bad_method",
            )
        if name in methods:
            raise ConfigError(
                f"two methods are called {name!r}; name one of them otherwise, or join their arms by +",
                code="bad_method",
            )
        methods[name] = named
    return methods


def method_lines(table: ScoreTable, methods: Mapping[str, Sequence[str]], level: float) -> tuple[MethodLine, ...]:
    """Each method against the baseline, with errors for the tasks that were drawn and the seeds it learned with."""
    return tuple(_line(table, name, arms, level) for name, arms in methods.items())


def _line(table: ScoreTable, name: str, arms: Sequence[str], level: float) -> MethodLine:
    differences = [value for arm in arms for value in table.differences(arm, table.arms[0])]
    tasks = [cluster for _ in arms for cluster in table.clusters()]
    seeds = [arm for arm in arms for _ in table.tasks]
    found = two_way_mean(differences, tasks, seeds, level=level)
    return MethodLine(
        method=name,
        arms=tuple(arms),
        mean=found.mean,
        low=found.low,
        high=found.high,
        standard_error=found.standard_error,
        degrees=found.degrees,
        tasks=len(table.tasks),
        note=found.unsafe or f"{len(arms)} learning seeds: the interval covers other seeds and other tasks",
    )
