"""Events of a page: each is reported once, with a limit, and site text is kept apart from our own words."""

from agentlearn_web.boundary.access_policy import RefusalCode, RefusedConnection
from agentlearn_web.browser.page_events import PageEvents


class Lane:
    """A source of refused connections."""

    def __init__(self) -> None:
        self.waiting: list[RefusedConnection] = []

    def refuse(self, host: str, code: RefusalCode = "private_address") -> None:
        self.waiting.append(RefusedConnection(code, "GET", host, 80))

    def drain(self) -> tuple[RefusedConnection, ...]:
        drained, self.waiting = tuple(self.waiting), []
        return drained


def test_events_are_reported_once_with_a_limit_per_kind() -> None:
    events = PageEvents(Lane())
    for n in range(8):
        events.add("dialog", "a dialog (alert) was dismissed", f"word {n} " + "x" * 1_000)
    events.add("popup", "the page opened the tab t2")
    told = events.drain()
    assert [event.kind for event in told] == ["dialog"] * 5 + ["popup", "dialog"]
    assert told[-1].reason == "and 3 more of this kind"
    assert max(len(event.site_text) for event in told) == 500
    assert events.drain() == ()


def test_each_refused_host_is_reported_once_and_at_most_five() -> None:
    session = Lane()
    events = PageEvents(session)
    for n in range(7):
        session.refuse(f"10.0.0.{n}")
        session.refuse(f"10.0.0.{n}")
    assert len(events.refusals()) == 14
    session.refuse("unknown.test", "unresolvable")
    told = events.drain()
    assert [event.site_text for event in told] == [*(f"10.0.0.{n}:80" for n in range(5)), ""]
    assert told[0].reason == "a connection was refused: a private address, which this walk may not reach"
    assert told[-1].reason == "connections to 3 more hosts were refused"
    assert not any(char.isdigit() for event in told[:5] for char in event.reason)
    assert events.drain() == ()
