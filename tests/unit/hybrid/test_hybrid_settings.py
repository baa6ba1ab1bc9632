"""Recipes of `hybrid`: each mistake is one sentence with the value and the next step, before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.config import read_recipe
from agentlearn.config.recipes import packaged_recipe
from agentlearn.errors import ConfigError
from agentlearn_evals.hybrid.hybrid_run import plan_hybrid
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings, hybrid_settings, recipe_name
from tests.support.cases import cases
from tests.support.command import agentlearn_here


def recipe(**changes: Any) -> HybridSettings:
    return hybrid_settings({"domain": "math", "model": "lab:novice", **changes})


def refusal(**changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        plan_hybrid(recipe(**changes))
    assert caught.value.exit_status == 2
    return caught.value.message


def test_a_wrong_recipe_is_refused_in_one_sentence(subtests: pytest.Subtests) -> None:
    for changes, sentence in cases(__file__, "a_wrong_recipe_is_refused_in_one_sentence"):
        with subtests.test(repr((changes, sentence))):
            assert refusal(**changes).startswith(sentence)


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    words = refusal(learn={"reflector": "http://me:hidden@host/v1#m"})
    assert words.startswith("the address in learn.reflector has a user name or a password")
    assert "hidden" not in words


def test_the_stages_share_what_stands_at_the_top(tmp_path: Path) -> None:
    settings = recipe(
        seed=7, store=tmp_path, name="mine", margin=0.2, learn={"epochs": 2}, train={"epochs": 5}, compare={"k": 3}
    )
    learning = settings.learn_stage(model="lab:novice", library=None)
    training = settings.train_stage(model="lab:novice", library="mine@abc", number=2)
    comparing = settings.compare_stage(("none", "mine"), k=None)
    assert {learning.seed, training.seed, training.gradient.seed, comparing.seed} == {7}
    assert {learning.store, training.store, comparing.store} == {tmp_path}
    assert (learning.epochs, training.epochs, comparing.k, comparing.margin) == (2, 5, 3, 0.2)
    assert (learning.library, learning.library_name, learning.reflector_name) == (None, "mine", "sim:reflector")
    assert (training.distill, training.library, training.weights_name) == ("mine@abc", "none", "mine-2")
    assert training.gradient.loss == "distill"
    assert comparing.domains == ("math",)
    assert settings.compare_stage(("none", "mine"), k=9).k == 9


def test_own_tasks_are_compared_on_the_held_out_file() -> None:
    settings = recipe(data="learn.jsonl", test_data="held.jsonl", model="models/mine")
    assert settings.learn_stage(model="models/mine", library=None).test_data == ("held.jsonl",)
    assert settings.train_stage(model="models/mine", library="x", number=1).test_data == ("held.jsonl",)
    comparing = settings.compare_stage(("none", "x"))
    assert (comparing.domains, comparing.data, comparing.reward) == (("math",), "held.jsonl", None)
    judged = hybrid_settings(settings.model_dump(exclude_unset=True) | {"reward": "number", "domain": "mine"})
    comparing = judged.compare_stage(("none", "x"))
    assert (comparing.domains, comparing.data, comparing.reward) == (("held.jsonl",), None, "number")


def test_a_domain_stands_for_its_recipe_which_is_valid(tmp_path: Path) -> None:
    assert recipe_name("math") == "math/hybrid"
    assert recipe_name("math/hybrid") == "math/hybrid"
    assert recipe_name("mine.yaml") == "mine.yaml"
    path = packaged_recipe("math/hybrid")
    assert path is not None
    plan = plan_hybrid(hybrid_settings({**read_recipe(path), "store": tmp_path}))
    assert plan.train.refusals == ()
    assert plan.compare_rollouts == plan.compare_tasks * plan.compare_k * 4
    with pytest.raises(ConfigError, match="there is no recipe 'web/hybrid'"):
        recipe_name("web")


@pytest.mark.slow
def test_a_training_that_would_be_refused_stops_before_lessons_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("domain: math\nmodel: lab:novice\ntrain:\n  gradient:\n    lora_dropout: 0.1\n")
    done = agentlearn_here("hybrid", "mine.yaml", cwd=tmp_path, expect=2)
    assert done.stderr.startswith("agentlearn: train: ")
    assert "lora_dropout is 0.1, but lora_rank=0" in done.stderr
    assert not (tmp_path / ".agentlearn").exists()
    done = agentlearn_here("hybrid", "mine.yaml", "--dry-run", cwd=tmp_path, expect=2)
    assert "the training would stop before it samples anything" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    cases(__file__, "wrong_usage_has_status_2"),
)
def test_wrong_usage_has_status_2(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    assert sentence in agentlearn_here("hybrid", *words, cwd=tmp_path, expect=2).stderr


def test_a_dry_run_prints_all_stages_and_stores_nothing(tmp_path: Path) -> None:
    printed = agentlearn_here("hybrid", "math", "--dry-run", "--rounds", "2", cwd=tmp_path).stdout
    for words in ("2, margin 0.1", "STAGE learn", "STAGE train", "STAGE compare", "STAGE remove", "960 rollouts"):
        assert words in printed
    assert not (tmp_path / ".agentlearn").exists()
