"""Faults that the simulated service injects: latency, rate limits, server errors, resets, stalls, malformed answers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import exp
from statistics import NormalDist

from agentlearn.errors import ConfigError
from agentlearn_demo.sim.draws import uniform

FAILURES = ("rate_limited", "server_error", "reset", "stall", "garbled")


@dataclass(frozen=True, slots=True)
class Faults:
    """Fault parameters of the service. Shares are of requests, 0..1; the shares of failures add up to at most 1."""

    latency_s: float = 0.0
    """Median time until an answer, in seconds."""
    latency_spread: float = 0.0
    """Standard deviation of the logarithm of that time. With 0.5, one answer in fifty takes three times the median."""
    rate_limited: float = 0.0
    """Share of requests answered with status 429 and Retry-After."""
    retry_after_s: float = 1.0
    """Value of the Retry-After header, in seconds."""
    server_error: float = 0.0
    """Share of requests answered with status 500, 502 or 503."""
    reset: float = 0.0
    """Share of requests whose connection is reset instead of an answer."""
    stall: float = 0.0
    """Share of requests without an answer for `stall_s`; then the connection is reset."""
    stall_s: float = 600.0
    """Seconds that a stalled request waits."""
    garbled: float = 0.0
    """Share of requests answered with status 200 and a body that is not a chat completion."""
    malformed: float | None = None
    """Share of malformed replies: of stages (replaces the reflector's parameter) and of solvers, whose tool calls are
    cut off. None keeps the reflector's parameter."""

    @classmethod
    def of(cls, parameters: Mapping[str, float | None]) -> "Faults":
        """Faults from parameters by field name; None keeps a default.

        Raises ConfigError for a share outside 0..1, for shares of failures that add up to more than 1, and negative
        times.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        for name, value in given.items():
            is_share = name in (*FAILURES, "malformed")
            if not 0 <= value <= (1 if is_share else float("inf")):
                wanted = "a share from 0 to 1" if is_share else "a number of at least 0"
                raise ConfigError(f"--{name.replace('_', '-')} is {value!r}; give {wanted}")
        if (total := sum(given.get(name, 0.0) for name in FAILURES)) > 1:
            raise ConfigError(f"the shares of failures add up to {total:g}; reduce them to at most 1")
        return cls(**given)

    def failure(self, *named: object) -> str:
        """Draw which of `FAILURES` a request identified by `named` has; empty for none."""
        draw = uniform("fault", *named)
        for name in FAILURES:
            share: float = getattr(self, name)
            if draw < share:
                return name
            draw -= share
        return ""

    def latency(self, draw: float) -> float:
        """The time until an answer, in seconds, for a draw in [0, 1): log-normal, so sometimes much longer."""
        return self.latency_s * exp(self.latency_spread * NormalDist().inv_cdf(min(max(draw, 1e-9), 1 - 1e-9)))


PARAMETERS = tuple(one.name for one in fields(Faults))
