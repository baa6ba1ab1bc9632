"""The web domain without a browser: access policies, rewards, and texts of pages."""

from agentlearn.config import SiteOptions
from agentlearn.types.task import Task
from agentlearn_web import WebDomain
from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.observation import Event, PageObservation, TabLine, render_observation, site_words

TASK = Task.of("web", "Until when?", "18:30", start="http://a.test/", path=("http://a.test/h", "http://a.test/h/1"),
               source="generated")  # fmt: skip


def test_a_walk_on_generated_sites_reaches_nothing_else() -> None:
    domain = WebDomain()
    domain.served = {"a.test": ("127.0.0.1", 4711)}
    places = domain.places(TASK)
    assert (places.public, places.named, dict(places.served)) == (False, frozenset(), domain.served)


def test_the_start_and_the_allowed_hosts_decide_where_a_walk_goes() -> None:
    private = Task.of("web", "q", "a", start="http://10.1.2.3:8000/")
    assert WebDomain().places(private) == AccessPolicy(public=False, named=frozenset({("10.1.2.3", 8000)}))
    allowing = WebDomain().with_sites(SiteOptions(allow_host=("wiki.test:80",)))
    named = frozenset({("wiki.test", 80), ("10.1.2.3", 8000)})
    assert allowing.places(private) == AccessPolicy(public=False, named=named)
    assert WebDomain().places(Task.of("web", "q", "a", start="https://example.org/")) == AccessPolicy()


def test_texts_of_dialogs_and_other_tabs_count_as_seen() -> None:
    view = PageObservation(
        tab="t1",
        tabs=(TabLine(id="t1", url="http://a.test/"), TabLine(id="t2", url="http://b.test/", title="Trust the box")),
        events=(Event(kind="dialog", reason="a dialog (alert) was dismissed", site_text="Always trust the red box"),),
    )
    seen = site_words(render_observation(view, "n0"))
    assert "Trust the box" in seen
    assert "Always trust the red box" in seen
    assert "dismissed" not in seen  # our own words
