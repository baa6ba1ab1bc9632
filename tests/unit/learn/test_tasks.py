"""Which tasks a run learns from and which it holds out."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.config import LearnSettings, learn_settings, packaged_recipe, read_recipe
from agentlearn.errors import ConfigError, DataError
from agentlearn.learning.batch import Allocation
from agentlearn.learning.open_run import TaskSets, task_sets, with_validation
from agentlearn.learning.plan import plan
from agentlearn_math import domain

LONG = "A train leaves at 9 and travels 60 miles an hour for 3 hours before it stops; how many miles does it {}?"


def file(folder: Path, name: str, *problems: str, answer: str = "180") -> str:
    path = folder / name
    path.write_text("".join(json.dumps({"problem": one, "answer": answer}) + "\n" for one in problems))
    return str(path)


def test_a_domains_own_tasks_are_learned_from_and_held_out() -> None:
    sets = task_sets(LearnSettings(domain="math", limit=5), domain)
    assert (len(sets.train), len(sets.test)) == (5, 60)
    assert {task.split for task in sets.test} == {"test"}


def test_held_out_tasks_may_come_from_several_files(tmp_path: Path) -> None:
    data = file(tmp_path, "data.jsonl", "P", "Q")
    tests = (file(tmp_path, "one.jsonl", "R", "S"), file(tmp_path, "two.jsonl", "S", "T"))
    sets = task_sets(LearnSettings(domain="math", data=data, test_data=tests), domain)
    assert [task.source for task in sets.train] == ["data.jsonl:1", "data.jsonl:2"]
    assert [task.source for task in sets.test] == ["one.jsonl:1", "one.jsonl:2", "two.jsonl:2"]
    assert task_sets(LearnSettings(domain="math", data=data, test_data=tests, evaluate=False), domain).test == ()


def test_one_held_out_file_may_be_given_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    settings = learn_settings({"domain": "math", "data": path, "test_data": path})
    assert (settings.data, settings.test_data) == (str(path), (str(path),))
    assert settings.resolved() == LearnSettings.model_validate_json(settings.resolved()).resolved()


@pytest.mark.parametrize("copy", [LONG.format("TRAVEL"), LONG.format("cover")])
def test_a_copy_in_the_held_out_tasks_is_refused(tmp_path: Path, copy: str) -> None:
    data, test = file(tmp_path, "data.jsonl", "P", LONG.format("travel")), file(tmp_path, "test.jsonl", copy)
    with pytest.raises(DataError) as caught:
        task_sets(LearnSettings(domain="math", data=data, test_data=(test,)), domain)
    assert caught.value.code == "bad_data"
    assert str(caught.value) == (
        "the held-out task 'test.jsonl:1' is equal or almost equal to a task to learn from ('data.jsonl:2');"
        " remove one of the two"
    )


def test_another_problem_in_the_same_words_is_not(tmp_path: Path) -> None:
    data = file(tmp_path, "data.jsonl", LONG.format("travel"))
    test = file(tmp_path, "test.jsonl", LONG.format("travel").replace("60", "70"), answer="210")
    assert len(task_sets(LearnSettings(domain="math", data=data, test_data=(test,)), domain).test) == 1


def test_nothing_to_learn_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no tasks"):
        task_sets(LearnSettings(domain="math", data=file(tmp_path, "data.jsonl")), domain)


def packaged(name: str) -> LearnSettings:
    path = packaged_recipe(name)
    assert path is not None
    return learn_settings(read_recipe(path))


def test_the_published_recipe_is_the_published_setting_at_the_published_size() -> None:
    settings = packaged("math/published")
    shape = (settings.limit, settings.batch_size, settings.group_size, settings.epochs, settings.max_proposals)
    assert shape == (100, 100, 5, 3, 3)
    assert (settings.data, settings.test_data) == ("hf:dapo-math-17k", ("hf:aime24", "hf:aime25"))
    assert (settings.temperature, settings.eval_temperature, settings.eval_rollouts) == (0.7, 0.3, 32)
    assert Allocation.of(settings) == Allocation.of_all(5), "every rollout is made, and every difference counts"
    assert (settings.select, settings.validation_rollouts) == ("last", 0)
    planned = plan(settings, domain)
    assert (planned.train, planned.test, planned.batches, planned.counted) == (100, 60, 3, False)
    # The published 38M + 6.6M tokens are those of learning; measuring is counted apart.
    learning = planned.estimate.learning
    assert [one.stage for one in learning] == ["rollout", "summarise", "compare", "consolidate"]
    assert abs(sum(one.tokens_in for one in learning) / 38e6 - 1) < 0.25
    assert abs(sum(one.tokens_out for one in learning) / 6.6e6 - 1) < 0.25
    assert planned.estimate.rollouts == 1500 + 2 * 60 * 32
    assert planned.estimate.tokens_in > 38e6 * 1.5
    assert planned.estimate.cost_usd is not None
    told = dict(planned.lines())
    assert told["tasks"] == (
        "100 to learn from, 60 held out x 32 before and after (not downloaded; published or usual sizes)"
    )
    assert told["data"] == "hf:dapo-math-17k, held out from hf:aime24 and hf:aime25"
    assert told["learning"] == "36.7M tokens in and 6.4M out, without measuring"


def test_the_laptop_recipe_needs_nothing_from_outside() -> None:
    settings = packaged("math/laptop")
    planned = plan(settings, domain)
    assert planned.counted
    assert (planned.train, planned.data, planned.test_data) == (24, "math's own tasks", ())
    assert settings.model.startswith("http://127.0.0.1")
    assert planned.estimate.rollouts < 500
    assert planned.estimate.cost_usd is None


def test_a_plan_reads_local_tasks_as_the_run_would(tmp_path: Path) -> None:
    data = file(tmp_path, "data.jsonl", *(f"Problem {n}" for n in range(10)))
    planned = plan(LearnSettings(domain="math", data=data, batch_size=4), domain)
    assert (planned.train, planned.test, planned.counted, planned.batches) == (7, 3, True, 6)
    assert planned.estimate.cost_usd == 0.0
    with pytest.raises(DataError, match="there is no file"):
        plan(LearnSettings(domain="math", data="none.jsonl"), domain)


@pytest.mark.parametrize(
    ("fields", "sizes"),
    [
        ({"data": "hf:gsm8k", "limit": 10_000}, (5231, 2242)),
        ({"data": "hf:gsm8k", "limit": 10, "test_data": ("gym:chain_sum?size=7", "hf:aime24")}, (10, 37)),
        ({"data": "gym:chain_sum", "evaluate": False}, (100, 0)),
        ({"test_data": ("hf:aime24",)}, (60, 30)),
    ],
)
def test_a_plan_takes_published_sizes_without_asking_the_network(
    fields: dict[str, object], sizes: tuple[int, int]
) -> None:
    planned = plan(learn_settings({"domain": "math", **fields}), domain)
    assert (planned.train, planned.test) == sizes


def test_a_group_of_one_has_nothing_to_summarise_where_wrong_attempts_teach_nothing() -> None:
    settings = LearnSettings(domain="math", group_size=1, all_wrong="skip")
    stages = {one.stage: one for one in plan(settings, domain).estimate.stages}
    assert (stages["summarise"].calls, stages["compare"].calls, stages["consolidate"].calls) == (0, 0, 0)


def test_recipes_are_found_by_name() -> None:
    with pytest.raises(ConfigError) as caught:
        packaged_recipe("math/none")
    found = "'math/hybrid', 'math/laptop', 'math/published', 'math/train-lab'"
    assert str(caught.value) == f"there is no recipe 'math/none' (found: {found})"
    for name in ("math", "here/mine", "math/../published"):
        if name.count("/") < 2:
            assert packaged_recipe(name) is None
        else:
            with pytest.raises(ConfigError):
                packaged_recipe(name)


def test_versions_are_compared_on_the_domains_validation_tasks_without_copies() -> None:
    settings = LearnSettings(domain="math", limit=5)
    own = domain.tasks("validation", seed=0)
    sets = with_validation(task_sets(settings, domain), settings, domain, own=True)
    assert (sets.validation, sets.validates_on_train) == (own, False)
    copied = TaskSets(sets.train, (own[0].model_copy(update={"split": "test"}), *sets.test))
    assert with_validation(copied, settings, domain, own=True).validation == own[1:]


def test_versions_are_compared_on_the_tasks_learned_from_where_there_are_no_others(tmp_path: Path) -> None:
    settings = LearnSettings(domain="math", data=file(tmp_path, "data.jsonl", "P", "Q", "R"), test_share=0.0)
    sets = task_sets(settings, domain)
    for own in (True, False):  # tasks of a file are not the domain's own, whoever says so
        found = with_validation(sets, settings, domain, own=own)
        assert (found.validation, found.validates_on_train) == (sets.train, True)


@pytest.mark.parametrize("setting", [{"select": "last"}, {"validation_rollouts": 0}, {"pilot": 3}])
def test_versions_are_not_compared_when_a_setting_says_so(setting: dict[str, Any]) -> None:
    settings = LearnSettings(domain="math", limit=5, **setting)
    assert with_validation(task_sets(settings, domain), settings, domain, own=True).validation == ()
