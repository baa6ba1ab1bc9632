"""What goes wrong on the way to an answer, by dials: how long it takes, rate limits, errors, cut and silent lines."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import exp
from statistics import NormalDist
from typing import Protocol

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import RequestRefused
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
class Lognormal:
    """Mostly about the median, sometimes much longer, as services are."""

    median_s: float
    spread: float
    """Standard deviation of the logarithm: 0.5 makes one answer in fifty take three times the median."""

    def seconds(self, draw: float) -> float:
        """The time at that quantile."""
        return self.median_s * exp(self.spread * NormalDist().inv_cdf(min(max(draw, 1e-9), 1 - 1e-9)))


@dataclass(frozen=True, slots=True)
class Faults:
    """Dials of the service. Rates are shares of requests, 0..1; those of failures add up to 1 at most."""

    latency: Latency = Fixed()
    rate_limited: float = 0.0
    """429 with Retry-After."""
    retry_after_s: float = 1.0
    server_error: float = 0.0
    """500, 502 or 503."""
    reset: float = 0.0
    """The connection is reset in place of an answer."""
    stall: float = 0.0
    """No answer comes for `stall_s`, and then the connection is reset."""
    stall_s: float = 600.0
    garbled: float = 0.0
    """200 with a body that is no chat completion."""
    malformed: float | None = None
    """Malformed replies: of stages, in place of the reflector's own dial, and of solvers, whose calls get cut."""


FAILURES = ("rate_limited", "server_error", "reset", "stall", "garbled")
SHARES = (*FAILURES, "malformed")


@dataclass(frozen=True, slots=True)
class Silence:
    """No HTTP answer at all: the connection is reset after so many seconds."""

    kind: str
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Garbled:
    """A body that is no chat completion, under status 200."""

    body: bytes


_GARBAGE = (b"<html><body>502 Bad Gateway</body></html>", b'{"object": "chat.comp', b"{}", b"")


def faults_of(parameters: Mapping[str, float | None]) -> Faults:
    """Faults by the names of their dials, with `latency_s` and `latency_spread`; None leaves a dial alone.

    Raises ConfigError for a share outside 0..1, shares of failures beyond 1, and times below zero.
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    for name, value in given.items():
        if not 0 <= value <= (1 if name in SHARES else float("inf")):
            wanted = "a share from 0 to 1" if name in SHARES else "no negative number"
            raise ConfigError(f"--{name.replace('_', '-')} is {value!r}; give {wanted}", code="out_of_range")
    if (total := sum(given.get(name, 0.0) for name in FAILURES)) > 1:
        raise ConfigError(f"the shares of failures add up to {total:g}; keep them to 1 in all", code="out_of_range")
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
"""Request headers that set a dial for that request alone."""


def with_headers(faults: Faults, headers: Mapping[str, str]) -> Faults:
    """The dials as a request's own headers set them. Raises Refused (400) for a header that is no number."""
    changed: dict[str, object] = {}
    for header, dial in HEADERS.items():
        if header in headers:
            number = _number(header, headers[header])
            changed[dial] = Fixed(number) if dial == "latency" else number
    return replace(faults, **changed) if changed else faults


def injected(faults: Faults, *named: object) -> RequestRefused | Silence | Garbled | None:
    """The failure drawn for a request of that name; None for none."""
    draw = uniform("fault", *named)
    for kind in FAILURES:
        share = getattr(faults, kind)
        if draw < share:
            return _failure(kind, faults, *named)
        draw -= share
    return None


def _failure(kind: str, faults: Faults, *named: object) -> RequestRefused | Silence | Garbled:
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
            return Silence(kind, faults.stall_s if kind == "stall" else 0.0)


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
