"""What an estimate rests on: models that ship, a file's own tasks, or a range for a model that nothing is known of."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.cli.options import ask_before_spending
from agentlearn.config import LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.learning.costs import estimate
from agentlearn.learning.open_run import domain_of
from agentlearn.learning.plan import plan
from tests.support.shared_options import ALL_ROLLOUTS, AS_PUBLISHED

SERVICE = "openai:gpt-5-mini"


def prices(folder: Path, tasks: int, words: int = 5) -> str:
    """Write a file of tasks whose questions have that many words."""
    path = folder / "prices.csv"
    with path.open("w", newline="") as file:
        rows = [(f"What costs {n}? " + "and more " * (words // 2), n) for n in range(tasks)]
        csv.writer(file).writerows([("question", "answer"), *rows])
    return str(path)


def test_the_default_run_is_estimated_by_what_the_shipped_models_need() -> None:
    found = estimate(LearnSettings(domain="math", model="lab:novice"), train=60, test=60)
    # `agentlearn learn math --seed 0` took 1.3M tokens in and 131.6k out.
    assert 1.3e6 / 2 < found.tokens_in < 1.3e6 * 2
    assert 131_600 / 2 < found.tokens_out < 131_600 * 2


def test_a_model_that_nothing_is_known_of_gets_a_range_with_its_assumption(tmp_path: Path) -> None:
    found = estimate(LearnSettings(domain="math", model=SERVICE, store=tmp_path / "none"), train=60, test=60)
    assert found.least is not None
    assert found.most is not None
    low, high = (one.tokens_in + one.tokens_out for one in (found.least, found.most))
    assert low < found.tokens_in + found.tokens_out < high
    assert found.least.tokens_out == sum(one.calls for one in found.least.stages), "an answer can be one token"
    assert "which assumes 5 calls per rollout and 760 tokens per answer" in found.sentence()
    assert "--pilot 10 measures it" in found.sentence()


def test_a_task_from_a_file_takes_one_call_and_is_as_long_as_it_is(tmp_path: Path) -> None:
    def planned(words: int) -> tuple[int, int]:
        given = {"domain": "prices", "data": prices(tmp_path, 20, words), "reward": "number", "model": SERVICE}
        settings = LearnSettings.model_validate(
            given | {"store": tmp_path / "none", "evaluate": False, "epochs": 1} | AS_PUBLISHED
        )
        stage = plan(settings, domain_of(settings)).estimate.stages[0]
        return stage.calls, stage.tokens_in

    (calls, short), (_, long) = planned(5), planned(4_000)
    assert calls == 20 * 5
    assert long > short + 100 * 3_000


def test_the_question_before_spending_counts_the_tasks_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of nobody")
    given = {"domain": "prices", "data": prices(tmp_path, 10), "reward": "number", "model": SERVICE}
    small = {"epochs": 3, "group_size": 5, "batch_size": 20, "finalists": 2, "validation_rollouts": 3}
    settings = LearnSettings.model_validate(given | small | AS_PUBLISHED | {"store": tmp_path / "none"})
    with pytest.raises(ConfigError) as refused:
        ask_before_spending(settings, yes=False)
    # 7 tasks x 5 rollouts x 3 epochs, and 3 held-out tasks x 4 before and after.
    assert f"about {7 * 5 * 3 + 3 * 4 * 2} rollouts" in str(refused.value)
    chosen = settings.model_copy(update={"select": "best", "validation_rollouts": 3})
    with pytest.raises(ConfigError) as refused:
        ask_before_spending(chosen, yes=False)
    # Two finalists and the start on the 7 tasks, 3 times each, and half of that if some drop out; and 2.5 rollouts to
    # try the changes of each of the 15 groups that are expected to teach.
    assert f"about {7 * 5 * 3 + 3 * 4 * 2 + 3 * 7 * 3 // 2 + 1 + 38} rollouts" in str(refused.value)


@pytest.mark.slow
@given(
    train=st.integers(1, 500),
    test=st.integers(0, 300),
    epochs=st.integers(1, 5),
    group=st.integers(1, 16),
    stop=st.integers(2, 20),
    revisit=st.integers(1, 6),
)
def test_the_estimate_lies_in_its_range(
    train: int, test: int, epochs: int, group: int, stop: int, revisit: int
) -> None:
    settings = LearnSettings(domain="math", model=SERVICE, epochs=epochs, group_size=group, **AS_PUBLISHED)
    found = estimate(settings, train=train, test=test)
    assert found.least is not None
    assert found.most is not None
    calls, tokens = (
        [sum(getattr(stage, name) for stage in one.stages) for one in (found.least, found, found.most)]
        for name in ("calls", "tokens_in")
    )
    assert calls == sorted(calls)
    assert tokens == sorted(tokens)
    measuring = 2 * test * settings.eval_rollouts
    assert found.rollouts == train * epochs * group + measuring
    saving = estimate(
        settings.model_copy(update={"stop_after": stop, "revisit_every": revisit}), train=train, test=test
    )
    assert measuring < saving.rollouts <= found.rollouts
    if epochs == 1 and stop >= group:
        assert saving.rollouts == found.rollouts


def test_validation_is_estimated_as_half_of_the_most_that_it_takes_and_the_most_is_told_apart(tmp_path: Path) -> None:
    given = {"domain": "math", "model": SERVICE, "epochs": 2, "batch_size": 10, "store": tmp_path / "none"}
    settings = LearnSettings.model_validate(given | ALL_ROLLOUTS | {"finalists": 3, "validation_rollouts": 2})
    tried = estimate(settings, train=60, test=60)
    settings = settings.model_copy(update={"labels": "none"})  # judged by a majority, changes are not tried first
    found = estimate(settings, train=60, test=60)
    assert tried.rollouts > found.rollouts
    own = {one.stage: one for one in found.stages}
    most = 40 * 2 * (3 + 1)
    assert own["validation"].calls == most // 2 * 5, "the domain has 40 validation tasks, a rollout 5 calls"
    assert found.most is not None
    assert found.most.rollouts == found.rollouts + most // 2
    one_update = estimate(settings.model_copy(update={"epochs": 1, "batch_size": 60}), train=60, test=60)
    assert {one.stage: one.calls for one in one_update.stages}["validation"] == 40 * 2 * 2 * 5 // 2
    started = estimate(settings.model_copy(update={"library": "math"}), train=60, test=60)
    assert {one.stage: one.calls for one in started.stages}["validation"] == 40 * 2 * (3 + 2) * 5 // 2
    for without in ({"select": "last"}, {"validation_rollouts": 0}, {"pilot": 5}):
        found = estimate(settings.model_copy(update=without), train=60, test=60)
        assert "validation" not in {one.stage for one in found.stages}


def test_the_plan_says_what_it_assumes_to_be_saved(tmp_path: Path) -> None:
    given = {"domain": "math", "model": SERVICE, "epochs": 3, "group_size": 5, "store": tmp_path / "none"}
    settings = LearnSettings.model_validate(given | {"stop_after": 3, "revisit_every": 4})
    told = dict(plan(settings, domain_of(settings)).lines())
    assert told["rounds"].startswith("3 to 5 rollouts each, 3 epochs, up to ")
    assert told["saved"] == (
        "75% of groups stop after 3 rollouts, which are enough to tell;"
        " 25% are all right, and their tasks are skipped in 3 of 4 epochs"
    )
    plain = LearnSettings.model_validate(given | ALL_ROLLOUTS)
    told = dict(plan(plain, domain_of(plain)).lines())
    assert told["rounds"].startswith("5 rollouts each, 3 epochs, ")
    assert "saved" not in told
