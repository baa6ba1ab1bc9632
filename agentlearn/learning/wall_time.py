"""How long a run takes: its phases one after another, with at most so many model calls at once.

A phase ends when its longest chain of calls has ended, when its calls have had their turn, and when this machine has
done its own work for them. The latest of the three counts. Times of calls are means, so services whose times vary a lot
take longer than this at the end of a phase.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DRIVER_S, WORK_S = 0.0018, 0.0032
"""Seconds of one core for a call: in the driver, and where its rollout is made (docs/scale.md). Tools come on top."""
START_S, WORKER_START_S = 1.0, 2.0
"""Seconds before the first call: opening the store and the endpoints; and until workers have started."""
ASSUMED_WAIT_S, ASSUMED_TOKENS_PER_S = 1.0, 50.0
"""Assumed for a call of which nothing was measured: seconds before its answer begins, and its tokens per second."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Units of work that begin together, such as rollouts: each makes `calls` calls, one after the other."""

    units: float
    calls: float
    call_s: float
    own_s: float = 0.0
    """Seconds of a unit outside its calls, such as those of its tools."""

    @property
    def unit_s(self) -> float:
        """Seconds of one unit that waits for nothing."""
        return self.calls * self.call_s + self.own_s

    def length_s(self, concurrency: int) -> float:
        """Seconds until the last unit has ended: `concurrency` calls, and 1.5 times as many units, at once."""
        if not self.units:
            return 0.0
        turns_s = self.call_s * math.ceil(self.units * self.calls / concurrency)
        return max(self.unit_s, turns_s, self.units * self.unit_s / (1.5 * concurrency))


@dataclass(frozen=True, slots=True)
class Phase:
    """Waves of work that the next phase waits for. Each unit of a wave waits for units of the wave before, not for all.

    So a later wave overlaps the end of an earlier one, and only its last units come after it.
    """

    waves: Sequence[Wave]
    times: float = 1.0
    """How often the run has such a phase."""

    def seconds(self, concurrency: int, call_cpu_s: float) -> float:
        """Seconds of all these phases."""
        first, *later = self.waves
        path_s = first.length_s(concurrency) + sum(one.unit_s for one in later if one.units)
        busy_s = sum(one.units * one.calls * one.call_s for one in self.waves) / concurrency
        own_s = sum(one.units * one.calls for one in self.waves) * call_cpu_s
        return self.times * max(path_s, busy_s, own_s)


def wall_seconds(phases: Sequence[Phase], *, concurrency: int, workers: int) -> float:
    """Return how long a run with these phases takes, in seconds."""
    call_cpu_s = max(DRIVER_S, WORK_S / workers) if workers else DRIVER_S + WORK_S
    start_s = START_S + (WORKER_START_S if workers else 0.0)
    return start_s + sum(one.seconds(concurrency, call_cpu_s) for one in phases)


def call_seconds(measured: Mapping[str, float], stage: str, tokens_out: float) -> float:
    """Return the seconds of one call of a stage: as measured, else as assumed for an answer of that length."""
    return measured.get(stage) or ASSUMED_WAIT_S + tokens_out / ASSUMED_TOKENS_PER_S
