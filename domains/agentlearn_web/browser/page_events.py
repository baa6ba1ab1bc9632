"""Events that accompany the acts of a walk: dialogs, downloads, popups, refused connections. Each is reported once."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import RefusedConnection, host_port
from agentlearn_web.observation import Event, EventKind

_MAX_PER_KIND = 5
"""Events of one kind that are listed. Further ones are only counted."""
_MAX_SITE_TEXT = 500
"""Most characters of a site's text in one event."""
_REFUSED = {
    "private_address": "a private address, which this walk may not reach",
    "not_served": "an address that this walk may not reach",
    "unresolvable": "no such host",
    "bad_request": "a request that is not allowed",
    "too_large": "more than this walk may load",
    "too_many": "more connections than this walk may have open",
    "too_slow": "the host fell silent",
    "unreachable": "the host did not answer",
}
_BLOCKED_CODES = frozenset({"private_address", "not_served", "bad_request"})
"""Refusal codes that give the status `blocked`. Other refusals give `load_failed`."""


class RefusalSource(Protocol):
    """Where refused connections are read from; implemented by `ProxySession`."""

    def drain(self) -> tuple[RefusedConnection, ...]:
        """Return the refusals since the last call."""
        ...


class PageEvents:
    """Collects events from the browser's callbacks until they are drained into an observation."""

    def __init__(self, session: RefusalSource) -> None:
        self._session = session
        self._events: list[Event] = []
        self._counts: Counter[EventKind] = Counter()
        self._refusals: list[RefusedConnection] = []

    def add(self, kind: EventKind, reason: str, site_text: str = "") -> None:
        """Record an event. reason: our own words. site_text: the site's words."""
        self._counts[kind] += 1
        if self._counts[kind] <= _MAX_PER_KIND:
            self._events.append(Event(kind=kind, reason=reason, site_text=site_text[:_MAX_SITE_TEXT]))

    def refusals(self) -> tuple[RefusedConnection, ...]:
        """Return the refused connections that have not been drained yet."""
        self._refusals += self._session.drain()
        return tuple(self._refusals)

    def has_refused(self, *urls: str) -> bool:
        """Return whether the proxy has refused one of these addresses since the last drain."""
        hosts = {(one.host, one.port) for one in self.refusals() if one.code in _BLOCKED_CODES}
        return any(_host_port_of(url) in hosts for url in urls)

    def drain(self) -> tuple[Event, ...]:
        """Return the events since the last call, oldest first, with a limit for each kind."""
        events = [*self._events, *self._overflow(), *_refusal_events(self.refusals())]
        self._events.clear()
        self._counts.clear()
        self._refusals.clear()
        return tuple(events)

    def _overflow(self) -> Iterator[Event]:
        for kind, count in self._counts.items():
            if count > _MAX_PER_KIND:
                yield Event(kind=kind, reason=f"and {count - _MAX_PER_KIND} more of this kind")


def refusal_reason(code: str) -> str:
    """Return why the proxy of a walk refused a connection, in our own words."""
    return _REFUSED.get(code, code)


def _host_port_of(url: str) -> tuple[str, int] | None:
    try:
        return host_port(url)
    except ConfigError:
        return None


def _refusal_events(refusals: Iterable[RefusedConnection]) -> Iterator[Event]:
    """Yield one event for each refused host."""
    hosts = {(one.host, one.port): one for one in refusals}
    for one in list(hosts.values())[:_MAX_PER_KIND]:
        reason = f"a connection was refused: {refusal_reason(one.code)}"
        yield Event(kind="blocked", reason=reason, site_text=f"{one.host}:{one.port}"[:_MAX_SITE_TEXT])
    if len(hosts) > _MAX_PER_KIND:
        yield Event(kind="blocked", reason=f"connections to {len(hosts) - _MAX_PER_KIND} more hosts were refused")
