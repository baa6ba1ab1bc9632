"""The web domain without a browser: access policies, rewards, and texts of pages."""

from datetime import UTC, datetime

import pytest

from agentlearn.config import LearnSettings, SiteOptions, default_recipe, learn_settings, read_recipe
from agentlearn.errors import ConfigError
from agentlearn.learning.costs import estimate
from agentlearn.learning.open_run import domain_of
from agentlearn.types.ids import LibraryVersion, RunId, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ToolResult, Trajectory, Treatment, Verdict
from agentlearn_web import WebDomain
from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.observation import ElementLine, Event, PageObservation, TabLine, render_observation, site_words

RUN = RunId("r")


def walked(task: Task, answer: str | None, *urls: str) -> Trajectory:
    views = (PageObservation(tab="t1", tabs=(TabLine(id="t1", url=url, title="T"),), lines=(SAID,)) for url in urls)
    return Trajectory(
        id=rollout_id(RUN, "epoch-1", task.id, 0, 0),
        run=RUN,
        phase="epoch-1",
        task=task.id,
        g=0,
        seed=0,
        treatment=Treatment(model="m", library=LibraryVersion("v")),
        steps=tuple(
            ToolResult(call="c", tool="open", content=render_observation(view, "n0"), ok=True) for view in views
        ),
        answer=answer,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


SAID = ElementLine(role="link", name="Opening hours", ref="t1:e4", url="/hours", text="from nine")
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


def test_the_reward_must_be_one_of_the_domain() -> None:
    plain, shaped = (domain_of(LearnSettings(domain="web", reward=reward)) for reward in (None, "path"))
    wrong = walked(TASK, "20:00", "http://a.test/", "http://a.test/h")
    assert plain.verify(TASK, wrong) == Verdict(status="incorrect", reward=0.0, reason=_reason(plain, wrong))
    partial = shaped.verify(TASK, wrong)
    assert isinstance(partial, Verdict)
    assert (partial.status, partial.reward) == ("partial", 0.25)
    right = shaped.verify(TASK, walked(TASK, "18:30"))
    assert isinstance(right, Verdict)
    assert right.reward == 1.0
    with pytest.raises(ConfigError, match="no reward 'nope'; choose 'answer' or 'path'"):
        domain_of(LearnSettings(domain="web", reward="nope"))


def _reason(domain: object, rollout: Trajectory) -> str:
    assert isinstance(domain, WebDomain)
    verdict = domain.verify(TASK, rollout)
    assert isinstance(verdict, Verdict)
    return verdict.reason


def test_page_texts_have_no_refs() -> None:
    assert list(WebDomain().pages_seen(walked(TASK, None, "http://a.test/"))) == ["T Opening hours /hours from nine"]


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


def test_the_default_recipe_and_the_estimate_fit_walks() -> None:
    recipe = default_recipe("web")
    assert recipe is not None
    settings = learn_settings(read_recipe(recipe))
    assert (settings.domain, settings.epochs) == ("web", 2)
    assert default_recipe("math") is None
    assert default_recipe("nope") is None
    walk, math = (estimate(LearnSettings(domain=name, limit=10)) for name in ("web", "math"))
    assert walk.tokens_in > math.tokens_in
    judged = estimate(LearnSettings(domain="web", data="rows.jsonl", limit=10))
    assert {"judge", "judge held out"} <= {one.stage for one in judged.stages}
    assert not any(one.stage.startswith("judge") for one in walk.stages)
