"""`hybrid`: recipes, what its stages share, and mistakes as one sentence before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.config import packaged_recipe, read_recipe
from agentlearn.errors import ConfigError
from agentlearn_evals.hybrid import HybridSettings, hybrid_settings, plan_hybrid
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


def test_the_stages_share_what_stands_at_the_top(tmp_path: Path) -> None:
    settings = recipe(
        seed=7, store=tmp_path, name="mine", margin=0.2, learn={"epochs": 2}, train={"epochs": 5}, compare={"k": 3}
    )
    learning, training = settings.learn_stage(), settings.train_stage("mine@abc")
    comparing = settings.compare_stage(("none", "mine"))
    assert {learning.seed, training.seed, training.gradient.seed, comparing.seed} == {7}
    assert {learning.store, training.store, comparing.store} == {tmp_path}
    assert (learning.epochs, training.epochs, comparing.k, comparing.margin) == (2, 5, 3, 0.2)
    assert (learning.library, learning.library_name, learning.reflector_name) == (None, "mine", "sim:reflector")
    assert (training.distill, training.library, training.weights_name) == ("mine@abc", "none", "mine")
    assert training.gradient.loss == "distill"
    assert comparing.domains == ("math",)
    assert settings.compare_stage(("none", "mine"), k=9).k == 9


def test_own_tasks_are_compared_on_the_held_out_file() -> None:
    settings = recipe(data="learn.jsonl", test_data="held.jsonl", model="models/mine")
    assert settings.learn_stage().test_data == ("held.jsonl",)
    assert settings.train_stage("x").test_data == ("held.jsonl",)
    comparing = settings.compare_stage(("none", "x"))
    assert (comparing.domains, comparing.data, comparing.reward) == (("math",), "held.jsonl", None)
    judged = recipe(data="learn.jsonl", test_data="held.jsonl", reward="number", domain="mine")
    comparing = judged.compare_stage(("none", "x"))
    assert (comparing.domains, comparing.data, comparing.reward) == (("held.jsonl",), None, "number")


def test_the_recipe_of_a_domain_is_valid(tmp_path: Path) -> None:
    path = packaged_recipe("math/hybrid")
    assert path is not None
    plan, _ = plan_hybrid(hybrid_settings({**read_recipe(path), "store": tmp_path}))
    assert plan["compare_rollouts"] == 60 * 4 * 4


@pytest.mark.slow
def test_a_training_that_would_be_refused_stops_before_lessons_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("domain: math\nmodel: lab:novice\ntrain:\n  gradient:\n    lora_dropout: 0.1\n")
    done = agentlearn_here("hybrid", "mine.yaml", cwd=tmp_path, expect=2)
    assert done.stderr.startswith("agentlearn: train: ")
    assert "lora_dropout is 0.1, but lora_rank=0" in done.stderr
    assert not (tmp_path / ".agentlearn").exists()


def test_a_dry_run_prints_all_stages_and_stores_nothing(tmp_path: Path) -> None:
    printed = agentlearn_here("hybrid", "math", "--dry-run", cwd=tmp_path).stdout
    for words in ("STAGE learn", "STAGE train", "STAGE compare", "STAGE remove", "960 rollouts"):
        assert words in printed
    assert not (tmp_path / ".agentlearn").exists()
    assert "there is no recipe 'web/hybrid'" in agentlearn_here("hybrid", "web", cwd=tmp_path, expect=2).stderr
    assert "'nothing' is neither a domain" in agentlearn_here("hybrid", "nothing", cwd=tmp_path, expect=2).stderr
