"""Events of a page: each is reported once, with a limit, and site text is kept apart from our own words."""

from agentlearn_web.boundary.access_policy import NetworkLimits, ProxySession
from agentlearn_web.browser.walk_settings import PageEvents


def test_events_are_reported_once_with_a_limit_per_kind() -> None:
    events = PageEvents(ProxySession(0, NetworkLimits()))
    for n in range(8):
        events.add("dialog", "a dialog (alert) was dismissed", f"word {n} " + "x" * 1_000)
    events.add("popup", "the page opened the tab t2")
    told = events.drain()
    assert [event.kind for event in told] == ["dialog"] * 5 + ["popup", "dialog"]
    assert told[-1].reason == "and 3 more of this kind"
    assert max(len(event.site_text) for event in told) == 500
    assert events.drain() == ()


def test_each_refused_host_is_reported_once_and_at_most_five() -> None:
    session = ProxySession(0, NetworkLimits())
    events = PageEvents(session)
    for n in range(7):
        session.add_refusal("private_address", "GET", f"10.0.0.{n}", 80)
        session.add_refusal("private_address", "GET", f"10.0.0.{n}", 80)
    assert len(events.refusals()) == 14
    session.add_refusal("unresolvable", "GET", "unknown.test", 80)
    told = events.drain()
    assert [event.site_text for event in told] == [*(f"10.0.0.{n}:80" for n in range(5)), ""]
    assert told[0].reason == "a connection was refused: a private address, which this walk may not reach"
    assert told[-1].reason == "connections to 3 more hosts were refused"
    assert not any(char.isdigit() for event in told[:5] for char in event.reason)
    assert events.drain() == ()
