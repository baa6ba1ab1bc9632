"""The settings of a comparison that `compare` takes as keyword arguments, for type checkers and editors."""

from collections.abc import Sequence
from typing import Literal

from agentlearn.config.solve_options import RolloutKeywords
from agentlearn.measure.contrast import Correction


class CompareOptions(RolloutKeywords, total=False):
    """Settings of `CompareSettings` that `compare` has no parameter for. `CompareSettings` says what they mean."""

    max_cost_usd: float | None
    max_tokens: int | None
    max_minutes: float | None
    columns: str | None
    max_unreadable: float
    tools: Literal["none", "python"]
    instructions: str | None
    only_instructions: bool
    methods: Sequence[str]
    held_out_of: str | None
    limit: int | None
    baseline: str | None
    pairs: Sequence[str | tuple[str, str]] | str
    score_range: tuple[float, float] | str | None
    margin: float | None
    correction: Correction
    planned_looks: int
    sequential: bool
    block: int
    fresh: bool
    retry_failed: bool
