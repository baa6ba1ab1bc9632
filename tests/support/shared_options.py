"""Settings that tests share."""

from typing import Any

ALL_ROLLOUTS: dict[str, Any] = {"stop_after": 256, "revisit_every": 1, "end_when_settled": 1.0, "reward_margin": 0.0}
"""Options of a run in which no group stops early and no task is skipped."""
AS_PUBLISHED: dict[str, Any] = ALL_ROLLOUTS | {"select": "last", "validation_rollouts": 0}
"""Options of a run that makes all rollouts and takes the last version without comparing it."""
