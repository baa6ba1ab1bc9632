"""Faults that the simulated service injects: latency, rate limits, server errors, resets, stalls, malformed answers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import exp
from statistics import NormalDist
from typing import Protocol

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import RequestRefused
from agentlearn_demo.sim.draws import uniform

_SERVER_ERRORS = (500, 502, 503)


class Latency(Protocol):
    """Distribution of the time until an answer."""

    def seconds(self, draw: float) -> float:
        """The time for a draw in [0, 1), in seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same time for every answer."""

    fixed_s: float = 0.0

    def seconds(self, draw: float) -> float:
        """The fixed time, in seconds."""
        del draw
        return self.fixed_s


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Log-normal times: mostly near the median, sometimes much longer, as with real services."""

    median_s: float
    spread: float
    """Standard deviation of the logarithm. With 0.5, one answer in fifty takes three times the median or longer."""

    def seconds(self, draw: float) -> float:
        """The time at the quantile `draw`, in seconds."""
        return self.median_s * exp(self.spread * NormalDist().inv_cdf(min(max(draw, 1e-9), 1 - 1e-9)))


@dataclass(frozen=True, slots=True)
class Faults:
    """Fault parameters of the service. Shares are of requests, 0..1; the shares of failures add up to at most 1."""

    latency: Latency = Fixed()
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


FAILURES = ("rate_limited", "server_error", "reset", "stall", "garbled")
SHARES = (*FAILURES, "malformed")


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No HTTP answer: the connection is reset after `after_s`."""

    kind: str
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Garbled:
    """An answer with status 200 whose body is not a chat completion."""

    body: bytes


_GARBAGE = (b"<html><body>502 Bad Gateway</body></html>", b'{"object": "chat.comp', b"{}", b"")


def faults_of(parameters: Mapping[str, float | None]) -> Faults:
    """Faults from parameters by field name, with `latency_s` and `latency_spread` for `latency`; None keeps a default.

    Raises ConfigError for a share outside 0..1, for shares of failures that add up to more than 1, and negative times.
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    for name, value in given.items():
        if not 0 <= value <= (1 if name in SHARES else float("inf")):
            wanted = "a share from 0 to 1" if name in SHARES else "a number of at least 0"
            raise ConfigError(f"--{name.replace('_', '-')} is {value!r}; give {wanted}", code="out_of_range")
    if (total := sum(given.get(name, 0.0) for name in FAILURES)) > 1:
        raise ConfigError(f"the shares of failures add up to {total:g}; reduce them to at most 1", code="out_of_range")
    median_s, spread = given.pop("latency_s", 0.0), given.pop("latency_spread", 0.0)
    known = {one.name for one in fields(Faults)}
    assert given.keys() <= known, given
    return replace(Faults(latency=Lognormal(median_s, spread) if spread else Fixed(median_s)), **given)


HEADERS: Mapping[str, str] = {
    "x-sim-latency-s": "latency",
    "x-sim-rate-limited": "rate_limited",
    "x-sim-retry-after-s": "retry_after_s",
    "x-sim-server-error": "server_error",
    "x-sim-reset": "reset",
    "x-sim-stall": "stall",
    "x-sim-stall-s": "stall_s",
    "x-sim-garbled": "garbled",
    "x-sim-malformed": "malformed",
}
"""The fault parameter that each request header sets, for that request only."""


def with_headers(faults: Faults, headers: Mapping[str, str]) -> Faults:
    """The faults with a request's headers applied. Raises RequestRefused (400) for a header that is not a number."""
    changed: dict[str, object] = {}
    for header, name in HEADERS.items():
        if header in headers:
            number = _number(header, headers[header])
            changed[name] = Fixed(number) if name == "latency" else number
    return replace(faults, **changed) if changed else faults


def draw_fault(faults: Faults, *named: object) -> RequestRefused | NoAnswer | Garbled | None:
    """Draw the failure of a request identified by `named`; None for no failure."""
    draw = uniform("fault", *named)
    for kind in FAILURES:
        share = getattr(faults, kind)
        if draw < share:
            return _failure(kind, faults, *named)
        draw -= share
    return None


def _failure(kind: str, faults: Faults, *named: object) -> RequestRefused | NoAnswer | Garbled:
    match kind:
        case "rate_limited":
            message = "Rate limit reached, please try again later."
            return RequestRefused(429, message, code="rate_limit_exceeded", kind="requests")
        case "server_error":
            status = _SERVER_ERRORS[int(uniform("status", *named) * len(_SERVER_ERRORS))]
            message = "The server had an error while processing your request."
            return RequestRefused(status, message, code="server_error", kind="server_error")
        case "garbled":
            return Garbled(_GARBAGE[int(uniform("garbage", *named) * len(_GARBAGE))])
        case _:
            return NoAnswer(kind, faults.stall_s if kind == "stall" else 0.0)


def _number(header: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise RequestRefused(
            400, f"The header {header!r} must be a number of at least 0, not {value!r}.", code="invalid_value"
        )
    return number
