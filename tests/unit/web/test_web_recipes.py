"""The recipes of the web domain: each one loads, and plans a run of the expected size."""

import pytest

from agentlearn.config import LearnSettings, learn_settings, packaged_recipe, read_recipe
from agentlearn.learning.costs import plan
from agentlearn_web import domain
from agentlearn_web.miniwob import PAGES
from agentlearn_web.miniwob import domain as miniwob


def packaged(name: str) -> LearnSettings:
    path = packaged_recipe(name)
    assert path is not None
    return learn_settings(read_recipe(path))


def test_webwalkerqa_is_the_published_setting() -> None:
    settings = packaged("web/webwalkerqa")
    assert (settings.group_size, settings.temperature, settings.epochs, settings.batch_size) == (3, 0.7, 3, 50)
    assert (settings.domain, settings.data, settings.model) == ("web", "hf:webwalkerqa", "deepseek:deepseek-chat")
    planned = plan(settings, domain)
    assert (planned.train, planned.test, planned.batches, planned.counted) == (100, 150, 6, False)
    assert planned.estimate.cost_usd is not None


def test_the_recipe_with_a_judge_differs_from_it_in_three_settings() -> None:
    plain, judged = (dict(packaged(name)) for name in ("web/webwalkerqa", "web/webwalkerqa-judged"))
    assert {name for name in judged if judged[name] != plain[name]} == {"name", "reward", "max_turns"}
    assert domain.with_reward(str(judged["reward"])).reward == "judged"


@pytest.mark.parametrize(("name", "train", "test"), [("web/laptop", 12, 30), ("web/miniwob", len(PAGES), 40)])
def test_the_other_recipes_need_no_network(name: str, train: int, test: int) -> None:
    settings = packaged(name)
    planned = plan(settings, miniwob if settings.domain == "miniwob" else domain)
    assert (planned.train, planned.test, planned.counted) == (train, test, True)
    assert settings.model.startswith("http://127.0.0.1")
    assert planned.estimate.cost_usd is None
