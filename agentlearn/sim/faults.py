"""What goes wrong on the way to an answer, by dials: how long it takes, rate limits, errors of the service."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from agentlearn.sim.chat import Refused
from agentlearn.sim.draws import uniform

_SERVER_ERRORS = (500, 502, 503)


class Latency(Protocol):
    """How long an answer takes."""

    def seconds(self, draw: float) -> float:
        """The time that belongs to a draw in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same time."""

    fixed_s: float = 0.0

    def seconds(self, draw: float) -> float:
        """The fixed time."""
        del draw
        return self.fixed_s


@dataclass(frozen=True, slots=True)
class Faults:
    """Dials of the service. Rates are shares of requests, 0..1."""

    latency: Latency = Fixed()
    rate_limited: float = 0.0
    """429 with Retry-After."""
    retry_after_s: float = 1.0
    server_error: float = 0.0
    """500, 502 or 503."""
    malformed: float | None = None
    """Malformed replies: of stages, in place of the reflector's own dial, and of solvers, whose calls get cut."""


HEADERS: Mapping[str, str] = {
    "x-sim-latency-s": "latency",
    "x-sim-rate-limited": "rate_limited",
    "x-sim-retry-after-s": "retry_after_s",
    "x-sim-server-error": "server_error",
    "x-sim-malformed": "malformed",
}
"""Request headers that set a dial for that request alone."""


def with_headers(faults: Faults, headers: Mapping[str, str]) -> Faults:
    """The dials as a request's own headers set them. Raises Refused (400) for a header that is no number."""
    changed: dict[str, object] = {}
    for header, dial in HEADERS.items():
        if header in headers:
            number = _number(header, headers[header])
            changed[dial] = Fixed(number) if dial == "latency" else number
    return replace(faults, **changed) if changed else faults


def injected(faults: Faults, *named: object) -> Refused | None:
    """The failure drawn for a request of that name; None for none."""
    draw = uniform("fault", *named)
    if draw < faults.rate_limited:
        return Refused(429, "Rate limit reached, please try again later.", code="rate_limit_exceeded", kind="requests")
    if draw < faults.rate_limited + faults.server_error:
        status = _SERVER_ERRORS[int(uniform("status", *named) * len(_SERVER_ERRORS))]
        return Refused(
            status, "The server had an error while processing your request.", code="server_error", kind="server_error"
        )
    return None


def _number(header: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise Refused(
            400, f"The header {header!r} must be a number of at least 0, not {value!r}.", code="invalid_value"
        )
    return number
